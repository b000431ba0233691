"""Bringing a PostgreSQL store to the latest schema, and its events into partitions, while others write to it.

A schema is a short transaction. For partitions, a trigger makes each append in both tables, in its transaction. What was there
before is copied in batches, in the order of keys. Then the tables change places. Events are never changed, so that a row that is
in both is the same.

Each step is a transaction, and says in the database that it was made: whoever is killed has undone nothing, and the next one
continues. One at a time does it, the others wait.

Owns: `migrate_postgres` and its steps. Must never: keep writers waiting for as long as they are ready to wait, or give a table to
another owner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, LiteralString

from adjourn.errors import StoreError
from adjourn.store import base, postgres_link
from adjourn.store.postgres_link import paced

if TYPE_CHECKING:
    from adjourn.store.postgres_link import Connection

BATCH_SECONDS: Final = 0.25
"""How long copying a batch should take; the next one has as many rows as go into that time."""
MAX_BATCH: Final = 5_000
LOCK_TRIES: Final = 60
FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 2.0
"""Seconds that a try waits for a lock, and with it all that come later. Longer than PostgreSQL lets a vacuum be in the way."""
REST_SECONDS: Final = 1.0
"""Between two tries, and between two looks whether another process still migrates."""

# The tables belong to whom the old ones belong to, whoever migrates. Compiling a statement takes longer than a batch; PostgreSQL
# would do it, because our connections make walking a table seem expensive.
_SET_UP = """
SELECT set_config('role', pg_get_userbyid(relowner), false), set_config('jit', 'off', false)
FROM pg_class WHERE oid = 'adjourn_event'::regclass
"""
# Held by the connection, so that a kill ends it. One lock for each schema of the database.
_ONLY_ONE = "SELECT pg_try_advisory_lock(%s, 'adjourn_schema'::regclass::oid::integer)"
_LOCK_NUMBER = int.from_bytes(b"adjn", "big")

_PARTITIONS = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'adjourn_event'::regclass"
_NUMBER = "SELECT set_config('adjourn.partitions', %s, false)"
_HAS_BEGUN = "SELECT 1 FROM pg_class WHERE relname = 'adjourn_migration' AND pg_table_is_visible(oid)"
_BEFORE = "LOCK TABLE adjourn_event IN SHARE ROW EXCLUSIVE MODE"
_INSTEAD = "LOCK TABLE adjourn_event IN ACCESS EXCLUSIVE MODE"
_COPY = """
WITH batch AS MATERIALIZED (
    SELECT stream, seq, hash, data FROM adjourn_event WHERE (stream, seq) > (%s, %s) ORDER BY stream, seq LIMIT %s
), copied AS (
    INSERT INTO adjourn_event_new SELECT * FROM batch ON CONFLICT DO NOTHING
), last AS (
    SELECT stream, seq FROM batch ORDER BY stream DESC, seq DESC LIMIT 1
), noted AS (
    UPDATE adjourn_migration SET stream = last.stream, seq = last.seq FROM last
)
SELECT stream, seq, (SELECT count(*) FROM batch) FROM last
"""


def migrate_postgres(url: str, *, partitions: int = 0) -> Iterator[int]:
    """Bring the store that `url` names to the latest schema, and its events into so many partitions (0: as they are).

    Yields, now and then, the number of events copied so far. Raises `StoreError`; calling it again continues.
    """
    connection = postgres_link.connect(url)
    where = postgres_link.describe_server(url)
    try:
        current = postgres_link.prepare(connection, where) == base.LATEST["postgres"]
        if not (current and _has(connection, partitions)):
            yield from _migrate(connection, where, partitions)
    except postgres_link.driver().Error as error:
        raise postgres_link.failure(where, error) from error
    finally:
        connection.close()


def _has(connection: Connection, partitions: int) -> bool:
    """Whether nothing is to be done for so many partitions. Refuses to change their number."""
    (value,) = connection.execute(_PARTITIONS).fetchone() or (0,)
    if partitions and value and value != partitions:
        raise StoreError(
            f"the events are in {value} partitions already, which cannot become {partitions}", "leave --partitions out"
        )
    return not partitions or bool(value)


def _migrate(connection: Connection, where: str, partitions: int) -> Iterator[int]:
    connection.execute(_SET_UP)
    while connection.execute(_ONLY_ONE, (_LOCK_NUMBER,)).fetchone() != (True,):
        yield 0
        time.sleep(REST_SECONDS)

    # INVARIANT: what is there is read again under the lock.
    version = postgres_link.version_of(connection, f"the store {where}")
    if version < base.LATEST["postgres"]:

        def change() -> None:
            for script in base.scripts("postgres", version):
                connection.execute(script.encode())
            postgres_link.set_version(connection)

        _locked(connection, where, _BEFORE, change)
    if not _has(connection, partitions):
        copy, switch = (script.encode() for script in base.partition_scripts())
        if not connection.execute(_HAS_BEGUN).fetchone():
            connection.execute(_NUMBER, (str(partitions),))
            _locked(connection, where, _BEFORE, lambda: connection.execute(copy))
        yield from paced(_copied(connection))
        _locked(connection, where, _INSTEAD, lambda: connection.execute(switch))


def _copied(connection: Connection) -> Iterator[int]:
    """Copy all that is not copied yet. Yields how many rows were copied, after each batch."""
    ((stream, seq),) = connection.execute("SELECT stream, seq FROM adjourn_migration").fetchall()
    size, total = 100, 0
    while True:
        began = time.monotonic()
        row = connection.execute(_COPY, (stream, seq, size)).fetchone()
        if row is None:
            return
        stream, seq, count = row
        total += count
        size = max(1, min(MAX_BATCH, size * 2, int(size * BATCH_SECONDS / (time.monotonic() - began))))
        yield total


def _locked(connection: Connection, where: str, lock: LiteralString, work: Callable[[], Any]) -> None:
    """Do something in a transaction that has a lock. Others never wait long behind it: it is tried again and again."""
    for number in range(LOCK_TRIES):
        seconds = min(FIRST_WAIT * 2**number, LONGEST_WAIT)
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{seconds * 1000:.0f}ms'".encode())
                connection.execute(lock)
                work()
                return
        except postgres_link.driver().errors.LockNotAvailable:
            time.sleep(REST_SECONDS)
    raise StoreError(
        f"the store {where} was not changed: other sessions kept its events locked in {LOCK_TRIES} tries",
        "end long transactions on adjourn_event (see pg_stat_activity), then run the same command again: it continues",
    )
