"""Work that only the folder of a checkpoint brought: a clone has no store, or one that does not know the task.

Each folder is imported into an overlay of the store, as a resume would import it into the store. So nothing is shown that a resume
would refuse, and nothing is written.

Owns: which of these folders are examined, and the bounds of that: it runs unasked at the start of a session, in a repository that may
be hostile. Must never: write into the store, or show what an untrusted signer wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from adjourn.checkpoints import folder
from adjourn.clients import ClientContext
from adjourn.errors import AdjournError, RefusedError
from adjourn.handover.importing import import_named
from adjourn.handover.pending import (
    PendingWork,
    best_checkpoint,
    is_pending,
    mark_cut_off_calls,
    oldest_announced,
)
from adjourn.host import CHECKPOINTS
from adjourn.store import OverlayStore, Store
from adjourn.tasks import Task, check_task_id

MAX_FOLDERS = 20
"""Folders that are examined, newest first."""
MAX_FILES = 32
"""Files in a folder that is examined."""
MAX_JSON_BYTES = 1024 * 1024
"""Bytes of a checkpoint.json that is read."""
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all folders that are examined, together; at most half of them in one folder."""


class _Folder(NamedTuple):
    """What a folder says of itself, unverified."""

    made: str
    name: str
    task: str


def find_carried_work(context: ClientContext, names: Iterable[str]) -> PendingWork | None:
    """The pending work of the folders with these names: of several tasks, the one with the newest checkpoint. None without any."""
    found = list(_folders(context, names))
    for task_id in dict.fromkeys(one.task for one in found):
        with suppress(AdjournError):
            store = OverlayStore(context.store)
            for one in found:
                if one.task == task_id:
                    _import(store, context.options.root, one.name)
            task = Task(store, task_id, clock=context.clock, secret=context.secret)
            made = best_checkpoint(task)
            if made is not None and is_pending(task, context):
                mark_cut_off_calls(task)
                return PendingWork(task, made)
    return None


def find_untrusted_work(context: ClientContext, names: Iterable[str]) -> str:
    """The refusal of the newest of these folders whose signer is not trusted; "" without any."""
    for one in _folders(context, names):
        if refusal := _import(OverlayStore(context.store), context.options.root, one.name):
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


def _folders(context: ClientContext, names: Iterable[str]) -> Iterator[_Folder]:
    """The folders to examine, the newest first: small ones of tasks that the store does not know as far, and not old."""
    root, oldest, room = context.options.root, oldest_announced(context.clock()), MAX_BYTES
    found = []
    for name in _newest(root, names):
        with suppress(AdjournError, OSError):
            path = folder.path_of(root, name)
            size = _size(path)
            if size > min(room, MAX_BYTES // 2):
                continue
            file = folder.read_published(path).file
            said = file.adjourn
            if said is None or file.timestamp < oldest:
                continue
            if context.store.head(check_task_id(said.task)).seq < said.seq:
                room -= size
                found.append(_Folder(file.timestamp, name, said.task))
    return iter(sorted(found, reverse=True))


def _newest(root: str, names: Iterable[str]) -> list[str]:
    changed = {}
    for name in islice(names, folder.MAX_FOLDERS):
        with suppress(OSError):
            changed[name] = os.lstat(os.path.join(root, CHECKPOINTS, name)).st_mtime_ns
    return sorted(changed, key=lambda name: (changed[name], name), reverse=True)[:MAX_FOLDERS]


def _size(path: str) -> int:
    """The bytes of the files in a folder; more than any bound where they are too many, or checkpoint.json is too large."""
    with os.scandir(path) as entries:
        sizes = {
            entry.name: entry.stat(follow_symlinks=False).st_size for entry in islice(entries, MAX_FILES + 1)
        }
    if len(sizes) > MAX_FILES or sizes.get(folder.JSON_FILE, 0) > MAX_JSON_BYTES:
        return MAX_BYTES + 1
    return sum(sizes.values())
