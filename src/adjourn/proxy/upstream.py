"""The upstream server as a child process: started before anything else is imported, ended with patience, then force.

Owns: spawn, its three pipes, waiting, ending. Must never: look into what passes.
"""

from __future__ import annotations

import os
import time

from adjourn.errors import AdjournError
from adjourn.host.executables import find

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

GRACE_SECONDS = 2.0
REMEDY = "check the command after --"
SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM = 1, 2, 9, 13, 15
"""POSIX's numbers. The signal module costs milliseconds, and this runs before the upstream is started."""


class UpstreamStartError(AdjournError):
    """The upstream command could not be started."""


class Upstream:
    """A running upstream. `stdin`, `stdout` and `stderr` are our ends of its pipes."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        program = find(command[0])  # in no relative entry of PATH: that is a folder of the workspace
        if program is None:
            raise UpstreamStartError(f"cannot start the upstream {command[0]!r}: it is not on PATH", REMEDY)
        their_in, self.stdin = os.pipe()
        self.stdout, their_out = os.pipe()
        self.stderr, their_errors = os.pipe()
        try:
            self.pid = os.posix_spawn(
                program,
                command,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, their_in, 0),
                    (os.POSIX_SPAWN_DUP2, their_out, 1),
                    (os.POSIX_SPAWN_DUP2, their_errors, 2),
                ],
                setsigdef=[SIGPIPE, SIGINT, SIGTERM, SIGHUP],
            )
        except OSError as error:
            for end in (self.stdin, self.stdout, self.stderr):
                os.close(end)
            raise UpstreamStartError(f"cannot start the upstream {command[0]!r}: {error.strerror}", REMEDY) from error
        finally:
            for end in (their_in, their_out, their_errors):
                os.close(end)
        os.set_blocking(self.stdin, False)  # a write to one that does not read must have an end
        self._status: int | None = None
        self._pressed = 0

    def wait(self, seconds: float) -> int | None:
        """Its wait status, once it has ended; None if it has not within `seconds`."""
        end = time.monotonic() + seconds
        while self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self._status = status
            elif time.monotonic() >= end:
                return None
            else:
                time.sleep(0.005)
        return self._status

    def kill(self) -> None:
        """Kill it now, while another thread may wait for it. Raises `ProcessLookupError` when that has just seen its end."""
        if self._status is None:
            os.kill(self.pid, SIGKILL)

    def press(self, seconds: float) -> bool:
        """Ask it by SIGTERM, then kill it, if `seconds` since its input was closed are too many. Returns whether it has ended."""
        if self.wait(0) is not None:
            return True
        if seconds > GRACE_SECONDS * (1 + self._pressed):
            os.kill(self.pid, SIGKILL if self._pressed else SIGTERM)
            self._pressed += 1
        return False

    def end(self) -> None:
        """Let it end, now that its input is closed."""
        began = time.monotonic()
        while not self.press(passed := time.monotonic() - began) and passed < 3 * GRACE_SECONDS:
            time.sleep(0.005)
