"""Reading a client's SQLite file: never written, no view run, for a bounded time. Where it has a write-ahead log, a copy is read."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from adjourn.errors import InvalidError
from adjourn.sessions import files

MAX_COPIED = 1024 * 1024 * 1024
MAX_SECONDS = 10.0


@contextmanager
def opened(path: str, tables: Sequence[str], client: str) -> Iterator[sqlite3.Connection]:
    """A connection that only reads a client's file with these tables. Raises `InvalidError`, `NotFoundError`."""
    os.close(files.open_own(path))
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
        if size > files.MAX_DOCUMENT:
            break
        kept.append(row)
    return kept


def _copy(path: str, target: str, client: str) -> None:
    with os.fdopen(files.open_own(path), "rb") as source, open(target, "xb") as copy:
        if os.fstat(source.fileno()).st_size > MAX_COPIED:
            raise InvalidError(f"{path} has more than {MAX_COPIED} bytes", f"close {client}, and try again")
        shutil.copyfileobj(source, copy, 1024 * 1024)


def _check(database: sqlite3.Connection, path: str, tables: Sequence[str], client: str) -> None:
    """All must be tables, not views, which could run anything."""
    for table in tables:
        row = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        if row is None or row[0] != "table":
            raise InvalidError(f"{path} has no table {table}", f"update adjourn, or continue in {client} itself")
