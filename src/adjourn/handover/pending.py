"""Work that waits in a workspace: what a new session can go on with.

Work waits when a task has calls or notes and no other client's living session sits on it; of several, the one touched last. Its checkpoint is the
newest that says something, else the newest. A task that was cut off before it had any gets one now; one that was archived waits no more.

Owns: which work that is, the sentence that tells of it. Must never: resume it, or load what only a brief needs (proxies look here as they
start).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from adjourn.checkpoints import Checkpoint, find
from adjourn.clients import Desk
from adjourn.errors import AdjournError
from adjourn.log import decode
from adjourn.store import EMPTY, Store
from adjourn.tasks import Task, is_alive, lose_dead, tasks_of

MAX_TASKS = 20
"""Tasks that are looked at, newest first."""
MAX_LOOKED_UP = 1000
"""Tasks of which it is looked up when they were touched."""
RECOVERED = "recovered"


class Waiting(NamedTuple):
    """Work that can be gone on with, and the checkpoint to resume it from."""

    task: Task
    checkpoint: Checkpoint


def waiting(desk: Desk, own: str = "") -> Waiting | None:
    """The work that waits for the client of this desk: its `own` task if anything was done in it, else the last touched one.

    Who was given a task to work on (`--task`) is told of no other.
    """
    own = desk.setting.task or own
    others = [] if desk.setting.task else [name for name in _newest(desk.store) if name != own]
    for name in [own, *others] if own else others:
        with suppress(AdjournError):  # one that is broken must not hide the others
            task = Task(desk.store, name, clock=desk.clock, secret=desk.secret)
            if not _is_begun(task) or _is_put_away(task, desk.setting.root):
                continue
            if name == own or not _is_held(task, desk.group):
                made = _checkpoint(task) or _recovered(task, desk.setting.root)
                _doubt_what_the_dead_left(task)
                return Waiting(task, made)
    return None


def _is_begun(task: Task) -> bool:
    """Whether a call was made in it, or something noted or asked."""
    return bool(task.ledger.calls_used) or _record(task) != EMPTY.hash


def _record(task: Task) -> str:
    """The newest version of the record under the task's id, which notes and questions are in."""
    return task.store.head(f"record/{task.id}").hash


def _newest(store: Store) -> list[str]:
    touched = {}
    heads = tasks_of(store)
    for name in sorted(heads)[-MAX_LOOKED_UP:]:  # ids begin with the day they were made
        head = heads[name]
        with suppress(AdjournError):
            touched[name] = decode(next(iter(store.read(name, head.seq))).data).timestamp
    return sorted(touched, key=lambda name: touched[name], reverse=True)[:MAX_TASKS]


def _is_held(task: Task, group: str) -> bool:
    return any(
        holder.group != group and is_alive(task.store, task.id, holder, task.clock())
        for holder in task.ledger.sessions.values()
    )


def _is_put_away(task: Task, root: str) -> bool:
    """Whether the page of the task's last checkpoint is in an archive, none of it is in use, and no call or note was made since."""
    if task.ledger.calls_used > task.ledger.calls_at_checkpoint or not os.path.isdir(
        os.path.join(root, "output")
    ):
        return False
    from adjourn.checkpoints import page_archive, page_files  # noqa: PLC0415  # few workspaces have an archive

    last = max(_checkpoints(task), key=lambda one: one.event.seq, default=None)
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


def _checkpoint(task: Task) -> Checkpoint | None:
    return max(_checkpoints(task), key=lambda one: (bool(one.data.description), one.event.seq), default=None)


def _checkpoints(task: Task) -> list[Checkpoint]:
    mine: list[Checkpoint] = []
    for ref, value in task.store.refs("checkpoint/").items():
        if value.partition(" ")[0] == task.id:
            with suppress(AdjournError):
                mine.append(find(task.store, ref.removeprefix("checkpoint/")))
    return mine


def _doubt_what_the_dead_left(task: Task) -> None:
    """Their open effects are in doubt as soon as somebody sits down; what is told here must say so before."""
    ledger = task.ledger
    gone = {
        holder.id
        for holder in ledger.sessions.values()
        if not is_alive(task.store, task.id, holder, task.clock())
    }
    for call in ledger.open_calls.values():
        if call.effectful and call.session in gone:
            ledger.doubts[call.call] = call


def _recovered(task: Task, root: str) -> Checkpoint:
    from adjourn.checkpoints import keep  # noqa: PLC0415  # signing is rarely needed here

    lose_dead(task)
    return keep(task, RECOVERED, root, budget=task.ledger.budget)


def notice(found: Waiting, tool: str) -> str:
    """A sentence or two for an agent whose server speaks to it first. `tool` is how it knows `aex.resume`."""
    ledger, made = found.task.ledger, found.checkpoint
    doubts = f", {len(ledger.doubts)} in doubt" if ledger.doubts else ""
    return (
        f'adjourn: work waits in this workspace: checkpoint "{made.data.name}" of {made.event.timestamp}, '
        f"{ledger.calls_used} call{'s' * (ledger.calls_used != 1)} used{doubts}. To go on with it, call {tool} with "
        f'{{"name": "{made.data.name}"}} before any other tool. Asked for something else, leave it.'
    )
