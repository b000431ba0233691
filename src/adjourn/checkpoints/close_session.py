"""Ending a sitting so that a folder carried elsewhere has all there is: the last event of a task is a checkpoint.

Were anything written after it, the task could not be carried back: the other machine's history would begin one event
earlier than this one's ends. So a session is closed first, and its last checkpoint made then: the one that it made just
before at somebody's wish is made again, otherwise one under the task's own name.

Owns: that order, the name of last checkpoints. Must never: keep a process from ending.
"""

from __future__ import annotations

from collections.abc import Callable

from adjourn.checkpoints import checkpoint
from adjourn.checkpoints.page_files import is_automatic
from adjourn.checkpoints.save import make
from adjourn.host import MAX_NAME
from adjourn.knowledge.records import record_of
from adjourn.tasks import Session, Task


def end(
    session: Session,
    reason: str,
    root: str,
    *,
    description: str = "",
    tell: Callable[[str], object] = lambda _: None,
) -> str:
    """Close a session, with a last checkpoint if calls were made or something was noted. Returns the checkpoint's folder, "" for none.

    `description` says how to go on, `tell` is told what is to be said about the page. Raises `AdjournError`; the next session
    then finds this process dead.
    """
    task = session.task
    task.flush()
    ledger = task.refresh()
    last = None
    if ledger.checkpoint_seq == ledger.seq:
        last = checkpoint.find(task.store, ledger.checkpoint)
        last = last if last.event.task == task.id and not is_automatic(last.data.trigger) else None
    sitting = ledger.sessions.get(session.id)
    session.close(reason)
    if last is not None:
        name, description = last.data.name, last.data.description
    elif task.ledger.calls_used or record_of(task.store, task.id):
        name = name_of(task.id)
    else:
        return ""
    made = make(
        task,
        root,
        name,
        budget=session.policy.budget,
        description=description,
        trigger=reason,
        by=session.actor,
        began=sitting.since if sitting else "",
    )
    for note in made.notes:
        tell(note)
    return made.folder


def keep(
    task: Task,
    trigger: str,
    root: str,
    *,
    budget: int | None,
    sitting: Session | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> checkpoint.Checkpoint:
    """Make a checkpoint under the task's own name while the work may go on: the client may be gone before it ends."""
    made = make(task, root, name_of(task.id), budget=budget, trigger=trigger, sitting=sitting)
    for note in made.notes:
        tell(note)
    return made.checkpoint


def name_of(task: str) -> str:
    """The checkpoint name for a task's end: its id, with dashes for what a name must not have."""
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in task)[:MAX_NAME]
