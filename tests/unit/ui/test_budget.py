"""How a task's budgets are shown: what is spent, what is left, and for how long; and the tasks that are worked on now."""

from __future__ import annotations

import pytest

from adjourn.handover.spending import calls_last, left_in_words, spending_of
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.tasks.task import NewEvent
from support.page_in_memory import PageInMemory
from support.policies import policy_of
from support.task_sessions import SECRET, SharedTask

MINUTE = 60_000
AGENT = Actor("agent", "agent")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> SharedTask:
    monkeypatch.setattr("adjourn.host.keys.reading_secret", lambda: SECRET)
    return SharedTask()


def work(shared: SharedTask, calls: int, *, minutes: float = 2) -> None:
    """Calls of the session that is open, one each so many minutes."""
    task = shared.task()
    (session,) = task.ledger.sessions
    for number in range(calls):
        call = f"c{task.ledger.seq}"
        sent = kinds.ToolAllowed(call=call, tool=f"shell.run{number}", digest="1" * 64, effectful=False)
        facts = [sent, kinds.ToolSettled(call=call, outcome="ok")]
        task.commit(lambda _: [NewEvent(fact, AGENT, session) for fact in facts])  # noqa: B023  # it is called at once
        shared.clock.move(seconds=minutes * 60)


@pytest.mark.parametrize(
    ("left", "minutes", "lasts"),
    [
        (12, [0, 2, 4, 6], 24),
        (12, [-600, -599, 0, 2, 4], 24),  # an earlier day tells nothing
        (12, [0, 2], 0),
        (12, [], 0),
        (0, [0, 2, 4], 0),
    ],
)
def test_calls_last_at_the_pace_of_the_last_half_hour(left: int, minutes: list[int], lasts: float) -> None:
    """Two calls tell no pace."""
    assert calls_last(left, [at * MINUTE for at in minutes]) == lasts * MINUTE


def test_what_is_left_is_said_in_words() -> None:
    """With the time only where one is known, and never less than nothing."""
    assert left_in_words(12, 24 * MINUTE, " calls") == "12 calls left, about 24 min of work"
    assert left_in_words(12, 0) == "12 left"
    assert left_in_words(-3, 0) == "0 left"
    assert left_in_words(1_234_567, 0) == "1,234,567 left"


def test_each_budget_that_is_used_or_limited_is_shown(shared: SharedTask) -> None:
    """Time, tokens and money beside calls; a budget without a limit has no gauge."""
    shared.opened(policy=policy_of("use *", "budget calls=40"))
    work(shared, 4)
    task = shared.task()
    task.commit(lambda _: [NewEvent(kinds.UsageReported(tokens=1_500, micro_usd=250_000))])
    shown = {each.name: each for each in spending_of(shared.store, task.ledger, [0, 2 * MINUTE, 4 * MINUTE])}
    assert list(shown) == ["calls", "time", "tokens", "money"]
    calls = shown["calls"]
    assert (calls.used, calls.limit, calls.share, calls.left) == ("4", "40", 10, "36 left, about 1 h of work")
    assert (shown["tokens"].used, shown["tokens"].limit) == ("1,500", "")
    assert shown["money"].used == "0.25 USD"
    page = PageInMemory(shared.store, shared.clock).enter().get("/task?id=t1")
    assert "<strong>4</strong> of 40" in page
    assert "<strong>0.25 USD</strong>" in page


def test_limits_of_time_and_money_are_those_of_the_last_session(shared: SharedTask) -> None:
    """They are read from the policy's text, which the store has."""
    text = b"policy p v1\n\nuse *\nbudget minutes=60, tokens=2000\n"
    shared.opened()
    work(shared, 4)
    ledger = shared.task().ledger
    ledger.policy, ledger.contract = shared.store.put_blob(text), ""
    ledger.tokens = 500
    shown = {each.name: each for each in spending_of(shared.store, ledger, [])}
    assert (shown["time"].used, shown["time"].limit, shown["time"].left) == ("6 min", "60 min", "54 min left")
    assert (shown["tokens"].limit, shown["tokens"].share) == ("2,000", 25)
    assert shown["tokens"].left.startswith("1,500 left, about 18 min")


def test_tasks_at_work_are_shown_with_what_is_left(shared: SharedTask) -> None:
    """The client, the last call, and for how long the budget lasts; a task whose session has ended is not there."""
    session = shared.opened(policy=policy_of("use *", "budget calls=40"), client="codex")
    work(shared, 4)
    page = PageInMemory(shared.store, shared.clock).enter()
    shown = page.get("/now")
    now = shown[shown.index('class="now"') : shown.index("</ul>")]
    for text in ("codex", "36 calls left, about 1 h of work", "shell.run3", "ok"):
        assert text in now
    assert "Your workspaces" not in shown
    session.close("client-eof")
    assert "Nobody is at work" in page.get("/now")
