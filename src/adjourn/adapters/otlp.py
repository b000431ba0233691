"""The events of a run as spans, for a collector that takes OTLP over HTTP as JSON.

A thread of its own sends them in batches. What a collector does not accept is dropped, and reported once at the end. OpenTelemetry's SDK
would be a package more for whoever runs one contract. Must never: hold up a run, or fail it.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from typing import Any

import msgspec

from adjourn import __version__
from adjourn.errors import InvalidError
from adjourn.host.http import UnansweredError, address, exchange

SECONDS = 5.0
"""For one batch, and for what is left at the end."""
BATCH = 256
EVERY_SECONDS = 2.0
MAX_WAITING = 4096
MAX_ATTRIBUTE = 8000
"""Characters."""


class Exporter:
    """Sends the events given to `add`. Raises `InvalidError` for an invalid URL."""

    def __init__(self, url: str) -> None:
        self.url = f"{url.rstrip('/')}/v1/traces" if address(url).path in {"", "/"} else url
        self._waiting: deque[dict[str, Any]] = deque()
        """Spans in the form of OTLP."""
        self._is_over = False
        self._due = threading.Event()
        self._failed = ""
        self._added = self._taken = 0
        """Spans; those that the collector has."""
        self._thread = threading.Thread(target=self._work, name="otlp", daemon=True)
        self._thread.start()

    def add(self, event: str, data: dict[str, Any], *, trace: str, span: str) -> None:
        """An event that happens now. Returns at once."""
        self._added += 1
        if len(self._waiting) >= MAX_WAITING:
            self._failed = self._failed or "the collector is too slow"
            return
        now = str(time.time_ns())
        self._waiting.append(
            {
                "traceId": trace,
                "spanId": span,
                "name": _encodable(event),
                "kind": 1,
                "startTimeUnixNano": now,
                "endTimeUnixNano": now,
                "attributes": [_attribute(f"aex.{key}", value) for key, value in {"event": event, **data}.items()],
            }
        )
        if len(self._waiting) >= BATCH:
            self._due.set()

    def close(self) -> str:
        """Send what is left, within the time; returns what went wrong, if anything did."""
        self._is_over = True
        self._due.set()
        self._thread.join(SECONDS)
        if self._thread.is_alive():
            self._failed = self._failed or f"no answer within {SECONDS:g} seconds"
        lost = self._added - self._taken
        return f"{lost} of {self._added} events did not reach {self.url}: {self._failed}" if lost else ""

    def _work(self) -> None:
        is_over = False
        while not is_over:
            self._due.wait(EVERY_SECONDS)
            is_over = self._is_over
            self._due.clear()
            while self._waiting:
                self._send([self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))])

    def _send(self, spans: list[dict[str, Any]]) -> None:
        scope = {"name": "adjourn", "version": __version__}
        resource = {"attributes": [_attribute("service.name", "adjourn")]}
        traces = {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}
        body = msgspec.json.encode({"resourceSpans": [traces]})
        try:
            status, _ = exchange("POST", self.url, body, 1_000_000, SECONDS)
        except (UnansweredError, InvalidError) as error:
            self._failed = self._failed or str(error)
            return
        if 200 <= status < 300:
            self._taken += len(spans)
        else:
            self._failed = self._failed or f"it answered {status}"


def _attribute(key: str, value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"key": _encodable(key), "value": {"stringValue": _encodable(text[:MAX_ATTRIBUTE])}}


def _encodable(text: str) -> str:
    """The text without halves of characters, which no encoding has."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
