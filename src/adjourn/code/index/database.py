"""The index file: opened, created, and rebuilt if it is damaged or of another schema.

Owns: connections, the schema's version, transactions. Must never: hold anything that cannot be rebuilt.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from typing import Any

from adjourn.errors import RefusedError, StoreError

SCHEMA = 5
"""Incremented when the tables change, or when the same bytes would be analyzed differently; the index is then rebuilt."""
_FILE = "index.db"
_BUSY_SECONDS = 30
# Vectors are kept when all else is forgotten: they took longest, and their keys say what they are of.
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
            raise RefusedError(
                f"{self.path} is not a regular file", "remove it; adjourn does not follow links here"
            )
        try:
            return self._made(_connect(self.path))
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
        # A damaged index is deleted: all of it can be rebuilt.
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(self.path + ending)
        return self._made(_connect(self.path))

    def _made(self, connection: sqlite3.Connection) -> sqlite3.Connection:
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
        """Delete everything but the vectors and the work-tree ids, which other processes still use."""
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
    names = (
        "SELECT name FROM sqlite_master"
        " WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'vector' ORDER BY name"
    )
    for (name,) in connection.execute(names).fetchall():
        with suppress(sqlite3.OperationalError):  # the tables inside a virtual one go with it
            connection.execute(f'DROP TABLE "{name}"')


def _failure(path: str, error: sqlite3.Error) -> StoreError:
    return StoreError(
        f"the index {path} cannot be used: {error}", "if this persists, delete the file; adjourn rebuilds it"
    )
