"""Appends and reads of the stores beside a raw sqlite3 insert of the same bytes.

    python tests/bench/backends.py [--events 3000] [--size 500] [--folder DIR] [--postgres URL]

The ratio is to the raw insert of the same flush (NORMAL: left to the operating system; FULL: waited for), batch
and size. Nothing is asserted: the floor moves with the machine, so it is measured in the same run, taking turns.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from typing import Protocol

from sizes import FULL, Sizes
from tables import Table, median, percentile
from turns import median_ratio, take_turns

from adjourn.store import EMPTY, Entry, Head, MemoryStore, Store, open_store

BATCH = 64
TURNS = 16
_INSERT = "INSERT INTO event VALUES (?, ?, ?, ?)"
_READ = "SELECT hash, data FROM event WHERE stream = ? ORDER BY seq"


class Subject(Protocol):
    """What is measured: one stream for each batch size and flush."""

    def append(self, stream: str, entries: Sequence[Entry], *, durable: bool) -> None: ...

    def read(self, stream: str) -> int:
        """How many entries there are, found by reading them all."""

    def close(self) -> None: ...


class RawSqlite:
    """The floor: no checks, no compare-and-swap, one open connection for each kind of flush."""

    def __init__(self, folder: str) -> None:
        self._connections: dict[bool, sqlite3.Connection] = {}
        self._next: dict[str, int] = {}
        for durable, synchronous in ((False, "NORMAL"), (True, "FULL")):
            connection = sqlite3.connect(f"{folder}/raw-{synchronous}.db", isolation_level=None)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={synchronous}")
            connection.execute(
                "CREATE TABLE event (stream TEXT, seq INTEGER, hash TEXT, data BLOB, PRIMARY KEY (stream, seq))"
            )
            self._connections[durable] = connection

    def append(self, stream: str, entries: Sequence[Entry], *, durable: bool) -> None:
        connection, first = self._connections[durable], self._next.get(stream, 0)
        self._next[stream] = first + len(entries)
        if len(entries) == 1:
            connection.execute(_INSERT, (stream, first, *entries[0]))
            return
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_INSERT, ((stream, seq, *one) for seq, one in enumerate(entries, first)))
        connection.execute("COMMIT")

    def read(self, stream: str) -> int:
        return sum(1 for _ in self._connections[True].execute(_READ, (stream,)))

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class OneStore:
    """The same, over a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heads: dict[str, Head] = {}

    def append(self, stream: str, entries: Sequence[Entry], *, durable: bool) -> None:
        head = self._heads.get(stream, EMPTY)
        self._heads[stream] = self._store.append(stream, entries, expect=head, durable=durable)

    def read(self, stream: str) -> int:
        return sum(1 for _ in self._store.read(stream))

    def close(self) -> None:
        self._store.close()


def run(sizes: Sizes, folder: str, postgres: str = "") -> list[Table]:
    """Both tables; files are made in `folder`. `postgres` is the URL of a server to measure, too."""
    bodies = [os.urandom(sizes.entry_bytes) for _ in range(sizes.entries)]
    entries = [Entry(hashlib.sha256(body).hexdigest(), body) for body in bodies]
    openers: list[tuple[str, Callable[[], Subject]]] = [
        ("raw sqlite3", lambda: RawSqlite(folder)),
        ("MemoryStore", lambda: OneStore(MemoryStore())),
        ("SqliteStore", lambda: OneStore(open_store(f"{folder}/store.db"))),
    ]
    if postgres:
        openers.append(("PostgresStore", lambda: OneStore(open_store(postgres))))
    subjects = {name: opener() for name, opener in openers}
    try:
        return [_appends(sizes, subjects, entries), _reads(sizes, subjects)]
    finally:
        for subject in subjects.values():
            subject.close()


def _appends(sizes: Sizes, subjects: dict[str, Subject], entries: Sequence[Entry]) -> Table:
    table = Table(
        "Stores: appends",
        ["", "flush", "batch", "mean µs an entry", "p50 µs", "p99 µs", "raw = 1", "±"],
        f"{len(entries):,} entries of {len(entries[0].data)} bytes, appended one by one and {BATCH} at a time, in {TURNS} turns. "
        "p50 and p99 are of one append, the mean is of one entry.",
    )
    for batch in (1, BATCH):
        for durable in (False, True):
            turn = max(1, len(entries) // TURNS // batch) * batch
            parts = [entries[first : first + turn] for first in range(0, len(entries) - turn + 1, turn)]
            work = {
                name: partial(_append, subject, cycle(parts), batch=batch, durable=durable)
                for name, subject in subjects.items()
            }
            rounds = take_turns(work, len(parts), sizes.idle_seconds)
            means = {name: [sum(times) / turn for times in rounds.of(name)] for name in subjects}
            for name in subjects:
                times = [one for times in rounds.of(name) for one in times]
                found = median_ratio(zip(means[name], means[next(iter(subjects))], strict=True))
                flush = "FULL" if durable else "NORMAL"
                p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
                ratios = (found.median, found.error) if found else (None, None)
                table.add(name, flush, str(batch), median(means[name]), p50, p99, *ratios)
    return table


def _append(subject: Subject, parts: Iterator[Sequence[Entry]], *, batch: int, durable: bool) -> list[float]:
    """The microseconds of each append of the next part."""
    part, times = next(parts), []
    for first in range(0, len(part), batch):
        began = time.perf_counter()
        subject.append(_stream(batch, durable), part[first : first + batch], durable=durable)
        times.append((time.perf_counter() - began) * 1e6)
    return times


def _stream(batch: int, durable: bool) -> str:
    return f"task-{batch}-{durable}"


def _reads(sizes: Sizes, subjects: dict[str, Subject]) -> Table:
    table = Table("Stores: reads", ["", "entries/s", "raw = 1", "±"], "Reading those entries from first to last.")
    work = {name: partial(_read, subject) for name, subject in subjects.items()}
    rounds = take_turns(work, sizes.store_rounds, sizes.idle_seconds)
    for name in subjects:
        found = median_ratio(zip(rounds.of(name), rounds.of(next(iter(subjects))), strict=True))
        ratios = (found.median, found.error) if found else (None, None)
        table.add(name, 1 / median(rounds.of(name)), *ratios)
    return table


def _read(subject: Subject) -> float:
    """Seconds for one entry."""
    began = time.perf_counter()
    entries = subject.read(_stream(1, durable=True))
    return (time.perf_counter() - began) / entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=FULL.entries)
    parser.add_argument("--size", type=int, default=FULL.entry_bytes, help="bytes of an entry")
    parser.add_argument("--folder", help="where the files are made; the disk matters")
    parser.add_argument("--postgres", default="", metavar="URL", help="a server to measure too; tables are made there")
    options = parser.parse_args()
    sizes = Sizes(entries=options.events, entry_bytes=options.size)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for table in run(sizes, folder, options.postgres):
            print(table.text())


if __name__ == "__main__":
    main()
