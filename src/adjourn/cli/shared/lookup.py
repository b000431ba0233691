"""Finding a checkpoint for reading: in the store, or in a folder copied into the workspace.

A folder that somebody brought is verified and read into memory: reading writes nothing.

Owns: `FoundCheckpoint`, `find`. Must never: write into the workspace's store.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from adjourn import checkpoints
from adjourn.checkpoints import TaskCheckpoint, as_checkpoint, folder_verification
from adjourn.cli.shared.context import CommandContext
from adjourn.cli.shared.task_view import each_task
from adjourn.errors import AdjournError, InvalidError, NotFoundError, UsageError
from adjourn.host import CHECKPOINTS, reading_secret, resolve_inside
from adjourn.log import CheckpointCreated, digest
from adjourn.store import MemoryStore, Store
from adjourn.tasks import Task, tasks_of
from adjourn.text import did_you_mean

MIN_HASH = 6
_SHOWN = 5
_MARK = b'"event":"' + CheckpointCreated.KIND.encode() + b'"'


class FoundCheckpoint(NamedTuple):
    """A checkpoint, where it was found, and the store that has its history: the workspace's, or one in memory."""

    checkpoint: TaskCheckpoint
    source: Literal["store", "folder"]
    store: Store

    def task(self, context: CommandContext) -> Task:
        """The task it is of, as it is now."""
        return Task(self.store, self.checkpoint.event.task, clock=context.clock, secret=reading_secret())


def find(context: CommandContext, name: str) -> FoundCheckpoint:
    """A checkpoint by its name, by `TASK/NAME`, by six digits or more of its hash, or the last one of a task."""
    if "/" in name:
        return FoundCheckpoint(checkpoints.find(context.store, name), "store", context.store)
    try:
        return _by_name(context, name)
    except (NotFoundError, InvalidError) as error:
        if not isinstance(error, NotFoundError) and "not a checkpoint name" not in error.message:
            raise
    store = context.store
    found = _by_hash(store, name.lower()) if len(name) >= MIN_HASH and _is_hex(name) else None
    if found is not None:
        return FoundCheckpoint(found, "store", store)
    try:
        ledger = context.task(name).ledger
    except (NotFoundError, InvalidError):
        known = [ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/")]
        near = did_you_mean(name, [*known, *tasks_of(store)])
        raise NotFoundError(
            f"no checkpoint or task is named {name[:80]!r}", near or "list them: adjourn checkpoints"
        ) from None
    if not ledger.checkpoint:
        raise NotFoundError(f"task {name} has no checkpoint", "save one: adjourn checkpoint write")
    own = checkpoints.find(context.store, f"{ledger.task}/{ledger.checkpoint}")
    return FoundCheckpoint(own, "store", context.store)


def only_checkpoint(context: CommandContext) -> str:
    """The newest checkpoint of the only unfinished task that has one; without a store, the only folder. Raises `UsageError`."""
    if context.store_or_none() is None and (names := checkpoint_folders(context.root)):
        found = names
    else:
        ledgers = [task.ledger for _, task in each_task(context) if not isinstance(task, AdjournError)]
        ledgers.sort(key=lambda ledger: ledger.touched, reverse=True)
        found = [ledger.checkpoint for ledger in ledgers if ledger.checkpoint and not ledger.finished]
    if not found:
        raise NotFoundError(
            "no unfinished task has a checkpoint", "list all checkpoints: adjourn checkpoints"
        )
    if len(found) > 1:
        shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        raise UsageError(
            f"{len(found)} checkpoints can be meant: {shown}", "name one; `adjourn checkpoints` lists them"
        )
    return found[0]


def checkpoint_folders(root: str) -> list[str]:
    """The names of the checkpoints that have a folder in the workspace."""
    try:
        return sorted(os.listdir(resolve_inside(root, CHECKPOINTS)))
    except (OSError, AdjournError):
        return []


def _by_name(context: CommandContext, name: str) -> FoundCheckpoint:
    kept = context.store_or_none()
    if kept is not None:
        try:
            return FoundCheckpoint(checkpoints.find(kept, name), "store", kept)
        except NotFoundError:
            pass
    brought = folder_verification.verify_named(context.root, name)
    scratch = MemoryStore()
    scratch.append(brought.extra.task, list(brought.audit.entries()), expect=scratch.head(brought.extra.task))
    for text in (brought.extra.contract, brought.extra.policy):
        if text:
            scratch.put_blob(text.encode())
    return FoundCheckpoint(brought.checkpoint, "folder", scratch)


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdef" for char in text.lower())


def _by_hash(store: Store, start: str) -> TaskCheckpoint | None:
    """Any version of any checkpoint: reads every event, but decodes only those."""
    found = [
        entry
        for task in tasks_of(store)
        for entry in store.read(task)
        if entry.hash.startswith(start) and _MARK in entry.data and digest(entry.data) == entry.hash
    ]
    if len(found) > 1:
        raise NotFoundError(
            f"{len(found)} checkpoints have a hash that begins with {start}", "give more digits"
        )
    return as_checkpoint(found[0]) if found else None
