"""The Continuation Record of a task, as it is shown: with its effects as they are now, and as the lines of a hand-over.

Must never: load the records' code where a store has no record, for most tasks have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

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


# --- its lines in a hand-over


class RecordLine(msgspec.Struct, frozen=True):
    """What a line says, and what more it says where there is room for that: a reason, a command."""

    text: str
    more: str = ""


class Recorded(msgspec.Struct, frozen=True):
    """Lines by what they are for. `steps` say what to do next, `waiting` what a person must do, `decisions` what binds, `notes` what to
    beware of.
    """

    is_finished: bool = False
    is_blocked: bool = False
    steps: Sequence[str] = ()
    progress: Sequence[str] = ()
    waiting: Sequence[RecordLine] = ()
    decisions: Sequence[RecordLine] = ()
    facts: Sequence[RecordLine] = ()
    notes: Sequence[str] = ()
