"""Ending a sitting so that a folder carried elsewhere has all there is: the last event of a task is a checkpoint.

Were anything written after it, the task could not be carried back: the other machine's history would begin one event
earlier than this one's ends. So a session is closed first and its last checkpoint made then; and where the last event
is a checkpoint already, the session just leaves, and is found gone.

Owns: that order, the name of last checkpoints. Must never: keep a process from ending.
"""

from __future__ import annotations

from adjourn.engine import checkpoint, folder
from adjourn.engine.session import Session
from adjourn.engine.workspace import MAX_NAME


def end(session: Session, reason: str, root: str) -> str:
    """Close a session, with a last checkpoint if calls were made. Returns the checkpoint's folder, "" for none.

    Raises `AdjournError`; the next session then finds this process dead.
    """
    task = session.task
    task.flush()
    ledger = task.refresh()
    if ledger.checkpoint_seq == ledger.seq:
        session.leave()
        return ""
    session.close(reason)
    if not task.ledger.calls_used:
        return ""
    made = checkpoint.create(task, name_of(task.id), trigger=reason, by=session.actor)
    return folder.write(task.store, made, root)


def name_of(task: str) -> str:
    """The checkpoint name for a task's end: its id, with dashes for what a name must not have."""
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in task)[:MAX_NAME]
