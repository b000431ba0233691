"""Facts in one SQLite file: the default store.

Owns: `SqliteStore`, its statements and its two connections. Must never: decode an entry, keep a read transaction
open between two calls, or leave a transaction open when a method returns.

One connection writes, guarded by a lock; another reads, guarded by its own, so that reading never waits for a
commit and appends never invalidate what is being read (WAL mode). What survives what: see docs/reference/store.md.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from adjourn.errors import ConflictError, IntegrityError
from adjourn.store.base import (
    EMPTY,
    MAX_ENTRY,
    NO_REFS,
    NO_SWAPS,
    PAGE_BYTES,
    PAGE_ENTRIES,
    Append,
    Appended,
    Entry,
    Head,
    Swap,
    check_append,
    check_appends,
    check_blob,
    check_digest,
    check_name,
    check_swap,
    head_moved,
    head_of,
    match_digest,
    ref_moved,
    verified_blob,
)
from adjourn.store.sqlite_file import (
    ALL_HEADS,
    PAGES,
    KnownHeads,
    LogCopier,
    connect,
    failure,
    identity,
    open_reader,
    open_writer,
    read_only,
    replaced,
)

# An event's position is the number of its stream and, in the lower bits, its seq. One statement is one transaction: the
# key refuses a second entry at a position and the EXISTS a gap or another predecessor; together, a compare-and-swap on
# the head without reading it first.
_SEQ_BITS = 40
_MAX_SEQ = (1 << _SEQ_BITS) - 1
_APPEND_FEW = "INSERT INTO event VALUES %s"
_APPEND_FEW_AFTER = (
    "INSERT INTO event SELECT * FROM (VALUES %s) WHERE EXISTS (SELECT 1 FROM event WHERE position = ? AND hash = ?)"
)
_FEW = 256
_MAX_SEEN = 1000
_STREAM = "SELECT id FROM stream WHERE name = ?"
_NEW_STREAM = "INSERT INTO stream (name) VALUES (?)"
_HEAD = "SELECT position, hash FROM event WHERE position BETWEEN ? AND ? ORDER BY position DESC LIMIT 1"
_READ = "SELECT hash, data FROM event WHERE position >= ? AND position < ? ORDER BY position"
_COUNT = "SELECT count(*) FROM event WHERE position >= ? AND position < ?"
_REF = "SELECT value FROM ref WHERE name = ?"
_REFS = "SELECT name, value FROM ref WHERE name >= ? ORDER BY name LIMIT ?"
_STREAMS = """
SELECT name, position & 1099511627775, hash FROM stream JOIN event ON position = (
    SELECT max(position) FROM event WHERE position BETWEEN id << 40 AND id << 40 | 1099511627775
) WHERE name >= ? ORDER BY name
"""
_SET_REF = "INSERT INTO ref VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_DELETE_REF = "DELETE FROM ref WHERE name = ?"
_PUT_BLOB = "INSERT INTO blob VALUES (?, ?) ON CONFLICT DO NOTHING"
_GET_BLOB = "SELECT data FROM blob WHERE hash = ?"
_BLOBS = "SELECT hash, length(data) FROM blob WHERE hash > ? AND data IS NOT NULL ORDER BY hash LIMIT 1000"
_DROP = "DELETE FROM blob WHERE hash = ? AND data IS NOT NULL"
_FORGET = "UPDATE blob SET data = NULL WHERE hash = ?"

_POLL_SECONDS = 0.02
_FETCH = 64
_CUT_ATTEMPTS = 3

_new_tuple = tuple.__new__  # makes a NamedTuple in a third of the time its own constructor takes
_new_entry = partial(_new_tuple, Entry)
_match_digest, _MAX_ENTRY = match_digest, MAX_ENTRY


class SqliteStore:
    """A store in the SQLite file `path`, made (mode 0600) if it does not exist.

    Where the file can only be read, the store opens all the same and every write raises `StoreError`.

    >>> import tempfile
    >>> from contextlib import closing
    >>> with tempfile.TemporaryDirectory() as folder, closing(SqliteStore(f"{folder}/adjourn.db")) as store:
    ...     CognitiveStore(store, "release", goal="Release version 2").create_checkpoint("begun").label
    'begun'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._changed = threading.Condition()
        self._watchers = 0
        self._closed = False
        self._durable: bool | None = None
        self._pages = self._ref_writes = 0
        self._seen: dict[str, Head] = {}
        self._bases: dict[str, int] = {}
        self._heads = KnownHeads()
        self._log = f"{self.path}-wal"
        self._copier = LogCopier(self.path, self._lock)
        self._cursor: sqlite3.Cursor | None = None
        writer = open_writer(self.path)
        if writer is None:
            self._reader = open_reader(self.path)
            return
        try:
            self._reader = connect(self.path)
            # Has it open the log now: at its first reading it might find another file's.
            self._reader.execute("PRAGMA schema_version").close()
            self._files = identity(self.path), identity(self._log)
        except sqlite3.Error as error:
            writer.close()
            raise failure(self.path, error) from error
        self._cursor = writer.cursor()

    @property
    def writable(self) -> bool:
        """False where the file can only be read."""
        return self._cursor is not None

    @property
    def place(self) -> str:
        """Where the file is, the same text for every process that opens it."""
        return f"sqlite:{os.path.realpath(self.path)}"

    def append(  # noqa: C901, PLR0912, PLR0915  # one pass, on the path of every call
        self,
        stream: str,
        entries: Sequence[Entry],
        *,
        expect: Head,
        refs: Mapping[str, str | None] = NO_REFS,
        blobs: Sequence[bytes] = (),
        durable: bool = True,
        swaps: Mapping[str, Swap] = NO_SWAPS,
    ) -> Head:
        # The hottest path of the product: one statement, and as little around it as can be. Calls are dear here, so
        # the checks are written out; whatever does not pass goes through the real ones, which say what is wrong.
        base = self._bases.get(stream)
        if base is None or refs or blobs or swaps or not 0 < len(entries) <= _FEW:
            check_append(stream, entries, refs, blobs, swaps)
            append = Append(stream, entries, expect, refs, blobs, swaps)
            return head_of(self._append_all([append], durable=durable)[0])
        seq, after = expect
        position = base + seq
        rows: list[Any] = []
        size = 0
        for digest, data in entries:
            if type(data) is not bytes or len(data) > _MAX_ENTRY or not _match_digest(digest):
                check_append(stream, entries, refs, blobs)
            position += 1
            rows += (position, digest, data)
            size += len(data)
        # INVARIANT: entries never change, so a head that this store has seen needs no second look; that its successor's
        # place is free, the key makes sure. Before an effect it is examined all the same: something else may have cut the
        # history in the file.
        if not durable and self._seen.get(stream) == expect:
            statement = _append_few(len(entries))
        elif -1 <= seq <= _MAX_SEQ - _FEW and (seq >= 0 or expect == EMPTY):
            statement = _append_few(len(entries)) if seq < 0 else _append_few_after(len(entries))
            rows += () if seq < 0 else (base + seq, after)
        else:
            raise head_moved(stream, expect, self.head(stream))
        if self._pages > PAGES:  # the copy in progress has fallen behind
            self._copier.wait()
        with self._lock:
            try:
                cursor = self._cursor
                if cursor is None or durable is not self._durable:
                    cursor = self._writing_cursor(durable=durable)
                if durable:
                    self._check_files()
                elif (stat := os.stat(self.path)) and (stat.st_dev, stat.st_ino) != self._files[0]:
                    raise replaced(self.path)
                written = cursor.execute(statement, rows).rowcount
            except OSError:
                raise replaced(self.path) from None
            except (sqlite3.IntegrityError, OverflowError, UnicodeEncodeError):
                written = 0  # a position is taken, or no stream has such a head
            except sqlite3.Error as error:
                raise failure(self.path, error) from error
            else:
                self._pages += 2 + (size >> 12)
                if self._pages > PAGES:
                    self._copy_log()
        if not written:
            raise head_moved(stream, expect, self.head(stream))
        if self._watchers:
            self._ring()
        head: Head = _new_tuple(Head, (seq + len(entries), digest))
        if len(self._seen) > _MAX_SEEN:
            self._seen.clear()
        self._seen[stream] = head
        return head

    def append_many(self, appends: Sequence[Append], *, durable: bool = True) -> list[Appended]:
        check_appends(appends)
        return self._append_all(appends, durable=durable) if appends else []

    def head(self, stream: str) -> Head:
        check_name(stream)
        base = self._base(stream)
        row = None if base is None else self._one(_HEAD, (base, base + _MAX_SEQ))
        return Head(row[0] & _MAX_SEQ, row[1]) if row else EMPTY

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        head = self.head(stream)
        end = head.seq + 1 if stop is None else min(stop, head.seq + 1)
        return self._read(stream, max(start, 0), end)

    def streams(self, prefix: str = "") -> dict[str, Head]:
        if prefix:
            check_name(prefix)
            return {name: Head(seq, digest) for name, seq, digest in self._all(_STREAMS, (prefix,), within=prefix)}
        # Who follows a store asks several times a second, and nothing was written since, most of the time.
        (version,) = self._one("PRAGMA data_version", ())
        if version != self._heads.version:
            (text,) = self._one(ALL_HEADS, ())
            self._heads = self._heads.updated(version, text or "", self.path)
        return dict(self._heads.heads)

    def ref(self, name: str) -> str | None:
        check_name(name)
        row = self._one(_REF, (name,))
        return row[0] if row else None

    def refs(self, prefix: str = "", *, start: str = "", limit: int = 0) -> dict[str, str]:
        if prefix:
            check_name(prefix)
        # The names that start with the prefix are one run, from the prefix on.
        return dict(self._all(_REFS, (max(prefix, start), limit or -1), within=prefix))

    def refs_version(self) -> object:
        """A value that changes when refs may have changed: this store wrote some, or another connection wrote anything.

        Entries that this store appends leave it as it is, so what was read of the refs needs no second reading while it stays the same.
        Raises `StoreError`.
        """
        try:
            with self._lock:
                cursor = self._cursor or self._reader
                return cursor.execute("PRAGMA data_version").fetchone(), self._ref_writes
        except sqlite3.Error as error:
            raise failure(self.path, error) from error

    def swap(self, name: str, value: str | None, *, expect: str | None, durable: bool = True) -> None:
        check_swap(name, value, expect)
        with self._transaction(durable=durable) as cursor:
            _check_ref(cursor, name, expect)
            self._ref_writes += 1
            _set_ref(cursor, name, value)

    def put_blob(self, data: bytes) -> str:
        check_blob(data)
        with self._transaction(durable=True) as cursor:
            digest = _put_blob(cursor, data)
            self._count(len(data))
        return digest

    def get_blob(self, digest: str) -> bytes | None:
        check_digest(digest)
        row = self._one(_GET_BLOB, (digest,))
        if row is None or row[0] is None:
            return None
        return verified_blob(digest, row[0], self.path)

    def forget(self, digest: str) -> None:
        check_digest(digest)
        with self._transaction(durable=True) as cursor:
            # Forgotten bytes are overwritten, not only unlinked.
            cursor.execute("PRAGMA secure_delete=ON")
            cursor.execute(_FORGET, (digest,))
            cursor.execute("PRAGMA secure_delete=OFF")
        self._empty_log()

    def blobs(self) -> Iterator[tuple[str, int]]:
        last = ""
        while page := self._all(_BLOBS, (last,)):
            yield from page
            last = page[-1][0]

    def drop(self, digests: Collection[str]) -> None:
        for digest in digests:
            check_digest(digest)
        with self._transaction(durable=True) as cursor:
            cursor.executemany(_DROP, ((digest,) for digest in digests))

    def watch(self, stream: str, after: Head, timeout: float) -> Head:
        deadline = time.monotonic() + timeout
        with self._changed:
            self._watchers += 1
        try:
            while (head := self.head(stream)) == after and (left := deadline - time.monotonic()) > 0:
                # Appends of this store ring the bell; those of other processes are seen at the next look.
                with self._changed:
                    self._changed.wait(min(left, _POLL_SECONDS))
        finally:
            with self._changed:
                self._watchers -= 1
        return head

    def close(self) -> None:
        self._copier.stop()
        with self._lock, self._read_lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._reader.close()
                if self._cursor is not None:
                    self._cursor.connection.close()
            except sqlite3.Error as error:
                raise failure(self.path, error) from error
        self._ring()

    def _append_all(self, appends: Sequence[Append], *, durable: bool) -> list[Appended]:
        """Make them in one transaction."""
        outcomes: list[Appended] = []
        bases: dict[str, int] = {}
        with self._transaction(durable=durable) as cursor:
            for append in appends:
                try:
                    outcomes.append(self._append_one(cursor, append, bases))
                except ConflictError as error:
                    outcomes.append(error)
        self._bases.update(bases)
        if len(self._bases) > _MAX_SEEN:
            self._bases.clear()
        self._ring()
        return outcomes

    def _append_one(self, cursor: sqlite3.Cursor, one: Append, bases: dict[str, int]) -> Head:
        """Make an append within a transaction. Raises `ConflictError` before anything of it is written."""
        stream, entries, expect, refs, blobs, swaps = one
        base, head = _head(cursor, stream, bases.get(stream) or self._bases.get(stream))
        if head != expect:
            raise head_moved(stream, expect, head)
        for name, swap in swaps.items():
            _check_ref(cursor, name, swap.before)
        if entries and base is None:
            base = _base_of(cursor.execute(_NEW_STREAM, (stream,)).lastrowid)
        if entries and base is not None:
            bases[stream] = base
            position = base + head.seq
            rows: list[Any] = []
            for digest, data in entries:
                position += 1
                rows += (position, digest, data)
            for first in range(0, len(rows), 3 * _FEW):
                part = rows[first : first + 3 * _FEW]
                cursor.execute(_append_few(len(part) // 3), part)
        self._ref_writes += bool(swaps or refs)
        for name, swap in swaps.items():
            _set_ref(cursor, name, swap.after)
        for name, value in refs.items():
            _set_ref(cursor, name, value)
        for data in blobs:
            _put_blob(cursor, data)
        self._count(sum(len(data) for _, data in entries) + sum(map(len, blobs)))
        return Head(head.seq + len(entries), entries[-1].hash) if entries else head

    def _base(self, stream: str) -> int | None:
        """The position of a stream's entry 0, None while it has none."""
        base = self._bases.get(stream)
        if base is None and (row := self._one(_STREAM, (stream,))):
            if len(self._bases) > _MAX_SEEN:
                self._bases.clear()
            base = self._bases[stream] = _base_of(row[0])
        return base

    def _read(self, stream: str, start: int, end: int) -> Iterator[Entry]:
        base = self._base(stream)
        while base is not None and start < end:
            page = self._page(stream, base + start, base + min(start + PAGE_ENTRIES, end))
            yield from page
            start += len(page)

    def _page(self, stream: str, start: int, stop: int) -> list[Entry]:
        """Some entries from the position `start` on, at least one, read in a transaction that ends here."""
        rows: list[tuple[str, bytes]] = []
        size = 0
        try:
            with self._read_lock:
                cursor = self._reader.execute(_READ, (start, stop))
                try:
                    while size <= PAGE_BYTES and (some := cursor.fetchmany(_FETCH)):
                        rows += some
                        size += sum([len(data) for _, data in some])
                finally:
                    cursor.close()
                # Positions are unique and in order, so none is missing where there are as many rows as positions.
                end = stop if size <= PAGE_BYTES else start + len(rows)
                found = len(rows) if end == stop else self._reader.execute(_COUNT, (start, end)).fetchone()[0]
        except sqlite3.Error as error:
            raise failure(self.path, error) from error
        if not rows or found != end - start:
            raise IntegrityError(
                f"stream {stream!r} in {self.path} lacks entries between {start & _MAX_SEQ} and {(stop - 1) & _MAX_SEQ}",
                "restore a backup or a checkpoint: something else changed the file",
            )
        return list(map(_new_entry, rows))

    def _one(self, sql: str, parameters: tuple[str | int, ...]) -> Any:
        try:
            with self._read_lock:
                return self._reader.execute(sql, parameters).fetchone()
        except sqlite3.Error as error:
            raise failure(self.path, error) from error

    def _all(self, sql: str, parameters: tuple[str | int, ...] = (), within: str = "") -> list[Any]:
        """Every row, or those from the first on whose first column starts with `within`."""
        rows = []
        try:
            with self._read_lock:
                for row in self._reader.execute(sql, parameters):
                    if not row[0].startswith(within):
                        break
                    rows.append(row)
        except sqlite3.Error as error:
            raise failure(self.path, error) from error
        return rows

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[sqlite3.Cursor]:
        """The write lock, of this process and of the file, around everything the caller does with the cursor."""
        if self._pages > PAGES:  # as above
            self._copier.wait()
        with self._lock:
            try:
                cursor = self._writing_cursor(durable=durable)
                self._check_files()
                cursor.execute("BEGIN IMMEDIATE")
                try:
                    yield cursor
                    cursor.execute("COMMIT")
                except BaseException:
                    # A disk that is full may have rolled back already.
                    if cursor.connection.in_transaction:
                        cursor.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise failure(self.path, error) from error

    def _writing_cursor(self, *, durable: bool) -> sqlite3.Cursor:
        """The cursor of the writing connection, set to make a commit durable or not."""
        cursor = self._cursor
        if cursor is None:
            raise read_only(self.path)
        if durable is not self._durable:
            # NORMAL hands each commit to the operating system, FULL waits until the disk has it, and with it every
            # earlier commit in the log.
            cursor.execute("PRAGMA synchronous=FULL" if durable else "PRAGMA synchronous=NORMAL")
            self._durable = durable
        return cursor

    def _check_files(self) -> None:
        """Refuse to write into files that nobody will open again: those that the path names must be the ones that are open, the
        database and the write-ahead log in which a commit is acknowledged.
        """
        try:
            file, log = os.stat(self.path), os.stat(self._log)
        except OSError:
            raise replaced(self.path) from None
        if ((file.st_dev, file.st_ino), (log.st_dev, log.st_ino)) != self._files:
            raise replaced(self.path)

    def _empty_log(self) -> None:
        """Copy the log and cut it to nothing, so that forgotten bytes are not found there either.

        If a reader of another process is in the way, they stay until the log is written over.
        """
        try:
            for _ in range(_CUT_ATTEMPTS):
                self._copier.wait()  # it would be in the way
                with self._lock:
                    if self._cursor is None:
                        return
                    busy, *_ = self._cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    return
        except sqlite3.Error as error:
            raise failure(self.path, error) from error

    def _count(self, size: int) -> None:
        """Estimate the pages that `size` bytes add to the log, and have it copied in time. The lock is held."""
        # the last page of the table, the one above it, and those that are begun
        self._pages += 2 + (size >> 12)
        if self._pages > PAGES:
            self._copy_log()

    def _copy_log(self) -> None:
        if self._copier.start():
            self._pages = 0

    def _ring(self) -> None:
        if not self._watchers:
            return
        with self._changed:
            self._changed.notify_all()


@cache
def _append_few(count: int) -> str:
    return _APPEND_FEW % ", ".join(["(?, ?, ?)"] * count)


@cache
def _append_few_after(count: int) -> str:
    return _APPEND_FEW_AFTER % ", ".join(["(?, ?, ?)"] * count)


def _base_of(stream: int | None) -> int:
    return (stream or 0) << _SEQ_BITS


def _head(cursor: sqlite3.Cursor, stream: str, base: int | None) -> tuple[int | None, Head]:
    """Where a stream starts, if that is not known, and where it ends, inside the writer's transaction."""
    if base is None:
        row = cursor.execute(_STREAM, (stream,)).fetchone()
        if row is None:
            return None, EMPTY
        base = _base_of(row[0])
    row = cursor.execute(_HEAD, (base, base + _MAX_SEQ)).fetchone()
    return base, Head(row[0] & _MAX_SEQ, row[1]) if row else EMPTY


def _check_ref(cursor: sqlite3.Cursor, name: str, before: str | None) -> None:
    row = cursor.execute(_REF, (name,)).fetchone()
    value = row[0] if row else None
    if value != before:
        raise ref_moved(name, before, value)


def _set_ref(cursor: sqlite3.Cursor, name: str, value: str | None) -> None:
    if value is None:
        cursor.execute(_DELETE_REF, (name,))
    else:
        cursor.execute(_SET_REF, (name, value))


def _put_blob(cursor: sqlite3.Cursor, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    cursor.execute(_PUT_BLOB, (digest, data))
    return digest
