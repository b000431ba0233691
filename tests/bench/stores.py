"""Appends and reads of the stores beside a raw sqlite3 insert of the same bytes.

    python tests/bench/stores.py [--events 3000] [--size 500] [--folder DIR] [--postgres URL]

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
from collections.abc import Callable, Sequence
from typing import Protocol

from sizes import FULL, Sizes
from tables import Table, percentile, ratio

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
        return [_appends(subjects, entries), _reads(subjects, entries)]
    finally:
        for subject in subjects.values():
            subject.close()


def _appends(subjects: dict[str, Subject], entries: Sequence[Entry]) -> Table:
    table = Table(
        "Stores: appends",
        ["", "flush", "batch", "mean µs an entry", "p50 µs", "p99 µs", "raw = 1"],
        f"{len(entries):,} entries of {len(entries[0].data)} bytes, appended one by one and {BATCH} at a time, taking "
        "turns. p50 and p99 are of one append, the mean is of one entry. *raw = 1*: the mean as a multiple of that of a bare `sqlite3` "
        "insert of the same bytes, with the same flush, in the same run.",
    )
    for batch in (1, BATCH):
        for durable in (False, True):
            times = _take_turns(subjects, entries, batch, durable)
            means = {name: sum(mine) / len(entries) for name, mine in times.items()}
            floor = next(iter(means.values()))
            for name, mine in times.items():
                flush = "FULL" if durable else "NORMAL"
                p50, p99 = percentile(mine, 0.5), percentile(mine, 0.99)
                table.add(name, flush, str(batch), means[name], p50, p99, ratio(means[name], floor))
    return table


def _take_turns(
    subjects: dict[str, Subject], entries: Sequence[Entry], batch: int, durable: bool
) -> dict[str, list[float]]:
    """The microseconds of each append, by subject."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    stream = _stream(batch, durable)
    turn = max(1, len(entries) // TURNS // batch) * batch
    for begin in range(0, len(entries), turn):
        for name, subject in subjects.items():
            for first in range(begin, min(begin + turn, len(entries)), batch):
                part = entries[first : first + batch]
                began = time.perf_counter()
                subject.append(stream, part, durable=durable)
                times[name].append((time.perf_counter() - began) * 1e6)
    return times


def _stream(batch: int, durable: bool) -> str:
    return f"task-{batch}-{durable}"


def _reads(subjects: dict[str, Subject], entries: Sequence[Entry]) -> Table:
    table = Table("Stores: reads", ["", "entries/s", "raw = 1"], "Reading those entries from first to last.")
    stream = _stream(1, durable=True)
    took: dict[str, float] = {}
    for name, subject in subjects.items():
        began = time.perf_counter()
        assert subject.read(stream) == len(entries), name
        took[name] = time.perf_counter() - began
    floor = next(iter(took.values()))
    for name, seconds in took.items():
        table.add(name, len(entries) / seconds, ratio(seconds, floor))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=FULL.entries)
    parser.add_argument("--size", type=int, default=FULL.entry_bytes, help="bytes of an entry")
    parser.add_argument("--folder", help="where the files are made; the disk matters")
    parser.add_argument(
        "--postgres", default="", metavar="URL", help="a server to measure too; tables are made there"
    )
    options = parser.parse_args()
    sizes = Sizes(entries=options.events, entry_bytes=options.size)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for table in run(sizes, folder, options.postgres):
            print(table.text())


if __name__ == "__main__":
    main()
