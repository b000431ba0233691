"""What a list keeps of the heads of transcripts, so that it need not open thousands of files each time: no word of them.

`$XDG_CACHE_HOME/adjourn/sessions.json`, mode 0600. A row counts while inode, size and time of its file are the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import time

import msgspec

from adjourn.errors import AdjournError
from adjourn.host import folders
from adjourn.host.workspace import write_file
from adjourn.log.canonical_json import digest
from adjourn.sessions.files import open_own
from adjourn.sessions.reader import SessionFile

NAME = "sessions.json"
VERSION = 1
MAX_BYTES = 16 * 1024 * 1024
MAX_ROWS = 20_000
PART_SECONDS = 3600
"""How old a file is that no process still writes."""


class TranscriptRow(msgspec.Struct, array_like=True):
    """One file. `id` is "" where it is no session of its own, such as a helper's; `mark` stands for the first prompt."""

    inode: int
    size: int
    nanoseconds: int
    id: str = ""
    folder: str = ""
    started: str = ""
    touched: str = ""
    mark: str = ""


class TranscriptIndex(msgspec.Struct):
    """The content of the file."""

    version: int = VERSION
    files: dict[str, TranscriptRow] = {}


_current: TranscriptIndex | None = None
_new: dict[str, TranscriptRow] = {}
"""What was read since `kept` began."""


def are_kept() -> bool:
    """Whether heads are kept now."""
    return _current is not None


def file_of(client: str, entry: os.DirEntry[str], read: Callable[[str], SessionFile | None]) -> SessionFile | None:
    """The session in a file: what is kept of it, without a title; else what `read` finds there."""
    if _current is None:
        return read(entry.path)
    status = entry.stat(follow_symlinks=False)
    version = (status.st_ino, status.st_size, status.st_mtime_ns)
    head = _current.files.get(entry.path)
    if head is None or (head.inode, head.size, head.nanoseconds) != version:
        file = read(entry.path)
        if file is not None:
            head = TranscriptRow(
                *version, file.id, file.folder, file.started, file.touched, digest(file.title.encode())[:16]
            )
            file.mark = head.mark
        _new[entry.path] = head if head is not None and file is not None else TranscriptRow(*version)
        return file
    if not head.id:
        return None
    return SessionFile(
        client=client, id=head.id, path=entry.path, folder=head.folder, started=head.started, touched=head.touched,
        stamp=status.st_mtime, size=status.st_size, mark=head.mark,
    )  # fmt: skip


@contextmanager
def kept() -> Iterator[None]:
    """Use what is kept, and keep what was read meanwhile. Nothing of it is needed: what cannot be read or written is left."""
    global _current  # noqa: PLW0603  # readers ask for a file at a time
    folder = folders.cache()
    _current = _read(folder)
    try:
        yield
        if _new:
            files = {**_current.files, **_new}
            if len(files) > MAX_ROWS:
                files = dict(list(files.items())[-MAX_ROWS:])
            with suppress(AdjournError, OSError):
                os.makedirs(folder, 0o700, exist_ok=True)
                _remove_parts(folder)
                write_file(folder, NAME, msgspec.json.encode(TranscriptIndex(files=files)), 0o600)
    finally:
        _current = None
        _new.clear()


def _remove_parts(folder: str) -> None:
    """Delete what a process that was killed left of its write; others write at this moment."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(f".{NAME}."):
                continue
            with suppress(FileNotFoundError):  # another process was faster
                if entry.stat(follow_symlinks=False).st_mtime < time() - PART_SECONDS:
                    os.unlink(entry.path)


def _read(folder: str) -> TranscriptIndex:
    with suppress(AdjournError, OSError, msgspec.MsgspecError):
        with os.fdopen(open_own(os.path.join(folder, NAME)), "rb") as file:
            data = file.read(MAX_BYTES + 1)
        found = msgspec.json.decode(data, type=TranscriptIndex)
        if found.version == VERSION:
            return found
    return TranscriptIndex()
