"""A ledger over histories of any length: it only grows, its text leads back to it, and what it keeps is bounded."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from adjourn.errors import IntegrityError
from adjourn.log import kinds, merkle
from adjourn.tasks import ledger as module
from adjourn.tasks.ledger import Ledger
from support.events import TASK, chained
from support.ledger_facts import ONE, TWO, Facts, after, allowed, asked, opened, settled
from support.strategies import histories

CHECKPOINT = (
    kinds.CheckpointCreated(document=ONE, key="k", name="half-way", root=ONE, signature="", trigger="agent"),
    "s1",
)


@given(histories)
def test_spent_calls_never_come_back(facts: Facts) -> None:
    """Over any facts in any order, no count decreases, and each counted call adds exactly one."""
    ledger = Ledger(task=TASK)
    used = refused = 0
    for (event, event_hash, _), (item, _) in zip(chained(facts), facts, strict=True):
        ledger.apply(event, event_hash, item)
        let_through = item.allowed if isinstance(item, kinds.ToolReadings) else [item]
        counted = sum(isinstance(call, kinds.ToolAllowed) and not call.uncounted for call in let_through)
        spent_elsewhere = max(0, item.calls) if isinstance(item, kinds.TaskImported) else 0
        assert ledger.calls_used - used == counted + spent_elsewhere
        assert ledger.calls_refused >= refused
        used, refused = ledger.calls_used, ledger.calls_refused


@given(histories)
def test_a_ledger_survives_being_stored(facts: Facts) -> None:
    """Its JSON decodes to an equal ledger, which continues like the first."""
    ledger = after(*facts)
    copy = msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger)
    assert copy == ledger
    more = [*facts, allowed("c77"), settled("c77", "no-answer")]
    for (event, event_hash, _), (item, _) in list(zip(chained(more), more, strict=True))[len(facts) :]:
        ledger.apply(event, event_hash, item)
        copy.apply(event, event_hash, item)
    assert copy == ledger


@given(histories)
def test_the_ledger_knows_the_head_and_the_root(facts: Facts) -> None:
    """Its hash is that of the last event, its tree's root that over all events' hashes."""
    ledger, events = after(*facts), chained(facts)
    assert ledger.hash == (events[-1][1] if events else "0" * 64)
    assert ledger.tree.root() == merkle.root(bytes.fromhex(event_hash) for _, event_hash, _ in events)


@given(histories)
def test_a_call_is_in_one_place_at_most_by_its_session(facts: Facts) -> None:
    """A settled, lost or closed session has no open calls, and what is in doubt had an effect."""
    ledger = after(*facts)
    assert all(call.effectful for call in ledger.doubts.values())
    ended = {item.lost if isinstance(item, kinds.SessionLost) else session
             for item, session in facts[-1:] if isinstance(item, kinds.SessionLost | kinds.SessionClosed)}  # fmt: skip
    assert not any(call.session in ended for call in ledger.open_calls.values())


def test_an_event_of_another_task_is_refused() -> None:
    """Events of two tasks do not mix."""
    (event, event_hash, _) = chained([allowed("c1")], task="other")[0]
    ledger = Ledger(task=TASK)
    with pytest.raises(IntegrityError, match=r"event 0 of other does not follow event -1.*adjourn verify"):
        ledger.apply(event, event_hash, allowed("c1")[0])
    assert ledger == Ledger(task=TASK)


@pytest.mark.parametrize("order", [[1], [0, 0], [0, 2], [0, 1, 1], [0, 1, 0]])
def test_an_event_out_of_order_is_refused(order: list[int]) -> None:
    """An event that is skipped, repeated or late is refused, and changes nothing."""
    events = chained([opened(), allowed("c1"), settled("c1")])
    ledger = Ledger(task=TASK)
    for at in order[:-1]:
        ledger.apply(*events[at][:2], kinds.data_of(events[at][0]))
    before = msgspec.json.encode(ledger)
    event, event_hash, _ = events[order[-1]]
    with pytest.raises(IntegrityError, match="does not follow"):
        ledger.apply(event, event_hash, kinds.data_of(event))
    assert msgspec.json.encode(ledger) == before


def test_an_event_after_another_past_is_refused() -> None:
    """The right position is not enough: the event must name the very event before it."""
    ledger = after(opened())
    event, event_hash, _ = chained([opened("s9"), allowed("c1")])[1]
    with pytest.raises(IntegrityError, match="does not follow"):
        ledger.apply(event, event_hash, allowed("c1")[0])


def test_questions_with_impossible_times_do_not_stop_the_fold() -> None:
    """An imported question whose expiry is no time is folded like any other; nothing raises half-way."""
    ledger = after(asked("q1", expires="whenever"), asked("q2", expires=""), asked("q3"))
    assert ledger.seq == 2
    assert "q3" in ledger.approvals


def test_the_listed_tools_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a new tool's calls are spent but not listed; a listed tool continues counting."""
    monkeypatch.setattr(module, "MAX_LISTED_TOOLS", 1)
    other = kinds.ToolAllowed(call="c2", digest=TWO, effectful=False, tool="rare")
    ledger = after(allowed("c1"), (other, "s1"), allowed("c3"))
    assert (ledger.calls_used, ledger.tools) == (3, {"deploy": 2})


def test_the_paused_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that has been paused longest is forgotten first."""
    monkeypatch.setattr(module, "MAX_PAUSED_CALLS", 2)
    facts = []
    for number in range(3):
        facts += [allowed(f"c{number}"), settled(f"c{number}", "input-required", state=str(number) * 64)]
    assert [state[:64] for state in after(*facts).paused_calls] == ["1" * 64, "2" * 64]


@pytest.mark.parametrize(("budget", "left"), [(None, None), (5, 3), (2, 0), (1, 0)])
def test_what_remains_of_a_budget(budget: int | None, left: int | None) -> None:
    """A budget that is overspent has nothing left, and no budget has no rest."""
    assert after(allowed("c1"), allowed("c2")).remaining(budget) == left


def test_ledgers_share_nothing() -> None:
    """Two new ledgers have their own collections."""
    after(allowed("c1"), ledger=(one := Ledger(task=TASK)))
    assert one.open_calls
    assert Ledger(task=TASK).open_calls == {}
    assert Ledger(task=TASK).tree.size == 0


def test_the_marks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest mark is forgotten first."""
    monkeypatch.setattr(module, "MAX_MARKS", 2)
    marks = [msgspec.structs.replace(CHECKPOINT[0], trigger=f"at {n}% of calls=9") for n in (1, 2, 3)]
    assert list(after(*((mark, "s1") for mark in marks)).marks) == ["at 2% of calls=9", "at 3% of calls=9"]
