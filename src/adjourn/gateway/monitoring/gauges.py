"""The state of a gateway at this moment, in numbers.

Owns: how each is found. Must never: change anything, or name a client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from adjourn.clients.client import ClientContext
from adjourn.gateway.limits import Throttle
from adjourn.gateway.monitoring.metrics import Gauge
from adjourn.gateway.routing import GatewayUpstream
from adjourn.log.event import timestamp
from adjourn.relay.stderr_log import StderrLog

_SERVER = ("server",)


class Gauges(NamedTuple):
    """What is looked at, and what is found there `now`."""

    upstreams: Callable[[], Iterable[GatewayUpstream]]
    """Servers, also those that are ending: several may have one name, of which the first is in force."""
    contexts: Callable[[], Iterable[ClientContext]]
    throttle: Throttle
    workers: ThreadPoolExecutor
    report: StderrLog

    def now(self) -> Iterator[Gauge]:
        upstreams, throttle = list(self.upstreams()), self.throttle
        yield _one("requests_in_flight", "Requests of clients that are being answered.", throttle.open)
        yield _one("draining", "1 while the gateway ends.", int(throttle.is_leaving))
        sessions, lanes, up = Counter[str](), Counter[str](), dict[str, bool]()
        for one in upstreams:
            sessions[one.name] += len(one.endpoint.sessions)
            lanes[one.name] += sum(map(len, list(one.endpoint.lanes.values())))
            if one.pool is not None and one.pool.is_up is not None:
                up.setdefault(one.name, one.pool.is_up)
        yield _of_servers("sessions", "Sessions of clients, in the revisions that have them.", sessions)
        yield _of_servers("stateless_exchanges", "Exchanges for clients of the stateless revision.", lanes)
        yield _of_servers("upstream_up", "Whether the last connection to a server was made.", up)
        yield from self._work()
        waiting = [
            (("log",), self.report.size),
            (("workers",), self.workers._work_queue.qsize()),  # noqa: SLF001  # nothing else says it
        ]
        yield Gauge("queue_size", "What waits in a queue.", ("queue",), waiting)

    def _work(self) -> Iterator[Gauge]:
        """What the tasks say that this process works on."""
        from adjourn.host.clock import now as host_now

        found: Counter[str] = Counter()
        seen, stamp = set(), timestamp(host_now())
        for context in list(self.contexts()):
            for session in context.sessions:
                task = session.task
                found["leases"] += 1
                found["deferred"] += len(task.deferred)
                if task.id not in seen:
                    seen.add(task.id)
                    asked = list(task.ledger.approvals.values())
                    found["approvals"] += sum(
                        not (one.approved or one.refused) and one.expires > stamp for one in asked
                    )
        yield _one("leases", "Sessions on tasks that this process holds.", found["leases"])
        yield _one("tasks", "Tasks that this process works on.", len(seen))
        yield _one("approvals_waiting", "Questions to people on these tasks.", found["approvals"])
        yield _one("events_deferred", "Events that wait for the next append.", found["deferred"])


def _one(name: str, about: str, value: float) -> Gauge:
    return Gauge(name, about, (), [((), value)])


def _of_servers(name: str, about: str, values: Mapping[str, float]) -> Gauge:
    return Gauge(name, about, _SERVER, [((server,), value) for server, value in values.items()])
