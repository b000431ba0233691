"""Spans for a collector that takes OTLP over HTTP as JSON.

A thread of its own puts them into their form and sends them in batches; what a collector does not accept is dropped, and reported once at the
end. Owns: the form of a span, the bounds on what waits and for how long. Must never: hold up or fail whoever has something to say.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

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
_PATH = "/v1/traces"


class TraceSpan(NamedTuple):
    """What took place from `start` to `end` (nanoseconds since 1970), beneath the span `parent` (hex; "": none).

    `kind` is 1 within a program, 2 for a request that it answers, 3 for one that it makes.
    """

    trace: str
    id: str
    name: str
    start: int
    end: int
    attributes: Mapping[str, str | int]
    parent: str = ""
    kind: int = 1
    is_error: bool = False


class SpanExporter:
    """Sends what is `put`. `what` the spans are, for people. Raises `InvalidError` for an invalid URL."""

    def __init__(self, url: str, *, seconds: float = SECONDS, what: str = "spans") -> None:
        self.url = url.rstrip("/") + _PATH if address(url).path in {"", "/"} else url
        self._seconds = seconds
        self._what = what
        self._waiting: deque[TraceSpan] = deque()
        self._is_over = False
        self._due = threading.Event()
        self._failed = ""
        self.added = 0
        self.taken = 0
        """Of those added: how many the collector has."""
        self._thread = threading.Thread(target=self._work, name="otlp", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Spans that wait."""
        return len(self._waiting)

    def put(self, span: TraceSpan) -> None:
        """Add a span. Returns at once."""
        self.added += 1
        if len(self._waiting) >= MAX_WAITING:
            self._failed = self._failed or "the collector is too slow"
            return
        self._waiting.append(span)
        if len(self._waiting) >= BATCH and not self._due.is_set():
            self._due.set()

    def close(self) -> str:
        """Send what is left, within the time; returns what went wrong, if anything did."""
        self._is_over = True
        self._due.set()
        self._thread.join(self._seconds)
        if self._thread.is_alive():
            self._failed = self._failed or f"no answer within {self._seconds:g} seconds"
        lost = self.added - self.taken
        return f"{lost} of {self.added} {self._what} did not reach {self.url}: {self._failed}" if lost else ""

    def _work(self) -> None:
        is_over = False
        while not is_over:
            self._due.wait(EVERY_SECONDS)
            is_over = self._is_over
            self._due.clear()
            while self._waiting:
                self._send([self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))])

    def _send(self, spans: list[TraceSpan]) -> None:
        try:
            status, _ = exchange("POST", self.url, _body(spans), 1_000_000, self._seconds)
        except (UnansweredError, InvalidError) as error:
            self._failed = self._failed or str(error)
            return
        if 200 <= status < 300:
            self.taken += len(spans)
        else:
            self._failed = self._failed or f"it answered {status}"


def _attribute(key: str, value: str | int) -> dict[str, Any]:
    if isinstance(value, int):
        return {"key": _clean(key), "value": {"intValue": str(value)}}
    return {"key": _clean(key), "value": {"stringValue": _clean(value[:MAX_ATTRIBUTE])}}


def _clean(text: str) -> str:
    """The text without halves of characters, which no encoding has."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _written(span: TraceSpan) -> dict[str, Any]:
    told: dict[str, Any] = {
        "traceId": span.trace,
        "spanId": span.id,
        "name": _clean(span.name),
        "kind": span.kind,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": [_attribute(key, value) for key, value in span.attributes.items()],
    }
    if span.parent:
        told["parentSpanId"] = span.parent
    if span.is_error:
        told["status"] = {"code": 2}
    return told


def _body(spans: list[TraceSpan]) -> bytes:
    scope = {"name": "adjourn", "version": __version__}
    resource = {"attributes": [_attribute("service.name", "adjourn")]}
    traces = [
        {"resource": resource, "scopeSpans": [{"scope": scope, "spans": [_written(one) for one in spans]}]}
    ]
    return msgspec.json.encode({"resourceSpans": traces})
