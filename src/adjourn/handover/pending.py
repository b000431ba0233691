"""Pending work in a workspace: its open tasks, ranked, and the one that a new session can resume.

Work is pending when a task has effects, notes or a plan and no living session of another client holds it. Of several tasks, the one with
calls in doubt comes first, then the others by `RANKS`, the newest first. A task is resumed from its newest checkpoint with a description,
else the newest; one that was cut off before it had any checkpoint gets one now. Finished and archived work is not pending, nor is what only
read, nor what nobody has touched for `OLD_DAYS`. While another client works on the newest task, nothing is.

A proxy calls this at its start: it imports no module that only a brief needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from adjourn.checkpoints.checkpoint import TaskCheckpoint, find
from adjourn.errors import AdjournError, ConflictError
from adjourn.log.event import timestamp
from adjourn.policy.principal import SpaceStore
from adjourn.store.base import EMPTY, Store
from adjourn.tasks import work_index
from adjourn.tasks.entries import OpenSession
from adjourn.tasks.lease import describe_holder, expire_dead_sessions, is_alive, mark_cut_off_calls
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task
from adjourn.text.quoting import one_line
from adjourn.text.redact import without_secrets
from adjourn.text.times import ago

if TYPE_CHECKING:
    from adjourn.clients.client_process import ClientProcess
    from adjourn.handover.inbox import WaitingItem

RANKS = ("calls in doubt", "waits for a person", "a stated plan", "notes", "calls with effects")
"""What makes a task worth resuming, the most important first. The rank of a task is a position in it."""
ONLY_READ, CLOSED = len(RANKS), len(RANKS) + 1
"""The ranks of tasks that are not offered: nothing but readings was done, or nothing is left to do."""
MAX_TASKS = 20
"""Tasks that are examined in any case, newest first, however long it takes."""
MAX_OTHERS = 5
"""Other open tasks that a hand-over lists."""
INDEX_SECONDS = 0.04
"""How long tasks are read to rank them, or to add them to the index, at one start. The others follow at later ones."""
MAX_RANKED = 200
"""Tasks of a space that are ranked."""
OLD_DAYS = 30
"""Days after which work that nobody has touched is no longer announced, only mentioned."""
RECOVERED = "recovered"


class PendingWork(msgspec.Struct, frozen=True):
    """A task that can be resumed, the checkpoint to resume it from, and a line about each other open task."""

    task: Task
    checkpoint: TaskCheckpoint
    others: Sequence[str] = ()


def find_stored_work(client: ClientProcess, own: str = "") -> PendingWork | None:
    """The pending work for a client: its `own` task if that has any, else the first of the ranking. None when there is none.

    A client that was bound to a task (`--task`) is shown no other.
    """
    bound = client.options.task
    own = bound or own
    if own:
        with suppress(AdjournError):
            task = Task(client.store, own, clock=client.clock, secret=client.secret)
            if is_pending(task, client, is_own=True):
                return PendingWork(task, _checkpoint_of(task, client), _others(client, own) if not bound else ())
    if bound:
        return None
    ranking = ranked_tasks(client.store, client.clock, client.secret)
    if _holder_of_newest(client, ranking) is not None:
        return None
    for name in _offered(ranking, client.clock()):
        with suppress(AdjournError):  # a broken task must not hide the others
            task = Task(client.store, name, clock=client.clock, secret=client.secret)
            if name != own and is_pending(task, client):
                return PendingWork(task, _checkpoint_of(task, client), _others(client, name, ranking))
    return None


def _checkpoint_of(task: Task, client: ClientProcess) -> TaskCheckpoint:
    checkpoint = best_checkpoint(task) or _recovered(task, client)
    mark_cut_off_calls(task)
    return checkpoint


def _others(client: ClientProcess, but: str, ranking: Sequence[RankedTask] | None = None) -> list[str]:
    """A line about each open task but one, the first of the ranking: the name to resume it by, what it is, and why it is open."""
    lines: list[str] = []
    ranking = ranked_tasks(client.store, client.clock, client.secret) if ranking is None else ranking
    names = [name for name in _offered(ranking, client.clock()) if name != but]
    for name in names[:MAX_OTHERS]:
        with suppress(AdjournError):
            task = Task(client.store, name, clock=client.clock, secret=client.secret)
            if is_pending(task, client):
                lines.append(open_line(task, _name_of(task) or _checkpoint_of(task, client).data.name))
    more = len(names) - MAX_OTHERS
    return [*lines, f"{more} more: a person lists them with `adjourn tasks`"] if more > 0 else lines


def _name_of(task: Task) -> str:
    """The name to resume a task by: that of its checkpoint, or the one that it gets then. "" where that would not find it again."""
    from adjourn.checkpoints.save import task_checkpoint_name

    if (checkpoint := best_checkpoint(task)) is not None:
        return checkpoint.data.name
    name = task_checkpoint_name(task.id)
    return name if name == task.id else ""


def recover(client: ClientProcess, name: str) -> bool:
    """Save a checkpoint of the pending task of that id, which has none: so it can be resumed. False where there is none to save."""
    if "/" in name or client.store.head(name) == EMPTY:
        return False
    task = Task(client.store, name, clock=client.clock, secret=client.secret)
    if not is_pending(task, client, is_own=True) or _holder(task, client.group) or best_checkpoint(task) is not None:
        return False
    _recovered(task, client)
    return True


def open_work(
    store: Store, clock: Callable[[], int], secret: bytes, tree: str, *, but: str = ""
) -> list[tuple[Task, str]]:
    """The open tasks of a workspace, ranked, each with the name to resume it by ("": it has no checkpoint yet). Writes nothing."""
    listed = []
    for name in _offered(ranked_tasks(store, clock, secret, keep=False), clock()):
        with suppress(AdjournError):
            task = Task(store, name, clock=clock, secret=secret)
            if name != but and not _is_archived(task, tree):
                checkpoint = best_checkpoint(task)
                listed.append((task, checkpoint.data.name if checkpoint is not None else ""))
    return listed


class WorkVerdict(NamedTuple):
    """What to do next in a workspace, for a script that starts agents: `resume` the checkpoint; `wait`, since an agent is at work; `settle` a
    call in doubt or `ask` a person first, by the command; or `nothing`.
    """

    verdict: Literal["resume", "nothing", "wait", "settle", "ask"]
    why: str
    task: str = ""
    checkpoint: str = ""
    command: str = ""


def verdict_of(
    store: Store, clock: Callable[[], int], secret: bytes, tree: str, waiting: Sequence[WaitingItem]
) -> WorkVerdict:
    """The verdict on a workspace in which this waits for a person. Writes nothing."""
    if (at_work := _at_work(store, clock, secret, ranked_tasks(store, clock, secret, keep=False))) is not None:
        task, holder = at_work
        client = one_line(without_secrets(holder.client or "a client"), 60)
        return WorkVerdict("wait", f"{client} is at work ({describe_holder(holder)})", task.id)
    first = next((item for item in waiting if item.kind == "in-doubt"), next(iter(waiting), None))
    if first is not None:
        why = one_line(f"{first.kind}: {first.title}", 200)
        return WorkVerdict("settle" if first.kind == "in-doubt" else "ask", why, first.task, command=first.commands[0])
    for task, checkpoint in open_work(store, clock, secret, tree):
        if checkpoint:
            why = one_line(without_secrets(task.ledger.goal or RANKS[rank_of(task)]), 200)
            return WorkVerdict("resume", why, task.id, checkpoint, f"adjourn resume {checkpoint}")
    return WorkVerdict("nothing", "no open task can be resumed")


def open_line(task: Task, name: str) -> str:
    """A line about an open task that can be resumed by the `name`; by its id where that is empty."""
    name = name or f"{task.id} (no checkpoint yet)"
    ledger, now = task.ledger, task.clock()
    client = f"{one_line(without_secrets(ledger.worker.client or 'a client'), 40)}, " if ledger.worker else ""
    goal = one_line(without_secrets(ledger.goal), 100)
    return f"{name}: {f'{goal}; ' if goal else ''}{RANKS[min(rank_of(task), ONLY_READ - 1)]}; {client}{ago(ledger.touched, now)}"


def busy_notice(client: ClientProcess) -> str:
    """One line if another client works on the newest task of the workspace; "" otherwise."""
    if client.options.task:
        return ""
    found = _holder_of_newest(client, ranked_tasks(client.store, client.clock, client.secret))
    if found is None:
        return ""
    task, holder = found
    checkpoint = best_checkpoint(task)
    named = f', checkpoint "{checkpoint.data.name}"' if checkpoint is not None else ""
    goal = one_line(without_secrets(task.ledger.goal), 100)
    return (
        f"adjourn: another agent is at work in this workspace: {one_line(without_secrets(holder.client or 'a client'), 60)} "
        f"({describe_holder(holder)}), on task {task.id}{named}{f': {goal}' if goal else ''}. Your calls begin a task of their own. "
        "Do not change what that agent works on."
    )


def _holder_of_newest(client: ClientProcess, ranking: Sequence[RankedTask]) -> tuple[Task, OpenSession] | None:
    """The task with the newest event, and who works on it, if that is another client."""
    return _at_work(client.store, client.clock, client.secret, ranking, client.group)


def _at_work(
    store: Store, clock: Callable[[], int], secret: bytes, ranking: Sequence[RankedTask], but: str = ""
) -> tuple[Task, OpenSession] | None:
    """The task with the newest event, and who works on it, if that is no client of the group `but`."""
    newest = max((entry for entry in ranking if entry.rank < CLOSED), key=lambda entry: entry.touched, default=None)
    if newest is None:
        return None
    with suppress(AdjournError):
        task = Task(store, newest.task, clock=clock, secret=secret)
        holder = _holder(task, but)
        return (task, holder) if holder is not None else None
    return None


# --- the ranking


class RankedTask(msgspec.Struct, frozen=True):
    """A task with its rank, and the time of its last event."""

    task: str
    rank: int
    touched: str


def ranked_tasks(store: Store, clock: Callable[[], int], secret: bytes, *, keep: bool = True) -> list[RankedTask]:
    """The first tasks of each space of a store, the most important first, by the index of work. Of a store of an earlier version those that
    are in it by now; with `keep`, more are added.
    """
    deadline = monotonic() + INDEX_SECONDS
    if keep and not isinstance(store, SpaceStore):  # a gateway adds those of all spaces
        any(monotonic() > deadline for _ in add_earlier_tasks(store, clock, secret))
    stamp = timestamp(clock())
    ranking: list[RankedTask] = []
    for number, place in enumerate(work_index.places(store, MAX_RANKED)):
        rank, touched = max(0, int(place.rank) - 1), place.touched
        is_uncertain = place.rank == work_index.OPEN or (place.rank == work_index.WAITS and "" < place.until <= stamp)
        if is_uncertain and (number < MAX_TASKS or monotonic() < deadline):
            with suppress(AdjournError):
                task = Task(store, place.task, clock=clock, secret=secret)
                rank, touched = rank_of(task), task.ledger.touched
                if keep and place.ref != work_index.place_of(task.ledger):
                    _remove(store, place.ref, place.value)
        ranking.append(RankedTask(place.task, rank, touched))
    ranking.sort(key=lambda entry: entry.touched, reverse=True)
    return sorted(ranking, key=lambda entry: entry.rank)


def add_earlier_tasks(store: Store, clock: Callable[[], int], secret: bytes) -> Iterator[int]:
    """Add tasks and records that an earlier version wrote to the index of work, the newest first. Yields how many are left after each `MAX_TASKS`; the
    next caller continues. Raises `StoreError`.
    """
    reached = store.ref(work_index.INDEXED)
    if reached == work_index.ALL:
        return
    if reached is None:
        for name, value in store.refs("checkpoint/").items():
            of, _, at = value.partition(" ")
            _add(store, {f"{work_index.named_refs(of)}{name.removeprefix('checkpoint/').partition('@')[0]}": at})
    streams = [name for name in store.streams() if "/" not in name or name.startswith(work_index.RECORD)]
    names = sorted((name for name in streams if reached is None or name < reached), reverse=True)
    for first in range(0, max(len(names), 1), MAX_TASKS):
        batch = names[first : first + MAX_TASKS]  # ids of tasks begin with their day
        for name in batch:
            with suppress(AdjournError):  # a broken task must not hide the others
                if "/" in name:
                    _add_earlier_record(store, name)
                else:
                    _add_earlier(store, Task(store, name, clock=clock, secret=secret))
        left = len(names) - first - len(batch)
        value = batch[-1] if left else work_index.ALL
        try:
            store.swap(work_index.INDEXED, value, expect=reached, durable=False)
        except ConflictError:  # another process adds them as well
            return
        reached = value
        yield left


def _add_earlier(store: Store, task: Task) -> None:
    refs = work_index.added(task.ledger, _notes_of(store, task.id))
    _add(store, refs)
    place = work_index.place_of(task.ledger)
    if work_index.place_of(task.refresh()) != place:  # whoever has appended meanwhile knew of no such ref
        _remove(store, place, refs[place])


def _add_earlier_record(store: Store, stream: str) -> None:
    from adjourn.knowledge.records.store import RecordTrees
    from adjourn.knowledge.records.version_log import may_wait, task_ref

    name = stream.removeprefix(work_index.RECORD)
    if (record := RecordTrees(store).get(name)) is not None:
        _add(store, task_ref(name, record) | ({work_index.waiting_ref(stream): ""} if may_wait(record) else {}))


def _notes_of(store: Store, task: str) -> str:
    """The place that the notes of a task give it; "" without notes."""
    if store.head(f"record/{task}") == EMPTY:
        return ""
    from adjourn.knowledge.records.task_record import record_of
    from adjourn.knowledge.records.version_log import place_of_notes

    record = record_of(store, task)
    return place_of_notes(record) if record is not None else ""


def _remove(store: Store, ref: str, value: str) -> None:
    """Remove a ref that still has the value that was read: a task may have come back to its place meanwhile."""
    with suppress(AdjournError):
        store.swap(ref, None, expect=value, durable=False)


def _add(store: Store, refs: Mapping[str, str]) -> None:
    for name, value in refs.items():
        with suppress(ConflictError):  # it is there already
            store.swap(name, value, expect=None, durable=False)


def listed_tasks(client: ClientProcess) -> list[str]:
    """The ids of the tasks that a brief names: the one to resume, and the others."""
    ranking = ranked_tasks(client.store, client.clock, client.secret)
    return list(islice(_offered(ranking, client.clock()), 1 + MAX_OTHERS))


def _offered(ranking: Sequence[RankedTask], now: int) -> Iterator[str]:
    oldest = oldest_announced(now)
    return (entry.task for entry in ranking if entry.rank < ONLY_READ and entry.touched >= oldest)


def rank_of(task: Task) -> int:
    """The rank of a loaded task."""
    ledger = task.ledger
    if ledger.finished or not _has_work(task):
        return CLOSED
    if ledger.doubts or _cut_off(task):
        return 0
    if _waits(task, ledger):
        return 1
    if ledger.stated_seq >= 0:
        return 2
    if _record(task) != EMPTY.hash:
        return 3
    return 4 if ledger.effects or ledger.imported or ledger.beside else ONLY_READ


def _cut_off(task: Task) -> bool:
    """Whether a dead session left a call with effects open."""
    open_calls = [call for call in task.ledger.open_calls.values() if call.effectful]
    alive = (
        {holder.id: is_alive(task.store, task.id, holder, task.clock()) for holder in task.ledger.sessions.values()}
        if open_calls
        else {}
    )
    return any(not alive.get(call.session) for call in open_calls)


def _waits(task: Task, ledger: Ledger) -> bool:
    """Whether a person was asked something that is open, or said yes to a call that was not made."""
    stamp = timestamp(task.clock())
    if any(approval.expires > stamp and not approval.refused for approval in ledger.approvals.values()):
        return True
    if _record(task) == EMPTY.hash:
        return False
    from adjourn.knowledge.records.task_record import record_of

    record = record_of(task.store, task.id) or {}
    return any(question["status"] == "open" for question in record.get("questionsForUser", ()))


def is_pending(task: Task, client: ClientProcess, *, is_own: bool = False) -> bool:
    """Whether a new session of a client learns of a task. Of its own one also when that is old."""
    if not _has_work(task) or task.ledger.finished or _is_archived(task, client.options.page_tree):
        return False
    return is_own or not (_is_old(task) or _holder(task, client.group))


def older_work(client: ClientProcess) -> str:
    """One line for a client without pending work, if there is some that nobody has touched for `OLD_DAYS`; "" without any."""
    if client.options.task:
        return ""
    oldest = oldest_announced(client.clock())
    ranking = ranked_tasks(client.store, client.clock, client.secret)
    if any(entry.rank < ONLY_READ and entry.touched < oldest for entry in ranking):
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


def _holder(task: Task, group: str) -> OpenSession | None:
    """Who works on a task, if it is another client than that of a `group`."""
    holders = (holder for holder in task.ledger.sessions.values() if holder.group != group)
    return next((holder for holder in holders if is_alive(task.store, task.id, holder, task.clock())), None)


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
    begin = work_index.named_refs(task.id)
    for ref in task.store.refs(begin):
        with suppress(AdjournError):
            checkpoint = find(task.store, ref.removeprefix(begin))
            if checkpoint.event.task == task.id:  # else the name has passed to another task
                mine.append(checkpoint)
    return mine


def _recovered(task: Task, client: ClientProcess) -> TaskCheckpoint:

    from adjourn.checkpoints.save import save_task_checkpoint

    expire_dead_sessions(task)
    return save_task_checkpoint(task, RECOVERED, client.options.checkpoint_root, tree=client.options.page_tree)


def notice(work: PendingWork, tool: str) -> str:
    """One or two sentences for an agent whose server speaks first. `tool` is how the client spells `aex.resume`."""
    ledger, checkpoint = work.task.ledger, work.checkpoint
    others = f" {len(work.others)} more open." if work.others else ""
    doubts = f", {len(ledger.doubts)} in doubt" if ledger.doubts else ""
    return (
        f'adjourn: unfinished work in this workspace: checkpoint "{checkpoint.data.name}" of {checkpoint.event.timestamp}, '
        f"{ledger.calls_used} call{'s' * (ledger.calls_used != 1)} used{doubts}. To continue it, call {tool} with "
        f'{{"name": "{checkpoint.data.name}"}} before any other tool. If you are asked for something else, ignore it.{others}'
    )
