"""Traces of requests by OpenTelemetry: the client's span, beneath it ours: the request, its decision, each append, the request to the server.

    [traces]
    endpoint = "http://127.0.0.1:4318"
    sample = 0.1    # of those that no client has started

The context is W3C's: `traceparent` in a header or in `_meta`. The server gets it with our span in the place of the client's.

Spans are made when the request is over, with the times that were noted on its way: a span that is open costs more than a call has to spare.

Must never: say anything of arguments or answers, or change a message but for that context.
"""

from __future__ import annotations

import logging
import random
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, cast

from adjourn import __version__
from adjourn.gateway.settings import TracesSettings
from adjourn.host.http import address

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.trace import Span

TRACEPARENT, TRACESTATE = b"traceparent", b"tracestate"
CLOSE_SECONDS = 5.0
"""For one batch, and for what is left at the end."""
MAX_ATTRIBUTE = 8000
"""Characters."""
MAX_CONTEXT = 200
MAX_APPENDS, MAX_STREAMS = 16, 1024
"""The last appends of a stream that are known, and of how many streams."""
_METHOD = re.compile(r"[A-Za-z][A-Za-z/_]{0,63}")


class Trace:
    """One request of a client, on its way. `span` is ours for it, `given` the client's context in `_meta`."""

    __slots__ = ("asked", "attributes", "begun", "decided", "failed", "given", "name", "settled", "span",
                 "stream", "upstream")  # fmt: skip

    def __init__(self, span: Span, given: str) -> None:
        self.span, self.given = span, given
        self.upstream = random.getrandbits(64)
        """The id of the span of our request to the server: the server has it before the span is made."""
        self.begun = monotonic_ns()
        self.decided = self.asked = self.settled = 0
        """When the decision was there, the server was asked, and had answered (`monotonic_ns`)."""
        self.stream = ""
        """The task for which appends are traced."""
        self.name = ""
        self.failed = False
        self.attributes: dict[str, str | int] = {}

    def context(self, *, of_call: bool) -> str:
        """What the server gets: the span of our request for a call, which has one; else that of the client's request."""
        context = self.span.get_span_context()
        return f"00-{context.trace_id:032x}-{self.upstream if of_call else context.span_id:016x}-01"


class AppendTimes:
    """When the store took something, by stream, for a short while: several requests may share an append."""

    def __init__(self) -> None:
        self.is_kept = False
        self._of: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()
        self._lock = Lock()

    def note(self, streams: Iterable[str], begun: int, ended: int) -> None:
        """The store took something for these. From any thread."""
        with self._lock:
            for stream in streams:
                times = self._of.get(stream)
                if times is None:
                    times = self._of[stream] = deque(maxlen=MAX_APPENDS)
                    if len(self._of) > MAX_STREAMS:
                        self._of.popitem(last=False)
                else:
                    self._of.move_to_end(stream)
                times.append((begun, ended))

    def of(self, stream: str, since: int) -> list[tuple[int, int]]:
        """The last of a stream that began after `since`."""
        with self._lock:
            return [times for times in self._of.get(stream, ()) if times[0] >= since]


class Tracer:
    """Starts and ends traces. Raises `InvalidError` for an invalid endpoint."""

    def __init__(self, settings: TracesSettings, appends: AppendTimes) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # 0.2 s
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

        has_path = address(settings.endpoint).path not in {"", "/"}
        self._url = settings.endpoint if has_path else f"{settings.endpoint.rstrip('/')}/v1/traces"
        self._appends = appends
        appends.is_kept = True
        self._offset = time_ns() - monotonic_ns()
        self._ids = _SpanIds()
        self._exporter = _CountingExporter(OTLPSpanExporter(self._url, timeout=CLOSE_SECONDS))
        self._problem = _FirstProblem()
        self._provider = TracerProvider(
            ParentBased(TraceIdRatioBased(settings.sample)),
            Resource.create({"service.name": "adjourn"}),
            shutdown_on_exit=False,
            id_generator=cast("IdGenerator", self._ids),
            span_limits=SpanLimits(max_span_attribute_length=MAX_ATTRIBUTE),
        )
        exporter = cast("SpanExporter", self._exporter)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=2000))
        self._tracer = self._provider.get_tracer("adjourn", __version__)
        self._ended = 0

    def begin(self, headers: Mapping[bytes, bytes], in_meta: object) -> Trace | None:
        """The trace of a request; None where it is not recorded. A header says more than `_meta`: it was made last."""
        from opentelemetry.trace import SpanKind, get_current_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        word = in_meta if isinstance(in_meta, str) else ""
        context = None
        for text in (headers.get(TRACEPARENT, b"").decode("latin-1"), word):
            if text and len(text) <= MAX_CONTEXT:
                context = TraceContextTextMapPropagator().extract({"traceparent": text})
                if get_current_span(context).get_span_context().is_valid:
                    break
        span = self._tracer.start_span("message", context, SpanKind.SERVER, start_time=time_ns())
        return Trace(span, word) if span.is_recording() else None

    def end(self, trace: Trace, method: object, status: int) -> None:
        """The request was answered."""
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

        now = monotonic_ns()
        method_name = method if isinstance(method, str) and _METHOD.fullmatch(method) else "message"
        name = _encodable(f"{method_name} {trace.name}" if trace.name else method_name)
        attributes = {
            key: _encodable(value) if isinstance(value, str) else value for key, value in trace.attributes.items()
        }
        parent = set_span_in_context(trace.span)
        inner = [("decide", trace.begun, trace.decided)] if trace.decided else []
        inner += [("append", *times) for times in self._appends.of(trace.stream, trace.begun)]
        for inner_name, begun, ended in inner:
            span = self._tracer.start_span(inner_name, parent, start_time=begun + self._offset)
            span.end(ended + self._offset)
        if trace.asked:
            self._ids.next = trace.upstream
            start = trace.asked + self._offset
            span = self._tracer.start_span(name, parent, SpanKind.CLIENT, attributes, start_time=start)
            if trace.failed:
                span.set_status(StatusCode.ERROR)
            span.end((trace.settled or now) + self._offset)
        trace.span.update_name(name)
        trace.span.set_attributes({"mcp.method.name": method_name, "http.response.status_code": status})
        trace.span.set_attributes(attributes)
        if trace.failed:
            trace.span.set_status(StatusCode.ERROR)
        trace.span.end(now + self._offset)
        self._ended += len(inner) + 1 + bool(trace.asked)

    def close(self) -> str:
        """Send what is left, within the time; returns what went wrong, if anything did."""
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)
        lost = self._ended - self._exporter.sent
        reason = self._problem.text or f"no answer within {CLOSE_SECONDS:g} seconds"
        return f"{lost} of {self._ended} spans did not reach {self._url}: {reason}" if lost else ""


def _encodable(text: str) -> str:
    """The text without halves of characters, which no encoding has: one of them would lose a whole batch."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class _SpanIds:
    """Makes random ids, which are no secrets. `next` is that of the next span, where it is known already."""

    next = 0

    def generate_span_id(self) -> int:
        span_id, self.next = self.next or random.getrandbits(64), 0
        return span_id

    def generate_trace_id(self) -> int:
        return random.getrandbits(128)

    def is_trace_id_random(self) -> bool:
        return False  # so that the flags say nothing but "sampled"


class _CountingExporter:
    """An exporter that counts what the collector has taken."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.sent = 0
        self.shutdown, self.force_flush = exporter.shutdown, exporter.force_flush

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self.sent += len(spans) if result.name == "SUCCESS" else 0
        return result


class _FirstProblem(logging.Handler):
    """Keeps the SDK's first warning, and all of them from stderr, which is the gateway's log."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        logger = logging.getLogger("opentelemetry")
        logger.handlers, logger.propagate = [self], False

    def emit(self, record: logging.LogRecord) -> None:
        self.text = self.text or record.getMessage()


def with_context(line: bytes, given: str, context: str) -> bytes:
    """The message with our span in the place of the client's `given` in `_meta`, where that can be nowhere else in the text.

    A text of these characters has another form only with escapes of its letters.
    """
    text = given.encode()
    if len(text) != len(context) or line.count(text) != 1 or b"\\u" in line:
        return line
    return line.replace(text, context.encode())
