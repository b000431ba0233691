"""The timeline of a task: one entry for a call with its outcome, laid out within the width, and as a graph."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import msgspec
import pytest

from adjourn.cli.log import STYLES, TimelineLines, entry_line, graph_lines, layout
from adjourn.cli.terminal import cells
from adjourn.handover.timeline import LABEL, Timeline, TimelineEntry
from adjourn.log import kinds
from adjourn.log.event import timestamp
from support.cases import for_each
from support.clock import NOON
from support.events import chained

ONE = "1" * 64
LATER = "2026-05-03T00:00:00.000Z"


def opened(client: str = "claude-code") -> kinds.Data:
    return kinds.SessionOpened(client=client, group="g", host="h", pid=1, policy="", started=1)


def allowed(call: str, tool: str = "write", approval: str = "") -> kinds.Data:
    arguments = f'{{"path":"{call}.txt"}}'
    return kinds.ToolAllowed(call=call, tool=tool, digest=ONE, effectful=True, arguments=arguments, approval=approval)


def asked(approval: str = "q1") -> kinds.Data:
    return kinds.ConfirmRequired(
        approval=approval, cause="confirm before deploy", digest=ONE, expires=LATER, tool="deploy"
    )


def told(*facts: tuple[kinds.Data, str]) -> tuple[Timeline, list[tuple[str, str, str, str]]]:
    """The timeline of events, and its entries' label, subject, argument and note."""
    timeline = Timeline()
    for event, _, _ in chained(facts):
        timeline.feed(event)
    return timeline, [(one.label, one.what, one.about, one.note) for one in timeline.entries()]


@pytest.mark.parametrize(
    ("settlement", "words"),
    [
        (None, ("running", "")),
        (kinds.ToolSettled(call="c1", outcome="ok"), ("ok", "")),
        (kinds.ToolSettled(call="c1", outcome="tool-error", message="no such file"), ("error", 'the server said: "no such file"')),
        (kinds.ToolSettled(call="c1", outcome="no-answer"), ("no answer", "")),
        (kinds.EffectSettled(call="c1", outcome="done", note="seen"), ("done", "seen")),
        (kinds.EffectSettled(call="c1", outcome="not-done"), ("not done", "")),
        (kinds.SessionLost(calls=["c1"], lost="s", reason="dead"), ("in doubt", "adjourn settle c1")),
    ],
)  # fmt: skip
def test_a_call_has_one_entry_with_its_outcome(settlement: kinds.Data | None, words: tuple[str, str]) -> None:
    """A call is one entry, whose label and note say its outcome."""
    facts = [(opened(), "s"), (allowed("c1"), "s")] + ([(settlement, "s")] if settlement else [])
    _, entries = told(*facts)
    label, what, about, note = entries[1]
    assert (what, about) == ("write", "c1.txt")
    assert label == words[0]
    assert note.endswith(words[1])


def test_a_session_names_the_principal_behind_it() -> None:
    """The entry of a session names the person or service that was authenticated behind it, and says which of the two it is."""
    data = kinds.SessionOpened(
        client="codex", group="g", host="h", pid=1, policy="", started=1,
        principal="k1", principal_name="ann", principal_type="human",
    )  # fmt: skip
    _, entries = told((data, "s"))
    assert entries == [("session", "codex", "", "began, for ann (human)")]


def test_a_refusal_is_an_entry_with_its_rule() -> None:
    """A call that a rule refuses, or a spent budget, is an entry that names the rule or the budget."""
    denial = kinds.ToolDenied(reason="deny_list", rule="deny rm", tool="rm", digest=ONE)
    spent = kinds.BudgetExhausted(budget="calls", limit=2, used=2, tool="rm")
    _, entries = told((denial, "s"), (spent, "s"))
    assert entries == [
        ("refused", "rm", "", "deny rm"), ("refused", "rm", "", "the budget of calls is spent"),
    ]  # fmt: skip


def test_a_question_is_replaced_by_what_came_of_it() -> None:
    """A question waits, is approved, and gives way to the call that it permits, or to its refusal."""
    approval = kinds.ConfirmApproved(approval="q1", tool="deploy", via="cli")
    _, entries = told((asked(), "s"))
    assert entries == [("waits", "deploy", "", "adjourn approve q1")]
    _, entries = told((asked(), "s"), (approval, "s"))
    assert entries == [("approved", "deploy", "", "approved by adjourn; the agent can repeat the call")]
    _, entries = told((asked(), "s"), (approval, "s"), (allowed("c1", "deploy", "q1"), "s"))
    assert entries == [("running", "deploy", "c1.txt", "approved by adjourn")]
    _, entries = told((asked(), "s"), (kinds.ConfirmDenied(approval="q1", tool="deploy", via="timeout"), "s"))
    assert entries == [("not made", "deploy", "", "nobody answered the question")]


def test_a_question_past_its_time_was_not_made() -> None:
    """A question that nobody answered until it expired no longer waits."""
    timeline, _ = told((asked(), "s"))
    timeline.expire(timestamp(NOON))
    assert timeline.entries()[0].label == "waits"
    timeline.expire(LATER)
    assert timeline.entries()[0].label == "not made"


def test_feeding_an_event_tells_which_entries_it_changes() -> None:
    """Feeding an event returns the entries that are new or changed, for those who follow."""
    timeline = Timeline()
    facts = [(opened(), "s"), (allowed("c1"), "s"), (kinds.ToolSettled(call="c1", outcome="ok"), "s")]
    changes = [[entry.label for entry in timeline.feed(event)] for event, _, _ in chained(facts)]
    assert changes == [["session"], ["running"], ["ok"]]


@for_each("kind", kinds.REGISTRY.values(), ids=list(kinds.REGISTRY))
def test_every_kind_of_event_can_be_fed(kind: type[kinds.Data]) -> None:
    """An event of any kind becomes at most one entry, with a label that fits its column."""
    _, entries = told((msgspec.convert(_members(kind), kind), "s"))
    assert len(entries) <= 1
    assert all(0 < len(label) <= LABEL for label, *_ in entries)


def _members(kind: type[kinds.Data]) -> dict[str, object]:
    """A value for each member that has no default."""
    made: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        if field.required:
            hint = field.type
            choices = get_args(hint)
            made[field.encode_name] = (
                choices[0] if choices and isinstance(choices[0], str) else {int: 1, bool: True, str: "x"}.get(hint, [])
            )
    return made


def test_labels_fit_their_column() -> None:
    """Every label that has a style fits its column."""
    assert max(map(len, STYLES)) <= LABEL


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_an_entry_fits_the_width(columns: int) -> None:
    """A line of the log is no wider than the screen, and shows some of each part where there is room."""
    entry = TimelineEntry(
        1, timestamp(NOON - 60_000), "s", "tool.allowed", "refused", "server.tool" * 4, "about " * 30, "note " * 40
    )
    line = "".join(text for text, _ in entry_line(entry, "12:00", layout([entry], columns)))
    assert cells(line) <= columns
    if columns >= 80:
        assert "abo" in line
    whole = "".join(text for text, _ in entry_line(entry, "12:00", layout([entry], 0)))
    assert whole.rstrip().endswith("note")


def test_at_80_columns_most_of_a_line_is_what_happened() -> None:
    """At 80 columns a line has at least 50 characters for the call and its outcome."""
    entry = TimelineEntry(1, timestamp(NOON), "s", "tool.allowed", "ok", "x" * 200, "")
    line = "".join(text for text, _ in entry_line(entry, "12:00", layout([entry], 80)))
    assert line.index("x") <= 30


def test_a_graph_draws_sessions_as_lanes() -> None:
    """Each session is a lane from its beginning to its end; calls in a row are counted, checkpoints are marked."""
    save = kinds.CheckpointCreated(document="", key="k", name="half", root="", signature="", trigger="agent")
    timeline, _ = told(
        (kinds.TaskOpened(goal="do it"), ""),
        (opened("one"), "a"),
        (allowed("c1"), "a"),
        (kinds.ToolSettled(call="c1", outcome="ok"), "a"),
        (allowed("c2"), "a"),
        (opened("two"), "b"),
        (save, "a"),
        (kinds.SessionLost(calls=["c2"], lost="a", reason="dead"), "b"),
        (kinds.SessionClosed(reason="client-eof"), "b"),
    )
    lines = ["".join(text for text, _ in line) for line in graph_lines(timeline.entries(), NOON, 80, unicode=True)]
    assert [line[:5].rstrip() for line in lines] == ["", "○", "├─╮", "│ ●", "├─│─╮", "│ ◆ │", "├─╯ │", "├─╯"]
    assert "2 calls: 1 ok, 1 in doubt" in lines[3]
    assert lines[6].endswith("one  lost: its process had exited; 1 call in doubt")
    plain = ["".join(text for text, _ in line) for line in graph_lines(timeline.entries(), NOON, 80, unicode=False)]
    assert all(line.isascii() for line in plain)


def test_a_minute_is_named_once() -> None:
    """Under the heading of its day, a line has its clock time where the minute is another one than before; the graph too."""
    moments = (NOON - 86_400_000, NOON, NOON + 20_000, NOON + 60_000)
    entries = [TimelineEntry(n, timestamp(at), "", "task.opened", "ok", "x", "") for n, at in enumerate(moments)]
    lines = ["".join(text for text, _ in line) for line in TimelineLines(layout(entries, 80))(entries, NOON)]
    assert [line[:5].strip() for line in lines] == [
        "yeste",
        clock(moments[0]),
        "today",
        clock(NOON),
        "",
        clock(moments[3]),
    ]
    graph = ["".join(text for text, _ in line)[3:8].strip() for line in graph_lines(entries, NOON, 80, unicode=True)]
    assert graph == ["yeste", clock(moments[0]), "today", clock(NOON), "", clock(moments[3])]


def clock(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC).astimezone():%H:%M}"


def test_readings_in_one_event_have_an_entry_each() -> None:
    """Calls that share an event are entries with places of their own, and a later event settles each of them."""
    reads = [kinds.ToolAllowed(call=f"c{number}", tool="read", digest=ONE, effectful=False) for number in (1, 2)]
    timeline, entries = told(
        (opened(), "s1"),
        (kinds.ToolReadings(allowed=reads), "s1"),
        (kinds.ToolReadings(allowed=[], settled=[kinds.ToolSettled(call="c2", outcome="ok")]), "s1"),
    )
    assert [entry[:2] for entry in entries] == [("session", "claude-code"), ("running", "read"), ("ok", "read")]
    assert [entry.place for entry in timeline.entries()] == ["0", "1", "1-1"]
