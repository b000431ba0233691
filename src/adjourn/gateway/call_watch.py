"""The outcome of the calls of one exchange: counted, timed, and a line in the log.

Owns: the names under which a call is counted. Must never: keep a call's arguments or its answer.
"""

from __future__ import annotations

from collections.abc import Collection
from time import time_ns

from adjourn.gateway.metrics import OTHER, Metrics
from adjourn.gateway.replies import ReplyStream
from adjourn.relay import Request, StderrLog

NANOSECONDS = 1e-9


class CallWatch:
    """See `CallObserver`. `listed` are the tools of the server, `waiting` the streams of requests."""

    def __init__(
        self,
        server: str,
        listed: Collection[str],
        waiting: dict[object, ReplyStream],
        metrics: Metrics,
        report: StderrLog,
    ) -> None:
        self._server = server
        self._listed = listed
        self._waiting = waiting
        self._metrics = metrics
        self._report = report

    def decided(self, request: Request, outcome: str) -> None:
        metrics, server = self._metrics, self._server
        metrics.decisions[server, self._name(request), outcome] += 1
        if outcome == "allowed":
            stream = request.watched = self._waiting.get(request.id)
            if stream is not None:
                metrics.deciding[server].add((request.started - stream.begun) * NANOSECONDS)

    def settled(self, request: Request, outcome: str, now: int) -> None:
        metrics, server = self._metrics, self._server
        name = self._name(request)
        metrics.calls[server, name, outcome] += 1
        took = now - request.started
        metrics.upstream[server].add(took * NANOSECONDS)
        data = {"tool": name, "call": request.call_id, "outcome": outcome, "milliseconds": took // 1_000_000}
        if request.watched is not None:
            data["request"] = request.watched.number
            request.watched = None
        self._report.routine(("tool.settled", "", data, time_ns(), False))

    def _name(self, request: Request) -> str:
        tool = request.tool
        return self._metrics.name_of(self._server, tool) if tool in self._listed else OTHER
