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
    """Thread-safe: a line is one write."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json

    def event(self, event: str, text: str = "", **data: Any) -> None:
        """Something happened. `text` is for people; without it the data is shown."""
        if self._json:
            body = {"event": event, "data": data, "timestamp": timestamp(time.time_ns() // 1_000_000)}
            if text and not data:
                body["data"] = {"message": text}
            line = msgspec.json.encode(body) + b"\n"
        else:
            shown = text or " ".join(f"{key}={value}" for key, value in data.items())
            line = f"adjourn: {event:<18} {shown}\n".encode(errors="replace")
        with suppress(OSError):  # nobody reads our stderr; the work goes on
            os.write(2, line)
