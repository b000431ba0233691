"""Appends that wait at the same moment go to PostgreSQL as one statement.

Owns: `AppendQueue` and the statement that appends to many streams. Must never: have a thread of its own, keep an append
waiting while nothing is being written, or let one append's outcome become another's.

At most two threads write at a time, each on a connection of its own: while the server commits one batch, it executes the
other. A thread that finds both busy lines up. The first in the line writes next: its own append, and all others that have
come meanwhile. So an append that is alone is written at once, and under load a commit is shared by many.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, LiteralString

from adjourn.errors import StoreError
from adjourn.store.base import Entry, Head
from adjourn.store.postgres_link import RETRY_SECONDS, LostConnectionError, PostgresLine, confirm

if TYPE_CHECKING:
    from adjourn.store.postgres_link import Connection

MAX_WRITERS: Final = 2
MAX_ENTRIES: Final = 512
MAX_BYTES: Final = 4 * 1024 * 1024
"""A batch takes no further append beyond so many entries or bytes. One append alone may be larger."""
MAX_NEWS: Final = 7_900
"""Bytes of a NOTIFY; the server refuses 8,000. A longer list of streams is left out: whoever listens looks then."""
PATIENCE_SECONDS: Final = 0.01
"""How long the first connection may be busy before a second is made, which takes about as long."""
ALONE_SECONDS: Final = 10.0
"""How long appends of a batch that failed as a whole are tried one by one, before the rest gets the batch's error."""
_OF_ONE_APPEND: Final = ("22", "23", "40", "54", "55P03")
"""SQLSTATE of failures for which one append of a batch may be the cause: data, keys, deadlocks, limits, locks."""

# The key refuses a second entry at a position, the subquery a gap or another predecessor. Two writers who race for a
# position meet in the unique index, where the second waits and then writes nothing. `previous` is given for the first entry
# of an append, the others follow only where that was written: nobody else can have taken their places then.
# INVARIANT: in the order of names everywhere, first streams, then refs, then blobs, so that two batches cannot deadlock.
_ENTRIES = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%b::text[], %b::bigint[], %b::text[], %b::bytea[], %b::text[])
        WITH ORDINALITY AS given (stream, seq, hash, data, previous, place)
), written AS (
    INSERT INTO adjourn_event (stream, seq, hash, data)
    SELECT stream, seq, hash, data FROM given
    WHERE previous IS NOT NULL AND (seq = 0 OR previous = (
        SELECT e.hash FROM adjourn_event AS e WHERE e.stream = given.stream AND e.seq = given.seq - 1
    ))
    ORDER BY place
    ON CONFLICT DO NOTHING
    RETURNING stream
), others AS (
    INSERT INTO adjourn_event (stream, seq, hash, data)
    SELECT stream, seq, hash, data FROM given JOIN written USING (stream) WHERE previous IS NULL ORDER BY place
)
"""
_REFS_AND_BLOBS = """
, named AS (
    INSERT INTO adjourn_ref
    SELECT name, value FROM unnest(%b::text[], %b::text[], %b::text[]) AS given (stream, name, value)
        JOIN written USING (stream)
    ORDER BY name COLLATE "C"
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
), kept AS (
    INSERT INTO adjourn_blob
    SELECT hash, data FROM unnest(%b::text[], %b::text[], %b::bytea[]) AS given (stream, hash, data)
        JOIN written USING (stream)
    ORDER BY hash COLLATE "C"
    ON CONFLICT DO NOTHING
)
"""
# Equal notifications of a transaction are sent once.
_OUTCOME = "SELECT stream, pg_notify('adjourn', %s) FROM written"
_APPEND = _ENTRIES + _OUTCOME
_APPEND_ALL = _ENTRIES + _REFS_AND_BLOBS + _OUTCOME
_FIND = """
SELECT stream FROM unnest(%b::text[], %b::bigint[], %b::text[]) AS given (stream, seq, hash)
JOIN adjourn_event USING (stream, seq, hash) GROUP BY stream HAVING count(*) = (
    SELECT count(*) FROM unnest(%b::text[]) AS name WHERE name = stream
)
"""


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class PendingAppend:
    """One append, from the call to its outcome: stored, an error, or else a conflict."""

    __slots__ = ("_bell", "blobs", "entries", "error", "expect", "leads", "refs", "size", "stored", "stream")

    def __init__(
        self,
        stream: str,
        entries: Sequence[Entry],
        expect: Head,
        refs: Mapping[str, str] = _NOTHING,
        blobs: Sequence[bytes] = (),
    ) -> None:
        self.stream, self.entries, self.expect, self.refs = stream, entries, expect, refs
        self.blobs = [(sha256(data).hexdigest(), data) for data in blobs]
        self.size = sum(map(len, blobs)) + sum(len(data) for _, data in entries) + sum(map(len, refs.values()))
        self.stored = self.leads = False
        self.error: StoreError | None = None
        self._bell = threading.Lock()
        self._bell.acquire()

    def wait(self) -> None:
        """Until its outcome is known, or it is to lead the next batch."""
        self._bell.acquire()

    def wake(self) -> None:
        self._bell.release()


class AppendQueue:
    """The appends of all threads of a store. `first` is also used for other work; `second` is made when both are needed."""

    def __init__(self, first: PostgresLine, second: PostgresLine) -> None:
        self._first, self._second = first, second
        self._lock = threading.Lock()
        self._waiting: deque[PendingAppend] = deque()
        self._writers = 0
        self._retry_at = 0.0

    def append_all(self, appends: Sequence[PendingAppend]) -> None:
        """Make appends; each knows its outcome then."""
        with self._lock:
            if appends and self._writers < MAX_WRITERS:
                self._writers += 1
                appends[0].leads = True
            self._waiting.extend(appends[1:] if appends and appends[0].leads else appends)
        for number, append in enumerate(appends):
            try:
                if not append.leads:
                    append.wait()
            except BaseException:  # an interrupt: those behind must not wait for somebody who has gone
                self._leave(appends[number:])
                raise
            if append.leads:
                try:
                    self._lead(append)
                except BaseException:
                    self._leave(appends[number + 1 :])
                    raise

    def _leave(self, appends: Sequence[PendingAppend]) -> None:
        with self._lock:
            for append in appends:
                if append in self._waiting:
                    self._waiting.remove(append)
        for append in appends:
            if append.leads:
                self._hand_over()

    def _lead(self, append: PendingAppend) -> None:
        batch = [append]
        try:
            line = self._take_line()
            try:
                batch += self._take_others(append)
                _write(line, sorted(batch, key=attrgetter("stream")))
            except StoreError as error:
                _settle(batch, error)
            finally:
                line.lock.release()
        except BaseException:
            _settle(batch, StoreError("the append was interrupted", "read the head before you try again"))
            raise
        finally:
            self._hand_over()
            for other in batch[1:]:
                other.wake()

    def _take_line(self) -> PostgresLine:
        """A connection that nobody uses, locked."""
        first, second = self._first, self._second
        if first.lock.acquire(timeout=0 if second.connection is not None else PATIENCE_SECONDS):
            return first
        if time.monotonic() >= self._retry_at:
            second.lock.acquire()
            try:
                second.connected()
            except StoreError:  # such as too many connections; the first may still do
                self._retry_at = time.monotonic() + RETRY_SECONDS
                second.lock.release()
            except BaseException:
                second.lock.release()
                raise
            else:
                return second
        first.lock.acquire()
        return first

    def _take_others(self, append: PendingAppend) -> list[PendingAppend]:
        """Those that wait, in their order. Of one stream only one: the second expects what the first has not written yet.
        And of those that set one ref: a statement changes a row once.
        """
        streams, names, entries, size = {append.stream}, set(append.refs), len(append.entries), append.size
        taken: list[PendingAppend] = []
        left: list[PendingAppend] = []
        with self._lock:
            while self._waiting and entries < MAX_ENTRIES and size < MAX_BYTES:
                other = self._waiting.popleft()
                if other.stream in streams or not names.isdisjoint(other.refs):
                    left.append(other)
                    continue
                streams.add(other.stream)
                names.update(other.refs)
                entries += len(other.entries)
                size += other.size
                taken.append(other)
            self._waiting.extendleft(reversed(left))
        return taken

    def _hand_over(self) -> None:
        with self._lock:
            if not self._waiting:
                self._writers -= 1
                return
            heir = self._waiting.popleft()
            heir.leads = True
        heir.wake()


def _settle(batch: Sequence[PendingAppend], error: StoreError) -> None:
    for append in batch:
        if not append.stored:
            append.error = error


def _write(line: PostgresLine, batch: Sequence[PendingAppend]) -> None:
    """Store what can be stored. Raises `StoreError` for those that are not stored then."""
    try:
        line.first(lambda connection: _append(connection, batch))
    except LostConnectionError:
        # As in `PostgresLine.once`, for those that are not known to be stored.
        for work in (_find, _append, _find):
            if unknown := [append for append in batch if not append.stored]:
                line.last(lambda connection, work=work, unknown=unknown: work(connection, unknown))  # type: ignore[misc]
    except StoreError as error:
        state = getattr(error.__cause__, "sqlstate", None) or ""
        if len(batch) == 1 or not state.startswith(_OF_ONE_APPEND):
            raise
        _write_each(line, batch, error)


def _write_each(line: PostgresLine, batch: Sequence[PendingAppend], error: StoreError) -> None:
    end = time.monotonic() + ALONE_SECONDS
    for append in batch:
        if time.monotonic() > end:
            append.error = error
            continue
        try:
            _write(line, [append])
        except StoreError as its:
            append.error = its


def _append(connection: Connection, batch: Sequence[PendingAppend]) -> None:
    rows = [
        (append.stream, seq, digest, data, append.expect[1] if seq == append.expect[0] + 1 else None)
        for append in batch
        for seq, (digest, data) in enumerate(append.entries, append.expect[0] + 1)
    ]
    news = "\n".join([append.stream for append in batch])
    if len(news.encode()) > MAX_NEWS:
        news = ""
    values = _columns(rows, 5)
    refs = [(append.stream, name, value) for append in batch for name, value in append.refs.items()]
    blobs = [(append.stream, digest, data) for append in batch for digest, data in append.blobs]
    statement: LiteralString = _APPEND
    if refs or blobs:
        statement = _APPEND_ALL
        values += [*_columns(refs, 3), *_columns(blobs, 3)]
    _mark(batch, connection.execute(statement, (*values, news), prepare=True).fetchall())


def _find(connection: Connection, batch: Sequence[PendingAppend]) -> None:
    """One transaction wrote all entries of an append, so all of them are in their places, or it was not made."""
    rows = [
        (append.stream, seq, digest)
        for append in batch
        for seq, (digest, _) in enumerate(append.entries, append.expect[0] + 1)
    ]
    streams, seqs, hashes = _columns(rows, 3)
    if fetchall := connection.execute(_FIND, (streams, seqs, hashes, streams)).fetchall():
        confirm(connection)
        _mark(batch, fetchall)


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _mark(batch: Sequence[PendingAppend], rows: Sequence[tuple[str, ...]]) -> None:
    names = {row[0] for row in rows}
    for append in batch:
        append.stored = append.stored or append.stream in names
