"""The gateway's numbers in the form of Prometheus.

Owns: their names, and what is looked up when they are asked for. Must never: be on the path of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from adjourn import __version__
from adjourn.gateway.monitoring.metrics import BOUNDS, Gauge, Metrics, Timing

Rows = Iterable[tuple[tuple[str, ...], float]]


class Exposition(Collector):
    """`gauges` are looked up at each scrape."""

    content_type = b"text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, metrics: Metrics, gauges: Callable[[], Iterable[Gauge]]) -> None:
        self._metrics = metrics
        self._gauges = gauges
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """All of them."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        metrics = self._metrics
        labels = ("server", "tool", "outcome")
        yield _counter("decisions", "Decisions on calls.", labels, metrics.decisions.items())
        yield _counter("calls", "Allowed calls that are over.", labels, metrics.calls.items())
        yield _counter("http_responses", "Answers by HTTP status.", ("status",), _single(metrics.responses))
        yield _counter("refusals", "Messages refused by a limit.", ("limit",), _single(metrics.refusals))
        yield _counter(
            "store_errors", "Failures of the store.", ("operation",), _single(metrics.store_errors)
        )
        yield _counter("append_conflicts", "Appends that another was before.", (), [((), metrics.conflicts)])
        by_server = (("server",), metrics.deciding.items())
        yield _histogram("decision", "From a message until its call is sent to the server.", *by_server)
        by_server = (("server",), metrics.upstream.items())
        yield _histogram("upstream", "From sending a call to the server's answer.", *by_server)
        yield _histogram("append", "Writing to the store.", (), [("", metrics.appends)])
        info = GaugeMetricFamily("adjourn_info", "The version that runs.", labels=("version",))
        info.add_metric((__version__,), 1)
        yield info
        for gauge in self._gauges():
            family = GaugeMetricFamily(f"adjourn_{gauge.name}", gauge.about, labels=gauge.labels)
            for values, value in sorted(gauge.rows):
                family.add_metric(values, value)
            yield family


def _single(counts: Mapping[int, int] | Mapping[str, int]) -> list[tuple[tuple[str, ...], float]]:
    return [((str(key),), value) for key, value in list(counts.items())]


def _counter(name: str, about: str, labels: tuple[str, ...], rows: Rows) -> CounterMetricFamily:
    family = CounterMetricFamily(f"adjourn_{name}", about, labels=labels)
    for values, value in sorted(rows):
        family.add_metric(values, value)
    return family


def _histogram(
    name: str, about: str, labels: tuple[str, ...], timings: Iterable[tuple[str, Timing]]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"adjourn_{name}_seconds", about, labels=labels)
    for server, timing in sorted(timings):
        bounds = (*(f"{bound:g}" for bound in BOUNDS), "+Inf")
        buckets = [*zip(bounds, accumulate(timing.counts), strict=True)]
        family.add_metric((server,) if labels else (), buckets, timing.total)
    return family
