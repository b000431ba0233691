"""Pending work in a workspace: the task that a new session can resume.

Work is pending when a task has calls or notes and no living session of another client holds it; of several tasks, the one with the newest
event. It is resumed from the newest checkpoint with a description, else the newest. A task that was cut off before it had any checkpoint
gets one now. Finished and archived work is not pending, nor is what nobody has touched for `OLD_DAYS`.

Owns: the choice of that work, the notice about it. Must never: resume it, or import modules that only a brief needs (a proxy calls this at
its start).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from adjourn.checkpoints.checkpoint import TaskCheckpoint, find
from adjourn.clients.client_process import ClientProcess
from adjourn.errors import AdjournError
from adjourn.log.event import decode, timestamp
from adjourn.store.base import EMPTY, Store
from adjourn.tasks.lease import expire_dead_sessions, is_alive
from adjourn.tasks.task import Task, tasks_of

MAX_TASKS = 20
"""Tasks that are examined, newest first."""
MAX_LOOKED_UP = 1000
"""Tasks whose last event is read, to sort them by its time."""
OLD_DAYS = 30
"""Days after which work that nobody has touched is no longer announced, only mentioned."""
RECOVERED = "recovered"


class PendingWork(NamedTuple):
    """A task that can be resumed, and the checkpoint to resume it from."""

    task: Task
    checkpoint: TaskCheckpoint


def find_stored_work(client: ClientProcess, own: str = "") -> PendingWork | None:
    """The pending work for a client: its `own` task if that has any, else the newest of the store. None when there is none.

    A client that was bound to a task (`--task`) is shown no other.
    """
    own = client.options.task or own
    others = [] if client.options.task else [name for name in _newest(client.store) if name != own]
    for name in [own, *others] if own else others:
        with suppress(AdjournError):  # a broken task must not hide the others
            task = Task(client.store, name, clock=client.clock, secret=client.secret)
            if is_pending(task, client, is_own=name == own):
                checkpoint = best_checkpoint(task) or _recovered(task, client)
                mark_cut_off_calls(task)
                return PendingWork(task, checkpoint)
    return None


def is_pending(task: Task, client: ClientProcess, *, is_own: bool = False) -> bool:
    """Whether a new session of a client learns of a task. Of its own one also when that is old."""
    if not _has_work(task) or task.ledger.finished or _is_archived(task, client.options.page_tree):
        return False
    return is_own or not (_is_old(task) or _is_in_use(task, client.group))


def older_work(client: ClientProcess) -> str:
    """One line for a client without pending work, if there is some that nobody has touched for `OLD_DAYS`; "" without any."""
    if client.options.task:
        return ""
    for name in _newest(client.store):
        with suppress(AdjournError):
            task = Task(client.store, name, clock=client.clock, secret=client.secret)
            if _is_old(task) and _has_work(task) and not task.ledger.finished:
                return "adjourn: older work exists: a person lists it with `adjourn tasks`."
    return ""


def _is_old(task: Task) -> bool:
    return task.ledger.touched < oldest_announced(task.clock())


def oldest_announced(now: int) -> str:
    """The time of the oldest event whose task is announced. `now` is in milliseconds."""
    return timestamp(now - OLD_DAYS * 86_400_000)


def _has_work(task: Task) -> bool:
    """Whether the task has a call, a note or a question."""
    return bool(task.ledger.calls_used) or _record(task) != EMPTY.hash


def _record(task: Task) -> str:
    """The hash of the newest version of the task's record, which has the notes and questions."""
    return task.store.head(f"record/{task.id}").hash


def _newest(store: Store) -> list[str]:
    touched = {}
    heads = tasks_of(store)
    for name in sorted(heads)[-MAX_LOOKED_UP:]:  # ids begin with their day
        head = heads[name]
        with suppress(AdjournError):
            touched[name] = decode(next(iter(store.read(name, head.seq))).data).timestamp
    return sorted(touched, key=lambda name: touched[name], reverse=True)[:MAX_TASKS]


def _is_in_use(task: Task, group: str) -> bool:
    return any(
        holder.group != group and is_alive(task.store, task.id, holder, task.clock())
        for holder in task.ledger.sessions.values()
    )


def _is_archived(task: Task, root: str) -> bool:
    """Whether the page of the task's last checkpoint is archived, no page is in use, and no call or note was made since."""
    if task.ledger.calls_used > task.ledger.calls_at_checkpoint or not os.path.isdir(os.path.join(root, "output")):
        return False
    from adjourn.checkpoints import page_archive, page_files  # few workspaces have an archive

    last = max(_checkpoints(task), key=lambda checkpoint: checkpoint.event.seq, default=None)
    if (
        last is None
        or _record(task) not in (EMPTY.hash, last.data.record)
        or any(page.task == task.id for page in page_files.search(root, task=task.id).pages)
    ):
        return False
    for project in page_archive.projects(root):
        with suppress(AdjournError):
            if any(entry.id == last.hash for entry in page_archive.read_index(root, project)):
                return True
    return False


def best_checkpoint(task: Task) -> TaskCheckpoint | None:
    """The checkpoint to resume a task from: the newest with a description, else the newest."""
    return max(
        _checkpoints(task),
        key=lambda checkpoint: (bool(checkpoint.data.description), checkpoint.event.seq),
        default=None,
    )


def _checkpoints(task: Task) -> list[TaskCheckpoint]:
    mine: list[TaskCheckpoint] = []
    for ref, value in task.store.refs("checkpoint/").items():
        if value.partition(" ")[0] == task.id:
            with suppress(AdjournError):
                mine.append(find(task.store, ref.removeprefix("checkpoint/")))
    return mine


def mark_cut_off_calls(task: Task) -> None:
    """Count what dead sessions left as in doubt or unseen, as the next session that opens will. Changes the loaded ledger only."""
    ledger = task.ledger
    gone = {holder.id for holder in ledger.sessions.values() if not is_alive(task.store, task.id, holder, task.clock())}
    for call in ledger.open_calls.values():
        if call.effectful and call.session in gone:
            ledger.doubts[call.call] = call
    ledger.unseen |= {call.call: call for call in ledger.answered.values() if call.session in gone}


def _recovered(task: Task, client: ClientProcess) -> TaskCheckpoint:

    from adjourn.checkpoints.save import save_task_checkpoint

    expire_dead_sessions(task)
    return save_task_checkpoint(task, RECOVERED, client.options.checkpoint_root, tree=client.options.page_tree)


def notice(work: PendingWork, tool: str) -> str:
    """One or two sentences for an agent whose server speaks first. `tool` is how the client spells `aex.resume`."""
    ledger, checkpoint = work.task.ledger, work.checkpoint
    doubts = f", {len(ledger.doubts)} in doubt" if ledger.doubts else ""
    return (
        f'adjourn: unfinished work in this workspace: checkpoint "{checkpoint.data.name}" of {checkpoint.event.timestamp}, '
        f"{ledger.calls_used} call{'s' * (ledger.calls_used != 1)} used{doubts}. To continue it, call {tool} with "
        f'{{"name": "{checkpoint.data.name}"}} before any other tool. If you are asked for something else, ignore it.'
    )
