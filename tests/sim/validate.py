"""The model beside what was measured: closed loops of the same shape as the measurement.

Owns: how a measured point is predicted. Must never: adjust a cost so that a point fits. Only the time of a flush is taken from the
run it belongs to, from its point with one connection: a disk is another one at another time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

import msgspec

from sim.database import Batch, Database
from sim.gateway import Append, Gateway
from sim.loop import Loop
from sim.model import run
from sim.settings import Costs, Plan, measured

SECONDS = 2.0
SOCKET = 0.00005
"""A round trip over a Unix socket."""
CORES = 2


class Point(NamedTuple):
    """One measured rate and what the model says."""

    what: str
    measured: float
    predicted: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def commits(connections: int, plan: Plan, costs: Costs) -> float:
    """Commits per second of so many connections that write one row after the other."""
    loop = Loop()
    database = Database(loop, plan, costs, Random(1))
    size = costs.intent_bytes + costs.wal_row_bytes

    def write() -> None:
        database.commit(Batch(1, size, write))

    for _ in range(connections):
        write()
    loop.run(SECONDS)
    return database.commits / SECONDS


def with_flush(costs: Costs, microseconds: float) -> Costs:
    return msgspec.structs.replace(costs, flush_us=microseconds)


def points() -> Iterator[Point]:
    """All measured points."""
    costs, found = Costs.load(), measured()
    yield from _of_commits(found["commits"], costs)
    yield from _of_threads(found["threads"], costs)
    yield from _of_gateway(found["gateway"], costs)


def _of_commits(rows: list[dict[str, Any]], costs: Costs) -> Iterator[Point]:
    for standby in (False, True):
        series = [row for row in rows if row["standby"] == standby]
        alone = next(row["per_s"] for row in series if row["connections"] == 1 and not row["notify"])
        for row in series:
            plan = Plan(
                hop=SOCKET * (4 if row["notify"] else 1),  # pgbench sends BEGIN, INSERT, NOTIFY and COMMIT
                cores=CORES,
                standby=standby,
                notify="append" if row["notify"] else "never",
            )
            one = partial(
                _rate_alone, plan=msgspec.structs.replace(plan, notify="never", hop=SOCKET), costs=costs
            )
            flush = _solve(one, alone)
            what = (
                f"{row['connections']} connections" + ", notifying" * row["notify"] + ", a standby" * standby
            )
            yield Point(what, row["per_s"], commits(row["connections"], plan, with_flush(costs, flush)))


def _rate_alone(flush: float, plan: Plan, costs: Costs) -> float:
    return commits(1, plan, with_flush(costs, flush))


def _solve(rate: Any, wanted: float) -> float:
    """The time of a flush, in microseconds, with which one connection is as fast as measured."""
    low, high = 1.0, 100_000.0
    for _ in range(14):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if rate(middle) > wanted else (low, middle)
    return low


def _of_threads(rows: list[dict[str, Any]], costs: Costs) -> Iterator[Point]:
    """Threads that share two writers: a gateway whose calls are nothing but one append."""
    alone = next(row["per_s"] for row in rows if row["threads"] == 1)

    def rate(flush: float, threads: int = 1) -> float:
        plan = Plan(hop=SOCKET, cores=CORES, standby=False)
        return _appends(threads, plan, with_flush(costs, flush))

    flush = _solve(rate, alone)
    for row in rows:
        yield Point(f"{row['threads']} threads, two writers", row["per_s"], rate(flush, row["threads"]))


def _appends(threads: int, plan: Plan, costs: Costs) -> float:
    loop = Loop()
    gateway = Gateway(loop, plan, costs, Database(loop, plan, costs, Random(1)))
    count = [0]

    def write(task: int) -> None:
        count[0] += 1
        gateway._append(Append(task, 1, costs.intent_bytes, partial(write, task)))

    for task in range(threads):
        write(task)
    loop.run(SECONDS)
    return (count[0] - threads) / SECONDS


def _of_gateway(rows: list[dict[str, Any]], costs: Costs) -> Iterator[Point]:
    def rate(flush: float, row: dict[str, Any]) -> float:
        plan = Plan(
            gateways=1, tasks=64, in_flight=row["in_flight"], upstream=0.0, effects=float(row["effect"]),
            batching=row["batching"], hop=SOCKET, cores=CORES, standby=False, warm=0.5, seconds=SECONDS,
        )  # fmt: skip
        return run(plan, with_flush(costs, flush)).per_s

    for effect in (False, True):
        series = [row for row in rows if row["effect"] is effect]
        alone = next(row for row in series if row["in_flight"] == 1)
        flush = _solve(partial(rate, row=alone), alone["per_s"])
        for row in series:
            what = f"gateway: {'effects' if effect else 'readings'}, {row['in_flight']} in flight"
            yield Point(what, row["per_s"], rate(flush, row))
