"""Traces of requests: the client's span, and beneath it ours: the request, its decision, each append, the request to the server.

    [traces]
    endpoint = "http://127.0.0.1:4318"
    sample = 0.1    # of those that no client has begun

The context is W3C's: `traceparent` in a header or in `_meta`. The server gets it with our span in the place of the client's.

Owns: which spans there are, and what they say. Must never: say anything of arguments or answers, or change a message but for that context.
"""

from __future__ import annotations

import random
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from time import monotonic_ns, time_ns
from typing import Annotated

import msgspec
from msgspec import Meta

from adjourn.host.otlp import SpanExporter, TraceSpan

TRACEPARENT, TRACESTATE = b"traceparent", b"tracestate"
ANSWERED, ASKED = 2, 3
"""Kinds of spans: a request that we answer, one that we make."""
MAX_APPENDS, MAX_STREAMS = 16, 1024
"""The last appends of a stream that are known, and of how many streams."""
_CONTEXT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_METHOD = re.compile(r"[A-Za-z][A-Za-z/_]{0,63}")
_NONE = ("0" * 32, "0" * 16)


class TracesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[traces]`. Without an endpoint there are none."""

    endpoint: str = ""
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0


class Trace:
    """One request of a client, on its way. `parent` is the client's span."""

    __slots__ = ("asked", "attributes", "begun", "decided", "failed", "given", "id", "name", "parent",
                 "settled", "span", "stream", "upstream")  # fmt: skip

    def __init__(self, trace: str, parent: str, given: str) -> None:
        self.id, self.parent, self.given = trace, parent, given
        self.span, self.upstream = _new_id(64), _new_id(64)
        self.begun = monotonic_ns()
        self.decided = self.asked = self.settled = 0
        """When the decision was there, the server was asked, and had answered (`monotonic_ns`)."""
        self.stream = ""
        """The task whose appends are shown."""
        self.name = ""
        self.failed = False
        self.attributes: dict[str, str | int] = {}

    def context(self, *, of_call: bool) -> str:
        """What the server gets: the span of our request for a call, which has one; else that of the client's request."""
        return f"00-{self.id}-{self.upstream if of_call else self.span}-01"


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
            return [one for one in self._of.get(stream, ()) if one[0] >= since]


class Tracer:
    """Begins and ends traces. Raises `InvalidError` for an invalid endpoint."""

    def __init__(
        self, settings: TracesSettings, appends: AppendTimes, chance: Callable[[], float] = random.random
    ) -> None:
        self.spans = SpanExporter(settings.endpoint)
        self._appends = appends
        appends.is_kept = True
        self._sample = settings.sample
        self._chance = chance
        self._offset = time_ns() - monotonic_ns()

    def begin(self, headers: Mapping[bytes, bytes], in_meta: object) -> Trace | None:
        """The trace of a request; None where it is not recorded. A header says more than `_meta`: it was made last."""
        found = parsed(headers.get(TRACEPARENT, b"").decode("latin-1")) or parsed(in_meta)
        given = in_meta if isinstance(in_meta, str) else ""
        if found is None:
            is_new = self._sample and (self._sample == 1 or self._chance() < self._sample)
            return Trace(_new_id(128), "", given) if is_new else None
        trace, parent, is_sampled = found
        return Trace(trace, parent, given) if is_sampled else None

    def end(self, trace: Trace, method: object, status: int) -> None:
        """The request was answered."""
        now, put = monotonic_ns(), self.spans.put
        shown = method if isinstance(method, str) and _METHOD.fullmatch(method) else "message"
        name = f"{shown} {trace.name}" if trace.name else shown
        about: dict[str, str | int] = {"mcp.method.name": shown, "http.response.status_code": status}
        about |= trace.attributes
        put(self._span(trace, name, (trace.begun, now), about, span=trace.span, kind=ANSWERED))
        if trace.decided:
            put(self._span(trace, "decide", (trace.begun, trace.decided), {}))
        for append in self._appends.of(trace.stream, trace.begun):
            put(self._span(trace, "append", append, {}))
        if trace.asked:
            took = (trace.asked, trace.settled or now)
            put(self._span(trace, name, took, trace.attributes, span=trace.upstream, kind=ASKED))

    def _span(
        self,
        trace: Trace,
        name: str,
        took: tuple[int, int],
        about: Mapping[str, str | int],
        *,
        span: str = "",
        kind: int = 1,
    ) -> TraceSpan:
        return TraceSpan(
            trace.id,
            span or _new_id(64),
            name,
            took[0] + self._offset,
            took[1] + self._offset,
            about,
            trace.parent if kind == ANSWERED else trace.span,
            kind,
            trace.failed and kind != 1,
        )


def _new_id(bits: int) -> str:
    """A random id, not a secret."""
    return f"{random.getrandbits(bits):0{bits // 4}x}"


def parsed(context: object) -> tuple[str, str, bool] | None:
    """Trace, span and whether it is sampled, of a `traceparent`; None for anything else."""
    found = _CONTEXT.fullmatch(context) if isinstance(context, str) and len(context) <= 200 else None
    if found is None or found[2] == _NONE[0] or found[3] == _NONE[1]:
        return None
    if found[1] == "00" and len(context) != 55:  # type: ignore[arg-type]  # it is text
        return None
    return found[2], found[3], bool(int(found[4], 16) & 1)


def with_context(line: bytes, trace: Trace, context: str) -> bytes:
    """The message with our span in the place of the client's in `_meta`, where it can be nowhere else in the text.

    A text of these characters has another form only with escapes of its letters.
    """
    given = trace.given.encode()
    if len(given) != len(context) or line.count(given) != 1 or b"\\u" in line:
        return line
    return line.replace(given, context.encode())
