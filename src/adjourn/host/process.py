"""Which process is this, who started it, and does another one still live?"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

import msgspec

from adjourn.log.canonical_json import digest

MAX_ANCESTORS = 100_000
"""More than a system has: whoever nests shells must not hide what started them."""


class Process(msgspec.Struct, frozen=True):
    """A process that cannot be mistaken for a later one with the same number.

    `host` names machine, boot and process namespace; `started` is the start time in clock ticks since boot (0 where the
    system does not say).
    """

    host: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.host}/{self.pid}/{self.started}"


_parent = 0
simulated: set[Process] = set()
"""Processes that are said to run though the system does not know them: the clients of `adjourn.testing`, in that very process."""


def stand_for(pid: int) -> None:
    """From now on, this process represents another one: it descends from that one's parents. Raises `ProcessLookupError`."""
    global _parent  # noqa: PLW0603  # a process stands for one other at most
    _parent = _parent_of(pid)
    if not _parent:
        raise ProcessLookupError(f"process {pid} has exited")


def current() -> Process:
    """This process."""
    return Process(host(), os.getpid(), started(os.getpid()) or 0)


def parent() -> Process:
    """The process that started this one: the client, for a proxy."""
    return Process(host(), os.getppid(), started(os.getppid()) or 0)


def ancestors() -> Iterator[Process]:
    """The processes that this one descends from, nearest first."""
    here, pid = host(), _parent or os.getppid()
    for _ in range(MAX_ANCESTORS):
        if pid <= 1:
            return
        yield Process(here, pid, started(pid) or 0)
        pid = _parent_of(pid)


def _parent_of(pid: int) -> int:
    """The number of the parent; 0 where it is not known, or the process is gone."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def host() -> str:
    """`hostname:boot:namespace`; the last two are empty where the system has no /proc."""
    boot = _read("/proc/sys/kernel/random/boot_id")[:8]
    try:
        namespace = os.readlink("/proc/self/ns/pid")[5:-1]
    except OSError:
        namespace = ""
    return f"{os.uname().nodename[:64]}:{boot}:{namespace}"


def machine() -> str:
    """What names this machine, also after a restart and in another network."""
    return _read("/etc/machine-id").strip() or os.uname().nodename[:64]


def program(pid: int) -> str:
    """The name of the program that a process runs; "" where it is not known."""
    return _read(f"/proc/{pid}/comm").strip()


def children(parents: Collection[int]) -> Iterator[Process]:
    """The processes that those of some numbers have started, and that still run. None where it is not known."""
    here = host()
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return
    for pid in numbers:
        if _parent_of(pid) in parents:
            yield Process(here, pid, started(pid) or 0)


def working_directory(process: Process) -> str:
    """The folder that a process works in; "" where it is not known."""
    try:
        return os.readlink(f"/proc/{process.pid}/cwd")
    except OSError:
        return ""


def started(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot; 0 if it lives but the time is not known; None if it is gone."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) > 19:
        return None if fields[0] in "ZX" else int(fields[19])
    if os.path.exists("/proc/self/stat"):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return 0


def lives(process: Process) -> bool | None:
    """Whether a process still runs; None when it runs, or ran, where this machine cannot see."""
    if process in simulated:
        return True
    here, there = host().split(":"), process.host.split(":")
    if here[0] != there[0] or len(there) != len(here):
        return None
    if here[1] != there[1]:
        return False  # the machine has restarted since
    if here[2] != there[2]:
        return None
    return started(process.pid) == process.started


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return ""


def group_of(client: Process, root: str) -> str:
    """One name for all proxies that a client process started in a workspace."""
    return f"{client}/{digest(os.fsencode(root))[:8]}"
