"""What the proxy says on stderr: lines for people, or one JSON object a line with --log-json.

What it prints of agents and servers is without secrets and without anything that a terminal would obey.

Owns: both forms. Must never: write to stdout, or fail.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from select import PIPE_BUF, POLLOUT, poll
from threading import Lock
from typing import Any

import msgspec

from adjourn.log import timestamp
from adjourn.text import redact_json, visible_json, visible_line, without_secrets

MAX_WAITING = 1000
"""Lines that are kept while nobody reads; older ones are dropped."""


class StderrLog:
    """Thread-safe. Routine lines wait for `flush`, which also puts them into words: off the way of a call."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._said: list[tuple[str, str, dict[str, Any], int, bool]] = []
        self.routine = self._said.append
        """Takes what happened as it should, to be written soon: `(event, "", data, nanoseconds, False)`, where `data` are names and
        ids that were checked: nothing of them is hidden. No function of ours, since each call has one."""
        self._waiting: list[bytes] = []
        self._lock = Lock()
        self._room = poll()
        self._room.register(2, POLLOUT)

    def event(self, event: str, text: str = "", **data: Any) -> None:
        """Something happened. `text` is for people; without it the data is shown."""
        self._said.append((event, text, data, time.time_ns(), True))
        self.flush()

    def flush(self) -> None:
        """Write what waits, as far as there is room: a client that never reads our stderr must not stop the work."""
        with self._lock:
            waiting = self._waiting
            said = self._said[:]
            del self._said[: len(said)]
            for event, text, data, when, is_prose in said[-MAX_WAITING:]:
                if is_prose or self._json:
                    waiting.append(self._line(event, text, data, when))
                else:
                    waiting.append(
                        f"adjourn: {event:<18} {' '.join(map('%s=%s'.__mod__, data.items()))}\n".encode()
                    )
            with suppress(OSError):
                while waiting and self._room.poll(0):
                    size, count = len(waiting[0]), 1
                    while count < len(waiting) and (size := size + len(waiting[count])) <= PIPE_BUF:
                        count += 1
                    os.write(2, b"".join(waiting[:count]))
                    del waiting[:count]
            del waiting[:-MAX_WAITING]

    def _line(self, event: str, text: str, data: dict[str, Any], when: int) -> bytes:
        if self._json:
            told = data or ({"message": text} if text else {})
            stamp = timestamp(when // 1_000_000)
            said = msgspec.json.encode(
                {"event": event, "data": redact_json(told), "timestamp": stamp}
            ).decode()
            return visible_json(said).encode() + b"\n"
        shown = text or " ".join(map("%s=%s".__mod__, data.items()))
        return f"adjourn: {event:<18} {visible_line(without_secrets(shown))}\n".encode()
