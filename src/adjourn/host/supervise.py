"""Runs a program, and ends all that it started: `python -m adjourn.host.supervise PID PROGRAM ...`. Ends with its exit code.

Language servers and test runners start programs of their own. This process stands above them: it ends with the process PID that asked for
it, whatever way that ended, and takes every descendant with it, also those that left their group.

Must never: outlive PID, or leave one of them behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_SECONDS = 1.0
_KILL_SECONDS = 5.0
_NOT_STARTED = 127


def main() -> None:
    parent, *command = sys.argv[1:]
    signal.signal(signal.SIGTERM, _ending())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = _control()
    control(_PR_SET_CHILD_SUBREAPER, 1)
    control(_PR_SET_PDEATHSIG, signal.SIGTERM)
    code = _NOT_STARTED
    try:
        program = subprocess.Popen(
            command,
            preexec_fn=lambda: control(_PR_SET_PDEATHSIG, signal.SIGKILL) and None,  # noqa: PLW1509  # one thread
        )
        for descriptor in (0, 1):  # its pipes are the program's alone: each side sees when the other ends
            os.close(descriptor)
        while os.getppid() == int(parent):  # where the kernel sends no signal, a look a second
            with suppress(subprocess.TimeoutExpired):
                code = program.wait(_LOOK_SECONDS)
                break
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
    finally:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        finally:  # a signal may come just before it is ignored
            _kill_children()
    raise SystemExit(code if code >= 0 else 128 - code)


def _ending() -> Callable[[int, FrameType | None], None]:
    """A handler that ends this process, once: where PID has threads, the kernel sends a signal for each that dies, and a later one must not
    end what the first one began.
    """
    left = [SystemExit(0)]

    def end(_number: int, _frame: FrameType | None) -> None:
        if left:
            raise left.pop()

    return end


def _control() -> Callable[..., object]:
    """The kernel's `prctl`; elsewhere a function that does nothing."""
    if sys.platform != "linux":
        return lambda *_: 0
    function: Callable[..., object] = ctypes.CDLL(None).prctl
    return function


def _kill_children() -> None:
    """Kill children until there are none: those of a killed one become ours."""
    ends_at = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < ends_at:
        for child in _children():
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _children() -> list[int]:
    own = str(os.getpid())
    children = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with suppress(OSError, IndexError), open(f"/proc/{name}/stat", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[1] == own:
                    children.append(int(name))
    return children


if __name__ == "__main__":
    main()
