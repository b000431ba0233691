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
from adjourn.gateway.monitoring.metrics import Gauge, Metrics
from adjourn.gateway.monitoring.tracing import AppendTimes, Tracer, TracesSettings
from adjourn.relay.stderr_log import StderrLog
from adjourn.store.base import Store

if TYPE_CHECKING:
    from adjourn.gateway.monitoring.exposition import Exposition
import re
import time
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from itertools import count
from secrets import token_hex
from time import monotonic_ns, time_ns
from typing import Any, TypeVar, cast

from adjourn.errors import ConflictError, StoreError

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
            from adjourn.gateway.monitoring.exposition import Exposition  # 40 ms

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


# --- each HTTP request has an id, which the log, the answer and whoever asks have in common; answers are

NAME = b"x-request-id"
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestWatch:
    """One per gateway."""

    def __init__(self, metrics: Metrics, report: StderrLog) -> None:
        self._metrics = metrics
        self._report = report
        self._process = token_hex(4)
        self._numbers = count(1)

    def watched(self, scope: Scope, send: Send) -> Send:
        """Name a request: as its header says, or by a number. Returns what its answer is sent with."""
        given = b""
        for name, value in scope["headers"]:
            if name == NAME:
                given = value if _GIVEN.fullmatch(value) else b""
        number = given.decode() or f"{self._process}-{next(self._numbers)}"
        scope["request_id"] = number
        responses, report = self._metrics.responses, self._report

        async def watching(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                responses[status] += 1
                message["headers"] = [*message["headers"], (NAME, number.encode())]
                if status >= 400:
                    told = {"method": scope["method"], "status": status, "request": number}
                    report.routine(("request.refused", "", told, time_ns(), False))
            await send(message)

        return watching


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
        self.found: dict[str, str] = {}
        """What the last look found, by name."""
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
                self.found = dict.fromkeys(self._looks, SILENT)
        return self.found

    def _look_now(self) -> dict[str, str]:
        found = {}
        for name, look in self._looks.items():
            try:
                look()
            except Exception as error:  # whatever it is, somebody wants to know
                found[name] = FAILED
                self._on_failure(name, f"{type(error).__name__}: {error}")
            else:
                found[name] = OK
        return found

    def _looked(self, looking: asyncio.Future[dict[str, str]]) -> None:
        self._looking = None
        self._since = time.monotonic()
        if not looking.cancelled():
            self.found = looking.result()

    def is_ready(self, found: Mapping[str, str]) -> bool:
        """Whether all is fine that has to be."""
        return all(found.get(name) == OK for name in self._required)

    def close(self) -> None:
        """Look no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def written(status: str, found: Mapping[str, str]) -> bytes:
    """The body of an answer."""
    return msgspec.json.encode({"status": status, **found}) + b"\n"


# --- A store that is timed, and whose failures are counted

_T = TypeVar("_T")


class _ObservedStore:
    """Passes everything on. Each method is wrapped when it is first used."""

    def __init__(self, store: Store, metrics: Metrics, appends: AppendTimes) -> None:
        self._store = store
        self._metrics = metrics
        self._appends = appends

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found) or name.startswith("_"):
            return found
        watched = self._timed(name, found) if name in _APPENDING else self._counted(name, found)
        setattr(self, name, watched)
        return watched

    def _timed(self, name: str, append: Callable[..., _T]) -> Callable[..., _T]:
        metrics, appends, streams_of = self._metrics, self._appends, _APPENDING[name]

        @wraps(append)
        def observed(first: Any, *given: Any, **named: Any) -> _T:
            begun = monotonic_ns()
            try:
                outcome = append(first, *given, **named)
            except ConflictError:
                metrics.conflicted()
                raise
            except StoreError:
                metrics.failed("append")
                raise
            ended = monotonic_ns()
            metrics.appended((ended - begun) * 1e-9)
            if appends.is_kept:
                appends.note(streams_of(first), begun, ended)
            if isinstance(outcome, list):
                _look(outcome, metrics)
            return outcome

        return observed

    def _counted(self, name: str, method: Callable[..., _T]) -> Callable[..., _T]:
        metrics = self._metrics

        @wraps(method)
        def observed(*given: Any, **named: Any) -> _T:
            try:
                return method(*given, **named)
            except ConflictError:
                raise
            except StoreError:
                metrics.failed(name)
                raise

        return observed


def _look(outcomes: Iterable[object], metrics: Metrics) -> None:
    """Count what went wrong among appends that were made together."""
    for one in outcomes:
        if isinstance(one, ConflictError):
            metrics.conflicted()
        elif isinstance(one, StoreError):
            metrics.failed("append")


_APPENDING: dict[str, Callable[[Any], Iterable[str]]] = {
    "append": lambda stream: (stream,),
    "append_many": lambda appends: [one.stream for one in appends],
}
"""The methods that append, and to which streams, by their first argument."""


def observed(store: Store, metrics: Metrics, appends: AppendTimes) -> Store:
    """The same store."""
    return cast("Store", _ObservedStore(store, metrics, appends))
