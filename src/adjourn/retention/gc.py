"""Garbage collection: temporary files of killed processes, expired leases, old caches, and documents that no event and no name
mentions. Folders of one task share their history once it is long.

Owns: deciding what is garbage. Must never: delete what an event, a name or a live session may need.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from adjourn.checkpoints import Freed, histories
from adjourn.errors import AdjournError, ConflictError
from adjourn.host import CHECKPOINTS, resolve_inside
from adjourn.log import decode, milliseconds
from adjourn.retention.pruning import DAY
from adjourn.store import Store
from adjourn.tasks import REPLICA, WANTED, lease_end, tasks_of, time_of

OLD_FOLD = 30 * DAY
_PLACES = {
    "tmp": None, "memory": None, ".aex": None, CHECKPOINTS: "", ".aex/undo": "", ".code-intel": "", "output": "checkpoints",
}  # fmt: skip
"""The folders that adjourn writes into, and the folder to clean in each of their subfolders; None: in no subfolder."""
_DIGEST = re.compile(rb"[0-9a-f]{64}")


def collect(store: Store | None, root: str, now: int) -> list[Freed]:
    """Free garbage of a store (None: of files only) and of the workspace `root`. `now` is in milliseconds. Returns what was freed.

    Raises `StoreError`.
    """
    found = [_temporary_files(root), histories.share_histories(root)]
    if store is not None:
        found += [_leases(store, now), _folds(store, now), _folder_names(store), _documents(store, now)]
    return found


# --- files


def _temporary_files(root: str) -> Freed:
    """Temporary files of writes that stopped an hour ago or earlier."""
    sizes = [size for folder in _folders(root) for size in histories.remove_temporaries(folder)]
    return Freed("temporary files", len(sizes), sum(sizes))


def _folders(root: str) -> Iterator[str]:
    for place, inner in _PLACES.items():
        with suppress(AdjournError):
            path = resolve_inside(root, place)
            yield path
            if inner is not None:
                inside_it = (os.path.join(path, name, inner).rstrip("/") for name in _entries(path))
                yield from (folder for folder in inside_it if os.path.realpath(folder) == folder)


def _entries(path: str) -> list[str]:
    with suppress(OSError), os.scandir(path) as entries:
        return sorted(entry.name for entry in entries)
    return []


# --- the store


def _leases(store: Store, now: int) -> Freed:
    day_ago = time_of(store, now) - DAY
    leases = {**store.refs("lease/"), **store.refs(REPLICA), **store.refs(WANTED)}
    over = {name: lease for name, lease in leases.items() if lease_end(store, lease) < day_ago}
    return Freed("expired leases", *_without(store, over))


def _folds(store: Store, now: int) -> Freed:
    """Caches of tasks that do not exist, or had no event for a month. They are recreated when needed."""
    tasks = tasks_of(store)
    old = {}
    for name, value in store.refs("fold/").items():
        head = tasks.get(name.removeprefix("fold/"))
        if head is None:
            old[name] = value
            continue
        last = next(iter(store.read(name.removeprefix("fold/"), head.seq)), None)
        with suppress(AdjournError):
            if last is not None and milliseconds(decode(last.data).timestamp) < now - OLD_FOLD:
                old[name] = value
    return Freed("old caches", *_without(store, old))


def _folder_names(store: Store) -> Freed:
    """Digests of checkpoint.json whose checkpoint no longer has a name."""
    there = store.refs("checkpoint/")
    loose = {
        name: value
        for name, value in store.refs("folder/").items()
        if f"checkpoint/{name.removeprefix('folder/')}" not in there
    }
    return Freed("notes on folders", *_without(store, loose))


def _without(store: Store, refs: dict[str, str]) -> tuple[int, int]:
    count = size = 0
    for name, value in refs.items():
        with suppress(ConflictError):  # in use again
            store.swap(name, None, expect=value, durable=False)
            count, size = count + 1, size + len(name) + len(value)
    return count, size


def _documents(store: Store, now: int) -> Freed:
    """Documents that no event, name or needed document mentions. None while a session is open: it may mention one soon."""
    now_there = time_of(store, now)
    if any(lease_end(store, lease) > now_there for lease in store.refs("lease/").values()):
        return Freed("documents (not looked at: a session is open)", 0, 0)
    before = _ends(store)
    sizes = dict(store.blobs())
    needed: set[str] = set()
    waiting = [digest for text in _texts(store) for digest in _mentioned(text)]
    while waiting:
        digest = waiting.pop()
        if digest in sizes and digest not in needed:
            needed.add(digest)
            waiting += _mentioned(store.get_blob(digest) or b"")
    loose = [digest for digest in sizes if digest not in needed]
    if _ends(store) != before:
        return Freed("documents (not looked at: another process writes)", 0, 0)
    store.drop(loose)
    return Freed("documents", len(loose), sum(sizes[digest] for digest in loose))


def _ends(store: Store) -> tuple[object, object]:
    """A value that changes when a name or an event is added."""
    return store.streams(), store.refs()


def _texts(store: Store) -> Iterator[bytes]:
    for value in store.refs().values():
        yield value.encode()
    for stream in store.streams():
        for entry in store.read(stream):
            yield entry.data


def _mentioned(text: bytes) -> list[str]:
    return [found.decode() for found in _DIGEST.findall(text)]
