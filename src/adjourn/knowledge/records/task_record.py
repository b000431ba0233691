"""The Continuation Record of a task, as it is shown: with its effects as they are now.

Must never: load the records' code where a store has no record, for most tasks have none.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from adjourn.errors import AdjournError
from adjourn.policy.principal import SpaceStore
from adjourn.store.base import EMPTY

if TYPE_CHECKING:
    from adjourn.knowledge.model.documents import Tree
    from adjourn.store.base import Store
    from adjourn.tasks.task import Task


def expire_due_items(task: Task) -> None:
    """Expire the due items of the task's record, so that a resuming session sees its present state."""
    if (record := record_of(task.store, task.id)) is not None:
        from adjourn.knowledge.records.store import RecordTrees

        RecordTrees(task.store, clock=task.clock).tick(record["id"])


def record_of(store: Store, task: str) -> Tree | None:
    """The same as `read_record_of`, but None also where the record cannot be read."""
    with suppress(AdjournError):
        return read_record_of(store, task)
    return None


def read_record_of(store: Store, task: str) -> Tree | None:
    """The record of a task by the rule of `CRStore.of_task`, with the effects that its newest version may not have yet.

    None where there is none. Raises `AdjournError` where it cannot be read.
    """
    if store.head(f"record/{task}") == EMPTY and (isinstance(store, SpaceStore) or not store.refs("record/", limit=1)):
        return None
    from adjourn.knowledge.records.effect_lookup import current
    from adjourn.knowledge.records.store import RecordTrees

    record = RecordTrees(store).of_task(task)
    return None if record is None else current(store, record)
