"""The model beside what was measured: closed loops of the same shape as the measurement.

Owns: how a measured point is predicted. Must never: adjust a cost so that a point fits. Only the time of a
flush is fitted, one for each series: a disk is another one at another time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeAlias

import msgspec

from sim.database import Batch, Database
from sim.gateway import Append, Gateway
from sim.loop import Loop
from sim.model import run
from sim.settings import Costs, Plan, measured

SECONDS = 1.0
STEPS = 9
SOCKET = 0.00005
"""A round trip over a Unix socket."""
CORES = 2
Row: TypeAlias = dict[str, Any]
Predict: TypeAlias = Callable[[Row, Costs], tuple[str, float]]


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
    """All measured points, series by series."""
    costs, found = Costs.load(), measured()
    for standby in (False, True):
        yield from _fitted([row for row in found["commits"] if row["standby"] == standby], _commits, costs)
    yield from _fitted(found["threads"], _threads, costs)
    for effect in (False, True):
        yield from _fitted([row for row in found["gateway"] if row["effect"] == effect], _gateway, costs)


def _fitted(rows: list[Row], predict: Predict, costs: Costs) -> Iterator[Point]:
    """A series with the time of a flush, in microseconds, with which its ratios are 1 in the geometric mean."""
    low, high = 10.0, 100_000.0
    for _ in range(STEPS):
        flush = math.sqrt(low * high)
        found = [_point(row, predict, with_flush(costs, flush)) for row in rows]
        low, high = (flush, high) if sum(math.log(max(point.ratio, 1e-3)) for point in found) > 0 else (low, flush)
    yield from found


def _point(row: Row, predict: Predict, costs: Costs) -> Point:
    what, rate = predict(row, costs)
    return Point(what, row["per_s"], rate)


def _commits(row: Row, costs: Costs) -> tuple[str, float]:
    plan = Plan(
        hop=SOCKET * (4 if row["notify"] else 1),  # pgbench sends BEGIN, INSERT, NOTIFY and COMMIT
        cores=CORES,
        standby=row["standby"],
        notify="append" if row["notify"] else "never",
    )
    what = f"{row['connections']} connections" + ", NOTIFY" * row["notify"] + ", standby" * row["standby"]
    return what, commits(row["connections"], plan, costs)


def _threads(row: Row, costs: Costs) -> tuple[str, float]:
    """Threads that share two writers: a gateway whose calls are nothing but one append."""
    loop, plan = Loop(), Plan(hop=SOCKET, cores=CORES, standby=False)
    gateway = Gateway(loop, plan, costs, Database(loop, plan, costs, Random(1)))
    count = [0]

    def write(task: int) -> None:
        count[0] += 1
        gateway.append(Append(task, 1, costs.intent_bytes, partial(write, task)))

    for task in range(row["threads"]):
        write(task)
    loop.run(SECONDS)
    return f"{row['threads']} threads, two writers", (count[0] - row["threads"]) / SECONDS


def _gateway(row: Row, costs: Costs) -> tuple[str, float]:
    plan = Plan(
        gateways=1, tasks=64, in_flight=row["in_flight"], upstream=0.0, effects=float(row["effect"]),
        batching=row["batching"], hop=SOCKET, cores=CORES, standby=False, warm=0.5, seconds=SECONDS,
    )  # fmt: skip
    what = f"gateway: {'effects' if row['effect'] else 'readings'}, {row['in_flight']} in flight"
    return what, run(plan, costs).per_s
