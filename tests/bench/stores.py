"""Appends and reads of the stores beside a raw sqlite3 insert of the same bytes, in one table.

    python tests/bench/stores.py [--events 3000] [--size 500] [--postgres URL]

The ratio is to the raw insert of the same flush (NORMAL: left to the operating system; FULL: waited for), batch
and size. Nothing is asserted: the floor moves with the machine, so it is measured in the same run.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from adjourn.store import EMPTY, Entry, MemoryStore, Store, open_store

BATCH = 64
_INSERT = "INSERT INTO event VALUES (?, ?, ?, ?)"


def _raw(path: Path, entries: Sequence[Entry], batch: int, synchronous: str) -> list[int]:
    """The floor: no checks, no compare-and-swap, one open connection."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute(
        "CREATE TABLE event (stream TEXT, seq INTEGER, hash TEXT, data BLOB, PRIMARY KEY (stream, seq))"
    )
    cursor, times = connection.cursor(), []
    for first in range(0, len(entries), batch):
        began = time.perf_counter_ns()
        if batch == 1:
            cursor.execute(_INSERT, ("task/one", first, *entries[first]))
        else:
            cursor.execute("BEGIN IMMEDIATE")
            rows = (("task/one", seq, *one) for seq, one in enumerate(entries[first : first + batch], first))
            cursor.executemany(_INSERT, rows)
            cursor.execute("COMMIT")
        times.append(time.perf_counter_ns() - began)
    if batch == 1:
        start = time.perf_counter()
        count = sum(
            1
            for _ in connection.execute("SELECT hash, data FROM event WHERE stream = 'task/one' ORDER BY seq")
        )
        print(
            f"{f'raw sqlite3 {synchronous} read':<28}{count / (time.perf_counter() - start):>14,.0f} entries/s"
        )
    connection.close()
    return times


def _appends(store: Store, entries: Sequence[Entry], batch: int, durable: bool) -> list[int]:
    head, times = EMPTY, []
    stream = f"task/{batch}{durable}"
    for first in range(0, len(entries), batch):
        part = entries[first : first + batch]
        began = time.perf_counter_ns()
        head = store.append(stream, part, expect=head, durable=durable)
        times.append(time.perf_counter_ns() - began)
    return times


def _row(name: str, batch: int, times: list[int], floor: float = 0) -> float:
    """Print one row; returns the mean microseconds of an entry."""
    mean = sum(times) / len(times) / batch / 1000
    ordered = sorted(times)
    p50, p99 = (ordered[int(len(ordered) * part)] / 1000 for part in (0.5, 0.99))
    ratio = f"{mean / floor:6.2f}" if floor else "     -"
    print(f"{name:<28}{batch:>6}{mean:>10.1f}{p50:>10.1f}{p99:>10.1f}{ratio:>8}")
    return mean


def _reads(name: str, store: Store, stream: str) -> None:
    began, count = time.perf_counter(), 0
    for _ in store.read(stream):
        count += 1
    print(f"{name:<28}{count / (time.perf_counter() - began):>14,.0f} entries/s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=3000)
    parser.add_argument("--size", type=int, default=500, help="bytes of an entry")
    parser.add_argument("--folder", help="where the files are made; the disk matters")
    parser.add_argument("--postgres", metavar="URL", help="a server to measure too; tables are made there")
    options = parser.parse_args()
    bodies = [os.urandom(options.size) for _ in range(options.events)]
    entries = [Entry(hashlib.sha256(body).hexdigest(), body) for body in bodies]
    openers: list[tuple[str, Callable[[], Store]]] = [("MemoryStore", MemoryStore)]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        openers.append(("SqliteStore", lambda: open_store(f"{folder}/store.db")))
        if options.postgres:
            openers.append(("PostgresStore", lambda: open_store(options.postgres)))
        print(
            f"{options.events} entries of {options.size} bytes; µs; p50 and p99 of one append, mean of one entry"
        )
        print(f"{'':<28}{'batch':>6}{'mean':>10}{'p50':>10}{'p99':>10}{'ratio':>8}")
        floors = {}
        for batch in (1, BATCH):
            for durable, synchronous in ((False, "NORMAL"), (True, "FULL")):
                times = _raw(Path(folder, f"{batch}{synchronous}.db"), entries, batch, synchronous)
                floors[batch, durable] = _row(f"raw sqlite3 {synchronous}", batch, times)
        for name, opener in openers:
            store = opener()
            for batch in (1, BATCH):
                for durable in (False, True):
                    times = _appends(store, entries, batch, durable)
                    _row(f"{name} {'durable' if durable else ''}", batch, times, floors[batch, durable])
            _reads(f"{name} read", store, "task/1True")
            store.close()


if __name__ == "__main__":
    main()
