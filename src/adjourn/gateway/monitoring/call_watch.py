"""The outcome of the calls of one exchange: counted, timed, and a line in the log.

Owns: the names under which a call is counted. Must never: keep a call's arguments or its answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from time import monotonic_ns, time_ns

from adjourn.gateway.monitoring.metrics import OTHER, Metrics
from adjourn.gateway.replies import ReplyStream
from adjourn.relay import Request, StderrLog

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
