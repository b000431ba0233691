"""Checkpoints before calls, and at shares of budgets: made before the call is decided on, once, or the call goes nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_engine_checkpoint import Machine

from adjourn.engine.checkpoint import names
from adjourn.engine.decide import Block, Call, Forward
from adjourn.engine.triggers import due_shares
from adjourn.errors import StoreError
from adjourn.log import kinds
from adjourn.state.ledger import Ledger
from strategies import TASK, policy_of


def due(used: int, *rules: str, marks: Any = (), **facts: Any) -> list[str]:
    """The triggers of what is due when so many calls are used."""
    ledger = Ledger(task=TASK, calls_used=used, marks=dict.fromkeys(marks, 0), **facts)
    return [trigger for _, _, trigger in due_shares(ledger, policy_of("use a", *rules, version="v1"))]


SHARES = ("checkpoint at 75%, 90%",)
AT_75, AT_90, SPENT = "at 75% of calls=20", "at 90% of calls=20", "at 100% of calls=20"


@pytest.mark.parametrize(
    ("used", "marks", "expected"),
    [
        (14, [], []),
        (15, [], [AT_75]),
        (16, [AT_75], []),
        (18, [AT_75], [AT_90]),
        (18, [], [AT_90]),
        (19, [AT_90], []),
        (20, [AT_90], [SPENT]),
        (99, [AT_90, SPENT], []),
    ],
)
def test_a_share_is_due_once_and_the_largest_stands_for_the_others(
    used: int, marks: list[str], expected: list[str]
) -> None:
    """When a share is spent, a checkpoint is due until it was made; several at once need one."""
    assert due(used, "budget calls=20", *SHARES, marks=marks) == expected


def test_a_budget_that_is_raised_arms_its_shares_again() -> None:
    """The same share of another budget is another share."""
    assert due(15, "budget calls=20", *SHARES, marks=[AT_75]) == []
    assert due(15, "budget calls=40", *SHARES, marks=[AT_75]) == []
    assert due(30, "budget calls=40", *SHARES, marks=[AT_75]) == ["at 75% of calls=40"]


def test_each_budget_has_its_shares() -> None:
    """Minutes, tokens and money are watched as calls are."""
    rules = ("budget calls=20, minutes=10, tokens=1000, usd=2.5", *SHARES)
    facts = {"worked": 8 * 60_000, "tokens": 900, "micro_usd": 1_000_000}
    assert due(1, *rules, **facts) == ["at 75% of minutes=10", "at 90% of tokens=1000"]


@given(st.integers(0, 30), st.integers(0, 25))
def test_a_share_is_due_when_so_much_is_spent_and_none_of_nothing(used: int, limit: int) -> None:
    """Not a call earlier, and a budget of nothing has no shares."""
    found = due(used, f"budget calls={limit}", "checkpoint at 50%")
    assert bool(found) == (limit > 0 and used * 2 >= limit)


# --- made by the desk

POLICY = ("allow read", "allow deploy.*", "checkpoint before deploy.*, at 50%", "budget calls=4")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path, monkeypatch)
    text = "\n".join(["policy work v1", 'goal "do it"', *POLICY, ""])
    (machine.root / ".aex" / "policy.aex").write_text(text)
    return machine


def test_the_checkpoint_stands_before_the_intent(machine: Machine) -> None:
    """A call that is named finds its checkpoint made, with its tool as the trigger; other calls have none."""
    desk = machine.desk()
    machine.work(desk, "read", "deploy.run")
    order = [event.event for event in machine.events(desk.task_id())]
    assert order[-3:] == ["checkpoint.created", "tool.allowed", "tool.settled"]
    (made,) = machine.facts(desk.task_id(), kinds.CheckpointCreated)
    assert (made.trigger, made.name) == ("before deploy.run", f"{desk.task_id()}-before")


def test_later_ones_take_the_name_of_the_earlier(machine: Machine) -> None:
    """A thousand checkpoints before calls are one name, and those at a share another."""
    desk = machine.desk()
    machine.work(desk, "deploy.a", "deploy.b", "deploy.c")
    task = desk.task_id()
    assert set(names(machine.store)) == {f"{task}-before", f"{task}-at-50"}
    triggers = [fact.trigger for fact in machine.facts(task, kinds.CheckpointCreated)]
    assert triggers == ["before deploy.a", "before deploy.b", "before deploy.c", "at 50% of calls=4"]


def test_a_call_that_no_rule_lets_pass_makes_none(machine: Machine) -> None:
    """What is refused anyway costs no checkpoint."""
    desk = machine.desk()
    machine.write_policy("allow read", "budget calls=9")
    (machine.root / ".aex" / "policy.aex").write_text(
        'policy work v1\ngoal "do it"\nallow read\ndeny deploy.*\ncheckpoint before deploy.*\n'
    )
    desk = machine.desk()
    machine.work(desk, "deploy.run")
    assert machine.facts(desk.task_id(), kinds.CheckpointCreated) == []


def test_without_its_checkpoint_a_call_goes_nowhere(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the checkpoint cannot be written, the call is not decided on, and no intent is written."""
    desk = machine.desk()
    machine.work(desk, "read")

    def broken(*_: object, **__: object) -> None:
        raise StoreError("no room")

    monkeypatch.setattr("adjourn.engine.keys.private_key", broken)
    with pytest.raises(StoreError):
        desk.admit([Call(tool="deploy.run", digest="1" * 64)])
    assert machine.task(desk.task_id()).ledger.calls_used == 1


def test_a_session_that_was_given_up_sits_down_again_for_its_checkpoint(machine: Machine) -> None:
    """A session that others took for dead is not locked out by the checkpoint that its call waits for."""
    desk = machine.desk()
    session = machine.work(desk, "read")
    lost = kinds.SessionLost(calls=[], lost=session.id, reason="expired")
    other = machine.task(desk.task_id())
    from adjourn.engine.task import Fact  # noqa: PLC0415

    other.commit(lambda _: [Fact(lost)])
    _, (admitted,) = desk.admit([Call(tool="deploy.run", digest="1" * 64)])
    assert isinstance(admitted.decision, Forward)


def test_a_spent_budget_still_refuses(machine: Machine) -> None:
    """A checkpoint at a share is no way around the budget."""
    desk = machine.desk()
    machine.work(desk, "read", "read", "read", "read")
    _, (admitted,) = desk.admit([Call(tool="read", digest="1" * 64)])
    assert isinstance(admitted.decision, Block)
