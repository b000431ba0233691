"""A budget that all tasks of a workspace share: `budget calls=N per UNIT`."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import merge
from adjourn.errors import IntegrityError
from adjourn.host import process
from adjourn.store import MemoryStore
from adjourn.tasks.budgets import counted, name_of, spent
from adjourn.tasks.decision import Block, Forward
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.session import Admitted, Session
from adjourn.tasks.task import Task
from support.clock import NOON, Clock
from support.policies import policy_of
from support.task_sessions import READ, SECRET, WRITE, admit_one, block_reason

HOUR = 3600
times = st.lists(st.integers(0, 400_000) | st.integers(0, 500), min_size=1, max_size=60)
"""Milliseconds from one call to the next: some quick, some slow."""


@given(times, st.integers(1, 5), st.sampled_from([60, HOUR, 86_400]))
def test_no_period_holds_more_calls_than_the_budget(gaps: Sequence[int], amount: int, seconds: int) -> None:
    """Whenever calls come: no period of the budget's length holds more of them, and room is given back."""
    text: str | None = None
    now, made, counter = NOON, list[int](), str(seconds)
    for gap in gaps:
        now += gap
        if spent({counter: text}, now)[counter] < amount:
            text = counted({counter: text}, now, 1)[name_of(counter)].after
            made.append(now)
    period = seconds * 1000
    for start in made:
        assert sum(start <= other < start + period for other in made) <= amount
    assert spent({counter: text}, made[-1] + period * 62 // 60) == {counter: 0}


def sessions(amount: int, *more: str) -> list[Session]:
    """Sessions on two tasks of one store, under `budget calls=AMOUNT per hour`."""
    policy = policy_of("use read_file, write_file", f"budget calls={amount} per hour", *more, version="v1")
    store, clock = MemoryStore(), Clock()
    made = []
    for task in ("t1", "t2"):
        identity = SessionIdentity(process.current(), task, client="claude-code")
        made.append(Session(Task(store, task, clock=clock, secret=SECRET), policy, identity))
        made[-1].open()
    return made


def test_all_tasks_of_a_store_spend_the_same_budget() -> None:
    """A call of any task counts; the refusal names the rule and what was spent, and another task is refused as well."""
    first, second = sessions(3)
    assert isinstance(admit_one(first, READ).decision, Forward)
    first.admit([WRITE])
    assert isinstance(admit_one(second, READ).decision, Forward)
    for session in (first, second):
        refused = admit_one(session, WRITE).decision
        assert isinstance(refused, Block)
        assert (refused.reason, refused.used, refused.limit) == ("budget_exhausted", 3, 3)
        assert "its tasks made 3 of 3 calls per hour (budget calls=3 per hour (p.aex:5))" in refused.message


def test_calls_of_one_batch_count_for_each_other() -> None:
    """Of calls that are decided on together, only as many pass as the budget has left."""
    first, second = sessions(2)
    decided = [one.decision for one in first.admit([READ, READ, READ])]
    assert [type(one) for one in decided] == [Forward, Forward, Block]
    assert block_reason(admit_one(second, READ)) == "budget_exhausted"


def test_the_budget_is_given_back_when_calls_are_older_than_the_period() -> None:
    """After an hour, another call passes."""
    first, second = sessions(1)
    admit_one(first, READ)
    assert block_reason(admit_one(second, READ)) == "budget_exhausted"
    clock = second.task.clock
    assert isinstance(clock, Clock)
    clock.now += HOUR * 1000 * 62 // 60
    assert isinstance(admit_one(second, READ).decision, Forward)


def test_racing_sessions_never_spend_more_than_the_budget() -> None:
    """Threads on two tasks call at once: exactly as many pass as the budget has."""
    passed: list[Admitted] = []

    def call(session: Session) -> None:
        for _ in range(20):
            passed.extend(one for one in session.admit([READ]) if isinstance(one.decision, Forward))

    threads = [threading.Thread(target=call, args=(session,)) for session in sessions(25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 25


def test_a_policy_that_observes_lets_pass_and_counts() -> None:
    """In `mode observe` a call beyond the budget passes, and what would have been decided is recorded."""
    first, _ = sessions(1, "mode observe")
    decided = [one.decision for one in first.admit([READ, READ])]
    assert all(isinstance(one, Forward) for one in decided)
    assert isinstance(decided[1], Forward)
    assert isinstance(decided[1].observed, Block)


def test_a_count_that_cannot_be_read_lets_nothing_pass() -> None:
    """Where the ref holds something else, no call is decided on."""
    first, _ = sessions(5)
    first.task.store.swap(name_of(str(HOUR)), "many", expect=None)
    with pytest.raises(IntegrityError, match="the count of calls per 3600 s"):
        first.admit([READ])


def test_a_contract_can_narrow_the_budget_of_the_workspace() -> None:
    """Both rules count the same calls, and the smaller one decides."""
    outer = policy_of("use *", "budget calls=9 per day, calls=5 per hour", version="v1")
    inner = policy_of("use *", "budget calls=2 per hour", version="v1")
    rules = merge(outer, inner).workspace_budgets
    assert [rule.text for rule in rules] == ["calls=9 per day", "calls=5 per hour", "calls=2 per hour"]
    assert outer.budget is None
