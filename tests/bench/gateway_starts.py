"""Many people who start at `adjourn serve` within seconds, on a store that holds the work of others.

    python tests/bench/gateway_starts.py [--people 1000] [--tasks 200000] [--seconds 10] [--postgres URL]

Without URL, on SQLite and on a PostgreSQL server that is started for it, where there is one. Nothing is asserted.

Owns: the starts. Must never: open a session twice for one person.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gateway_fronts as fronts
from gateway_fronts import Load, free_port, started
from peer import child_environment
from sizes import FULL, Sizes
from tables import Table, median, percentile

from adjourn.gateway.api_keys import KeyOptions, add_key
from adjourn.host import keys
from adjourn.store import open_store
from adjourn.tasks.work_index import ALL, INDEXED
from conftest import PostgresServer
from support.foreign_tasks import fill
from support.tools import postgres_programs

TITLE = "The gateway: people who start at once"
OTHERS = 8
RATE = 50
"""Sessions of others, and how many calls they make a second together."""


def measure(sizes: Sizes, folder: str) -> Table:
    """The table of this part; files are made in `folder`."""
    table = Table(
        TITLE,
        [
            "",
            "tasks of others",
            "until all had started, s",
            "`initialize`, median ms",
            "p99 ms",
            "calls beside, p99 ms",
            "times quiet",
        ],
        f"{sizes.gateway_people:,} people, one each {sizes.gateway_people_seconds / sizes.gateway_people * 1000:.0f} ms, each with a key and a connection "
        f"of their own; each opens a session of the handshake and lists tools. Beside them {OTHERS} sessions make {RATE} calls a second. Target: p99 of "
        "`initialize` ≤ 150 ms, of calls ≤ 3 times quiet.",
    )
    with ExitStack() as stack:
        for name, server in stack.enter_context(_stores()):
            for tasks in (10, sizes.gateway_foreign):
                table.add(name, tasks, *_measured(sizes, Path(folder, f"starts-{name}-{tasks}"), tasks, server))
    return table


def _measured(sizes: Sizes, work: Path, tasks: int, server: PostgresServer | None) -> Iterator[float]:
    """What `_start` gives of a gateway whose store has so many tasks of others."""
    environment = child_environment(f"{work}-config") | fronts.DEPLOYED
    upstream, port = free_port(), free_port()
    command = fronts.gateway(work, port, f"http://127.0.0.1:{upstream}/mcp", "[auth]\nkeys = true\n")
    place = server.new_schema() if server else str(work / ".aex/log.db")
    environment["ADJOURN_STORE"] = place
    os.environ["ADJOURN_CONFIG"] = f"{work}-config"
    with closing(open_store(place)) as store:
        store.swap(INDEXED, ALL, expect=None)
        fill(store, 0, tasks)
        now = time.time_ns() // 1_000_000
        made = [
            add_key(store, keys.secret(), KeyOptions(f"p{n}", "human"), now).text for n in range(sizes.gateway_people)
        ]
    tokens = work / "tokens"
    tokens.write_text("\n".join(made), encoding="ascii")
    with (
        started(fronts.echo(upstream), upstream, str(work), environment),
        started(command, port, str(work), environment),
    ):
        yield from _start(f"http://127.0.0.1:{port}/up/mcp", tokens, sizes)


def _start(url: str, tokens: Path, sizes: Sizes) -> Iterator[float]:
    """Seconds until all have started, median and p99 of their `initialize`, p99 of calls beside, and how many times that is of quiet."""
    seconds = sizes.gateway_people_seconds
    load, people = Load(url, "notes.get", OTHERS, [tokens]), Load(url, "notes.get", 0, [tokens])
    try:
        quiet = load.do(f"pace {RATE * seconds} {seconds}")["times"]
        paced = load.begin(f"pace {RATE * seconds} {seconds}")
        begun = people.do(f"start {sizes.gateway_people} {seconds}")
        beside = percentile(paced()["times"], 0.99)
        yield begun["seconds"]
        yield median(begun["times"]) * 1e3
        yield percentile(begun["times"], 0.99) * 1e3
        yield beside * 1e3
        yield beside / percentile(quiet, 0.99)
    finally:
        people.close()
        load.close()


@contextmanager
def _stores() -> Iterator[list[tuple[str, PostgresServer | None]]]:
    """SQLite, and PostgreSQL where it is installed, on a server that is started for this."""
    if (programs := postgres_programs()) is None:
        yield [("SQLite", None)]
        return
    server = PostgresServer(programs)
    try:
        yield [("SQLite", None), ("PostgreSQL", server)]
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=FULL.gateway_people)
    parser.add_argument("--tasks", type=int, default=FULL.gateway_foreign, help="of others")
    parser.add_argument("--seconds", type=int, default=FULL.gateway_people_seconds)
    options = parser.parse_args()
    sizes = replace(
        FULL, gateway_people=options.people, gateway_foreign=options.tasks, gateway_people_seconds=options.seconds
    )
    with tempfile.TemporaryDirectory(prefix="adjourn-bench-") as folder:
        print(measure(sizes, folder).text())


if __name__ == "__main__":
    main()
