"""What the gateway says of itself: `/healthz`, `/readyz`, `/metrics`, and the ids of requests.

    [metrics]
    listen = "127.0.0.1:9464"   # an address of its own
    shared = true               # or beside the servers

Must never: need the store or a server to say that the process lives.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from secrets import token_hex
from time import time_ns
from typing import Any

import msgspec

from adjourn.gateway.limits import Throttle
from adjourn.gateway.metrics import Exposition, GatewayState, Metrics, observed
from adjourn.gateway.replies import Scope, Send, answer_text
from adjourn.gateway.settings import MetricsSettings, TracesSettings
from adjourn.gateway.tracing import AppendTimes, Tracer
from adjourn.relay.ports import StderrLog
from adjourn.store.base import Store

REQUEST_ID = b"x-request-id"
_USABLE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TEXT, _JSON = b"text/plain", b"application/json"


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
        self._process, self._numbers = token_hex(4), count(1)
        self._health = Health(
            looks, frozenset(("store",)), lambda what, why: report.event("health.failed", f"{what}: {why}")
        )
        self._exposition: Exposition | None = None
        self._port = int(settings.listen.rpartition(":")[2] or 0)

    def expose(self, state: GatewayState) -> None:
        """Show the metrics, if anybody is to see them."""
        self._exposition = Exposition(self.metrics, state) if self._counts else None

    @property
    def of_calls(self) -> Metrics | None:
        """What calls add to; None where nobody would see it."""
        return self.metrics if self._counts or self.tracer is not None or self._report.is_json else None

    def observed(self, store: Store) -> Store:
        """The same store; its appends are timed, and its failures counted, where somebody sees that."""
        is_seen = self._counts or self.tracer is not None
        return observed(store, self.metrics, self._appends) if is_seen else store

    def watched(self, scope: Scope, send: Send) -> Send:
        """Give a request an id: that of its header, or a number. The log, the answer and whoever asks have it in common.

        Returns what its answer is sent with; answers are counted.
        """
        given = next((value for name, value in scope["headers"] if name == REQUEST_ID), b"")
        usable = given.decode() if _USABLE_ID.fullmatch(given) else ""
        request_id = scope["request_id"] = usable or f"{self._process}-{next(self._numbers)}"
        responses, report = self.metrics.responses, self._report

        async def watching(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                responses[status] += 1
                message["headers"] = [*message["headers"], (REQUEST_ID, request_id.encode())]
                if status >= 400:
                    data = {"method": scope["method"], "status": status, "request": request_id}
                    report.routine(("request.refused", "", data, time_ns(), False))
            await send(message)

        return watching

    async def answer(self, scope: Scope, send: Send) -> bool:
        """Answer a request for one of these pages. False for any other."""
        path = scope["path"]
        is_own_address = self._port != 0 and scope["server"] is not None and scope["server"][1] == self._port
        status, kind = 200, _JSON
        if path == "/healthz":
            body = msgspec.json.encode({"status": "alive"}) + b"\n"
        elif path == "/readyz":
            seen, is_leaving = await self._health.look(), self._throttle.is_leaving
            is_ready = self._health.is_ready(seen) and not is_leaving
            state = "draining" if is_leaving else "ready" if is_ready else "not ready"
            status, body = 200 if is_ready else 503, msgspec.json.encode({"status": state, **seen}) + b"\n"
        elif path == "/metrics" and self._exposition and (is_own_address or self._settings.shared):
            kind, body = self._exposition.content_type, self._exposition.text()
        elif is_own_address:
            status, kind, body = 404, _TEXT, b"there is /metrics, /healthz and /readyz\n"
        else:
            return False
        await answer_text(send, status, body, ((b"content-type", kind), (b"cache-control", b"no-store")))
        return True

    async def close(self) -> None:
        """Look no more; send the spans that wait."""
        self._health.close()
        if self.tracer is not None:
            send = asyncio.get_running_loop().run_in_executor(None, self.tracer.close)
            if lost := await send:
                self._report.event("traces.lost", lost)


# --- whether the gateway can work

KEPT_SECONDS = 1.0
LOOK_SECONDS = 2.0
OK, FAILED, SILENT = "ok", "failed", "no answer"


class Health:
    """`looks` by name: each may block, and raises where something is wrong. `on_failure` gets the name and the reason.

    Of `required`, each has to be fine for the gateway to be ready.
    """

    def __init__(
        self,
        looks: Mapping[str, Callable[[], object]],
        required: frozenset[str],
        on_failure: Callable[[str, str], None],
    ) -> None:
        self._looks = looks
        self._required = required
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(1, "health")  # a look that hangs holds up nothing else
        self.last: dict[str, str] = {}
        """What the last look saw, by name."""
        self._looking: asyncio.Future[dict[str, str]] | None = None
        self._since = -KEPT_SECONDS

    async def look(self) -> dict[str, str]:
        """What there is to say of each, at most a second old."""
        now = time.monotonic()
        if self._looking is None and now - self._since >= KEPT_SECONDS:
            self._since = now
            self._looking = asyncio.get_running_loop().run_in_executor(self._thread, self._look_now)
            self._looking.add_done_callback(self._looked)
        if self._looking is not None:
            left = self._since + LOOK_SECONDS - now
            done, _ = await asyncio.wait([self._looking], timeout=max(0.0, left))
            if not done:
                self.last = dict.fromkeys(self._looks, SILENT)
        return self.last

    def _look_now(self) -> dict[str, str]:
        seen = {}
        for name, look in self._looks.items():
            try:
                look()
            except Exception as error:  # whatever it is, somebody wants to know
                seen[name] = FAILED
                self._on_failure(name, f"{type(error).__name__}: {error}")
            else:
                seen[name] = OK
        return seen

    def _looked(self, looking: asyncio.Future[dict[str, str]]) -> None:
        self._looking = None
        self._since = time.monotonic()
        if not looking.cancelled():
            self.last = looking.result()

    def is_ready(self, seen: Mapping[str, str]) -> bool:
        """Whether all is fine that has to be."""
        return all(seen.get(name) == OK for name in self._required)

    def close(self) -> None:
        """Look no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
