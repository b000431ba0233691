"""Finishing a task, and reopening it.

A finished task is offered to no new session. Its history, its budget and its checkpoints stay, and a session that is still on it may
call on: a finish refunds nothing, and a client that finishes its task keeps the same budget. The task is active again once somebody says
so: a person (`adjourn reopen`), or an agent that saves a checkpoint with a resumption point.

Owns: these two facts, and the last checkpoint and archived page that go with a finish. Must never: finish or reopen a task because of what
a call looks like.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from adjourn.checkpoints import page_archive
from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint, task_checkpoint_name
from adjourn.errors import AdjournError
from adjourn.log import Actor, kinds
from adjourn.tasks import SYSTEM, Ledger, NewEvent, Session, Task

MAX_NOTE = 2000
FINISHED = "finished"
"""The trigger of a finished task's checkpoint."""


class Finish(NamedTuple):
    """A finished task: its checkpoint's name and folder, notes for whoever finished it; `was` is since when it was finished before."""

    checkpoint: str
    folder: str
    notes: list[str]
    was: str = ""


def finish(
    task: Task,
    root: str,
    *,
    note: str = "",
    session: Session | None = None,
    by: Actor = SYSTEM,
    tree: str = "",
) -> Finish:
    """Finish a task: write it down, save its checkpoint, archive its pages. `note` says its outcome. `tree` is the work
    tree of the workspace `root` that has the pages.

    A task that is finished gets a new checkpoint if it was worked on since, and is no more finished than before. Raises `AdjournError`.
    """
    if session is not None:
        session.hold()
    was = task.refresh().finished
    if was and task.ledger.checkpoint_seq == task.ledger.seq:
        return Finish(task.ledger.checkpoint, "", [], was)
    author, here = (session.actor, session.id) if session is not None else (by, "")

    def build(ledger: Ledger) -> list[NewEvent]:
        if session is not None:
            session.check_held(ledger)
        return [] if ledger.finished else [NewEvent(kinds.TaskFinished(note=note[:MAX_NOTE]), author, here)]

    task.commit(build)
    name = task_checkpoint_name(task.id)
    made = save_checkpoint(
        task,
        root,
        CheckpointRequest(name, description=note, trigger=FINISHED, by=author),
        session=session,
        tree=tree,
    )
    notes = [*made.notes]
    if doubts := len(task.ledger.doubts):
        notes.append(f"{doubts} call{'s are' if doubts > 1 else ' is'} still in doubt: adjourn settle")
    return Finish(name, made.folder, notes, was)


def reopen(
    task: Task, tree: str, *, note: str = "", session: Session | None = None, by: Actor = SYSTEM
) -> bool:
    """Make a finished task active again, and its last archived page the active one. Returns whether it was finished."""
    author, here = (session.actor, session.id) if session is not None else (by, "")

    def build(ledger: Ledger) -> list[NewEvent]:
        if session is not None:
            session.check_held(ledger)
        return [NewEvent(kinds.TaskReopened(note=note[:MAX_NOTE]), author, here)] if ledger.finished else []

    if not any(isinstance(one.event.data, kinds.TaskReopened) for one in task.commit(build)):
        return False
    with suppress(AdjournError):  # without a page, the next checkpoint writes one from the history
        page_archive.restore_task(tree, task.id)
    return True
