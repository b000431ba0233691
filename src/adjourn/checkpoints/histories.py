"""The disk space of checkpoint folders: histories of one task share a file once they are long; old temporary files are removed.

Owns: both. Must never: change a file that is being written.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from adjourn.checkpoints.folder import AUDIT_FILE, names
from adjourn.errors import AdjournError
from adjourn.host import CHECKPOINTS, locked, open_regular, resolve_inside

_CUT_OFF_AFTER_S = 3600
"""Seconds since its last change after which a temporary file counts as left by a process that was killed."""
SHARE_BYTES = 64 * 1024 * 1024
"""Bytes of all histories in a workspace from which on those of one task share a file."""
MAX_HISTORY = 1 << 40
"""Bytes of a history's file that is read at all."""
_TEMPORARY = re.compile(r"\.(?:.+\.\d+\.[0-9a-f]{8}|[0-9a-f]{16}\.new)")
_TAIL = 4096


class Freed(NamedTuple):
    """What was freed, how many, and their bytes."""

    what: str
    number: int
    size: int


def is_temporary(name: str) -> bool:
    """Whether `name` is that of a temporary file of a write."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_temporaries(folder: str) -> list[int]:
    """Remove temporary files from a folder that are older than an hour. Returns their sizes in bytes."""
    sizes: list[int] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            old = time.time() - status.st_mtime > _CUT_OFF_AFTER_S
            if is_temporary(entry.name) and entry.is_file(follow_symlinks=False) and old:
                os.unlink(entry.path)
                sizes.append(status.st_size)
    return sizes


def share_histories(root: str, limit: int = SHARE_BYTES) -> Freed:
    """Make the histories of one task one file with several hard links, if all take more than `limit` bytes.

    A shorter history is the beginning of a longer one of the same task, and a folder may have more events than it needs.
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
            if _begins(one, first) and _share(first, one):
                count, size = count + 1, size + one.size
    return Freed("shared histories", count, size)


def _share(long: _History, short: _History) -> bool:
    """Replace `short` by a hard link to `long`, unless another process has written one of the two meanwhile."""
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
        folder = resolve_inside(root, CHECKPOINTS)
        for name in names(root):
            path = os.path.join(folder, name, AUDIT_FILE)
            if os.path.islink(os.path.dirname(path)):
                continue
            with suppress(AdjournError), os.fdopen(open_regular(path, MAX_HISTORY), "rb") as file:
                status = os.fstat(file.fileno())
                begin = file.readline(_TAIL * 16)
                yield _History(path, status.st_dev, status.st_ino, status.st_size, begin)


def _begins(short: _History, long: _History) -> bool:
    """Whether `short` is the beginning of `long`: the same bytes end it, and each line has the hash of the line before."""
    start = max(0, short.size - _TAIL)
    ends = []
    for one in (short, long):
        with os.fdopen(open_regular(one.path, MAX_HISTORY), "rb") as file:
            file.seek(start)
            ends.append(file.read(short.size - start))
    return ends[0] == ends[1] and ends[0].endswith(b"\n")
