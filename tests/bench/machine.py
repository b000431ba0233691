"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from adjourn import __version__


def describe(command: str, folder: str) -> dict[str, str]:
    """Rows for a reader, in order. `folder` is where the files of the run were made."""
    return {
        "command": f"`{command}`",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "adjourn": __version__,
        "processor": f"{os.cpu_count()} CPUs, {_processor()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "SQLite": sqlite3.sqlite_version,
        "msgspec": msgspec.__version__,
        "files on": _file_system(folder),
        "load at the start": load(),
    }


def load() -> str:
    """The load average of 1, 5 and 15 minutes."""
    return ", ".join(f"{value:.2f}" for value in os.getloadavg())


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
