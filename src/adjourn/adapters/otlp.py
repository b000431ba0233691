"""The events of a run as spans, for a collector that takes OTLP over HTTP as JSON.

A thread of its own sends them in batches; what a collector does not accept is dropped, and reported once at the end. Owns: the form of a
span, the bounds on what waits and for how long. Must never: hold up a run, or fail it.
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
from adjourn.host import UnansweredError, address, exchange

SECONDS = 5.0
"""For one batch, and for what is left when the run is over."""
BATCH = 256
EVERY_SECONDS = 2.0
MAX_WAITING = 4096
MAX_ATTRIBUTE = 8000
"""Characters."""
_PATH = "/v1/traces"


class Exporter:
    """Sends the events given to `add`. Raises `InvalidError` for an invalid URL."""

    def __init__(self, url: str, *, seconds: float = SECONDS) -> None:
        self.url = url.rstrip("/") + _PATH if address(url).path in {"", "/"} else url
        self._seconds = seconds
        self._waiting: deque[dict[str, Any]] = deque()
        self._over = threading.Event()
        self._failed = ""
        self._added = 0
        self._taken = 0
        self._thread = threading.Thread(target=self._work, name="otlp", daemon=True)
        self._thread.start()

    def add(self, event: str, data: dict[str, Any], *, trace: str, span: str) -> None:
        """An event that happens now. Returns at once."""
        self._added += 1
        if len(self._waiting) >= MAX_WAITING:
            self._failed = self._failed or "the collector is too slow"
            return
        at = str(time.time_ns())
        attributes = {"event": event, **data}
        self._waiting.append(
            {
                "traceId": trace,
                "spanId": span,
                "name": event,
                "kind": 1,
                "startTimeUnixNano": at,
                "endTimeUnixNano": at,
                "attributes": [_attribute(f"aex.{key}", value) for key, value in attributes.items()],
            }
        )

    def close(self) -> str:
        """Send what is left, within the time; returns what went wrong, if anything did."""
        self._over.set()
        self._thread.join(self._seconds)
        if self._thread.is_alive():
            self._failed = self._failed or f"no answer within {self._seconds:g} seconds"
        lost = self._added - self._taken
        return f"{lost} of {self._added} events did not reach {self.url}: {self._failed}" if lost else ""

    def _work(self) -> None:
        over = False
        while not over:
            over = self._over.wait(EVERY_SECONDS)
            while self._waiting:
                self._send([self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))])

    def _send(self, spans: list[dict[str, Any]]) -> None:
        try:
            status, _ = exchange("POST", self.url, _body(spans), 1_000_000, self._seconds)
        except (UnansweredError, InvalidError) as error:
            self._failed = self._failed or str(error)
            return
        if 200 <= status < 300:
            self._taken += len(spans)
        else:
            self._failed = self._failed or f"it answered {status}"


def _attribute(key: str, value: Any) -> dict[str, Any]:
    text = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:MAX_ATTRIBUTE]
    return {"key": _clean(key), "value": {"stringValue": _clean(text)}}


def _clean(text: str) -> str:
    """The text without halves of characters, which no encoding has."""
    return text.encode("utf-8", "replace").decode()


def _body(spans: list[dict[str, Any]]) -> bytes:
    scope = {"name": "adjourn", "version": __version__}
    resource = {"attributes": [_attribute("service.name", "adjourn")]}
    traces = [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]
    return msgspec.json.encode({"resourceSpans": traces})
