"""What a gateway shows of itself to whoever runs it: whether it works, what it counts, what a request did.

    monitor.py     the pages /healthz, /readyz and /metrics, and what is counted for whom
    metrics.py     the numbers, and what adds the calls of a relay to them
    exposition.py  their text for Prometheus
    gauges.py      what is looked up at a scrape
    tracing.py     spans, for a collector

Must never: have a label, a line or a span with what a client may choose freely, or an argument.
"""
