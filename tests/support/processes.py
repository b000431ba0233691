"""The processes of this machine, as /proc shows them.

Owns: reading /proc. Must never: signal one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """One that is there; a zombie has ended, and nobody has waited for it."""

    pid: int
    parent: int
    is_zombie: bool
    ticks: int
    """The processor time that it has used, in clock ticks (`SC_CLK_TCK` of them are a second)."""


def process(pid: int) -> Process | None:
    """A process; None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("latin-1")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name may hold spaces and parentheses
    return Process(pid, int(fields[1]), fields[0] == "Z", int(fields[11]) + int(fields[12]))


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    found = process(pid)
    return found is not None and not found.is_zombie


def processes() -> Iterator[Process]:
    """All that are there."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := process(int(name))) is not None:
            yield found


def children(pid: int) -> list[int]:
    """The processes that one has started and not waited for, in ascending order; zombies too."""
    return sorted(one.pid for one in processes() if one.parent == pid)


def below(pid: int) -> list[int]:
    """The children of a process, then theirs, and so on."""
    parents = {one.pid: one.parent for one in processes()}
    found: list[int] = []
    added = [pid]
    while added:
        added = [child for child, parent in parents.items() if parent in added and child not in found]
        found += added
    return found


def command(pid: int) -> list[bytes]:
    """The words that a process was started with; none for one that is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    return []


def with_word(word: str) -> Iterator[int]:
    """The processes that were started with this word."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(word) in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


def works_in(folder: Path) -> bool:
    """Whether a process has its working folder there, or below."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if Path(os.readlink(link)).is_relative_to(folder):
                return True
    return False


def resident(pid: int) -> int:
    """Bytes of its resident memory. Raises `OSError` where there is no such process."""
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
