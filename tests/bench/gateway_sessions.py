"""What sessions of clients cost `adjourn serve` in memory: idle ones, ones with an open stream, and many that come and go.

Owns: these subjects. Must never: take memory that is given back later for a leak, or the other way round.
"""

from __future__ import annotations

import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import gateway_fronts as fronts
from gateway_fronts import Load, free_port, resident, started
from peer import child_environment
from sizes import Sizes
from tables import Table

TITLE = "The gateway: sessions of clients"
UNUSED_SECONDS = 5
SETTLE_SECONDS = 60.0
STEADY_SECONDS, STEADY_KIB = 1.5, 64.0


class _Gateway:
    """One that serves, and what it says of itself."""

    def __init__(self, pid: int, url: str, metrics: str) -> None:
        self.pid = pid
        self.url = url
        self._metrics = metrics

    def kib(self) -> float:
        """Its memory, once that no longer changes."""
        before = -1.0
        end = time.monotonic() + SETTLE_SECONDS
        while abs((now := (resident(self.pid) or 0.0) * 1024) - before) > STEADY_KIB and time.monotonic() < end:
            before = now
            time.sleep(STEADY_SECONDS)
        return now

    def sessions(self) -> int:
        """Those of clients that it has."""
        with urllib.request.urlopen(self._metrics, timeout=60) as found:
            lines = found.read().decode().splitlines()
        return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("adjourn_sessions{")))

    def left(self) -> int:
        """Its sessions, once there are none or a while has passed."""
        end = time.monotonic() + SETTLE_SECONDS
        while (found := self.sessions()) and time.monotonic() < end:
            time.sleep(0.5)
        return found


def measure(sizes: Sizes, folder: str) -> Table:
    """The table of this part; files are made in `folder`."""
    table = Table(TITLE, ["", "sessions", "KiB a session", "at most", "sessions left", "RSS after, MiB"])
    environment = child_environment(f"{folder}/config") | fronts.DEPLOYED
    upstream, port, metrics = free_port(), free_port(), free_port()
    up = f"http://127.0.0.1:{upstream}/mcp"
    settings = f'[limits]\nsession_seconds = {UNUSED_SECONDS}\n[metrics]\nlisten = "127.0.0.1:{metrics}"\n'
    with ExitStack() as stack:
        stack.enter_context(started(fronts.echo(upstream), upstream, folder, environment))
        for name, limit, command in (
            ("idle", 12, "idle"),
            ("with an open stream", 32, "listen"),
        ):  # KiB that one may take
            work = Path(folder, command)
            served = fronts.gateway(work, port, up, settings.replace(f"= {UNUSED_SECONDS}", "= 3600"))
            with started(served, port, str(work), environment) as pid:
                gateway = _Gateway(pid, f"http://127.0.0.1:{port}/up/mcp", f"http://127.0.0.1:{metrics}/metrics")
                each, memory = _kept(gateway, command, sizes.gateway_sessions)
                table.add(name, sizes.gateway_sessions, each, limit, None, memory)
        work = Path(folder, "churn")
        with started(fronts.gateway(work, port, up, settings), port, str(work), environment) as pid:
            gateway = _Gateway(pid, f"http://127.0.0.1:{port}/up/mcp", f"http://127.0.0.1:{metrics}/metrics")
            for name, command in (("ended by DELETE", "churn"), ("left, and ended as unused", "abandon")):
                each, left, memory = _churned(gateway, command, sizes.gateway_churn)
                table.add(name, sizes.gateway_churn, each, 0, left, memory)
    table.note = (
        f"Memory is VmRSS of the gateway. Of sessions that come and go, it is what they added to that of a tenth as many before: each makes one call. "
        f"Unused ones end after {UNUSED_SECONDS} s here."
    )
    return table


def _kept(gateway: _Gateway, command: str, count: int) -> tuple[float, float]:
    """KiB that so many sessions take each, and MiB of the gateway with them."""
    load = Load(gateway.url, "notes.get", 1)
    try:
        load.do(f"{command} {max(1, count // 4)}")  # what the first ones make is made once
        before = gateway.kib()
        load.do(f"{command} {count}")
        after = gateway.kib()
        return (after - before) / count, after / 1024
    finally:
        load.close()


def _churned(gateway: _Gateway, command: str, count: int) -> tuple[float, int, float]:
    """KiB that each of so many sessions leaves, the sessions that are left, and MiB of the gateway then."""
    load = Load(gateway.url, "notes.get", 0)
    try:
        load.do(f"churn {max(1, count // 10)}")  # what the first ones make is made once
        gateway.left()
        before = gateway.kib()
        load.do(f"{command} {count}")
        left = gateway.left()
        after = gateway.kib()
        return (after - before) / count, left, after / 1024
    finally:
        load.close()
