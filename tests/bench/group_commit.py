"""Appends of many streams to one PostgreSQL server: the store, which writes together what waits together, beside a pool.

    python tests/bench/group_commit.py --postgres URL [--rounds 12] [--appends 2000] [--size 500] [--threads 1 8 64]

Each thread appends to a stream of its own, one entry after the other. The floor is two connections that write as many rows as
there are threads in one plain INSERT: no position is checked, nothing is notified, no thread waits for another. The pools have
16 connections and one statement an append: a plain INSERT, or what the store promises, which is to check the predecessor and
to notify. The subjects take turns; ratios are medians over the rounds. Nothing is asserted.

Owns: these subjects. Must never: give one of them other bytes than the store.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, LiteralString, NamedTuple, Protocol

import psycopg
from tables import Table, median, percentile
from turns import median_ratio, take_turns

from adjourn.store import EMPTY, LATEST, ZERO_HASH, Entry, PostgresStore

POOLED = 16
FLOOR, PLAIN, SAME, STORE = (
    "floor: two writers, plain",
    "pool of 16, plain",
    "pool of 16, checked, notified",
    "PostgresStore",
)
_PLAIN: LiteralString = "INSERT INTO adjourn_event (stream, seq, hash, data) VALUES (%s, %s, %s, %b)"
_ROWS: LiteralString = """
INSERT INTO adjourn_event (stream, seq, hash, data)
SELECT * FROM unnest(%b::text[], %b::bigint[], %b::text[], %b::bytea[])
"""
_CHECKED: LiteralString = """
WITH written AS (
    INSERT INTO adjourn_event (stream, seq, hash, data)
    SELECT %(stream)s::text, %(seq)s::bigint, %(hash)s::text, %(data)b::bytea
    WHERE %(seq)s::bigint = 0 OR %(previous)s::text = (
        SELECT hash FROM adjourn_event WHERE stream = %(stream)s::text AND seq = %(seq)s::bigint - 1
    )
    ON CONFLICT DO NOTHING RETURNING stream
) SELECT pg_notify('adjourn', stream) FROM written
"""
_numbers = count()


class Turn(NamedTuple):
    """What one subject did in its turn."""

    rate: float
    times: list[float]
    """Milliseconds of each append; of the floor, of each statement."""
    processor: float
    """Microseconds of our process for one append."""


class Writer(Protocol):
    def append(self, stream: str, seq: int, entry: Entry, previous: str) -> None: ...

    def close(self) -> None: ...


def connect(url: str) -> psycopg.Connection[Any]:
    """A connection that may insert events."""
    connection = psycopg.connect(url, autocommit=True)
    connection.execute(f"SET adjourn.schema = {LATEST['postgres']}".encode())
    return connection


class Pool:
    """Connections that threads borrow for one statement each."""

    def __init__(self, url: str, *, checked: bool) -> None:
        self._all = [connect(url) for _ in range(POOLED)]
        self._free: queue.SimpleQueue[psycopg.Connection[Any]] = queue.SimpleQueue()
        self._checked = checked
        for connection in self._all:
            self._free.put(connection)

    def append(self, stream: str, seq: int, entry: Entry, previous: str) -> None:
        connection = self._free.get()
        try:
            if self._checked:
                values = {"stream": stream, "seq": seq, "hash": entry.hash, "data": entry.data, "previous": previous}
                assert connection.execute(_CHECKED, values, prepare=True).rowcount == 1
            else:
                connection.execute(_PLAIN, (stream, seq, *entry), prepare=True)
        finally:
            self._free.put(connection)

    def close(self) -> None:
        for connection in self._all:
            connection.close()


class Borrowed:
    """A store that somebody else closes."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def append(self, stream: str, seq: int, entry: Entry, previous: str) -> None:
        self._store.append(stream, [entry], expect=EMPTY._replace(seq=seq - 1, hash=previous))

    def close(self) -> None:
        pass


class OneStore(Borrowed):
    def __init__(self, url: str) -> None:
        super().__init__(PostgresStore(url))

    def close(self) -> None:
        self._store.close()


def together(works: Sequence[Callable[[], list[float]]], appends: int) -> Turn:
    """One turn: each work in a thread of its own."""
    found: list[list[float]] = []
    threads = [threading.Thread(target=lambda work=work: found.append(work())) for work in works]
    computed, began = time.process_time(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    assert len(found) == len(works)
    times = [one for times in found for one in times]
    return Turn(appends / seconds, times, (time.process_time() - computed) / appends * 1e6)


def append_all(writer: Writer, entries: Sequence[Entry]) -> list[float]:
    stream, previous, times = f"bench-{os.getpid()}-{next(_numbers)}", ZERO_HASH, []
    for seq, entry in enumerate(entries):
        began = time.perf_counter()
        writer.append(stream, seq, entry, previous)
        times.append((time.perf_counter() - began) * 1e3)
        previous = entry.hash
    return times


def write_rows(connection: psycopg.Connection[Any], entries: Sequence[Entry], batch: int) -> list[float]:
    streams, times = [f"bench-{os.getpid()}-{next(_numbers)}" for _ in range(batch)], []
    for seq, first in enumerate(range(0, len(entries), batch)):
        part = entries[first : first + batch]
        began = time.perf_counter()
        columns = (streams[: len(part)], [seq] * len(part), [one.hash for one in part], [one.data for one in part])
        connection.execute(_ROWS, columns, prepare=True)
        times.append((time.perf_counter() - began) * 1e3)
    return times


def measure(url: str, entries: Sequence[Entry], threads: int, rounds: int) -> Table:
    table = Table(
        f"PostgreSQL: appends by {threads} thread{'s' if threads > 1 else ''}",
        ["", "appends/s", "floor = 1", "±", "pool, checked = 1", "±", "p50 ms", "p99 ms", "our CPU µs"],
    )
    writers: dict[str, Writer] = {PLAIN: Pool(url, checked=False), SAME: Pool(url, checked=True), STORE: OneStore(url)}
    floor = [connect(url) for _ in range(2 if threads > 1 else 1)]
    parts = [entries[number::threads] for number in range(threads)]
    halves = [entries[number :: len(floor)] for number in range(len(floor))]
    batch = max(1, threads // len(floor))
    subjects: dict[str, Callable[[], Turn]] = {
        FLOOR: lambda: together(
            [partial(write_rows, connection, half, batch) for connection, half in zip(floor, halves, strict=True)],
            len(entries),
        )
    }
    for name, writer in writers.items():
        subjects[name] = partial(together, [partial(append_all, writer, part) for part in parts], len(entries))
    try:
        found = take_turns(subjects, rounds)
    finally:
        for writer in writers.values():
            writer.close()
        for connection in floor:
            connection.close()
    for name in subjects:
        turns = found.of(name)
        beside = []
        for peer in (FLOOR, SAME):
            ratio = median_ratio((turn.rate, other.rate) for turn, other in zip(turns, found.of(peer), strict=True))
            beside += [ratio and ratio.median, ratio and ratio.error]
        times = [one for turn in turns for one in turn.times]
        table.add(
            name,
            median([turn.rate for turn in turns]),
            *beside,
            percentile(times, 0.5),
            percentile(times, 0.99),
            median([turn.processor for turn in turns]),
        )
    table.note = f"{found.note} of {len(entries):,} entries of {len(entries[0].data)} bytes. Of the floor, times are of a statement."
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", required=True, metavar="URL", help="tables are made there")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--appends", type=int, default=2_000, help="of each subject in a round")
    parser.add_argument("--size", type=int, default=500, help="bytes of an entry")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 64])
    options = parser.parse_args()
    bodies = [os.urandom(options.size) for _ in range(options.appends)]
    entries = [Entry(hashlib.sha256(body).hexdigest(), body) for body in bodies]
    PostgresStore(options.postgres).close()  # makes the tables
    for threads in options.threads:
        print(measure(options.postgres, entries, threads, options.rounds).text())


if __name__ == "__main__":
    main()
