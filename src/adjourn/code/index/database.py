"""The index file: opened, created and rebuilt when damaged, and the writing of analyses into it.

It holds nothing that cannot be rebuilt.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from typing import Any, NamedTuple

import msgspec

from adjourn.code.index.analysis import Analysis, Chunk
from adjourn.code.index.outline import RegionMarks
from adjourn.code.index.workers import ChunkWords
from adjourn.errors import RefusedError, StoreError

SCHEMA = 8
"""Incremented when the tables change, or when the same bytes would be analyzed differently; the index is then rebuilt."""
_FILE = "index.db"
_BUSY_SECONDS = 30
_TABLES = ("content", "file", "name", "symbol", "chunk")
_WORD_INDEXES = ("name_trigram", "content_words", "chunk_words")
_CACHE_KIB = 16_384
_LOG_BYTES = 8 << 20


class Database:
    """One connection that writes and one that reads, each under its lock, to `index.db` in a folder."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, _FILE)
        self._lock = threading.RLock()
        self._read_lock = threading.Lock()
        try:
            self._writer = self._opened()
            self._reader = _connect(self.path)
            self._reader.execute("PRAGMA query_only = ON")
        except sqlite3.Error as error:
            raise _failure(self.path, error) from error

    def _opened(self) -> sqlite3.Connection:
        if os.path.lexists(self.path) and not stat.S_ISREG(os.lstat(self.path).st_mode):
            raise RefusedError(f"{self.path} is not a regular file", "remove it; adjourn does not follow links here")
        try:
            return self._configured(_connect(self.path))
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
        # A damaged index is deleted: all of it can be rebuilt.
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(self.path + ending)
        return self._configured(_connect(self.path))

    def _configured(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        if _version(connection) == SCHEMA:
            return connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _version(connection) != SCHEMA:  # another process may have been first
                _drop(connection)
                script = (resources.files("adjourn.code.index") / "schema.sql").read_text("utf-8")
                for statement in script.split(";\n"):
                    if statement.strip():
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        return connection

    def all(self, statement: str, values: Sequence[Any] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        with self._read_lock:
            try:
                return self._reader.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise _failure(self.path, error) from error

    def one(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        rows = self.all(statement, values)
        return rows[0] if rows else None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """A write transaction: commits, or rolls back on an error."""
        with self._lock:
            cursor = self._writer.cursor()
            try:
                cursor.execute("BEGIN IMMEDIATE")
                try:
                    yield cursor
                    cursor.execute("COMMIT")
                except BaseException:
                    cursor.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise _failure(self.path, error) from error

    def empty(self) -> None:
        """Delete everything but the work-tree ids, which other processes still use."""
        with self.transaction() as cursor:
            cursor.execute("UPDATE tree SET synced = NULL")
            for table in _TABLES:
                cursor.execute(f"DELETE FROM {table}")  # noqa: S608  # names of our own
            for table in _WORD_INDEXES:
                cursor.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")  # noqa: S608

    def close(self) -> None:
        with self._lock, self._read_lock:
            self._writer.close()
            self._reader.close()


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    for setting in (
        "journal_mode = WAL",
        "synchronous = OFF",  # a crash of the machine may cost the index, which is made again
        f"cache_size = -{_CACHE_KIB}",
        f"journal_size_limit = {_LOG_BYTES}",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _drop(connection: sqlite3.Connection) -> None:
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    for (name,) in connection.execute(names).fetchall():
        with suppress(sqlite3.OperationalError):  # the tables inside a virtual one go with it
            connection.execute(f'DROP TABLE "{name}"')


def _failure(path: str, error: sqlite3.Error) -> StoreError:
    return StoreError(
        f"the index {path} cannot be used: {error}", "if this persists, delete the file; adjourn rebuilds it"
    )


# --- writes analyses into the index

_PARAMETERS = 500


FRESH = -1
"""Stands for a file's time: the file was written so recently that a later change could have the same time."""


def changed_ns(status: os.stat_result) -> int:
    """When a file's bytes or its inode last changed, in nanoseconds. A program can set the modification time back, but not the change time."""
    return max(status.st_mtime_ns, status.st_ctime_ns)


class FileState(NamedTuple):
    """A file at the time it was read. `mtime` in nanoseconds, or `FRESH`."""

    path: str
    mtime: int
    size: int
    hash: bytes
    language: str


def tree_id(database: Database, root: str) -> int:
    """The id of a work tree, assigned on first use."""
    row = database.one("SELECT id FROM tree WHERE root = ?", (root,))
    if row is None:
        with database.transaction() as cursor:
            cursor.execute("INSERT INTO tree (root) VALUES (?) ON CONFLICT DO NOTHING", (root,))
        row = database.one("SELECT id FROM tree WHERE root = ?", (root,))
    assert row is not None
    return int(row[0])


def stored_hashes(database: Database, hashes: Iterable[bytes]) -> set[bytes]:
    """The subset of contents that have been analyzed."""
    present: set[bytes] = set()
    for part in _parts(list(hashes)):
        marks = ", ".join("?" * len(part))
        rows = database.all(f"SELECT hash FROM content WHERE hash IN ({marks})", part)  # noqa: S608
        present.update(digest for (digest,) in rows)
    return present


def save(
    database: Database,
    tree: int,
    files: Iterable[FileState],
    analyses: dict[bytes, tuple[str, Analysis]],
    gone: Iterable[str] = (),
) -> None:
    """Save files and their analyses, and delete `gone` paths, in one transaction."""
    with database.transaction() as cursor:
        for digest, (language, analysis) in analyses.items():
            _content(cursor, digest, language, analysis)
        cursor.executemany("DELETE FROM file WHERE tree = ? AND path = ?", ((tree, path) for path in gone))
        cursor.executemany(
            "INSERT OR REPLACE INTO file SELECT ?, ?, id, ?, ? FROM content WHERE hash = ?",
            ((tree, seen.path, seen.mtime, seen.size, seen.hash) for seen in files),
        )


def _content(cursor: sqlite3.Cursor, digest: bytes, language: str, analysis: Analysis) -> None:
    cursor.execute(
        "INSERT INTO content (hash, language, engine, lines, marks, worded) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            digest,
            language,
            analysis.engine,
            analysis.lines,
            RegionMarks.of(analysis.regions).packed(),
            not analysis.chunks,
        ),
    )
    if not cursor.rowcount:
        return  # another process was first
    content = cursor.lastrowid
    cursor.execute("INSERT INTO content_words (rowid, words) VALUES (?, ?)", (content, analysis.words))
    numbers = _names(cursor, {symbol.name for symbol in analysis.symbols})
    cursor.executemany(
        "INSERT INTO symbol VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (content, i, numbers[s.name], s.kind, s.scope, s.line, s.end_line, s.name_start, s.signature)
            for i, s in enumerate(analysis.symbols)
        ),
    )
    _chunks(cursor, content, analysis.chunks)


def _names(cursor: sqlite3.Cursor, names: set[str]) -> dict[str, int]:
    """The ids of symbol names; new names are added, with trigrams for substring search."""
    numbers: dict[str, int] = {}
    for part in _parts(sorted(names)):
        marks = ", ".join("?" * len(part))
        numbers.update(cursor.execute(f"SELECT name, id FROM name WHERE name IN ({marks})", part))  # noqa: S608
    fresh = sorted(names - numbers.keys())
    first = _next_id(cursor, "name")
    numbers.update((name, first + i) for i, name in enumerate(fresh))
    cursor.executemany("INSERT INTO name VALUES (?, ?)", ((numbers[name], name) for name in fresh))
    cursor.executemany(
        "INSERT INTO name_trigram (rowid, name) VALUES (?, ?)", ((numbers[name], name) for name in fresh)
    )
    return numbers


def _chunks(cursor: sqlite3.Cursor, content: int | None, chunks: list[Chunk]) -> None:
    first = _next_id(cursor, "chunk")
    cursor.executemany(
        "INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((first + i, content, *msgspec.structs.astuple(c)) for i, c in enumerate(chunks)),
    )


def save_words(database: Database, words_of_chunks: dict[tuple[int, bytes], ChunkWords]) -> None:
    """Save the words of chunks, by the id and the hash of their content, in one transaction."""
    with database.transaction() as cursor:
        for content, words in words_of_chunks.items():
            cursor.execute("UPDATE content SET worded = 1 WHERE id = ? AND hash = ? AND worded = 0", content)
            if not cursor.rowcount:
                continue  # another process was first, or the index is being rebuilt
            numbers = cursor.execute("SELECT id FROM chunk WHERE content = ? ORDER BY id", content[:1]).fetchall()
            cursor.executemany(
                "INSERT INTO chunk_words (rowid, name, doc, text) VALUES (?, ?, ?, ?)",
                ((number, *each) for (number,), each in zip(numbers, words, strict=True)),
            )


def _next_id(cursor: sqlite3.Cursor, table: str) -> int:
    row = cursor.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()  # noqa: S608
    return int(row[0])


def _parts(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), _PARAMETERS):
        yield items[start : start + _PARAMETERS]
