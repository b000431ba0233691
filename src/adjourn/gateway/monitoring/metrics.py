"""What the gateway counts and times, for whoever scrapes it.

A counter of the Prometheus client takes a lock and costs more than a call has to spare, so calls add to plain numbers here, and
`exposition` hands them over when it is asked.

`CallWatch` adds the outcome of a call. Must never: keep a call's arguments or its answer, have a label that a client can choose freely.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from threading import Lock
from time import monotonic_ns, time_ns
from typing import NamedTuple

from adjourn.gateway.replies import ReplyStream
from adjourn.relay.request import Request
from adjourn.relay.stderr_log import StderrLog

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: the upper bounds of a histogram's buckets; the last one has none."""
MAX_TOOLS = 2000
"""Tools, of all servers, that are counted by name."""
OTHER = "other"
"""The name of all tools beyond that, and of those that no server listed."""


class Timing:
    """How often something took how long."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Once more."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class Gauge(NamedTuple):
    """A number as it is now: with the values of its labels, one or several."""

    name: str
    about: str
    labels: tuple[str, ...]
    rows: Iterable[tuple[tuple[str, ...], float]]


class Metrics:
    """The event loop's thread adds to all but those of the store."""

    def __init__(self, refusals: Mapping[str, int]) -> None:
        self.refusals = refusals
        """By the limit."""
        self.decisions: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        """By server, tool, outcome. So are `calls`."""
        self.calls: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self.deciding: defaultdict[str, Timing] = defaultdict(Timing)
        """From a message to its call's being sent on, by server. So is `upstream`: from there to the server's answer."""
        self.upstream: defaultdict[str, Timing] = defaultdict(Timing)
        self.responses: defaultdict[int, int] = defaultdict(int)
        """By HTTP status."""
        self.appends = Timing()
        self.conflicts = 0
        self.store_errors: defaultdict[str, int] = defaultdict(int)
        """By what was asked of the store."""
        self._names: set[tuple[str, str]] = set()
        self._lock = Lock()

    def name_of(self, server: str, tool: str) -> str:
        """The name under which a listed tool is counted."""
        if (server, tool) in self._names:
            return tool
        if len(self._names) >= MAX_TOOLS:
            return OTHER
        self._names.add((server, tool))
        return tool

    def appended(self, seconds: float) -> None:
        """The store took entries. From any thread."""
        with self._lock:
            self.appends.add(seconds)

    def conflicted(self) -> None:
        """Another process appended first. From any thread."""
        with self._lock:
            self.conflicts += 1

    def failed(self, operation: str) -> None:
        """The store failed. From any thread."""
        with self._lock:
            self.store_errors[operation] += 1


# --- the outcome of the calls of one exchange

NANOSECONDS = 1e-9


class CallWatch:
    """See `CallObserver`. `about` says whose exchange it is, with the `server`. `listed` are the tools of the server, `waiting` the streams of requests."""

    def __init__(
        self,
        about: Mapping[str, str],
        listed: Collection[str],
        waiting: dict[object, ReplyStream],
        metrics: Metrics,
        report: StderrLog,
    ) -> None:
        self._server = about["server"]
        self._listed = listed
        self._waiting = waiting
        self._metrics = metrics
        self._report = report
        self._names: dict[str, str] = {}
        self._about = {f"adjourn.{name}": value for name, value in about.items()}

    def decided(self, request: Request, outcome: str) -> None:
        metrics, server = self._metrics, self._server
        name, stream = self._name(request), self._waiting.get(request.id)
        metrics.decisions[server, name, outcome] += 1
        if stream is None:
            return
        if outcome == "allowed":
            request.watched = stream
            metrics.deciding[server].add((request.started - stream.begun) * NANOSECONDS)
        if (trace := stream.trace) is not None:
            trace.name = "" if name == OTHER else name
            trace.decided = monotonic_ns()
            trace.asked = request.started
            trace.stream = request.session.task.id if request.session is not None else ""
            trace.attributes |= self._about | {"adjourn.decision": outcome}

    def settled(self, request: Request, outcome: str, now: int) -> None:
        metrics, server = self._metrics, self._server
        name = self._name(request)
        metrics.calls[server, name, outcome] += 1
        took = now - request.started
        metrics.upstream[server].add(took * NANOSECONDS)
        stream, request.watched = request.watched, None
        if stream is not None and (trace := stream.trace) is not None:
            trace.settled = now
            trace.failed = outcome in ("error", "no-answer")
            trace.attributes |= {"adjourn.call": request.call_id, "adjourn.outcome": outcome}
        if self._report.is_json:
            data = {
                "tool": name,
                "call": request.call_id,
                "outcome": outcome,
                "milliseconds": took // 1_000_000,
                "request": stream.number if stream is not None else "",
            }
            self._report.routine(("tool.settled", "", data, time_ns(), False))

    def _name(self, request: Request) -> str:
        """What the call is counted as: a tool that is listed has its name."""
        tool = request.tool
        name = self._names.get(tool)
        if name is None:
            if tool not in self._listed:
                return OTHER
            name = self._names[tool] = self._metrics.name_of(self._server, tool)
        return name
