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
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

SECONDS = 20.0
_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """A command of `adjourn` on a terminal of its own."""

    def __init__(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], columns: int = 80, rows: int = 40
    ) -> None:
        self.sent = b""
        self.code: int | None = None
        self._process, self._terminal = pty.fork()
        if self._process == 0:
            signal.signal(
                signal.SIGINT, signal.SIG_DFL
            )  # ignored where the tests run in the background of a shell
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.chdir(cwd)
            kept = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
            os.execve(sys.executable, [sys.executable, "-m", "adjourn", *arguments], {"TERM": "xterm"} | kept)

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
        os.close(self._terminal)
        self.code = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
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
