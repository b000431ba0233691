"""The events of a run as spans. Must never: hold up a run, or fail it."""

from __future__ import annotations

import json
import time
from typing import Any

from adjourn.host.otlp import SpanExporter, TraceSpan


class Exporter:
    """Sends the events given to `add`. Raises `InvalidError` for an invalid URL."""

    def __init__(self, url: str) -> None:
        self._spans = SpanExporter(url, what="events")

    def add(self, event: str, data: dict[str, Any], *, trace: str, span: str) -> None:
        """An event that happens now. Returns at once."""
        at = time.time_ns()
        told = {f"aex.{key}": _text(value) for key, value in {"event": event, **data}.items()}
        self._spans.put(TraceSpan(trace, span, event, at, at, told))

    def close(self) -> str:
        """Send what is left, within the time; returns what went wrong, if anything did."""
        return self._spans.close()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
