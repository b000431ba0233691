"""Calls through `adjourn serve`, taking turns with the bare relay, in front of a fast server.

    python tests/bench/gateway_load.py [--rounds 8] [--calls 2000] [--flights 64 1] [--postgres URL]

Each session waits for its answer before its next call. `tasks`: each session works on a task of its own; `one task`: all work on that of
their client. Ratios are medians over the rounds. Nothing is asserted.

Owns: these subjects. Must never: count an answer that is not the right one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import machine
from peer import ADJOURN, child_environment
from tables import Table, median, percentile
from turns import Rounds, median_ratio, take_turns

HERE = Path(__file__).parent
BARE, TASKS, ONE = "bare", "tasks", "one task"
TOOLS = {"notes.get": "a reading call", "notes.set": "a call with effects"}


class Turn(NamedTuple):
    """Calls a second, milliseconds of each call, and microseconds of the gateway's processor for one."""

    rate: float
    times: list[float]
    processor: float


class Load:
    """A load client in a process of its own."""

    def __init__(self, url: str, tool: str, sessions: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "http_load.py"), url, tool, str(sessions)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._line()

    def do(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def started(command: Sequence[str], port: int, folder: str, environment: Mapping[str, str]) -> Iterator[int]:
    """A server that listens on a port; gives its process id."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 60
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit(f"it does not listen: {command}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def measure(folder: str, options: argparse.Namespace) -> Iterator[Table]:
    """A table for each tool and number of calls in flight."""
    work = Path(folder, "work")
    (work / ".aex").mkdir(parents=True)
    (work / ".aex/policy.aex").write_text("policy bench v1\n\nallow up.notes.get, up.notes.set\n")
    upstream, bare, gateway = free_port(), free_port(), free_port()
    up = f"http://127.0.0.1:{upstream}/mcp"
    (work / "adjourn.toml").write_text(
        f'listen = "127.0.0.1:{gateway}"\n[servers.up]\nurl = "{up}"\n', encoding="utf-8"
    )
    environment = child_environment(f"{folder}/config")
    if options.postgres:
        environment["ADJOURN_STORE"] = options.postgres
    with ExitStack() as stack:
        run = partial(started, folder=str(work), environment=environment)
        stack.enter_context(run([sys.executable, str(HERE / "http_echo.py"), str(upstream)], upstream))
        stack.enter_context(run([sys.executable, str(HERE / "http_relay.py"), str(bare), up], bare))
        pid = stack.enter_context(run([ADJOURN, "serve"], gateway))
        for flights in options.flights:
            for tool, about in TOOLS.items():
                urls = {
                    BARE: f"http://127.0.0.1:{bare}/mcp",
                    TASKS: f"http://127.0.0.1:{gateway}/up/t/b{os.getpid()}-{tool}-{flights}-{{n}}/mcp",
                    ONE: f"http://127.0.0.1:{gateway}/up/mcp",
                }
                loads = {name: Load(url, tool, flights) for name, url in urls.items()}
                calls = options.calls if flights > 1 else options.calls // 10
                turns = {name: partial(turn, load, calls, pid) for name, load in loads.items()}
                try:
                    yield table(f"{about}, {flights} in flight", calls, take_turns(turns, options.rounds))
                finally:
                    for load in loads.values():
                        load.close()


def turn(load: Load, calls: int, pid: int) -> Turn:
    before = machine.processor_seconds(pid) or 0.0
    found = load.do(f"calls {calls}")
    used = (machine.processor_seconds(pid) or 0.0) - before
    return Turn(calls / found["seconds"], [seconds * 1e3 for seconds in found["times"]], used / calls * 1e6)


def table(title: str, calls: int, found: Rounds[str, Turn]) -> Table:
    made = Table(
        f"The gateway: {title}", ["", "calls/s", "bare = 1", "±", "p50 ms", "p99 ms", "gateway CPU µs"]
    )
    for name in (BARE, TASKS, ONE):
        turns = found.of(name)
        ratio = median_ratio((one.rate, bare.rate) for one, bare in zip(turns, found.of(BARE), strict=True))
        times = [one for each in turns for one in each.times]
        made.add(
            name,
            median([one.rate for one in turns]),
            ratio and ratio.median,
            ratio and ratio.error,
            percentile(times, 0.5),
            percentile(times, 0.99),
            None if name == BARE else median([one.processor for one in turns]),
        )
    made.note = f"{found.note} of {calls:,} calls."
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--calls", type=int, default=2_000, help="of each subject in a round")
    parser.add_argument("--flights", type=int, nargs="+", default=[64, 1], metavar="COUNT")
    parser.add_argument("--postgres", default="", metavar="URL", help="keep history there, not in SQLite")
    options = parser.parse_args()
    print(machine.load())
    with tempfile.TemporaryDirectory(prefix="adjourn-bench-") as folder:
        for found in measure(folder, options):
            print(found.text(), flush=True)


if __name__ == "__main__":
    main()
