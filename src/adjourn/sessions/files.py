"""Reading clients' files: through no link, only this user's, record by record in bounded memory.

Of a large file the beginning and the end are read whole. Between them only records are decoded that may be a person's words.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from adjourn.errors import InvalidError, NotFoundError
from adjourn.host.workspace import open_plain

if TYPE_CHECKING:
    import sqlite3

HEAD = 2 * 1024 * 1024
TAIL = 6 * 1024 * 1024
MAX_SCANNED = 512 * 1024 * 1024
"""Bytes of a file that are looked at; of a larger one the end of the middle is left out."""
MAX_LINE = 4 * 1024 * 1024
"""Bytes of a record that is decoded."""
MAX_SMALL = 1024 * 1024
"""Bytes of a file that is read at once, such as an index of projects."""
MAX_DOCUMENT = 32 * 1024 * 1024
"""Bytes of a session that is one JSON text, and so can only be read whole."""
LONG_HEAD = 1024 * 1024
"""Bytes in which the first prompt is looked for, where it is not near the beginning."""
_EDGE = 16 * 1024
_BLANK = b"\0\r\n\t \xef\xbb\xbf"
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]{8,15}Z?")
_MAX_LISTED = 20_000

Wanted = Callable[[bytes], bool]


class Record(NamedTuple):
    """One line of a file: its value, or `edges`, the beginning and the end of a line that is too long to be decoded."""

    value: Any
    edges: bytes = b""
    is_readable: bool = True


class ReadingRange(NamedTuple):
    """How much of a large file is read, in bytes: whole at the beginning and at the end, and between them up to `most` for prompts."""

    head: int
    tail: int
    most: int


WIDE = ReadingRange(HEAD, TAIL, MAX_SCANNED)


class Scan:
    """What is read of a file: from `begin` (bytes) to `end`. What of it was not decoded.

    `is_growing`: a last line without its end is left for the next time.
    """

    def __init__(self, begin: int = 0, *, is_growing: bool = False, reach: ReadingRange | None = None) -> None:
        self.begin = self.end = begin
        self.is_growing = is_growing
        self.reach = reach or WIDE
        self.size = 0
        self.unread = 0
        self.last_is_cut = False


def home() -> str:
    """The person's home folder, as the clients find it."""
    return os.path.expanduser("~")


def root(variable: str, *below: str) -> str:
    """A client's folder: where its environment variable says, else below the home folder."""
    return os.environ.get(variable, "") or os.path.join(home(), *below)


def open_own(path: str, top: str = "") -> int:
    """A read handle on a regular file of this user; below `top` through no link. Raises `NotFoundError`, `InvalidError`."""
    try:
        handle = open_plain(path, top or os.path.dirname(path))
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist") from error
    except (OSError, ValueError) as error:
        raise InvalidError(f"cannot read {path}: {error}", "name a readable file that is not a link") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
        os.close(handle)
        raise InvalidError(f"{path} is not a regular file of yours", "continue a session of your own")
    return handle


def records(path: str, top: str, is_wanted: Wanted, scan: Scan | None = None) -> Iterator[Record]:
    """The records of a file of JSON lines. `is_wanted` chooses by its bytes a line of the middle of a large file."""
    scan = scan or Scan()
    with os.fdopen(open_own(path, top), "rb", buffering=1024 * 1024) as file:
        size = scan.size = os.fstat(file.fileno()).st_size
        end_of_head = scan.begin + scan.reach.head
        begin_of_tail = max(size - scan.reach.tail, end_of_head)
        offset = file.seek(scan.begin)
        while line := file.readline(MAX_LINE + 1):
            begin = offset
            offset += len(line)
            if len(line) > MAX_LINE and not line.endswith(b"\n"):
                last = b""
                while part := file.readline(MAX_LINE):
                    offset, last = offset + len(part), (last + part)[-_EDGE:]
                    if part.endswith(b"\n"):
                        break
                if scan.is_growing and not last.endswith(b"\n"):
                    return
                scan.unread, scan.end = scan.unread + 1, offset
                yield Record(None, line[:_EDGE] + last)
                continue
            if scan.is_growing and not line.endswith(b"\n"):
                return
            scan.end = offset
            if end_of_head < begin < begin_of_tail and not is_wanted(line):
                scan.unread += 1
                if begin_of_tail > offset > scan.begin + scan.reach.most:
                    offset = _skip(file, begin_of_tail)
                continue
            text = line.strip(_BLANK)
            if not text:
                continue
            value, is_readable = decode(text)
            scan.last_is_cut = not is_readable
            yield Record(value, b"" if is_readable else line[:_EDGE], is_readable)


def _skip(file: Any, to: int) -> int:
    file.seek(to)
    file.readline(MAX_LINE)
    return int(file.tell())


def decode(data: bytes) -> tuple[Any, bool]:
    """The value of a JSON text, and whether it is one. What the strict decoder refuses, such as half a surrogate pair, passes."""
    try:
        return msgspec.json.decode(data), True
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    if b"\\u" in data or b"NaN" in data or b"Infinity" in data:
        import json  # few records are odd, and a hook does not wait for it

        with suppress(ValueError, RecursionError):
            return json.loads(data.decode(errors="replace")), True
    return None, False


class Edges(NamedTuple):
    """The beginning and the end of a file, when it was last written, in seconds, and its size."""

    head: bytes = b""
    tail: bytes = b""
    stamp: float = 0.0
    size: int = 0

    def first_records(self) -> Iterator[Any]:
        """The values of the records that lie whole in the beginning."""
        begin = 0
        while begin < len(self.head):
            end = self.head.find(b"\n", begin)
            if end < 0:
                if len(self.head) < self.size:
                    return
                end = len(self.head)
            if text := self.head[begin:end].strip(_BLANK):
                yield decode(text)[0]
            begin = end + 1

    def last(self, name: bytes = b"timestamp") -> str:
        """The last time stamp with this name in the end."""
        begin = self.tail.rfind(b'"' + name + b'":"')
        match = _STAMP.match(self.tail, begin + len(name) + 4) if begin >= 0 else None
        return match[0].decode() if match else ""


def edges(path: str, top: str, length: int = 64 * 1024) -> Edges:
    """The beginning and the end of a file of this user; empty where there is none."""
    with suppress(NotFoundError, InvalidError):
        handle = open_own(path, top)
        try:
            status = os.fstat(handle)
            head = os.pread(handle, length, 0)
            tail = head if status.st_size <= length else os.pread(handle, _EDGE, status.st_size - _EDGE)
        finally:
            os.close(handle)
        return Edges(head, tail, status.st_mtime, status.st_size)
    return Edges()


def small(path: str, top: str) -> bytes:
    """The bytes of a small file of this user; empty where there is none."""
    with suppress(NotFoundError, InvalidError):
        handle = open_own(path, top)
        with os.fdopen(handle, "rb") as file:
            return file.read(MAX_SMALL)
    return b""


def document(path: str, top: str) -> Any:
    """The value of a file that is one JSON text; None where it is none. Raises `NotFoundError`, `InvalidError`."""
    with os.fdopen(open_own(path, top), "rb") as file:
        data = file.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise InvalidError(f"{path} has more than {MAX_DOCUMENT} bytes", "continue it in its own client")
    return decode(data.strip(_BLANK))[0]


def folders(path: str) -> list[str]:
    """The names of the folders in a folder, no links; none where it cannot be read."""
    return [entry.name for entry in _entries(path) if entry.is_dir(follow_symlinks=False)]


def named(path: str, suffix: str, since: float = 0.0) -> list[os.DirEntry[str]]:
    """The regular files in a folder that end with `suffix` and were written `since` (seconds), no links."""
    return [
        entry
        for entry in _entries(path)
        if entry.name.endswith(suffix)
        and entry.is_file(follow_symlinks=False)
        and (not since or entry.stat(follow_symlinks=False).st_mtime >= since)
    ]


def _entries(path: str) -> list[os.DirEntry[str]]:
    entries: list[os.DirEntry[str]] = []
    with suppress(OSError, ValueError), os.scandir(path) as listing:
        for entry in listing:
            entries.append(entry)
            if len(entries) >= _MAX_LISTED:
                break
    return entries


# --- reading a client's SQLite file: never written, no view run, for a bounded time. Where it has a write-ahead log,
# a copy is read

MAX_COPIED = 1024 * 1024 * 1024
MAX_SECONDS = 10.0


@contextmanager
def opened(path: str, tables: Sequence[str], client: str) -> Iterator[sqlite3.Connection]:
    """A connection that only reads a client's file with these tables. Raises `InvalidError`, `NotFoundError`."""
    os.close(open_own(path))
    import sqlite3  # few people have such a client
    import tempfile

    with tempfile.TemporaryDirectory(prefix="adjourn-read-") as folder:
        copy = os.path.join(folder, "copy.db")
        if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
            for end in ("", "-wal"):
                _copy(path + end, copy + end, client)
        else:
            copy = path
        deadline = time.monotonic() + MAX_SECONDS
        mode = "mode=ro&immutable=1" if copy is path else "mode=rw"
        quoted = copy.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        try:
            with closing(sqlite3.connect(f"file:{quoted}?{mode}", uri=True)) as database:
                database.execute("PRAGMA trusted_schema = OFF")
                database.execute("PRAGMA query_only = ON")
                database.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
                _check(database, path, tables, client)
                yield database
        except sqlite3.Error as error:
            raise InvalidError(
                f"{path} cannot be read: {error}", f"update adjourn, or continue in {client} itself"
            ) from error


def bounded(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The first rows, whose texts have together at most `files.MAX_DOCUMENT` characters: as many as a session in one document may have."""
    kept, size = [], 0
    for row in rows:
        size += sum(len(text) for text in row if isinstance(text, str))
        if size > MAX_DOCUMENT:
            break
        kept.append(row)
    return kept


def _copy(path: str, target: str, client: str) -> None:
    import shutil

    with os.fdopen(open_own(path), "rb") as source, open(target, "xb") as copy:
        if os.fstat(source.fileno()).st_size > MAX_COPIED:
            raise InvalidError(f"{path} has more than {MAX_COPIED} bytes", f"close {client}, and try again")
        shutil.copyfileobj(source, copy, 1024 * 1024)


def _check(database: sqlite3.Connection, path: str, tables: Sequence[str], client: str) -> None:
    """All must be tables, not views, which could run anything."""
    for table in tables:
        row = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        if row is None or row[0] != "table":
            raise InvalidError(f"{path} has no table {table}", f"update adjourn, or continue in {client} itself")
