"""Freeing what nothing needs any more: temporary files of processes that were killed, leases that ran out, caches, and documents that
no event and no name mentions; and letting folders of one task share their history once it is long.

Owns: telling what is needless. Must never: touch what an event, a name or a living session may need.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from adjourn.checkpoints.folder import AUDIT_FILE
from adjourn.errors import AdjournError, ConflictError
from adjourn.host.workspace import CHECKPOINTS, inside, locked, open_regular
from adjourn.log.event import decode, milliseconds
from adjourn.store.base import Store
from adjourn.tasks.task import tasks_of

HOUR, DAY = 3_600_000, 86_400_000
OLD_FOLD = 30 * DAY
SHARE_BYTES = 64 * 1024 * 1024
"""What the histories in the folders of checkpoints may take before those of one task are one file with several names."""
MAX_HISTORY = 1 << 40
"""Bytes of a history's file."""
_TEMPORARY = re.compile(r"\.(?:.+\.\d+\.[0-9a-f]{8}|[0-9a-f]{16}\.new)")
_PLACES = {
    "tmp": None, "memory": None, ".aex": None, CHECKPOINTS: "", ".aex/undo": "", ".code-intel": "", "output": "checkpoints",
}  # fmt: skip
"""The folders that adjourn writes into, and what there is in each folder that they have; None where those are not looked at."""
_DIGEST = re.compile(rb"[0-9a-f]{64}")
_TAIL = 4096


class Freed(NamedTuple):
    """How many of something were freed, and their bytes."""

    what: str
    number: int
    size: int


def collect(store: Store | None, root: str, now: int) -> list[Freed]:
    """Free what is needless; tells what was freed."""
    found = [_temporary_files(root), share_histories(root)]
    if store is not None:
        found += [_leases(store, now), _folds(store, now), _folder_names(store), _documents(store, now)]
    return found


# --- files


def is_temporary(name: str) -> bool:
    """Whether a file of that name is one that is being written, or was when its process was killed."""
    return _TEMPORARY.fullmatch(name) is not None


def _temporary_files(root: str) -> Freed:
    """Those of writes that were cut off an hour ago or longer."""
    sizes = [size for folder in _folders(root) for size in remove_temporaries(folder)]
    return Freed("temporary files", len(sizes), sum(sizes))


def remove_temporaries(folder: str) -> list[int]:
    """Remove those in one folder. Returns their sizes."""
    sizes: list[int] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            old = time.time() - status.st_mtime > HOUR / 1000
            if is_temporary(entry.name) and entry.is_file(follow_symlinks=False) and old:
                os.unlink(entry.path)
                sizes.append(status.st_size)
    return sizes


def _folders(root: str) -> Iterator[str]:
    for place, inner in _PLACES.items():
        with suppress(AdjournError):
            path = inside(root, place)
            yield path
            if inner is not None:
                inside_it = (os.path.join(path, name, inner).rstrip("/") for name in _names(path))
                yield from (folder for folder in inside_it if os.path.realpath(folder) == folder)


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def share_histories(root: str, limit: int = SHARE_BYTES) -> Freed:
    """Make the histories in the folders of one task one file with several names, if they take more than `limit` together.

    A shorter history is the beginning of a longer one of the same task, and a folder may hold more than it needs.
    """
    histories = list(_histories(root))
    whole = sum({(one.device, one.inode): one.size for one in histories}.values())
    if whole <= limit:
        return Freed("shared histories", 0, 0)
    count = size = 0
    longest: dict[bytes, _History] = {}
    for one in sorted(histories, key=lambda each: each.size, reverse=True):
        first = longest.setdefault(one.begin, one)
        if (one.device, one.inode) == (first.device, first.inode):
            continue
        with suppress(OSError, AdjournError):  # no links on this file system, or in use: each keeps its own
            if _goes_on(one, first) and _share(first, one):
                count, size = count + 1, size + one.size
    return Freed("shared histories", count, size)


def _share(long: _History, short: _History) -> bool:
    """Put the one file in the place of the other, unless another process has written one of the two meanwhile."""
    folder = os.path.dirname(short.path)
    beside = os.path.join(folder, f".{AUDIT_FILE}.{os.getpid()}.{os.urandom(4).hex()}")
    with locked(folder, seconds=0):
        os.link(long.path, beside, follow_symlinks=False)
        if _is_at(long, beside) and _is_at(short, short.path):
            os.rename(beside, short.path)
            return True
        os.unlink(beside)
    return False


def _is_at(one: _History, path: str) -> bool:
    status = os.lstat(path)
    return (one.device, one.inode, one.size) == (status.st_dev, status.st_ino, status.st_size)


class _History(NamedTuple):
    path: str
    device: int
    inode: int
    size: int
    begin: bytes


def _histories(root: str) -> Iterator[_History]:
    with suppress(AdjournError):
        folder = inside(root, CHECKPOINTS)
        for name in _names(folder):
            path = os.path.join(folder, name, AUDIT_FILE)
            if os.path.islink(os.path.dirname(path)):
                continue
            with suppress(AdjournError), os.fdopen(open_regular(path, MAX_HISTORY), "rb") as file:
                status = os.fstat(file.fileno())
                begin = file.readline(_TAIL * 16)
                yield _History(path, status.st_dev, status.st_ino, status.st_size, begin)


def _goes_on(short: _History, long: _History) -> bool:
    """Whether the longer one has the end of the shorter one at its place: each line names the hash of the one before it."""
    start = max(0, short.size - _TAIL)
    ends = []
    for one in (short, long):
        with os.fdopen(open_regular(one.path, MAX_HISTORY), "rb") as file:
            file.seek(start)
            ends.append(file.read(short.size - start))
    return ends[0] == ends[1] and ends[0].endswith(b"\n")


# --- the store


def _leases(store: Store, now: int) -> Freed:
    over = {
        name: end for name, end in store.refs("lease/").items() if not end.isdigit() or int(end) < now - DAY
    }
    return Freed("expired leases", *_without(store, over))


def _folds(store: Store, now: int) -> Freed:
    """Caches of tasks that are gone, or that nobody has worked on for a month: they are made anew when need be."""
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
    """Notes on folders of checkpoints that have no name any more."""
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
    """Documents that no event, no name and no document that is needed mentions. None while a session lives: it may be about to."""
    if any(end.isdigit() and int(end) > now for end in store.refs("lease/").values()):
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
    """Something that is another when a name or an event was added."""
    return store.streams(), store.refs()


def _texts(store: Store) -> Iterator[bytes]:
    for value in store.refs().values():
        yield value.encode()
    for stream in store.streams():
        for entry in store.read(stream):
            yield entry.data


def _mentioned(text: bytes) -> list[str]:
    return [found.decode() for found in _DIGEST.findall(text)]
