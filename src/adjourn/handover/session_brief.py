"""The brief of pending work for a new session that has not asked for it: a summary, how to resume it, where the rest is.

The brief is bounded, fenced, and of a trusted signer: of any other checkpoint, the session learns the name only. A ref (`shown/TASK`)
records that a session was shown it, since an event would come after the task's last checkpoint (`checkpoints.save`). The event
`checkpoint.resumed` records that the work was resumed. Nothing is resumed here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from adjourn.checkpoints import folder
from adjourn.checkpoints.checkpoint import TaskCheckpoint, as_checkpoint, check_signature, document
from adjourn.clients.client_process import ClientProcess
from adjourn.errors import AdjournError, ConflictError, RefusedError
from adjourn.handover.importing import check_trusted, import_named, vouched_for
from adjourn.handover.pending import (
    PendingWork,
    best_checkpoint,
    find_stored_work,
    is_pending,
    mark_cut_off_calls,
    notice,
    older_work,
    oldest_announced,
)
from adjourn.handover.rendering import ROOM, to_text
from adjourn.handover.resumption import Reader, hand_over, reader_of
from adjourn.host import keys
from adjourn.host.workspace import CHECKPOINTS, open_regular
from adjourn.log import kinds
from adjourn.log.event import MAX_EVENT_BYTES, decode, timestamp
from adjourn.log.signing import fingerprint
from adjourn.store.base import Entry, Store
from adjourn.store.overlay import OverlayStore
from adjourn.tasks.task import Task, check_task_id

NOTICE_BYTES = 2 * 1024
"""Clients cut the instructions of a server."""
MAX_LATER = 500
"""Events after a checkpoint that are searched for its resume."""


class NewSession(NamedTuple):
    """The session that reads the brief: its task so far, the servers through which it can call `aex.resume`, and how many bytes it
    reads.
    """

    task: str = ""
    servers: Sequence[str] = ()
    room: int = ROOM


def brief_new_session(client: ClientProcess, session: NewSession) -> str:
    """The brief of a client's pending work, at most `session.room` bytes; "" without any. Records that it was shown."""
    work = find_pending_work(client, session.task)
    if work is None:
        return older_work(client) or untrusted_work(client)
    text = _text(work, session, client)
    _mark_shown(work)
    return text


def instructions(client: ClientProcess, work: PendingWork, tool: str) -> str:
    """What an agent receives whose server speaks first: the notice, and what fits of the hand-over, at most `NOTICE_BYTES`.

    `tool` is how the client spells `aex.resume`. Of an untrusted signer, it is the notice alone.
    """
    task, checkpoint = work
    begin = notice(work, tool)
    try:
        signer = check_trusted(task.store, checkpoint)
    except RefusedError:
        return begin
    document(task.store, checkpoint)
    handover = hand_over(task, checkpoint, _reader(client, task), signer)
    return to_text(handover, NOTICE_BYTES, [begin], f"The rest: {tool}.")


def _reader(client: ClientProcess, task: Task) -> Reader:
    options = client.options
    return reader_of(options.root, task, client.group, options.contract, options.page_tree)


# --- the text


def _text(work: PendingWork, session: NewSession, client: ClientProcess) -> str:
    task, checkpoint = work
    name = checkpoint.data.name
    begin = [
        "# Unfinished work in this workspace",
        f'Another session stopped at its checkpoint "{name}", made {checkpoint.event.timestamp}.',
        _how_to_resume(name, session, same=session.task == task.id),
    ]
    try:
        signer = check_trusted(task.store, checkpoint)
    except RefusedError:
        return "\n".join(
            [*begin, f"Nothing else is shown: it is signed by {checkpoint.data.key}, which is not trusted here."]
        )
    if _was_shown(work):
        begin.append("An earlier session was shown this, and did not resume it.")
    document(task.store, checkpoint)
    handover = hand_over(task, checkpoint, _reader(client, task), signer)
    end = f"The rest: {_the_rest(name, session, handover.page)}."
    return to_text(handover, session.room, begin, end)


def _how_to_resume(name: str, session: NewSession, *, same: bool) -> str:
    if session.servers:
        tools = " or ".join(f"mcp__{server}__aex_resume" for server in session.servers[:5])
        return (
            f'If you are asked to continue that work, call aex.resume ({tools}) with {{"name": "{name}"}} before any '
            "other tool: it keeps its spent budget and its calls in doubt. Otherwise ignore it."
        )
    if same:
        return "Your calls count in the same budget. If you are asked to continue that work, continue it; do not start over."
    return "To continue it under its budget, a person starts this client behind `adjourn proxy`."


def _the_rest(name: str, session: NewSession, page: str) -> str:
    ways = [f"`adjourn resume {name}` in a shell"]
    if session.servers:
        ways.insert(0, 'aex.resume, with the "more" of its answer for older history, and adjourn.record')
    if page:
        ways.append(f"the page {page}")
    return "; ".join(ways)


# --- whether it was shown, and resumed


def _mark_shown(work: PendingWork) -> None:
    """Record that a session was shown the brief, which it may not have read."""
    store, name = work.task.store, f"shown/{work.task.id}"
    with suppress(ConflictError):  # another session was shown it at the same time
        stamp = timestamp(work.task.clock())
        store.swap(name, f"{work.checkpoint.hash} {stamp}", expect=store.ref(name))


def _was_shown(work: PendingWork) -> bool:
    text = (work.task.store.ref(f"shown/{work.task.id}") or "").partition(" ")[0]
    return text == work.checkpoint.hash and not any(_resumed(work))


def _resumed(work: PendingWork) -> Iterator[bool]:
    """For each resume after the checkpoint, whether it was of this checkpoint."""
    after = work.checkpoint.event.seq + 1
    for entry in work.task.store.read(work.task.id, after, after + MAX_LATER):
        event = decode(entry.data)
        if event.event == kinds.CheckpointResumed.KIND:
            data = kinds.data_of(event)
            yield isinstance(data, kinds.CheckpointResumed) and data.checkpoint == work.checkpoint.hash


# --- the work that a new session learns of unasked


def find_pending_work(client: ClientProcess, own: str = "") -> PendingWork | None:
    """The pending work for a client: its `own` task if that has any, else the newest, else what only a folder brought. None when there
    is none.
    """
    work = find_stored_work(client, own)
    if work is not None or not (folders := _new_folders(client)):
        return work
    return find_carried_work(client, folders)


def untrusted_work(client: ClientProcess) -> str:
    """One line for a client without pending work, if a folder was brought whose signer is not trusted; "" without any.

    Of such a folder it has the name and the key alone: a cloned repository may be hostile.
    """
    if not (folders := _new_folders(client)):
        return ""
    return find_untrusted_work(client, folders)


def _new_folders(client: ClientProcess) -> list[str]:
    """The names in the folder of checkpoints that the store did not write; none for a client that was bound to a task."""
    if client.options.task:
        return []
    try:
        names = os.listdir(os.path.join(client.options.checkpoint_root, CHECKPOINTS))
    except OSError:
        return []
    written = client.store.refs("folder/") if names else {}
    return [name for name in names if f"folder/{name}" not in written]


# --- work that only the folder of a checkpoint brought: a clone has no store, or one that does not know the task
#
# Each folder is imported into an overlay of the store, as a resume would import it into the store. So nothing is shown that a resume
# would refuse, and nothing is written. This runs unasked at the start of a session, in a repository that may be hostile: it is bounded,
# and shows nothing that an untrusted signer wrote.

MAX_FOLDERS = 20
"""Folders that are examined whole, newest first."""
MAX_FILES = 32
"""Files in a folder that is examined."""
MAX_JSON_BYTES = 1024 * 1024
"""Bytes of a checkpoint.json that is read."""
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all folders that are examined, together; at most half of them in one folder."""
LOOK_SECONDS = 0.5
"""How long the last events of folders may be read for, to see which of them somebody signed whom a person trusts."""


def find_carried_work(client: ClientProcess, names: Iterable[str]) -> PendingWork | None:
    """The pending work of the folders with these names: of several tasks, the one with the newest checkpoint. None without any."""
    folders = _folders(client, names, trusted=True)
    for task_id in dict.fromkeys(checkpoint.event.task for checkpoint in folders):
        with suppress(AdjournError):
            store = OverlayStore(client.store)
            for checkpoint in folders:
                if checkpoint.event.task == task_id:
                    _import(store, client.options.checkpoint_root, checkpoint.data.name)
            task = Task(store, task_id, clock=client.clock, secret=client.secret)
            task_checkpoint = best_checkpoint(task)
            if task_checkpoint is not None and is_pending(task, client):
                mark_cut_off_calls(task)
                return PendingWork(task, task_checkpoint)
    return None


def find_untrusted_work(client: ClientProcess, names: Iterable[str]) -> str:
    """The refusal of the newest of these folders whose signer is not trusted; "" without any."""
    for checkpoint in _folders(client, names, trusted=False):
        if refusal := _import(OverlayStore(client.store), client.options.checkpoint_root, checkpoint.data.name):
            return f"adjourn: a checkpoint in this workspace cannot be resumed yet: {refusal}"
    return ""


def _import(store: Store, root: str, name: str) -> RefusedError | None:
    """Import a folder. Returns the refusal of its signer; any other fault hides the folder, as it does in a resume of its task."""
    try:
        import_named(store, root, name)
    except RefusedError as refusal:
        return refusal
    except AdjournError:
        pass
    return None


def _folders(client: ClientProcess, names: Iterable[str], *, trusted: bool) -> list[TaskCheckpoint]:
    """The checkpoints of the folders to examine, the newest first: small ones that are not old, of tasks that the store does not know
    as far. `trusted`: those with a valid signature of somebody whom a person trusts; otherwise all others.

    Their last event alone says so. Whoever cannot sign as such a person cannot crowd out with other folders what one signed.
    """
    root, oldest, store = client.options.checkpoint_root, oldest_announced(client.clock()), client.store
    known = {fingerprint(key): key for key in keys.trusted().values()}
    found: dict[str, TaskCheckpoint] = {}
    deadline = time.monotonic() + LOOK_SECONDS
    for name in _newest(root, names):
        if time.monotonic() > deadline:
            break
        with suppress(AdjournError, OSError):
            checkpoint = _last_event(folder.path_of(root, name))
            event, data = checkpoint.event, checkpoint.data
            if data.name != name or event.timestamp < oldest:
                continue
            if store.head(check_task_id(event.task)).seq >= event.seq:
                continue
            if public := known.get(data.key):
                check_signature(checkpoint, public)
            if trusted == (public is not None or vouched_for(store, checkpoint) is not None):
                found[name] = checkpoint
    newest = sorted(
        found.values(),
        key=lambda task_checkpoint: (task_checkpoint.event.timestamp, task_checkpoint.data.name),
        reverse=True,
    )
    return list(_fitting(root, newest[:MAX_FOLDERS]))


def _newest(root: str, names: Iterable[str]) -> list[str]:
    changed = {}
    for name in islice(names, folder.MAX_FOLDERS):
        with suppress(OSError):
            changed[name] = os.lstat(os.path.join(root, CHECKPOINTS, name)).st_mtime_ns
    return sorted(changed, key=lambda name: (changed[name], name), reverse=True)


def _last_event(path: str) -> TaskCheckpoint:
    """The event at the end of a folder's history, if it is a checkpoint. It is not verified. Raises `AdjournError`, `OSError`."""
    with os.fdopen(open_regular(os.path.join(path, folder.AUDIT_FILE), MAX_BYTES), "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - MAX_EVENT_BYTES, 0))
        line = file.read(MAX_EVENT_BYTES).removesuffix(b"\n").rpartition(b"\n")[2]
    return as_checkpoint(Entry("", line))


def _fitting(root: str, checkpoints: Iterable[TaskCheckpoint]) -> Iterator[TaskCheckpoint]:
    """Those whose folders fit together in `MAX_BYTES`."""
    room = MAX_BYTES
    for checkpoint in checkpoints:
        with suppress(AdjournError, OSError):
            size = _size(folder.path_of(root, checkpoint.data.name))
            if size <= min(room, MAX_BYTES // 2):
                room -= size
                yield checkpoint


def _size(path: str) -> int:
    """The bytes of the files in a folder; more than any bound where they are too many, or checkpoint.json is too large."""
    with os.scandir(path) as entries:
        sizes = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in islice(entries, MAX_FILES + 1)}
    if len(sizes) > MAX_FILES or sizes.get(folder.JSON_FILE, 0) > MAX_JSON_BYTES:
        return MAX_BYTES + 1
    return sum(sizes.values())
