"""Processes are distinguished from later ones with the same number, and from those out of sight."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from adjourn.host import process
from adjourn.host.process import Process, current, host, lives, parent, started

HOST, BOOT, NAMESPACE = "box", "1b4e28ba", "4026531836"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until its standard input ends."""
    running = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    yield running
    running.communicate()


def the_process(child: subprocess.Popen[bytes]) -> Process:
    return Process(host(), child.pid, started(child.pid) or 0)


def test_this_process_lives() -> None:
    """This process and its parent are found alive, with their numbers and start times."""
    assert lives(current()) is True
    assert lives(parent()) is True
    assert (current().pid, parent().pid) == (os.getpid(), os.getppid())
    assert current().started > 0
    assert current() == current()


def test_a_child_lives_until_it_is_dead(child: subprocess.Popen[bytes]) -> None:
    """A running child lives; ended and waited for it does not."""
    was = the_process(child)
    assert lives(was) is True
    child.communicate()
    assert lives(was) is False
    assert started(child.pid) is None


def test_a_zombie_is_dead(child: subprocess.Popen[bytes]) -> None:
    """A process that has ended but was not waited for does not live."""
    was = the_process(child)
    assert child.stdin is not None
    child.stdin.close()
    deadline = time.monotonic() + 10
    while lives(was) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert lives(was) is False
    assert os.path.exists(f"/proc/{child.pid}")  # it is still in the table: a zombie
    child.stdin = None
    child.wait()


def test_a_later_process_with_the_same_number_is_another() -> None:
    """The same number with another start time is not the process that was."""
    here = current()
    assert lives(Process(here.host, here.pid, here.started + 1)) is False
    assert lives(Process(here.host, here.pid, 0)) is False


def test_before_another_boot_nothing_lives() -> None:
    """A process of this machine's earlier boot is dead, whatever has its number now."""
    name, _, namespace = host().split(":")
    assert lives(Process(f"{name}:ffffffff:{namespace}", os.getpid(), current().started)) is False


@pytest.mark.parametrize(
    "there", ["elsewhere:{boot}:{namespace}", "{name}:{boot}:other", "", "{name}", "{name}:{boot}", "a:b:c:d"]
)
def test_what_cannot_be_seen_is_not_judged(there: str) -> None:
    """Another machine, another process namespace or an unreadable host: neither alive nor dead."""
    name, boot, namespace = host().split(":")
    text = there.format(name=name, boot=boot, namespace=namespace)
    assert lives(Process(text, os.getpid(), current().started)) is None


@pytest.mark.parametrize("pid", [0, -1, 2**30, 2**70])
def test_numbers_of_no_process_are_dead(pid: int) -> None:
    """A number that no process can have is no living one."""
    assert lives(Process(host(), pid, 1)) is False


def test_a_name_with_spaces_and_brackets_is_read_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may call itself anything: the fields are counted from its last bracket."""
    fields = "S 1 " + " ".join(str(number) for number in range(5, 22)) + " 4711 99"
    monkeypatch.setattr(process, "_read", lambda path: f"12 (evil) R (name) {fields}")
    assert started(12) == 4711


def test_without_a_process_table_the_number_must_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no /proc a process is known by its number only, with start time 0."""
    monkeypatch.setattr(process, "_read", lambda path: "")
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    signals: list[tuple[int, int]] = []

    def kill(pid: int, signal: int) -> None:
        signals.append((pid, signal))
        if pid == 2:
            raise ProcessLookupError
        if pid == 3:
            raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    assert [started(pid) for pid in (1, 2, 3)] == [0, None, 0]
    assert {signal for _, signal in signals} == {0}


def test_a_process_has_one_text() -> None:
    """Its text has host, number and start time: a key for a client's processes."""
    assert str(Process("box:b:n", 12, 34)) == "box:b:n/12/34"


def test_the_ancestors_begin_with_the_parent_and_end_before_the_first_process() -> None:
    """Each is the parent of the one before it; none comes twice."""
    program = "from adjourn.host.process import ancestors; print(*(one.pid for one in ancestors()))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = list(map(int, told.stdout.split()))
    assert found[0] == os.getpid()
    assert found[1:] == [one.pid for one in process.ancestors()]
    assert all(pid > 1 for pid in found)
    assert len(set(found)) == len(found)
