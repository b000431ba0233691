"""What the gateway counts and times, and what `/metrics` shows.

A counter of the Prometheus client takes a lock and costs more than a call has to spare, so calls add to plain numbers here. A collector
hands them over at a scrape, with the state of the gateway at that moment.

Must never: keep a call's arguments or its answer, name a client, or have a label that a client can choose freely.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from operator import itemgetter
from threading import Lock
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from adjourn import __version__
from adjourn.clients.client import ClientContext
from adjourn.errors import ConflictError, StoreError
from adjourn.gateway.incidents import wrapped_store
from adjourn.gateway.limits import Throttle
from adjourn.gateway.replies import ReplyStream
from adjourn.gateway.routing import GatewayUpstream
from adjourn.gateway.tracing import AppendTimes
from adjourn.host.clock import now
from adjourn.log.event import timestamp
from adjourn.relay.ports import StderrLog
from adjourn.relay.request import Request
from adjourn.store.base import Store

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

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
        """Count one more."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class Metrics:
    """The event loop's thread adds to all but those of the store."""

    def __init__(self, refusals: Mapping[str, int]) -> None:
        self.refusals = refusals
        """By the limit."""
        self.decisions: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        """By server, tool, outcome. So are `calls`."""
        self.calls: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self.deciding: defaultdict[str, Timing] = defaultdict(Timing)
        """From a message to its call's being sent on, by server."""
        self.upstream: defaultdict[tuple[str, str], Timing] = defaultdict(Timing)
        """From there to the server's answer, by server and tool."""
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

    def failed(self, operation: str, error: StoreError) -> None:
        """Count a failure of the store. From any thread."""
        with self._lock:
            if not isinstance(error, ConflictError):
                self.store_errors[operation] += 1
            elif operation == "append":
                self.conflicts += 1

    def appended(self, seconds: float) -> None:
        """Count an append. From any thread."""
        with self._lock:
            self.appends.add(seconds)


# --- the outcome of the calls of one exchange

NANOSECONDS = 1e-9


class CallWatch:
    """Adds the calls of one exchange to the metrics: see `CallObserver`. `about` says whose exchange it is, with the `server`. `listed` are the tools of the server, `waiting` the streams of requests."""

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
        metrics.upstream[server, name].add(took * NANOSECONDS)
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


# --- the store: its appends are timed, and its failures counted

_APPENDING: dict[str, Callable[[Any], Iterable[str]]] = {
    "append": lambda stream: (stream,),
    "append_many": lambda appends: [append.stream for append in appends],
}
"""The methods that append, and to which streams, by their first argument."""


def observed(store: Store, metrics: Metrics, appends: AppendTimes) -> Store:
    """The same store; what is done with it adds to the metrics."""

    def wrap(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        streams_of = _APPENDING.get(name)

        def counted(*args: Any, **options: Any) -> Any:
            try:
                return method(*args, **options)
            except StoreError as error:
                metrics.failed(name, error)
                raise

        def timed(first: Any, *args: Any, **options: Any) -> Any:
            begun = monotonic_ns()
            try:
                outcome = method(first, *args, **options)
            except StoreError as error:
                metrics.failed("append", error)
                raise
            ended = monotonic_ns()
            metrics.appended((ended - begun) * NANOSECONDS)
            if appends.is_kept and streams_of is not None:
                appends.note(streams_of(first), begun, ended)
            for result in outcome if isinstance(outcome, list) else ():  # of appends that were made together
                if isinstance(result, StoreError):
                    metrics.failed("append", result)
            return outcome

        return counted if streams_of is None else timed

    return wrapped_store(store, wrap)


# --- what a scrape shows


class GatewayState(NamedTuple):
    """Where a scrape finds the state of the gateway."""

    upstreams: Callable[[], Iterable[GatewayUpstream]]
    """Servers, also those that are ending: several may have one name, of which the first is in force."""
    contexts: Callable[[], Iterable[ClientContext]]
    throttle: Throttle
    workers: ThreadPoolExecutor
    report: StderrLog


Rows = Iterable[tuple[tuple[str, ...], float]]
"""Values by the values of their labels."""


class Exposition:
    """A collector of the Prometheus client, and its text."""

    content_type = b"text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, metrics: Metrics, state: GatewayState | None) -> None:
        from prometheus_client import CollectorRegistry, ProcessCollector  # 40 ms

        self._metrics = metrics
        self._state = state
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(cast("Collector", self))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        metrics, labels = self._metrics, ("server", "tool", "outcome")
        yield _counter("decisions", "Decisions on calls.", labels, metrics.decisions.items())
        yield _counter("calls", "Allowed calls that are over.", labels, metrics.calls.items())
        yield _counter("http_responses", "Answers by HTTP status.", ("status",), _by_key(metrics.responses))
        yield _counter("refusals", "Messages refused by a limit.", ("limit",), _by_key(metrics.refusals))
        errors = _by_key(metrics.store_errors)
        yield _counter("store_errors", "Failures of the store.", ("operation",), errors)
        yield _counter("append_conflicts", "Appends that lost to another writer.", (), [((), metrics.conflicts)])
        deciding = [((server,), timing) for server, timing in list(metrics.deciding.items())]
        about = "From a message until its call is sent to the server."
        yield _histogram("decision", about, labels[:1], deciding)
        about, upstream = "From sending a call to the server's answer.", list(metrics.upstream.items())
        yield _histogram("upstream", about, labels[:2], upstream)
        yield _histogram("append", "Writing to the store.", (), [((), metrics.appends)])
        yield _gauge("info", "The version that runs.", ("version",), [((__version__,), 1)])
        if self._state is not None:
            yield from _state_now(self._state)


def _state_now(state: GatewayState) -> Iterator[Metric]:
    throttle = state.throttle
    yield _gauge("requests_in_flight", "Requests of clients that are being answered.", (), throttle.open)
    yield _gauge("draining", "1 while the gateway ends.", (), int(throttle.is_leaving))
    sessions, lanes, up = Counter[str](), Counter[str](), dict[str, int]()
    for upstream in list(state.upstreams()):
        sessions[upstream.name] += len(upstream.endpoint.sessions)
        lanes[upstream.name] += sum(map(len, list(upstream.endpoint.lanes.values())))
        if upstream.pool is not None and upstream.pool.is_up is not None:
            up.setdefault(upstream.name, upstream.pool.is_up)
    server = ("server",)
    yield _gauge("sessions", "Sessions of clients, in the revisions that have them.", server, _by_key(sessions))
    about = "Exchanges for clients of the stateless revision."
    yield _gauge("stateless_exchanges", about, server, _by_key(lanes))
    yield _gauge("upstream_up", "Whether the last connection to a server was made.", server, _by_key(up))
    work = Counter[str]()
    tasks, stamp, left = set[str](), timestamp(now()), 1.0
    for session in (session for context in list(state.contexts()) for session in context.sessions):
        task = session.task
        work["leases"] += 1
        work["deferred"] += len(task.deferred)
        if task.id not in tasks:
            tasks.add(task.id)
            if (budget := task.ledger.budget) is not None:
                rest = max(budget - task.ledger.calls_used, 0)
                left = min(left, rest / budget if budget else 0.0)
                work["spent"] += not rest
            for approval in list(task.ledger.approvals.values()):
                work["waiting"] += not (approval.approved or approval.refused) and approval.expires > stamp
    yield _gauge("leases", "Sessions on tasks that this process holds.", (), work["leases"])
    yield _gauge("tasks", "Tasks that this process works on.", (), len(tasks))
    yield _gauge("approvals_waiting", "Questions to people on these tasks.", (), work["waiting"])
    yield _gauge("budgets_spent", "Tasks, of these, without a call left in their budget.", (), work["spent"])
    about = "The smallest share of the calls of such a task that is left."
    yield _gauge("budget_left_ratio", about, (), left)
    yield _gauge("events_deferred", "Events that wait for the next append.", (), work["deferred"])
    queues = {
        "log": state.report.size,
        "workers": state.workers._work_queue.qsize(),  # noqa: SLF001  # nothing else says it
    }
    yield _gauge("queue_size", "What waits in a queue.", ("queue",), _by_key(queues))


def _by_key(counts: Mapping[int, int] | Mapping[str, int]) -> Rows:
    return [((str(key),), value) for key, value in list(counts.items())]


def _counter(name: str, about: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"adjourn_{name}", about, labels=labels)
    for values, value in sorted(rows):
        family.add_metric(values, value)
    return family


def _gauge(name: str, about: str, labels: tuple[str, ...], rows: Rows | float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(f"adjourn_{name}", about, labels=labels)
    for values, value in [((), rows)] if isinstance(rows, (int, float)) else sorted(rows):
        family.add_metric(values, value)
    return family


def _histogram(
    name: str, about: str, labels: tuple[str, ...], timings: Iterable[tuple[tuple[str, ...], Timing]]
) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(f"adjourn_{name}_seconds", about, labels=labels)
    for values, timing in sorted(timings, key=itemgetter(0)):
        bounds = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")
        buckets = [*zip(bounds, accumulate(timing.counts), strict=True)]
        family.add_metric(values, buckets, timing.total)
    return family
