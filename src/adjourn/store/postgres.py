"""Facts in a PostgreSQL database: one store for many machines.

Owns: `PostgresStore` and its statements. Must never: decode an entry, trust that a lost connection means a lost
write, or leave a transaction open when a method returns.

One connection reads and writes in single statements or short transactions, a second joins it while many appends wait;
all that `watch` listen on one of its own. Every acknowledged write is on the server's disk, with `durable` or without: an
asynchronous commit would survive a kill of our process, but not one of the server's, which we neither run nor see.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, LiteralString, cast

from adjourn.errors import ConflictError, IntegrityError, StoreError
from adjourn.store import base, postgres_link
from adjourn.store.base import EMPTY, NO_REFS, NO_SWAPS, Append, Appended, Entry, Head, Swap
from adjourn.store.postgres_batch import AppendQueue, PendingAppend
from adjourn.store.postgres_link import LostConnectionError, PostgresLine, PostgresServer, paced

if TYPE_CHECKING:
    from adjourn.store.postgres_link import Connection


_INSERT = "INSERT INTO adjourn_event (stream, seq, hash, data) VALUES (%s, %s, %s, %s)"
_NOTIFY = "SELECT pg_notify('adjourn', %s)"
# An append of refs alone inserts nothing that could collide, so it keeps all writers out while it looks.
_LOCK_EVENTS = "LOCK TABLE adjourn_event IN SHARE ROW EXCLUSIVE MODE"
_HEAD = "SELECT seq, hash FROM adjourn_event WHERE stream = %s ORDER BY seq DESC LIMIT 1"
_HASHES = "SELECT hash FROM adjourn_event WHERE stream = %s AND seq > %s ORDER BY seq LIMIT %s"
_READ = """
SELECT hash, data, seq FROM (
    SELECT hash, data, seq, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before
    FROM adjourn_event WHERE stream = %s AND seq >= %s AND seq < %s
) AS page WHERE before <= %s ORDER BY seq
"""
# Jumps from stream to stream along the key of one table instead of walking every entry. Through the parent of partitions, each
# jump would ask all of them.
_STREAMS_OF = """(
    WITH RECURSIVE name (stream) AS (
        SELECT min(stream) FROM {table} WHERE stream >= %(prefix)s
        UNION ALL
        SELECT (SELECT min(e.stream) FROM {table} AS e WHERE e.stream > name.stream)
        FROM name WHERE starts_with(name.stream, %(prefix)s)
    )
    SELECT name.stream, head.seq, head.hash FROM name CROSS JOIN LATERAL (
        SELECT seq, hash FROM {table} AS e WHERE e.stream = name.stream ORDER BY seq DESC LIMIT 1
    ) AS head WHERE starts_with(name.stream, %(prefix)s)
)"""
_PARTITIONS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'adjourn_event'::regclass"
_REF = "SELECT value FROM adjourn_ref WHERE name = %s"
_REFS = "SELECT name, value FROM adjourn_ref WHERE name >= %s AND starts_with(name, %s) ORDER BY name LIMIT %s"
_SET_REF = "INSERT INTO adjourn_ref VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_DELETE_REF = "DELETE FROM adjourn_ref WHERE name = %s"
_ADD_REF = "INSERT INTO adjourn_ref VALUES (%s, %s) ON CONFLICT DO NOTHING"
_CHANGE_REF = "UPDATE adjourn_ref SET value = %s WHERE name = %s AND value = %s"
_DROP_REF = "DELETE FROM adjourn_ref WHERE name = %s AND value = %s"
_PUT_BLOB = "INSERT INTO adjourn_blob VALUES (%s, %s) ON CONFLICT DO NOTHING"
_GET_BLOB = "SELECT data FROM adjourn_blob WHERE hash = %s"
_BLOBS = """
SELECT hash, length(data) FROM adjourn_blob WHERE hash > %s AND data IS NOT NULL ORDER BY hash LIMIT 1000
"""
_DROP = "DELETE FROM adjourn_blob WHERE hash = ANY(%s) AND data IS NOT NULL"
_FORGET = "UPDATE adjourn_blob SET data = NULL WHERE hash = %s"

_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"

_MAX_SEQ = 2**63 - 2
DROPPED_TOGETHER = 100
"""Documents that one statement deletes: appends wait for it, and each may have many rows of TOAST."""


class PostgresStore:
    """A store in the PostgreSQL database that `url` names (libpq's URL form), its tables made if need be."""

    def __init__(self, url: str) -> None:
        self._psycopg = postgres_link.driver()
        self._url = url
        self._server = PostgresServer(url)
        self._where = self._server.where
        connection = postgres_link.connect(url)
        try:
            self.schema = postgres_link.prepare(connection, self._where)
        except BaseException:
            connection.close()
            raise
        self._line = PostgresLine(self._server, connection)
        self._second = PostgresLine(self._server)
        self._appends = AppendQueue(self._line, self._second)
        self._watch = PostgresWatch(self._server, self.head)

    @property
    def place(self) -> str:
        """Where the tables are: server, database, and what chooses the schema."""
        return postgres_link.place(self._url)

    def append(
        self,
        stream: str,
        entries: Sequence[Entry],
        *,
        expect: Head,
        refs: Mapping[str, str | None] = NO_REFS,
        blobs: Sequence[bytes] = (),
        durable: bool = True,  # noqa: ARG002  # every commit is durable here; the module says why
        swaps: Mapping[str, Swap] = NO_SWAPS,
    ) -> Head:
        return base.head_of(self.append_many([Append(stream, entries, expect, refs, blobs, swaps)])[0])

    def append_many(
        self,
        appends: Sequence[Append],
        *,
        durable: bool = True,  # noqa: ARG002
    ) -> list[Appended]:
        base.check_appends(appends)
        outcomes: list[Appended | bool] = [False] * len(appends)
        together: dict[int, PendingAppend] = {}
        for number, append in enumerate(appends):
            seq, digest = append.expect
            possible = append.expect == EMPTY or (0 <= seq < _MAX_SEQ and base.is_digest(digest))
            if possible and append.entries and not append.swaps and None not in append.refs.values():
                refs = cast("Mapping[str, str]", append.refs)
                together[number] = PendingAppend(append.stream, append.entries, append.expect, refs, append.blobs)
            elif possible:
                outcomes[number] = self._append_alone(append)
        self._appends.append_all(list(together.values()))
        for number, pending in together.items():
            outcomes[number] = pending.error or pending.stored
        return [self._outcome(append, outcome) for append, outcome in zip(appends, outcomes, strict=True)]

    def _outcome(self, one: Append, outcome: Appended | bool) -> Appended:
        if outcome is False:
            return base.head_moved(one.stream, one.expect, self.head(one.stream))
        if outcome is True:
            return Head(one.expect[0] + len(one.entries), one.entries[-1].hash) if one.entries else Head(*one.expect)
        return outcome

    def head(self, stream: str) -> Head:
        base.check_name(stream)
        rows = self._query(_HEAD, (stream,))
        return Head(*rows[0]) if rows else EMPTY

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        head = self.head(stream)
        end = head.seq + 1 if stop is None else min(stop, head.seq + 1)
        return self._read(stream, max(start, 0), end)

    def streams(self, prefix: str = "") -> dict[str, Head]:
        if prefix:
            base.check_name(prefix)
        tables = self._query(_PARTITIONS) or [("adjourn_event",)]  # once they are there, partitions stay
        parts = [_STREAMS_OF.format(table=table) for (table,) in tables]
        statement = " UNION ALL ".join(parts) + " ORDER BY stream"
        return {
            stream: Head(seq, digest) for stream, seq, digest in self._query(statement.encode(), {"prefix": prefix})
        }

    def ref(self, name: str) -> str | None:
        base.check_name(name)
        rows = self._query(_REF, (name,))
        return rows[0][0] if rows else None

    def refs(self, prefix: str = "", *, start: str = "", limit: int = 0) -> dict[str, str]:
        if prefix:
            base.check_name(prefix)

        def fetch(connection: Connection) -> list[tuple[Any, ...]]:
            # With the prefix in the statement's text, the server plans for it: a range of the key.
            with self._psycopg.ClientCursor(connection) as cursor:
                return cursor.execute(_REFS, (max(prefix, start), prefix, limit or None)).fetchall()  # type: ignore[no-any-return]

        return dict(self._line.again(fetch))

    def swap(  # every swap is as durable as it gets here
        self,
        name: str,
        value: str | None,
        *,
        expect: str | None,
        durable: bool = True,  # noqa: ARG002
    ) -> None:
        base.check_swap(name, value, expect)

        def write(connection: Connection) -> bool:
            return _swap_ref(connection, name, Swap(expect, value))

        def is_there(connection: Connection) -> bool:
            return _value(connection, name) == value

        if not self._line.once(write, is_there):
            raise base.ref_moved(name, expect, self.ref(name))

    def put_blob(self, data: bytes) -> str:
        base.check_blob(data)
        digest = hashlib.sha256(data).hexdigest()
        self._line.write(lambda connection: connection.execute(_PUT_BLOB, (digest, data)))
        return digest

    def get_blob(self, digest: str) -> bytes | None:
        base.check_digest(digest)
        rows = self._query(_GET_BLOB, (digest,))
        if not rows or rows[0][0] is None:
            return None
        return base.verified_blob(digest, rows[0][0], self._where)

    def forget(self, digest: str) -> None:
        base.check_digest(digest)
        self._line.write(lambda connection: connection.execute(_FORGET, (digest,)))

    def blobs(self) -> Iterator[tuple[str, int]]:
        last = ""
        while page := self._query(_BLOBS, (last,)):
            yield from page
            last = page[-1][0]

    def drop(self, digests: Collection[str]) -> None:
        for digest in digests:
            base.check_digest(digest)
        ordered = sorted(digests)
        for first in paced(range(0, len(ordered), DROPPED_TOGETHER)):
            some = ordered[first : first + DROPPED_TOGETHER]
            self._line.write(lambda connection, some=some: connection.execute(_DROP, (some,)))  # type: ignore[misc]

    def watch(self, stream: str, after: Head, timeout: float) -> Head:
        deadline = time.monotonic() + timeout
        head = self.head(stream)
        if head != after or timeout <= 0:
            return head
        return self._watch.wait(stream, after, deadline)

    def now(self) -> int:
        """The server's clock, in milliseconds since the epoch: the same for all who use this store."""
        return int(self._query(_NOW)[0][0])

    def close(self) -> None:
        for line in (self._line, self._second):
            line.close()
        self._watch.close()

    def _read(self, stream: str, start: int, end: int) -> Iterator[Entry]:
        while start < end:
            stop = min(start + base.PAGE_ENTRIES, end)
            rows = self._query(_READ, (stream, start, stop, base.PAGE_BYTES))
            if not rows or rows[-1][2] != start + len(rows) - 1:
                raise IntegrityError(
                    f"stream {stream!r} in {self._where} lacks entries between {start} and {stop - 1}",
                    "restore a backup or a checkpoint: something else changed the table",
                )
            start += len(rows)
            for digest, data, _ in rows:
                yield Entry(digest, data)

    def _append_alone(self, one: Append) -> bool | ConflictError | StoreError:
        """An append that swaps or deletes refs, or has no entry: a transaction of its own."""

        def is_there(connection: Connection) -> bool:
            # One transaction wrote them all, so our entries in their places stand for the refs and blobs too.
            hashes = [entry.hash for entry in one.entries]
            rows = connection.execute(_HASHES, (one.stream, one.expect[0], len(hashes))).fetchall()
            return bool(hashes) and [row[0] for row in rows] == hashes

        try:
            return self._line.once(lambda connection: self._append_in(connection, one), is_there)
        except (ConflictError, StoreError) as error:
            return error

    def _append_in(self, connection: Connection, one: Append) -> bool:
        stream, entries, expect, refs, blobs, swaps = one
        try:
            with connection.transaction(), connection.cursor() as cursor:
                if not entries:
                    cursor.execute(_LOCK_EVENTS)
                row = cursor.execute(_HEAD, (stream,)).fetchone()
                if (Head(*row) if row else EMPTY) != expect:
                    return False
                rows = [(stream, seq, *entry) for seq, entry in enumerate(entries, expect[0] + 1)]
                if rows:
                    cursor.executemany(_INSERT, rows)
                # In one order everywhere, so that two appends that touch the same rows cannot deadlock.
                for name, swap in sorted(swaps.items()):
                    if not _swap_ref(connection, name, swap):
                        raise base.ref_moved(name, swap.before, _value(connection, name))
                for name, value in sorted(refs.items()):
                    if value is None:
                        cursor.execute(_DELETE_REF, (name,))
                    else:
                        cursor.execute(_SET_REF, (name, value))
                for digest, data in sorted((hashlib.sha256(data).hexdigest(), data) for data in blobs):
                    cursor.execute(_PUT_BLOB, (digest, data))
                cursor.execute(_NOTIFY, (stream,))
        except self._psycopg.errors.UniqueViolation:
            return False  # somebody took the place between our look and our insert
        return True

    def _query(
        self, sql: LiteralString | bytes, parameters: tuple[Any, ...] | dict[str, Any] = ()
    ) -> list[tuple[Any, ...]]:
        def fetch(connection: Connection) -> list[tuple[Any, ...]]:
            with connection.cursor(binary=True) as cursor:
                return cursor.execute(sql, parameters).fetchall()

        return self._line.again(fetch)


def _value(connection: Connection, name: str) -> str | None:
    row = connection.execute(_REF, (name,)).fetchone()
    return row[0] if row else None


def _swap_ref(connection: Connection, name: str, swap: Swap) -> bool:
    """Whether the ref had the value `before`, and now has the other. A concurrent change of the row is waited for."""
    if swap.before is None:
        if swap.after is None:
            return _value(connection, name) is None
        return connection.execute(_ADD_REF, (name, swap.after)).rowcount == 1
    if swap.after is None:
        return connection.execute(_DROP_REF, (name, swap.before)).rowcount == 1
    return connection.execute(_CHANGE_REF, (swap.after, name, swap.before)).rowcount == 1


# --- waiting for appends to a PostgreSQL store

POLL_SECONDS: Final = 1.0


class PostgresWatch:
    """Those who wait for the head of a stream to change, which `head` tells."""

    def __init__(self, server: PostgresServer, head: Callable[[str], Head]) -> None:
        self._server, self._head = server, head
        self._lock = threading.Lock()
        self._bells: dict[str, set[threading.Event]] = {}
        self._connection: Connection | None = None
        self._has_reader = self._listens = self._closed = False

    def wait(self, stream: str, after: Head, deadline: float) -> Head:
        """The head, once it is not `after` or the time is over. Raises `StoreError`."""
        bell = threading.Event()
        with self._lock:
            self._bells.setdefault(stream, set()).add(bell)
        failed = False
        try:
            while (head := self._head(stream)) == after and (left := deadline - time.monotonic()) > 0:
                try:
                    self._wait(bell, min(left, POLL_SECONDS))
                    failed = False
                except LostConnectionError as lost:
                    if failed:
                        raise StoreError(
                            f"the connection to the store {self._server.where} broke twice while waiting for new events",
                            "check the server and the network, then try again",
                        ) from lost.__cause__
                    failed = True
        finally:
            self._leave(stream, bell)
        return head

    def close(self) -> None:
        """Those who still wait notice it when they look at the head."""
        with self._lock:
            self._closed = True
            reads = not self._has_reader
            self._has_reader = True
        if reads:
            self._end_reading()

    def _wait(self, bell: threading.Event, seconds: float) -> None:
        """Until the stream of `bell` is named or may have been, at most so long."""
        with self._lock:
            reads = not self._has_reader
            self._has_reader = True
        if not reads:
            bell.wait(seconds)
            bell.clear()
            return
        try:
            self._read(bell, seconds)
            bell.clear()
        finally:
            self._end_reading(bell)

    def _read(self, bell: threading.Event, seconds: float) -> None:
        end = time.monotonic() + seconds
        try:
            if self._connection is None:
                self._connection = self._server.connect()
            if not self._listens:
                self._connection.execute("LISTEN adjourn")
                self._listens = True
                self._ring("")  # look once more: what came before was not heard
            while not bell.is_set() and (left := end - time.monotonic()) > 0:
                for news in self._connection.notifies(timeout=left, stop_after=1):
                    self._ring(news.payload)
        except self._server.errors as error:
            connection, self._connection, self._listens = self._connection, None, False
            if connection is not None and connection.closed:
                raise LostConnectionError from error
            if connection is not None:
                connection.close()
            raise postgres_link.failure(self._server.where, error) from error

    def _ring(self, streams: str) -> None:
        """Wake those who wait for one of these streams; everybody if none is named."""
        with self._lock:
            named = streams.split("\n") if streams else list(self._bells)
            for stream in named:
                for bell in self._bells.get(stream, ()):
                    bell.set()

    def _leave(self, stream: str, bell: threading.Event) -> None:
        with self._lock:
            self._bells[stream].discard(bell)
            if not self._bells[stream]:
                del self._bells[stream]
            reads = not self._bells and not self._has_reader
            self._has_reader = self._has_reader or reads
        if reads:
            self._end_reading()

    def _end_reading(self, own: threading.Event | None = None) -> None:
        """Leave the connection to another one who waits. Without any, it stops to listen; of a closed store, it ends."""
        with self._lock:
            idle, closed = not self._bells, self._closed
        try:
            if self._connection is not None and (closed or (idle and self._listens)):
                self._stop_listening(self._connection, closed=closed)
        finally:
            with self._lock:
                self._has_reader = False
                others = (bell for bells in self._bells.values() for bell in bells if bell is not own)
                if heir := next(others, None):
                    heir.set()

    def _stop_listening(self, connection: Connection, *, closed: bool) -> None:
        self._listens = False
        if not closed:
            with suppress(self._server.errors):
                connection.execute("UNLISTEN *")
                return
        self._connection = None
        connection.close()
