"""Calls through `adjourn serve`, taking turns with the bare relay and with other gateways, in front of a fast server.

    python tests/bench/gateway_load.py [--rounds 8] [--calls 2000] [--flights 64] [--postgres URL] [--beside NAME=SRC]
                                       [--sessions 1000] [--churn 10000] [--no-peers] [--only calls|sessions]

Each session waits for its answer before its next call. `tasks`: each session works on a task of its own; `one task`: all work on that of
their client. Ratios are medians over the rounds. `python tests/support/tools.py --peers` installs the other gateways. Nothing is
asserted.

Owns: these subjects. Must never: count an answer that is not the right one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import gateway_fronts as fronts
import gateway_sessions
import gateway_starts
import machine
from gateway_fronts import Load, free_port, resident, started
from peer import child_environment
from sizes import FULL, Sizes
from tables import Table, median, percentile
from turns import Rounds, median_ratio, take_turns

BARE, TASKS, ONE = "bare", "tasks", "one task"
TOOLS = {"notes.get": "a reading call", "notes.set": "a call with effects"}
SLOWER = 10
"""Other gateways get so many times fewer calls, and so does everybody who has one in flight."""


class Front(NamedTuple):
    """A way to the server: the address, where `{n}` is the number of a session, and the process."""

    url: str
    pid: int
    is_peer: bool = False


class Turn(NamedTuple):
    """Calls a second, milliseconds of each call, microseconds of the process for one, and its MiB of memory."""

    rate: float
    times: list[float]
    processor: float
    memory: float | None


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The tables of this section; files are made in `folder`."""
    parts = (gateway_sessions.measure, gateway_starts.measure)
    return [*measure(sizes, folder), *(part(sizes, folder) for part in parts)]


def measure(sizes: Sizes, folder: str, postgres: str = "") -> Iterator[Table]:
    """A table for each tool and number of calls in flight, and one for the SDK's server."""
    environment = child_environment(f"{folder}/config") | fronts.DEPLOYED
    if postgres:
        environment["ADJOURN_STORE"] = postgres
    with ExitStack() as stack:
        begin = partial(_fronts, stack, sizes, environment)
        port = free_port()
        stack.enter_context(started(fronts.echo(port), port, folder, environment))
        ways = begin(Path(folder, "fast"), f"http://127.0.0.1:{port}/mcp", with_peers=sizes.gateway_peers)
        for many, flights in (("many", sizes.gateway_flights), ("one", 1)):
            for tool, about in TOOLS.items():
                yield _calls(sizes, ways, tool, flights, f"The gateway: {about}, {many} in flight")
    with ExitStack() as stack:
        port = free_port()
        stack.enter_context(started(fronts.sdk(port), port, folder, environment))
        begin = partial(_fronts, stack, sizes, environment)
        ways = begin(Path(folder, "sdk"), f"http://127.0.0.1:{port}/mcp", with_peers=False)
        yield _calls(sizes, ways, "notes.get", sizes.gateway_flights, "The gateway: in front of the SDK's server")


def _fronts(
    stack: ExitStack, sizes: Sizes, environment: Mapping[str, str], folder: Path, up: str, *, with_peers: bool
) -> dict[str, Front]:
    folder.mkdir()
    begin = partial(started, folder=str(folder))
    port = free_port()
    ways = {
        BARE: Front(
            f"http://127.0.0.1:{port}/mcp",
            stack.enter_context(begin(fronts.bare(port, up), port, environment=environment)),
        )
    }
    for name, source in {"": None, **sizes.beside}.items():
        given = environment if source is None else {**environment, "PYTHONPATH": str(source)}
        prefix = f"{name} " if name else ""
        for work, path in ((TASKS, f"t/b{os.getpid()}-{{tool}}-{{flights}}-{{n}}/mcp"), (ONE, "mcp")):
            port = free_port()
            command = fronts.gateway(folder / f"{prefix}{work}".replace(" ", "-"), port, up)
            pid = stack.enter_context(begin(command, port, environment=given))
            ways[f"{prefix}{work}"] = Front(f"http://127.0.0.1:{port}/up/{path}", pid)
    if with_peers:
        for name, (command, port) in fronts.peers(up).items():
            pid = stack.enter_context(begin(command, port, environment=environment))
            ways[name] = Front(f"http://127.0.0.1:{port}/mcp", pid, is_peer=True)
    return ways


def _calls(sizes: Sizes, ways: Mapping[str, Front], tool: str, flights: int, title: str) -> Table:
    calls = max(1, sizes.gateway_calls // (SLOWER if flights == 1 else 1))
    with ExitStack() as stack:
        turns = {}
        for name, way in ways.items():
            url = way.url.replace("{tool}", tool).replace("{flights}", str(flights))
            load = Load(url, tool, flights)
            stack.callback(load.close)
            count = max(1, calls // SLOWER) if way.is_peer else calls
            turns[name] = partial(_turn, load, count, way.pid)
        found = take_turns(turns, sizes.gateway_rounds, sizes.idle_seconds)
    table = _table(title, found)
    others = f", of other gateways of {max(1, calls // SLOWER):,}" if any(one.is_peer for one in ways.values()) else ""
    table.note = (
        f"{flights:,} in flight; {found.note} of {calls:,} calls{others}. Memory is VmRSS at the end of the last round."
    )
    return table


def _turn(load: Load, calls: int, pid: int) -> Turn:
    before = machine.processor_seconds(pid) or 0.0
    found = load.do(f"calls {calls}")
    used = (machine.processor_seconds(pid) or 0.0) - before
    times = [seconds * 1e3 for seconds in found["times"]]
    return Turn(calls / found["seconds"], times, used / calls * 1e6, resident(pid))


def _table(title: str, found: Rounds[str, Turn]) -> Table:
    columns = ["", "calls/s", "rate, bare = 1", "±", "p50 ms", "p50 over bare", "p99 ms", "CPU µs", "CPU, bare = 1", "± ", "RSS MiB"]  # fmt: skip
    made = Table(title, columns)
    floors = found.of(BARE)
    for name in found.kept[0]:
        turns = found.of(name)
        rates = median_ratio((one.rate, bare.rate) for one, bare in zip(turns, floors, strict=True))
        costs = median_ratio((one.processor, bare.processor) for one, bare in zip(turns, floors, strict=True))
        over = [_middle(one) - _middle(bare) for one, bare in zip(turns, floors, strict=True)]
        times = [one for each in turns for one in each.times]
        made.add(
            name,
            median([one.rate for one in turns]),
            rates and rates.median,
            rates and rates.error,
            percentile(times, 0.5),
            median(over),
            percentile(times, 0.99),
            median([one.processor for one in turns]),
            costs and costs.median,
            costs and costs.error,
            turns[-1].memory,
        )
    return made


def _middle(turn: Turn) -> float:
    return percentile(turn.times, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=FULL.gateway_rounds)
    parser.add_argument("--calls", type=int, default=FULL.gateway_calls, help="of each subject in a round")
    parser.add_argument(
        "--flights", type=int, default=FULL.gateway_flights, help="calls in flight, where there are many"
    )
    parser.add_argument("--sessions", type=int, default=FULL.gateway_sessions, help="that are idle")
    parser.add_argument("--churn", type=int, default=FULL.gateway_churn, help="sessions that come and go")
    parser.add_argument("--postgres", default="", metavar="URL", help="keep history there, not in SQLite")
    parser.add_argument(
        "--beside", action="append", default=[], metavar="NAME=SRC", help="the gateway of another source tree"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave other gateways out")
    parser.add_argument("--only", choices=("calls", "sessions"))
    options = parser.parse_args()
    beside = {name: Path(source).resolve() for name, _, source in (one.partition("=") for one in options.beside)}
    sizes = replace(
        FULL,
        beside=beside,
        gateway_rounds=options.rounds,
        gateway_calls=options.calls,
        gateway_flights=options.flights,
        gateway_peers=not options.no_peers,
        gateway_sessions=options.sessions,
        gateway_churn=options.churn,
    )
    print(machine.load())
    with tempfile.TemporaryDirectory(prefix="adjourn-bench-") as folder:
        if options.only != "sessions":
            for found in measure(sizes, folder, options.postgres):
                print(found.text(), flush=True)
        if options.only != "calls":
            print(gateway_sessions.measure(sizes, folder).text(), flush=True)
    print(machine.load())


if __name__ == "__main__":
    main()
