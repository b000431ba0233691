"""Work that only the folder of a checkpoint brought: a clone has no store, or one that does not know the task.

Each folder is imported into an overlay of the store, as a resume would import it into the store. So nothing is shown that a resume
would refuse, and nothing is written.

Owns: which of these folders are examined, and the bounds of that: it runs unasked at the start of a session, in a repository that may
be hostile. Must never: write into the store, or show what an untrusted signer wrote.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from adjourn.checkpoints import TaskCheckpoint, as_checkpoint, check_signature, folder
from adjourn.clients import ClientContext
from adjourn.errors import AdjournError, RefusedError
from adjourn.handover.importing import import_named, vouched_for
from adjourn.handover.pending import (
    PendingWork,
    best_checkpoint,
    is_pending,
    mark_cut_off_calls,
    oldest_announced,
)
from adjourn.host import CHECKPOINTS, keys, open_regular
from adjourn.log import MAX_EVENT_BYTES, fingerprint
from adjourn.store import Entry, OverlayStore, Store
from adjourn.tasks import Task, check_task_id

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


def find_carried_work(context: ClientContext, names: Iterable[str]) -> PendingWork | None:
    """The pending work of the folders with these names: of several tasks, the one with the newest checkpoint. None without any."""
    found = _folders(context, names, trusted=True)
    for task_id in dict.fromkeys(one.event.task for one in found):
        with suppress(AdjournError):
            store = OverlayStore(context.store)
            for one in found:
                if one.event.task == task_id:
                    _import(store, context.options.checkpoint_root, one.data.name)
            task = Task(store, task_id, clock=context.clock, secret=context.secret)
            made = best_checkpoint(task)
            if made is not None and is_pending(task, context):
                mark_cut_off_calls(task)
                return PendingWork(task, made)
    return None


def find_untrusted_work(context: ClientContext, names: Iterable[str]) -> str:
    """The refusal of the newest of these folders whose signer is not trusted; "" without any."""
    for one in _folders(context, names, trusted=False):
        if refusal := _import(OverlayStore(context.store), context.options.checkpoint_root, one.data.name):
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


def _folders(context: ClientContext, names: Iterable[str], *, trusted: bool) -> list[TaskCheckpoint]:
    """The checkpoints of the folders to examine, the newest first: small ones that are not old, of tasks that the store does not know
    as far. `trusted`: those with a valid signature of somebody whom a person trusts; otherwise all others.

    Their last event alone says so. Whoever cannot sign as such a person cannot crowd out with other folders what one signed.
    """
    root, oldest, store = context.options.checkpoint_root, oldest_announced(context.clock()), context.store
    known = {fingerprint(key): key for key in keys.trusted().values()}
    found: dict[str, TaskCheckpoint] = {}
    deadline = time.monotonic() + LOOK_SECONDS
    for name in _newest(root, names):
        if time.monotonic() > deadline:
            break
        with suppress(AdjournError, OSError):
            made = _last_event(folder.path_of(root, name))
            event, data = made.event, made.data
            if data.name != name or event.timestamp < oldest:
                continue
            if store.head(check_task_id(event.task)).seq >= event.seq:
                continue
            if public := known.get(data.key):
                check_signature(made, public)
            if trusted == (public is not None or vouched_for(store, made) is not None):
                found[name] = made
    newest = sorted(found.values(), key=lambda one: (one.event.timestamp, one.data.name), reverse=True)
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


def _fitting(root: str, made: Iterable[TaskCheckpoint]) -> Iterator[TaskCheckpoint]:
    """Those whose folders fit together in `MAX_BYTES`."""
    room = MAX_BYTES
    for one in made:
        with suppress(AdjournError, OSError):
            size = _size(folder.path_of(root, one.data.name))
            if size <= min(room, MAX_BYTES // 2):
                room -= size
                yield one


def _size(path: str) -> int:
    """The bytes of the files in a folder; more than any bound where they are too many, or checkpoint.json is too large."""
    with os.scandir(path) as entries:
        sizes = {
            entry.name: entry.stat(follow_symlinks=False).st_size for entry in islice(entries, MAX_FILES + 1)
        }
    if len(sizes) > MAX_FILES or sizes.get(folder.JSON_FILE, 0) > MAX_JSON_BYTES:
        return MAX_BYTES + 1
    return sum(sizes.values())
