"""What a gateway shows of itself to whoever runs it: whether it works, what it counts, what a request did.

    monitor.py        the pages /healthz, /readyz and /metrics, and what is counted for whom
    health.py         whether the store answers and the policy can be read
    metrics.py        the numbers; exposition.py is their text for Prometheus, gauges.py what is looked up at a scrape
    call_watch.py     counts and times the calls of a relay; request_watch.py the requests of HTTP
    observed_store.py times a store's appends and counts its failures
    tracing.py        spans, for a collector

Must never: have a label, a line or a span with what a client may choose freely, or an argument.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.gateway.monitoring.call_watch import CallWatch
    from adjourn.gateway.monitoring.gauges import Gauges
    from adjourn.gateway.monitoring.metrics import Metrics
    from adjourn.gateway.monitoring.monitor import MetricsSettings, Monitoring
    from adjourn.gateway.monitoring.tracing import (
        TRACEPARENT,
        TRACESTATE,
        Trace,
        Tracer,
        TracesSettings,
        with_context,
    )

__all__ = [
    "TRACEPARENT",
    "TRACESTATE",
    "CallWatch",
    "Gauges",
    "Metrics",
    "MetricsSettings",
    "Monitoring",
    "Trace",
    "Tracer",
    "TracesSettings",
    "with_context",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "call_watch": ("CallWatch",),
            "gauges": ("Gauges",),
            "metrics": ("Metrics",),
            "monitor": ("MetricsSettings", "Monitoring"),
            "tracing": ("TRACEPARENT", "TRACESTATE", "Trace", "Tracer", "TracesSettings", "with_context"),
        },
    )
