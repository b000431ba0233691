"""A terminal that commands draw on, and a person's keys.

Owns: `Screen`. Must never: interpret more than styles and the end of a screen.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from support.terminal import command_apart

SECONDS = 20.0
_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _hear_interrupts() -> None:
    """In a child: a shell that runs the tests in its background has them ignore Ctrl-C, and what they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Screen:
    """A command of `adjourn` on a terminal of its own. `apart`: as a child of nobody here, as from another window."""

    def __init__(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], columns: int = 80, rows: int = 40, apart: bool = False
    ) -> None:
        self.sent = b""
        self.code: int | None = None
        self.process = 0
        """The command's process, unless it is apart."""
        self.left_sane = False
        """Whether the terminal `looks_sane` at the end."""
        kept = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
        self._command = [sys.executable, "-m", "adjourn", *arguments]
        self._environment = {"TERM": "xterm"} | kept
        self._size = struct.pack("HHHH", rows, columns, 0, 0)
        self._report = -1
        if apart:
            self._start_apart(cwd)
        else:
            self._start(cwd)

    def _start(self, cwd: Path) -> None:
        self.process, self._terminal = pty.fork()
        if self.process == 0:
            _hear_interrupts()
            fcntl.ioctl(0, termios.TIOCSWINSZ, self._size)
            os.chdir(cwd)
            os.execve(sys.executable, self._command, self._environment)

    def _start_apart(self, cwd: Path) -> None:
        self._terminal, other = os.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, self._size)
        self._report, status = os.pipe()
        command = command_apart(os.ttyname(other), status, self._command)
        subprocess.run(command, cwd=cwd, env=self._environment, pass_fds=(status,), stdin=other, stdout=other, stderr=other, preexec_fn=_hear_interrupts, check=True)  # fmt: skip
        os.close(status)
        os.close(other)

    def looks_sane(self) -> bool:
        """Whether the terminal echoes what is typed, takes whole lines, and shows the screen that it showed before, with the cursor."""
        modes = termios.tcgetattr(self._terminal)[3]
        before, _, after = self.sent.rpartition(b"\x1b[?1049")
        is_left = (not before or after.startswith(b"l")) and not self.sent.rpartition(b"\x1b[?25")[2].startswith(b"l")
        return bool(modes & termios.ECHO and modes & termios.ICANON) and is_left

    def wait_for(self, text: str) -> None:
        """Read until a text is shown. Fails if it does not come."""
        end = time.monotonic() + SECONDS
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            assert self._read(0.1), self.shown

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self._terminal, keys)

    def finish(self) -> str:
        """Read to the end of the command, and return what was shown."""
        end = time.monotonic() + SECONDS
        while self._read(0.1):
            assert time.monotonic() < end, self.shown
        if self.process:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        else:
            with os.fdopen(self._report, encoding="ascii") as told:
                self.code = int(told.read().split()[-1])
        self.left_sane = self.looks_sane()
        os.close(self._terminal)
        return self.shown

    @property
    def shown(self) -> str:
        """All that was sent, without styles."""
        return _STYLES.sub("", self.sent.decode(errors="replace")).replace("\r\n", "\n")

    def _read(self, seconds: float) -> bool:
        if not select.select([self._terminal], [], [], seconds)[0]:
            return True
        try:
            part = os.read(self._terminal, 65536)
        except OSError:
            return False
        self.sent += part
        return bool(part)
