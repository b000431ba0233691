"""What the numbers were measured on, and how much of it was used, by whom.

Owns: reading that from the system. Must never: fail where a system does not say; None, or "unknown", then.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sqlite3
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from adjourn import __version__


def describe(command: str, folder: str) -> dict[str, str]:
    """Rows for a reader, in order. `folder` is where the files of the run were made."""
    return {
        "command": f"`{command}`",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "adjourn": f"{__version__}{_commit()}",
        "processor": f"{os.cpu_count()} CPUs, {_processor()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "SQLite": sqlite3.sqlite_version,
        "msgspec": msgspec.__version__,
        "files on": _file_system(folder),
        "load at the start": load(),
    }


def _commit() -> str:
    """The commit that is checked out, and whether files differ from it."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f", {done.stdout.strip()}"


def load() -> str:
    """The load average of 1, 5 and 15 minutes."""
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())


def processor_seconds(pid: int) -> float | None:
    """What a process has computed since its start, in all of its threads. None where the system has no such clock."""
    clock = ctypes.c_int()
    try:
        failed = ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock))
        return None if failed else time.clock_gettime(clock.value)
    except (AttributeError, OSError):
        return None


class Usage(NamedTuple):
    """Up to a moment: seconds that all processors together were idle, and that this process and those below it computed."""

    at: float
    idle: float
    own: float

    def others_since(self, before: Usage) -> float:
        """How many processors everybody else used, on average. What the kernel does for nobody in particular is theirs."""
        elapsed = self.at - before.at
        used = (os.cpu_count() or 1) * elapsed - (self.idle - before.idle)
        return (used - (self.own - before.own)) / elapsed


def usage() -> Usage:
    """Raises `SystemExit` where the system does not say: only Linux does."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=6)
    except OSError:
        raise SystemExit("--idle needs /proc/stat: leave it out on this system") from None
    idle = (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
    times = os.times()
    ended = times.user + times.system + times.children_user + times.children_system
    return Usage(time.monotonic(), idle, ended + sum(processor_seconds(pid) or 0 for pid in _descendants()))


def _descendants() -> set[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found: set[int] = set()
    below = {os.getpid()}
    while below := {pid for pid, parent in parents.items() if parent in below}:
        found |= below
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or "unknown"


def _file_system(folder: str) -> str:
    """The file system of a folder: on one in memory, waiting for the disk costs nothing."""
    real = os.path.realpath(folder)
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    over = [fields for fields in mounts if real == fields[1] or real.startswith(fields[1].rstrip("/") + "/")]
    return max(over, key=lambda fields: len(fields[1]))[2] if over else "unknown"
