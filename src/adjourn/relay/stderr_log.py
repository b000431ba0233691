"""What the proxy says on stderr: lines for people, or one JSON object a line with --log-json.

What it prints of agents and servers is without secrets and without anything that a terminal would obey.

Owns: both forms. Must never: write to stdout, or fail.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from select import PIPE_BUF, POLLOUT, poll
from threading import Lock
from typing import Any

import msgspec

from adjourn.log.event import timestamp
from adjourn.text.redact import redact_json, visible_json, visible_line, without_secrets

MAX_WAITING = 1000
"""Lines that are kept while nobody reads; older ones are dropped."""
_WARNINGS = frozenset((
    "answer.unasked", "message.refused", "policy.broken", "request.refused", "tool.collision", "tool.denied", "tool.shadowed",
    "upstream.down", "upstream.gone", "upstream.non_jsonrpc", "upstream.odd",
))  # fmt: skip
_ERRORS = (".bug", ".error", ".failed")


class StderrLog:
    """Thread-safe. Routine lines wait for `flush`, which also puts them into words: off the way of a call."""

    def __init__(self, *, as_json: bool, descriptor: int = 2) -> None:
        """`descriptor` is where the lines go, where that is not stderr."""
        self._descriptor = descriptor
        self.is_json = as_json
        self._about: dict[str, str] = {}
        self._said: list[tuple[Any, ...]] = []
        self.routine: Callable[[tuple[str, str, dict[str, Any], int, bool]], None] = self._said.append
        """Takes what happened as it should, to be written soon: `(event, "", data, nanoseconds, False)`, where `data` are names and
        ids that were checked: nothing of them is hidden. No function of ours, since each call has one."""
        self._waiting: list[bytes] = []
        self._lock = Lock()
        self._room = poll()
        self._room.register(descriptor, POLLOUT)

    def event(self, event: str, text: str = "", **data: Any) -> None:
        """Something happened. `text` is for people; without it the data is shown."""
        self._said.append((event, text, data, time.time_ns(), True, self._about))
        self.flush()

    def about(self, **names: str) -> StderrLog:
        """The same log, for what happens to somebody: `names` are further members of each line of JSON."""
        if not self.is_json:
            return self
        log = copy(self)
        log._about = about = self._about | names  # noqa: SLF001  # our own
        said = self._said
        log.routine = lambda one: said.append((*one, about))
        return log

    @property
    def size(self) -> int:
        """Lines that wait."""
        return len(self._said) + len(self._waiting)

    def flush(self) -> None:
        """Write what waits, as far as there is room: a client that never reads our stderr must not stop the work."""
        with self._lock:
            waiting = self._waiting
            said = self._said[:]
            del self._said[: len(said)]
            for event, text, data, when, is_prose, *about in said[-MAX_WAITING:]:
                if self.is_json:
                    told = data if not is_prose else redact_json(data or ({"message": text} if text else {}))
                    waiting.append(_as_json(event, told, when, about[0] if about else {}))
                elif is_prose:
                    waiting.append(_as_text(event, text, data))
                else:
                    waiting.append(
                        f"adjourn: {event:<18} {' '.join(map('%s=%s'.__mod__, data.items()))}\n".encode()
                    )
            with suppress(OSError):
                while waiting and self._room.poll(0):
                    size, count = len(waiting[0]), 1
                    while count < len(waiting) and (size := size + len(waiting[count])) <= PIPE_BUF:
                        count += 1
                    os.write(self._descriptor, b"".join(waiting[:count]))
                    del waiting[:count]
            del waiting[:-MAX_WAITING]


def _as_json(event: str, told: Any, when: int, about: dict[str, str]) -> bytes:
    level = "warning" if event in _WARNINGS else "error" if event.endswith(_ERRORS) else "info"
    stamp = timestamp(when // 1_000_000)
    line = {"event": event, "data": told, "timestamp": stamp, "level": level, **about}
    return visible_json(msgspec.json.encode(line).decode()).encode() + b"\n"


def _as_text(event: str, text: str, data: dict[str, Any]) -> bytes:
    shown = text or " ".join(map("%s=%s".__mod__, data.items()))
    return f"adjourn: {event:<18} {visible_line(without_secrets(shown))}\n".encode()
