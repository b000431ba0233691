"""What the proxy says on stderr: lines for people, or one JSON object a line with --log-json.

Owns: both forms. Must never: write to stdout, or fail.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

import msgspec

from adjourn.log.event import timestamp


class Report:
    """Thread-safe: a line is one write. Routine lines may wait for `flush`, since a write costs more than the rest."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._waiting: list[bytes] = []

    def event(self, event: str, text: str = "", **data: Any) -> None:
        """Something happened. `text` is for people; without it the data is shown."""
        self._waiting.append(self._line(event, text, data))
        self.flush()

    def routine(self, event: str, **data: Any) -> None:
        """Something happened as it should. Written soon."""
        self._waiting.append(self._line(event, "", data))

    def flush(self) -> None:
        lines = []
        while self._waiting:  # other threads may add meanwhile
            lines.append(self._waiting.pop(0))
        if lines:
            with suppress(OSError):  # nobody reads our stderr; the work goes on
                os.write(2, b"".join(lines))

    def _line(self, event: str, text: str, data: dict[str, Any]) -> bytes:
        if self._json:
            stamp = timestamp(time.time_ns() // 1_000_000)
            told = data or ({"message": text} if text else {})
            return msgspec.json.encode({"event": event, "data": told, "timestamp": stamp}) + b"\n"
        shown = text or " ".join(f"{key}={value}" for key, value in data.items())
        return f"adjourn: {event:<18} {shown}\n".encode(errors="replace")
