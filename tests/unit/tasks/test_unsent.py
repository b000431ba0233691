"""Calls that were refused since their commit failed, where the store has their intents after all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from adjourn.errors import StoreError
from adjourn.log import kinds
from adjourn.store import NO_REFS, NO_SWAPS, Append, Appended, Entry, Head, MemoryStore, Swap
from adjourn.tasks.decision import Forward
from adjourn.tasks.session import PendingCalls
from adjourn.tasks.together import commit_together
from adjourn.verification.verify import verify_task
from support.task_sessions import READ, WRITE, SharedTask, admit_one

_T = TypeVar("_T")
KEYED = replace(WRITE, key="k" * 64)


class LossyStore(MemoryStore):
    """Its next append raises `StoreError`: after it was made (`lost`), or without having been made (`away`)."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = self.away = False

    def append(
        self,
        stream: str,
        entries: Sequence[Entry],
        *,
        expect: Head,
        refs: Mapping[str, str | None] = NO_REFS,
        blobs: Sequence[bytes] = (),
        durable: bool = True,
        swaps: Mapping[str, Swap] = NO_SWAPS,
    ) -> Head:
        def append() -> Head:
            return super(LossyStore, self).append(
                stream, entries, expect=expect, refs=refs, blobs=blobs, durable=durable, swaps=swaps
            )

        return self._lossy(append)

    def append_many(self, appends: Sequence[Append], *, durable: bool = True) -> list[Appended]:
        return self._lossy(lambda: super(LossyStore, self).append_many(appends, durable=durable))

    def _lossy(self, append: Callable[[], _T]) -> _T:
        lost, away, self.lost, self.away = self.lost, self.away, False, False
        if away:
            raise StoreError("the store is away", "try again")
        made = append()
        if lost:
            raise StoreError("the connection broke", "try again")
        return made


@pytest.fixture
def shared() -> SharedTask:
    found: Any = SharedTask()
    found.store = LossyStore()
    return found  # type: ignore[no-any-return]


def store_of(shared: SharedTask) -> LossyStore:
    store: Any = shared.store
    assert isinstance(store, LossyStore)
    return store


def test_a_call_that_was_not_sent_is_settled(shared: SharedTask) -> None:
    """Its intent was written while the connection broke: it is an error, in no doubt, counted, and its key is free again."""
    session = shared.opened()
    store_of(shared).lost = True
    with pytest.raises(StoreError):
        session.admit([KEYED])
    session.settle_unsent()
    settled = shared.last(kinds.ToolSettled)
    assert (settled.outcome, settled.message) == ("error", "it was not sent: its intent could not be confirmed")
    ledger = session.task.ledger
    assert (ledger.open_calls, ledger.doubts, ledger.calls_used) == ({}, {}, 1)
    assert isinstance(admit_one(session, KEYED).decision, Forward)
    assert not session.unsent.calls
    assert verify_task(shared.store, "t1").findings == []


def test_a_call_that_was_not_written_leaves_nothing(shared: SharedTask) -> None:
    """A commit that failed without a trace is not settled, and is forgotten once the history continues."""
    session = shared.opened()
    store_of(shared).away = True
    with pytest.raises(StoreError):
        session.admit([KEYED])
    before = shared.kinds()
    session.settle_unsent()
    assert shared.kinds() == before
    assert session.unsent.calls  # the server may still be writing it
    admit_one(session, KEYED)
    session.settle_unsent()
    assert not session.unsent.calls
    assert len(session.task.ledger.open_calls) == 1


def test_a_call_that_is_in_doubt_by_then_is_settled(shared: SharedTask) -> None:
    """The session was taken to be over meanwhile: that the call was not sent is still known."""
    session = shared.opened()
    store_of(shared).lost = True
    with pytest.raises(StoreError):
        session.admit([WRITE])
    other = shared.opened("g2", take_over=True)
    assert list(other.task.ledger.doubts) != []
    session.settle_unsent()
    assert other.task.refresh().doubts == {}


def test_calls_of_several_tasks_that_were_not_sent_are_settled(shared: SharedTask) -> None:
    """So it is where calls of several tasks are one transaction."""
    sessions = []
    for name in ("t1", "t2"):
        session = shared.session()
        session.task = shared.task(name)
        session.open()
        sessions.append(session)
    store_of(shared).lost = True
    pending = [PendingCalls(one.task, session=one, calls=[KEYED], durable=True) for one in sessions]
    commit_together(pending)
    assert [type(one.error) for one in pending] == [StoreError, StoreError]
    for session in sessions:
        session.settle_unsent()
        assert (session.task.ledger.open_calls, session.task.ledger.calls_used) == ({}, 1)


def test_a_call_without_effect_stays_open(shared: SharedTask) -> None:
    """It may have been forwarded without a store, so nobody says that it was not sent."""
    session = shared.opened()
    store_of(shared).lost = True
    with pytest.raises(StoreError):
        session.admit([READ])
    assert not session.unsent.calls
    session.task.refresh()
    assert len(session.task.ledger.open_calls) == 1
