"""Events of a PostgreSQL store in one table beside events in partitions by stream.

    python tests/bench/partitions.py --postgres URL [--rounds 24] [--partitions 8] [--streams 3000] [--appends 300]

Two schemas of one database, with the same rows: streams of 20 entries with random names, and one long stream. The stores take
turns; ratios are medians over the rounds. The last column compares the CPU of the server's processes over all rounds, which the
load of the machine changes little; the server must be on this machine. Nothing is asserted. The schemas stay: drop them afterwards.

Owns: these two stores. Must never: give one of them other rows than the other.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psycopg
from group_commit import Borrowed, append_all, together
from tables import Table, median
from turns import median_ratio, take_turns

from adjourn.store import LATEST, Entry, PostgresStore, migrate_postgres

SIZE = 500
LONG = "long"


def make(url: str, partitions: int, names: Sequence[str]) -> PostgresStore:
    """A store with its rows, in a new place of the database."""
    place = f"bench_{partitions}_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {place}".encode())
    mine = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{place}"
    with psycopg.connect(mine, autocommit=True) as connection:
        list(migrate_postgres(mine, partitions=partitions))
        store = PostgresStore(mine)
        connection.execute(f"SET adjourn.schema = {LATEST['postgres']}".encode())
        shuffle = random.Random(1)
        for seq in range(20):
            mixed = shuffle.sample(names, len(names))
            connection.execute(
                "INSERT INTO adjourn_event SELECT name, %s, repeat('0', 64), %s FROM unnest(%s::text[]) AS name",
                (seq, os.urandom(SIZE), mixed),
            )
        connection.execute(
            "INSERT INTO adjourn_event SELECT %s, n, repeat('0', 64), %s FROM generate_series(0, 4999) AS n",
            (LONG, os.urandom(SIZE)),
        )
        connection.execute("VACUUM ANALYZE")
    return store


def timed(work: Callable[[], object], times: int) -> float:
    """Microseconds of one time."""
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times * 1e6


def appended(store: PostgresStore, entries: Sequence[Entry], threads: int) -> float:
    """Microseconds of one append, of several that are made at the same moment."""
    parts = [entries[number::threads] for number in range(threads)]
    return 1e6 / together([partial(append_all, Borrowed(store), part) for part in parts], len(entries)).rate


def processor(store: PostgresStore) -> float:
    """Seconds of CPU that the server has used for the connections of a store."""
    ticks = 0
    for line in (store._line, store._second):
        if line.connection is not None:
            status = Path(f"/proc/{line.connection.info.backend_pid}/stat").read_text("ascii")
            ticks += sum(map(int, status.rpartition(") ")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def turn(work: Callable[[PostgresStore], float], store: PostgresStore) -> tuple[float, float]:
    """The microseconds, and the server's CPU."""
    before = processor(store)
    return work(store), processor(store) - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", required=True, metavar="URL", help="schemas are made there")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--streams", type=int, default=3_000)
    parser.add_argument("--appends", type=int, default=300, help="of each store in a round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 64])
    options = parser.parse_args()
    names = [secrets.token_hex(8) for _ in range(options.streams)]
    bodies = [os.urandom(SIZE) for _ in range(options.appends)]
    entries = [Entry(hashlib.sha256(body).hexdigest(), body) for body in bodies]
    stores = {number: make(options.postgres, number, names) for number in (0, options.partitions)}
    works: dict[str, Callable[[PostgresStore], float]] = {
        "head of a stream": lambda store: timed(lambda: store.head(secrets.choice(names)), 300),
        "read 20 entries": lambda store: timed(lambda: list(store.read(secrets.choice(names))), 100),
        "read 5,000 entries": lambda store: timed(lambda: list(store.read(LONG)), 1),
        f"heads of {options.streams:,} streams": lambda store: timed(store.streams, 1),
    }
    for threads in options.threads:
        works[f"append, {threads} thread{'s' if threads > 1 else ''}"] = partial(
            appended, entries=entries, threads=threads
        )
    table = Table(
        "PostgreSQL: events in partitions", ["", "one table, µs", "partitions, µs", "ratio", "±", "server's CPU, ratio"]
    )
    for name, work in works.items():
        found = take_turns({number: partial(turn, work, store) for number, store in stores.items()}, options.rounds)
        plain, parted = ([one for one, _ in found.of(number)] for number in stores)
        used, used_parted = (sum(cpu for _, cpu in found.of(number)) for number in stores)
        ratio = median_ratio(zip(parted, plain, strict=True))
        cells = (median(plain), median(parted), *(ratio or (None, None)))
        table.add(name, *cells, used_parted / used if used else None)
        print(name, table.rows[-1][1:], flush=True)
    table.note = f"{options.rounds} rounds."
    for store in stores.values():
        store.close()
    print(table.text())
    print(table.markdown())


if __name__ == "__main__":
    main()
