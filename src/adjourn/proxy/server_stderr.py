"""What the server writes to stderr: passed on as it is, and its last lines kept for the message that says how it ended.

Owns: the thread that does so, since a client that never reads must stop the server alone. Must never: show a secret, or keep more than
the end.
"""

from __future__ import annotations

import os
from contextlib import suppress
from select import POLLOUT, poll
from threading import Thread

from adjourn.text import last_lines

MAX_KEPT = 16 * 1024
MAX_LINES, MAX_LINE = 5, 300
_PART = 64 * 1024
_LAST_SECONDS = 0.25
"""How long the rest of what a server wrote before it ended may take: another process may hold its stderr open."""


class ServerStderr:
    """Reads a pipe to its end, from now on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = b""
        self._thread = Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def _pass_on(self) -> None:
        with suppress(OSError):
            while data := os.read(self._descriptor, _PART):
                self._kept = (self._kept + data)[-MAX_KEPT:]
                _write(data)

    def finish(self) -> None:
        """Pass on what is left, now that the server has ended."""
        self._thread.join(_LAST_SECONDS)

    def last(self) -> str:
        """The last lines that the server wrote, without secrets, as the end of a sentence; "" for none."""
        lines = last_lines(self._kept, MAX_LINES, MAX_LINE)
        return f" (stderr: {'; '.join(lines)})" if lines else ""


def _write(data: bytes) -> None:
    """Write to our stderr, whether it blocks or not. Nobody may read it."""
    with suppress(OSError):
        while data:
            try:
                data = data[os.write(2, data) :]
            except BlockingIOError:
                room = poll()
                room.register(2, POLLOUT)
                room.poll()
