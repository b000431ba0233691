"""What people answered, over tasks and records."""

from __future__ import annotations

from adjourn import CRAuthor, MemoryStore, TaskRecord
from adjourn.handover.answered import answered_items


def test_an_answer_that_a_fork_has_too_is_listed_once() -> None:
    """A fork repeats its origin; what is answered in it later is one more."""
    store, bea = MemoryStore(), CRAuthor(id="bea", type="human")
    record = TaskRecord(store, "t")
    record.answer(record.ask("Which account?"), "main", bea)
    fork = record.fork("other")
    fork.answer(fork.ask("Which day?"), "Monday", bea)
    items, left = answered_items(store, store.streams(), {})
    assert (sorted(item.asked for item in items), left) == (["Which account?", "Which day?"], 0)
