"""The list of tasks and the page of one: what they show of a week of work, of hostile names, and of many events."""

from __future__ import annotations

import re
import time

import pytest

from adjourn.host.clock import now
from adjourn.host.workspace_store import open_at
from adjourn.log import kinds
from adjourn.log.event import Actor, milliseconds
from adjourn.store import Store
from adjourn.tasks.task import NewEvent, Task
from adjourn.text.times import day_clock, local
from adjourn.ui import site
from adjourn.ui.pages import task as task_page
from support.page_in_memory import PageInMemory
from support.task_sessions import SECRET, SharedTask
from support.waiting import opened
from support.week import make_week

AGENT = Actor("agent", "agent")
HOSTILE = '<script>alert(1)</script>"&\u202e'


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("week")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADJOURN_CONFIG", str(folder / "config"))
        make_week(folder / "acme-api", now())
        return open_at(str(folder / "acme-api"))


@pytest.fixture
def page(week: Store) -> PageInMemory:
    return PageInMemory(week, now).enter()  # type: ignore[arg-type]


def names(page: str) -> list[str]:
    return re.findall(r'class="task" href="/task\?id=([^"]+)"', page)


def test_the_tasks_are_listed_the_last_used_first(page: PageInMemory) -> None:
    """Each with its goal, client, calls, and what waits."""
    shown = page.get("/tasks")
    assert names(shown) == ["tax-rates", "invoices-schema", "release-1-3"]
    for text in ("3 tasks", "Release acme-api 1.3.0", "codex", "14 of 40 calls", "2 waiting", "1 in doubt"):
        assert text in shown


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("q=INVOICES", ["tax-rates", "invoices-schema"]),
        ("q=codex", ["release-1-3"]),
        ("show=finished", ["release-1-3"]),
        ("show=open", ["tax-rates", "invoices-schema"]),
        ("show=waiting", ["tax-rates", "invoices-schema"]),
        ("show=waiting&q=tax", ["tax-rates"]),
        ("q=nothing", []),
        ("show=unknown&page=x&q=", ["tax-rates", "invoices-schema", "release-1-3"]),
        ("page=99999999999999", ["tax-rates", "invoices-schema", "release-1-3"]),
    ],
)
def test_tasks_are_searched_and_filtered(page: PageInMemory, address: str, found: list[str]) -> None:
    """By words of id, goal or client, and by what they are."""
    assert names(page.get(f"/tasks?{address}")) == found


def test_a_task_shows_what_happened_and_what_the_next_session_receives(page: PageInMemory) -> None:
    """One row a call with its outcome, who approved it, checkpoints on the budget's line, and the hand-over."""
    shown = page.get("/task?id=release-1-3")
    for text in ("approved by dana", "deny git.reset", "61 events", "tests-pass", "What the next session receives"):
        assert text in shown
    assert shown.count('class="made"') == 4
    assert [shown.count(f'class="{line}"') for line in ("limit", "share")] == [1, 2]
    assert "adjourn settle" in page.get("/task?id=invoices-schema")


def test_each_thing_that_happened_opens(shared: SharedTask) -> None:
    """Its arguments as a table, an edit as a diff, the rule, how long it took, and its events with their hashes; searched by any of it."""
    task = opened(shared)
    arguments = '{"command":"make deploy","to":"prod"}'
    sent = kinds.ToolAllowed(call="c1", tool="shell.exec", digest="1" * 64, effectful=True, arguments=arguments)
    task.commit(lambda _: [NewEvent(sent), NewEvent(kinds.ToolSettled(call="c1", outcome="ok", milliseconds=1234))])
    task.commit(
        lambda _: [NewEvent(kinds.ToolDenied(tool="mail.send", digest="2" * 64, reason="policy", rule="deny mail.*"))]
    )
    page = PageInMemory(shared.store, shared.clock).enter()
    shown = page.get("/task?id=t1")
    edit = '{"path":"a.py","old_string":"one","new_string":"two"}'
    task.commit([NewEvent(kinds.ToolAllowed(call="c2", tool="edit", digest="3" * 64, effectful=True, arguments=edit))])
    shown = page.get("/task?id=t1")
    rows = re.findall(r"<dt>(\w+)</dt><dd><code>(.*?)</code></dd>", shown)
    assert rows == [("path", "a.py"), ("command", "make deploy"), ("to", "prod")]
    assert re.findall(r'<tr class="(added|removed)">.*?<td>(.*?)</td></tr>', shown) == [
        ("removed", "one"),
        ("added", "two"),
    ]
    for text in ("1,234 ms", "deny mail.*", "tool.settled", task.ledger.hash):
        assert text in shown
    found = page.get("/task?id=t1&q=PROD")
    assert "make deploy" in found
    assert "mail.send" not in found
    assert "nothing has this text" in page.get("/task?id=t1&q=nowhere")


def test_what_happened_is_filtered_by_the_clock(shared: SharedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one minute to another, by the clock of the reader; a time that is none is no filter."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    task = opened(shared)
    for number in range(3):
        shared.clock.move(seconds=600)
        task.commit([NewEvent(kinds.ToolDenied(tool=f"tool.n{number}", digest="2" * 64, reason="policy"))])
    page = PageInMemory(shared.store, shared.clock).enter()
    middle = local(shared.events()[-2].timestamp)[:16]
    shown = page.get(f"/task?id=t1&since={middle}&until={middle}")
    assert [f"tool.n{number}" in shown for number in range(3)] == [False, True, False]
    assert f'value="{middle}"' in shown
    assert "tool.n0" in page.get("/task?id=t1&since=yesterday")


def test_hostile_arguments_of_a_call_are_shown_and_harm_nothing(shared: SharedTask) -> None:
    """Values nested thousands deep, text that turns the reading direction, and markup: the page answers, and all of it is text."""
    task = opened(shared)
    for number, arguments in enumerate(
        ('{"a":' * 5_000 + "1" + "}" * 5_000, '{"a":"\\u202eevil<b>"}', "{", "[" * 5_000)
    ):
        sent = kinds.ToolAllowed(call=f"c{number}", tool="x", digest="1" * 64, effectful=True, arguments=arguments)
        task.commit([NewEvent(sent)])
    shown = PageInMemory(shared.store, shared.clock).enter().get("/task?id=t1")
    assert "\u202e" not in shown
    assert "evil&lt;b&gt;" in shown


def test_tests_that_fail_are_said_on_the_page(shared: SharedTask) -> None:
    """What is wrong with the task stands in its head, with what to do."""
    task = opened(shared)
    sent = kinds.ToolAllowed(
        call="c1", tool="shell.exec", digest="1" * 64, effectful=True, arguments='{"command":"pytest"}'
    )
    task.commit(lambda _: [NewEvent(sent), NewEvent(kinds.ToolSettled(call="c1", outcome="tool-error"))])
    assert "pytest failed: find out why" in PageInMemory(shared.store, shared.clock).enter().get("/task?id=t1")


@pytest.mark.parametrize("address", ["/task", "/task?id=", "/task?id=none", "/task?id=release"])
def test_a_task_that_is_not_there_is_said(page: PageInMemory, address: str) -> None:
    """Also the beginning of an id is none."""
    assert page.request("GET", address).status_code == 404


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> SharedTask:
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)
    return SharedTask()


def test_a_long_history_is_shown_in_windows(shared: SharedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call is on one page, the newest first; no page reads more than its window."""
    monkeypatch.setattr(task_page, "WINDOW", 50)
    task = opened(shared)
    for number in range(120):
        allowed = kinds.ToolAllowed(call=f"c{number}", tool=f"tool{number}", digest=f"{number:064d}", effectful=True)
        done = kinds.ToolSettled(call=f"c{number}", outcome="ok")
        facts = [NewEvent(allowed, AGENT), NewEvent(done, AGENT)]
        task.commit(lambda _: facts)  # noqa: B023  # it is called at once
    page = PageInMemory(shared.store, shared.clock).enter()
    address, found = f"/task?id={task.id}", list[str]()
    while address:
        shown = page.get(address)
        found += re.findall(r'<span class="mono">(tool\d+)<', shown)
        older = re.search(r'href="(/task\?id=[^"]*before=\d+)"', shown)
        address = older[1].replace("&amp;", "&") if older else ""
    assert list(dict.fromkeys(found)) == [f"tool{number}" for number in reversed(range(120))]


def test_what_an_agent_wrote_is_inert(shared: SharedTask) -> None:
    """Names, goals and messages are text, whatever they contain."""
    task = opened(shared, goal=HOSTILE)
    allowed = kinds.ToolAllowed(call="c1", tool=HOSTILE, digest="1" * 64, arguments=HOSTILE, effectful=True)
    done = kinds.ToolSettled(call="c1", outcome="tool-error", message=HOSTILE)
    task.commit(lambda _: [NewEvent(allowed, AGENT), NewEvent(done, AGENT)])
    page = PageInMemory(shared.store, shared.clock).enter()
    for address in ("/tasks", f"/tasks?q={HOSTILE}", f"/task?id={task.id}"):
        shown = page.get(address)
        assert "<script>alert" not in shown
        assert "\u202e" not in shown


def test_a_look_at_the_list_takes_a_moment_only(shared: SharedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be read in time is counted, and comes with the next looks."""
    for number in range(5):
        facts = [NewEvent(kinds.TaskOpened(goal="g"), AGENT)]
        Task(shared.store, f"t{number}", clock=shared.clock, secret=SECRET).commit(lambda _: facts)  # noqa: B023
    page = PageInMemory(shared.store, shared.clock).enter()
    monkeypatch.setattr(site, "READ_SECONDS", -1.0)
    first = page.get("/tasks")
    assert "5 tasks" in first
    assert "still being read" in first
    monkeypatch.setattr(site, "READ_SECONDS", 60.0)
    assert len(names(page.get("/tasks"))) == 5


def test_what_happened_has_clock_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """With seconds today, with the day before; of any text that is no time, the text."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    today = milliseconds("2026-05-02T15:30:12.345Z")
    assert day_clock("2026-05-02T09:04:05.000Z", today) == "09:04:05"
    assert day_clock("2026-05-01T23:59:59.000Z", today) == "1 May 23:59"
    assert day_clock("soon", today) == "soon"


def test_hand_overs_are_compared_as_prose(page: PageInMemory) -> None:
    """What a session received, chosen in the page, stands beside what the one before it received; neither is Markdown or JSON."""
    numbers = re.findall(r'<option value="(\d+)"', page.get("/handover?id=tax-rates"))
    shown = page.get(f"/handover?id=tax-rates&session={numbers[0]}")
    main = shown[shown.index("<main") : shown.index("</main")]
    assert f"What session {numbers[0]} received" in main
    assert "src/acme/rates/13.py" in main
    for mark in ("##", "[ ]", "{", "cannot"):
        assert mark not in main
    assert "What the next session receives" in page.get("/handover?id=tax-rates&session=x")
    assert "No hand-over yet" not in shown
    assert page.request("GET", "/handover?id=nothing").status_code == 404


def test_a_call_that_a_person_approved_opens_with_the_question(page: PageInMemory) -> None:
    """The rule that asked, who approved it, and the events of the question are among what the call says."""
    shown = page.get("/task?id=release-1-3")
    call = next(part for part in shown.split("<li id=")[1:] if "release.publish" in part and "approved by dana" in part)
    assert "confirm release.* (.aex/policy.aex:5)" in call
    assert "<dt>Answered by</dt><dd>dana</dd>" in call
    assert "confirm.required" in call
    assert "confirm.approved" in call
    assert call.index("confirm.approved") < call.index("tool.settled")
