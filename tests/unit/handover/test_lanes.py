"""The picture of a task's sessions: what each mark says, where it leads, and what a long or hostile history costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

import pytest

from adjourn.handover.lanes import SessionLanes, session_lanes
from adjourn.log import kinds
from adjourn.log.event import Actor, Envelope, encode, timestamp
from adjourn.store.base import Entry
from adjourn.tasks.task import NewEvent
from adjourn.ui.pages import task as task_page
from support.page_in_memory import PageInMemory
from support.task_sessions import SECRET, SharedTask

AGENT, DANA = Actor("agent", "agent"), Actor("dana", "human")
START = 1_795_000_000_000
MINUTE = 60_000
HOSTILE = '<script>alert(1)</script>"&\u202e'
Told = tuple[str, int, kinds.Data, Actor]


def opened(client: str = "claude-code", group: str = "") -> kinds.SessionOpened:
    return kinds.SessionOpened(client=client, group=group, host="h", pid=1, policy="", started=1)


def allowed(call: str, tool: str = "file.write", approval: str = "") -> kinds.ToolAllowed:
    return kinds.ToolAllowed(call=call, tool=tool, digest="1" * 64, effectful=True, approval=approval)


def asked(approval: str, tool: str) -> kinds.ConfirmRequired:
    return kinds.ConfirmRequired(
        approval=approval, tool=tool, digest="1" * 64, cause="confirm", expires=timestamp(START)
    )


def entries(*events: tuple[str, int, kinds.Data] | Told) -> list[Entry]:
    """Stored events from (session, minutes since the start, data, who)."""
    after, stored = "0" * 64, list[Entry]()
    for seq, (session, minutes, data, *by) in enumerate(events):
        event = Envelope(
            after=after, by=by[0] if by else AGENT, data=data, event=data.KIND, seq=seq, session=session, task="t1",
            timestamp=timestamp(START + minutes * MINUTE),
        )  # fmt: skip
        after, data_bytes = encode(event)
        stored.append(Entry(after, data_bytes))
    return stored


def drawn(stored: Sequence[Entry], doubts: Sequence[str] = ()) -> SessionLanes:
    return session_lanes(stored, doubts, lambda seq, part: f"#event-{seq}-{part}" if part else f"#event-{seq}")


def marks(lanes: SessionLanes) -> dict[str, tuple[str, str]]:
    """What each mark says: its class, and the event it leads to."""
    found = re.findall(r'<a class="mark ([^"]+)" href="#event-(\d+)" aria-label="([^"]*)"', lanes.picture)
    return {unescape(label): (name, seq) for name, seq, label in found}


def legend(lanes: SessionLanes) -> dict[str, int]:
    return {label: count for _, label, count in lanes.legend}


def test_readings_in_one_event_are_a_mark_each() -> None:
    """A mark leads to its own entry, though several calls share an event."""
    reads = [
        kinds.ToolAllowed(call=call, tool=tool, digest="1" * 64, effectful=False)
        for call, tool in (("c1", "read"), ("c2", "list"))
    ]
    lanes = drawn(
        entries(
            ("s1", 0, opened()),
            ("s1", 1, kinds.ToolReadings(allowed=reads)),
            ("s1", 9, kinds.ToolReadings(settled=[kinds.ToolSettled(call="c1", outcome="ok")])),
        )
    )
    assert re.findall(r'href="#(event-[0-9-]+)" aria-label="([^"]*)"', lanes.picture) == [
        ("event-1-1", "list: no answer yet (with 1 more: 1 no answer yet, 1 ok)")
    ]
    assert legend(lanes) == {"ok": 1, "no answer yet": 1}


def test_sessions_that_a_client_has_open_at_a_time_share_a_lane() -> None:
    """A client with a session for each of its servers has one lane; one that comes back after all have ended has another."""
    closed = kinds.SessionClosed(reason="client-eof")
    together = [("s1", 0, opened(group="g")), ("s1", 1, allowed("c1")), ("s2", 2, opened(group="g"))]
    again = [("s1", 3, closed), ("s2", 4, allowed("c2", "git.log")), ("s2", 5, closed), ("s3", 6, opened(group="g"))]
    lost = [("s3", 7, allowed("c3")), ("s4", 8, opened(group="g")), ("s5", 9, opened("codex", "other"))]
    lanes = drawn(entries(*together, *again, *lost, ("s5", 9, kinds.SessionLost(calls=[], lost="s4", reason="dead"))))
    assert re.findall(r'<text x="4"[^>]*>([^<]*)', lanes.picture) == ["claude-code", "claude-code", "codex"]
    heights = re.findall(r'aria-label="(?:file.write|git.log)[^"]*"[^>]*translate\([0-9.]+ (\d+)', lanes.picture)
    assert heights[0] == heights[1] != heights[2]
    assert legend(lanes)["session lost"] == 1


def test_each_call_is_a_mark_of_its_outcome_that_leads_to_its_event() -> None:
    """Also who approved it and why, checkpoints, and where a session was lost; what was denied is a refused call."""
    created = kinds.CheckpointCreated(document="1", key="k", name="half", root="r", signature="s", trigger="agent")
    lanes = drawn(
        entries(
            ("s1", 0, opened()),
            ("s1", 1, allowed("c1")),
            ("s1", 1, kinds.ToolSettled(call="c1", outcome="ok")),
            ("s1", 2, allowed("c2", "shell.exec")),
            ("s1", 2, kinds.ToolSettled(call="c2", outcome="tool-error")),
            ("s1", 3, kinds.ToolDenied(tool="git.reset", digest="2" * 64, reason="deny_list")),
            ("s1", 4, asked("k1", "deploy")),
            ("", 5, kinds.ConfirmApproved(approval="k1", tool="deploy", via="page", reason="as agreed"), DANA),
            ("s1", 6, allowed("c3", "deploy", "k1")),
            ("s1", 7, created),
            ("s2", 8, opened("codex")),
            ("s2", 8, kinds.SessionLost(calls=["c3"], lost="s1", reason="dead")),
            ("s2", 9, asked("k2", "mail.send")),
            ("", 9, kinds.ConfirmDenied(approval="k2", tool="mail.send", via="page"), DANA),
            ("s2", 10, asked("k3", "mail.post")),
        ),
        ["c3"],
    )
    shown = marks(lanes)
    assert shown["file.write: ok"] == ("mark-ok", "1")
    assert shown["shell.exec: error"] == ("mark-error", "3")
    assert shown["git.reset: refused"] == ("mark-refused", "5")
    assert shown["deploy: in doubt"] == ("mark-doubt", "8")
    assert shown["mail.send: refused"] == ("mark-refused", "13")
    assert shown["mail.post: waits"] == ("mark-waits", "14")
    assert shown["approved by dana: as agreed, deploy"] == ("sign-pin", "8")  # its question has no row any more
    assert shown["denied by dana, mail.send"] == ("sign-pin", "13")
    assert shown["checkpoint half"] == ("sign-flag", "9")
    assert shown["session lost: dead"] == ("sign-cut", "11")
    assert legend(lanes) == {
        "in doubt": 1, "error": 1, "refused": 2, "waits": 1, "ok": 1, "checkpoint": 1, "answered by a person": 2, "session lost": 1,
    }  # fmt: skip
    assert lanes.picture.count('class="track ') == 2
    assert lanes.picture.count('tabindex="0"') == 1


def test_idle_time_is_folded() -> None:
    """A night takes no more room than a fold, so the calls of the day keep theirs."""
    day = [("s1", minutes, allowed(f"c{minutes}")) for minutes in (1, 4, 8)]
    lanes = drawn(entries(("s1", 0, opened()), *day, ("s1", 1000, allowed("late"))))
    assert "nothing for 16 h" in lanes.picture
    places = [float(x) for x in re.findall(r"translate\(([\d.]+) ", lanes.picture)]
    assert places == sorted(places)
    assert places[2] - places[0] > 400
    assert places[3] - places[2] < 60


def test_calls_of_one_moment_share_the_mark_of_the_worst() -> None:
    """Ten thousand calls cost no more elements than fit into the picture, and a failure among them stays in sight."""
    events: list[tuple[str, int, kinds.Data]] = [("s1", 0, opened())]
    for number in range(5_000):
        events.append(("s1", number // 10, allowed(f"c{number}")))
        outcome = "tool-error" if number == 2_500 else "ok"
        events.append(("s1", number // 10, kinds.ToolSettled(call=f"c{number}", outcome=outcome)))  # type: ignore[arg-type]
    lanes = drawn(entries(*events))
    assert lanes.picture.count("<a ") < 150
    assert legend(lanes) == {"error": 1, "ok": 4_999}
    assert any(label.startswith("file.write: error (with ") for label in marks(lanes))


def test_many_sessions_leave_the_last_ones() -> None:
    """Twelve lanes are drawn, and the others are counted."""
    events: list[tuple[str, int, kinds.Data]] = []
    for number in range(20):
        events += [(f"s{number}", number, opened(f"client {number}")), (f"s{number}", number, allowed(f"c{number}"))]
    lanes = drawn(entries(*events))
    assert lanes.picture.count('class="track ') == 12
    assert lanes.hidden_sessions == 8
    assert "client 19" in lanes.picture
    assert "client 7<" not in lanes.picture


def test_names_of_clients_and_tools_are_text() -> None:
    """Whatever they contain."""
    lanes = drawn(entries(("s1", 0, opened(HOSTILE)), ("s1", 1, allowed("c1", HOSTILE))))
    assert "<script" not in lanes.picture
    assert "\u202e" not in lanes.picture
    assert "&lt;script" in lanes.picture


@pytest.mark.parametrize("stamp", ["", "2026", "2026-11-27T12:34:xx.123Z", "9999-99-99T00:00:00.000Z"])
def test_an_event_that_is_odd_is_left_out(stamp: str) -> None:
    """The picture shows the others."""
    call = f'"data":{{"call":"c9","tool":"t"}},"event":"tool.allowed","seq":9,"session":"s1","timestamp":"{stamp}"'
    odd = Entry("0" * 64, f'{{"by":{{"id":"a","type":"agent"}},{call}}}'.encode())
    stored = entries(("s1", 0, opened()), ("s1", 1, allowed("c1")))
    assert legend(drawn([*stored, odd, Entry("0" * 64, b"{}")])) == {"no answer yet": 1}


def test_a_task_without_sessions_has_no_picture() -> None:
    """Neither has a session without calls."""
    assert drawn([]).picture == ""
    assert drawn(entries(("s1", 0, opened()))).picture == ""


def test_every_mark_leads_to_a_page_that_has_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a mark of an event that is on an older page."""
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)
    monkeypatch.setattr(task_page, "WINDOW", 30)
    shared = SharedTask()
    shared.opened()
    task = shared.task()
    (session,) = task.ledger.sessions
    for number in range(40):
        facts = [allowed(f"c{number}"), kinds.ToolSettled(call=f"c{number}", outcome="ok")]
        task.commit(lambda _: [NewEvent(fact, AGENT, session) for fact in facts])  # noqa: B023  # it is called at once
        shared.clock.move(seconds=60)
    page = PageInMemory(shared.store, shared.clock).enter()
    links = [unescape(link) for link in re.findall(r'<a class="mark [^"]+" href="([^"]+)"', page.get("/task?id=t1"))]
    assert len(links) == 40
    assert any(link.startswith("#") for link in links)
    for link in links:
        address, _, anchor = link.partition("#")
        assert f'id="{anchor}"' in page.get(f"/task{address}" if address else "/task?id=t1")
