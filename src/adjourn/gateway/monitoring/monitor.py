"""What the gateway says of itself: `/healthz`, `/readyz`, `/metrics`, and the ids of requests.

    [metrics]
    listen = "127.0.0.1:9464"   # an address of its own
    shared = true               # or beside the servers

Owns: these pages. Must never: need the store or a server to say that the process lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from adjourn.gateway.asgi import Scope, Send
from adjourn.gateway.limits import Throttle
from adjourn.gateway.monitoring.health import Health, written
from adjourn.gateway.monitoring.metrics import Gauge, Metrics
from adjourn.gateway.monitoring.observed_store import observed
from adjourn.gateway.monitoring.request_watch import RequestWatch
from adjourn.gateway.monitoring.tracing import AppendTimes, Tracer, TracesSettings
from adjourn.relay import StderrLog
from adjourn.store import Store

if TYPE_CHECKING:
    from adjourn.gateway.monitoring.exposition import Exposition

_JSON = b"application/json"


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[metrics]`. On the address `listen` are these pages and nothing else."""

    listen: str = ""
    shared: bool = False


class Monitoring:
    """One per gateway. `looks` are those of `Health`. Raises `InvalidError` for an invalid endpoint of traces."""

    def __init__(
        self,
        settings: MetricsSettings,
        traces: TracesSettings,
        looks: Mapping[str, Callable[[], object]],
        throttle: Throttle,
        report: StderrLog,
    ) -> None:
        self._settings = settings
        self.address = settings.listen
        """Where these pages are, beside the servers' own address."""
        self._throttle = throttle
        self._report = report
        self._appends = AppendTimes()
        self.tracer = Tracer(traces, self._appends) if traces.endpoint else None
        self.metrics = Metrics(throttle.refusals)
        self._counts = bool(settings.listen or settings.shared)
        self._watch = RequestWatch(self.metrics, report)
        self.watched = self._watch.watched
        self._health = Health(looks, frozenset(("store",)), self._unhealthy)
        self._exposition: Exposition | None = None
        port = settings.listen.rpartition(":")[2]
        self._port = int(port) if port else 0

    def expose(self, gauges: Callable[[], Iterable[Gauge]]) -> None:
        """Show the metrics, with what is looked up for them, if anybody is to see them."""
        if self._counts:
            from adjourn.gateway.monitoring.exposition import Exposition  # noqa: PLC0415  # 40 ms

            self._exposition = Exposition(self.metrics, gauges)

    @property
    def of_calls(self) -> Metrics | None:
        """What calls add to; None where nobody would see it."""
        return self.metrics if self._counts or self.tracer is not None or self._report.is_json else None

    def observed(self, store: Store) -> Store:
        """The same store; its appends are timed, and its failures counted, where somebody sees that."""
        if self._counts or self.tracer is not None:
            return observed(store, self.metrics, self._appends)
        return store

    def _unhealthy(self, what: str, why: str) -> None:
        self._report.event("health.failed", f"{what}: {why}")

    async def answer(self, scope: Scope, send: Send) -> bool:
        """Answer a request for one of these pages. False for any other."""
        path = scope["path"]
        is_own_address = self._port != 0 and scope["server"] is not None and scope["server"][1] == self._port
        if path == "/healthz":
            await _page(send, 200, written("alive", {}))
        elif path == "/readyz":
            await self._ready(send)
        elif path == "/metrics" and self._exposition and (is_own_address or self._settings.shared):
            await _page(send, 200, self._exposition.text(), self._exposition.content_type)
        elif is_own_address:
            await _page(send, 404, b"there is /metrics, /healthz and /readyz\n", b"text/plain")
        else:
            return False
        return True

    async def _ready(self, send: Send) -> None:
        found = await self._health.look()
        is_ready = self._health.is_ready(found) and not self._throttle.is_leaving
        status = "draining" if self._throttle.is_leaving else "ready" if is_ready else "not ready"
        await _page(send, 200 if is_ready else 503, written(status, found))

    async def close(self) -> None:
        """Look no more; send the spans that wait."""
        self._health.close()
        if self.tracer is not None:
            send = asyncio.get_running_loop().run_in_executor(None, self.tracer.spans.close)
            if lost := await send:
                self._report.event("traces.lost", lost)


async def _page(send: Send, status: int, body: bytes, kind: bytes = _JSON) -> None:
    headers = [
        (b"content-type", kind),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
