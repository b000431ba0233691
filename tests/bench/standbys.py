"""What an append costs that waits for a synchronous standby, and for two.

    python tests/bench/standbys.py [--rounds 24] [--appends 1000] [--size 500] [--threads 1 8 64]

A PostgreSQL server and two standbys are made on this machine, in a temporary folder. The same store appends to it while the
server waits for none, one or both of them; these settings take turns, and ratios are medians over the rounds. All three
servers share processors and disk, and no network lies between them. Nothing is asserted. Needs PostgreSQL's programs.

Owns: these settings. Must never: measure an append that has not waited as its setting says.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from group_commit import Borrowed, Turn, append_all, together
from tables import Table, median, percentile
from turns import median_ratio, take_turns

from adjourn.store import Entry, PostgresStore
from conftest import PostgresServer
from support import tools
from support.standby import Pair, until

SETTINGS = {"none": "", "one": "FIRST 1 (standby, second)", "both": "FIRST 2 (standby, second)"}
_COUNT = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"


class Trio(Pair):
    """A primary with two standbys."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server)
        self.folders.append(f"{self.folders[1]}-second")
        source = f"host={self.sockets} port=6001 user=adjourn application_name=second"
        self.run("pg_basebackup", "-D", self.folders[2], "-d", source, "-R", "-c", "fast", "--no-sync")
        self.start(self.folders[2], 6003)

    def wait_for_standbys(self, setting: str) -> None:
        """Have commits wait for none, one or both from now on."""
        self.wait_for(SETTINGS[setting])
        wanted = list(SETTINGS).index(setting)
        with psycopg.connect(self.url, autocommit=True) as admin:
            until(lambda: admin.execute(_COUNT).fetchone() == (wanted,))


def turn(trio: Trio, setting: str, store: PostgresStore, parts: Sequence[Sequence[Entry]]) -> Turn:
    trio.wait_for_standbys(setting)
    return together([partial(append_all, Borrowed(store), part) for part in parts], sum(map(len, parts)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--appends", type=int, default=1_000, help="with each setting in a round")
    parser.add_argument("--size", type=int, default=500, help="bytes of an entry")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 64])
    options = parser.parse_args()
    programs = tools.postgres_programs()
    if programs is None:
        parser.error("not installed: apt-get install postgresql")
    bodies = [os.urandom(options.size) for _ in range(options.appends)]
    entries = [Entry(hashlib.sha256(body).hexdigest(), body) for body in bodies]
    table = Table(
        "PostgreSQL: appends that wait for standbys",
        ["threads", "standbys waited for", "appends/s", "none = 1", "±", "p50 ms", "p99 ms"],
    )
    server = PostgresServer(programs)
    try:
        trio = Trio(server)
        store = PostgresStore(trio.url)
        for threads in options.threads:
            parts = [entries[number::threads] for number in range(threads)]
            found = take_turns(
                {setting: partial(turn, trio, setting, store, parts) for setting in SETTINGS}, options.rounds
            )
            for setting in SETTINGS:
                turns = found.of(setting)
                ratio = median_ratio((one.rate, other.rate) for one, other in zip(turns, found.of("none"), strict=True))
                times = [one for turn in turns for one in turn.times]
                table.add(
                    str(threads),
                    setting,
                    median([turn.rate for turn in turns]),
                    *(ratio or (None, None)),
                    percentile(times, 0.5),
                    percentile(times, 0.99),
                )
        store.close()
        for number in (2, 1, 0):
            trio.stop(number)
    finally:
        server.stop()
        shutil.rmtree(server.folder)
    table.note = f"{options.rounds} rounds of {options.appends:,} entries of {options.size} bytes."
    print(table.text())
    print(table.markdown())


if __name__ == "__main__":
    main()
