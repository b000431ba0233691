"""The whole: clients that call, a load balancer, gateways, one database, and what is killed on the way.

Owns: `run`, which simulates a plan and returns what was seen. Must never: print, or know how results are shown.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Iterator
from random import Random

import msgspec

from sim.database import Database
from sim.gateway import Call, Gateway
from sim.loop import Loop
from sim.settings import Costs, Plan

RETRY = 0.5
"""Seconds after which a client repeats a call that got no answer."""
BUCKET = 0.5
"""Seconds of a step in `Result.waiting`."""
PAGE_ROWS_KEPT = 200
"""Entries of a task that are kept, on average."""
CHECKPOINT_SECONDS = 300.0
TAIL = 1.0
"""Times are those of calls that arrived at least so long before the end. One that is still open counts with its age."""


class Result(msgspec.Struct, frozen=True):
    """What was seen between `warm` and the end. Times are in seconds; `added` is a call's time beyond that of its server."""

    calls: int
    per_s: float
    outcomes: dict[str, int]
    added: list[float]
    added_effects: list[float]
    open_mean: float
    """Calls in the system, over time."""
    time_mean: float
    """Seconds that a call was in the system."""
    commits_per_s: float
    rows_per_s: float
    flushes_per_s: float
    wal_bytes_per_s: float
    lease_statements_per_s: float
    lease_round: float
    """The longest time between two renewals of a lease."""
    gateway_busy: float
    """The share of the busiest gateway's processor."""
    database_cores: float
    gateway_mib: float
    arrived: int
    still_open: int
    executed_twice: int
    taken_over: int
    waiting: list[tuple[float, int]]
    """(time, calls in the system), every half a second."""
    started: list[float]
    """Seconds that a session took to start."""

    def percentile(self, part: float, *, effects: bool = False) -> float:
        """Of what is added to a call, in seconds; nan if there was none."""
        times = self.added_effects if effects else self.added
        return times[min(len(times) - 1, int(len(times) * part))] if times else math.nan


class Simulation:
    def __init__(self, plan: Plan, costs: Costs) -> None:
        self.plan, self.costs, self.loop = plan, costs, Loop()
        self._arrivals, self._services, flushes, self._routes = (
            Random(f"{plan.seed} {name}") for name in ("arrivals", "services", "flushes", "routes")
        )
        self._sessions = Random(f"{plan.seed} sessions")
        self.database = Database(self.loop, plan, costs, flushes)
        self.gateways = [Gateway(self.loop, plan, costs, self.database) for _ in range(plan.gateways)]
        self._owners: dict[int, int] = {}
        """The gateways of tasks that are not where they would be by their number."""
        self._mu = math.log(plan.upstream) - plan.upstream_sigma**2 / 2 if plan.upstream else 0.0
        self.open = self.arrived = self.taken_over = self.executed_twice = 0
        self._open_since = self._open_seconds = 0.0
        self.done: list[Call] = []
        self._asked: set[Call] = set()
        """Calls without an outcome."""
        self.waiting: list[tuple[float, int]] = []
        self._starting: dict[int, float] = {}
        """When the sessions began that have not started yet."""
        self._begun = 0
        self._started: list[tuple[float, float]] = []
        """When each began, and how long it took."""

    # --- clients

    def start(self) -> None:
        plan = self.plan
        for number, gateway in enumerate(self.gateways):
            share = (number + 0.5) / plan.gateways
            gateway.keep_leases(share * (1.0 if plan.leases == "replica" else plan.warm))
        if plan.in_flight:
            for task in range(plan.in_flight):
                self.loop.after(task * 1e-5, lambda task=task: self._call(task))  # type: ignore[misc]
        else:
            self._next()
        if plan.starts:
            self._next_session()
        if plan.kill_replica:
            self.loop.after(plan.kill_replica, self._kill_replica)
        if plan.kill_primary:
            self.loop.after(plan.kill_primary, lambda: self.database.fail(plan.gap))
        self._watch()

    def _next(self) -> None:
        plan, random = self.plan, self._arrivals
        self.loop.after(random.expovariate(plan.rate / plan.burst), self._arrive)

    def _arrive(self) -> None:
        plan, random = self.plan, self._arrivals
        task = random.randrange(plan.tasks)
        self._call(task)
        while plan.burst > 1 and random.random() > 1 / plan.burst:
            self._call(task)
        self._next()

    def _call(self, task: int) -> None:
        plan = self.plan
        service = self._services.lognormvariate(self._mu, plan.upstream_sigma) if plan.upstream else 0.0
        call = Call(task, self._services.random() < plan.effects, self.loop.now, service)
        self.arrived += 1
        self._asked.add(call)
        self._count(1)
        self._route(call)

    # --- sessions of the handshake

    def _next_session(self) -> None:
        def begin() -> None:
            self._begin_session()
            self._next_session()

        self.loop.after(self._sessions.expovariate(self.plan.starts), begin)

    def _begin_session(self) -> None:
        """A client starts at any gateway that lives; if that one is killed meanwhile, at another."""
        alive = [gateway for gateway in self.gateways if gateway.is_alive]
        self._begun = number = self._begun + 1
        began = self._starting[number] = self.loop.now

        def started() -> None:
            del self._starting[number]
            self._started.append((began, self.loop.now - began))

        self._sessions.choice(alive).start(self._sessions.randrange(self.plan.tasks), started)

    def _count(self, change: int) -> None:
        now, warm = self.loop.now, self.plan.warm
        self._open_seconds += self.open * (max(now, warm) - max(self._open_since, warm))
        self._open_since = now
        self.open += change

    def _watch(self) -> None:
        self.waiting.append((self.loop.now, self.open))
        self.loop.after(BUCKET, self._watch)

    # --- the load balancer

    def _route(self, call: Call) -> None:
        number = self._owners.get(call.task, call.task % self.plan.gateways)
        owner = self.gateways[number]
        wanted = number
        if not self.plan.affinity or not owner.is_alive:
            wanted = self._routes.randrange(self.plan.gateways)
            while not self.gateways[wanted].is_alive:
                wanted = self._routes.randrange(self.plan.gateways)
        if not owner.is_alive and self.loop.now < owner.renewed + self.plan.lease_seconds:
            self.loop.after(RETRY, lambda: self._route(call))  # refused: another gateway holds the task
            return
        moves = wanted != number
        if moves:
            self._owners[call.task] = wanted
            self.taken_over += 1
        self.gateways[wanted].take(call, moves, lambda: self._end(call, "answered"))

    def _end(self, call: Call, outcome: str) -> None:
        assert not call.outcome, "a call ends once"
        call.outcome, call.ended = outcome, self.loop.now
        if call.effect and call.executions > 1:
            self.executed_twice += 1
        self._count(-1)
        self._asked.remove(call)
        self.done.append(call)
        if self.plan.in_flight:
            self._call(call.task)

    # --- failures

    def _kill_replica(self) -> None:
        for call in self.gateways[0].kill():
            self.loop.after(RETRY, lambda call=call: self._repeat(call))  # type: ignore[misc]
        for _ in range(self.plan.sessions // self.plan.gateways):
            until_call = self._sessions.expovariate(self.plan.rate / self.plan.sessions)
            self.loop.after(RETRY + until_call, self._begin_session)

    def _repeat(self, call: Call) -> None:
        """A client asks again with the same id: the recorded answer, that it is in doubt, or the call is made."""
        if call.effect and call.settled:
            self._end(call, "recorded answer")
        elif call.effect and call.intended:
            self._end(call, "in doubt")
        else:
            call.intended = call.forwarded = False
            self._route(call)

    # --- the result

    def _added(self, call: Call) -> float:
        """What a call waited beyond its server's time; of one that is still open, so far."""
        return max(0.0, (call.ended if call.outcome else self.loop.now) - call.arrived - call.service)

    def result(self) -> Result:
        plan, seconds = self.plan, self.plan.seconds
        self._count(0)
        late = [call for call in (*self.done, *self._asked) if plan.warm <= call.arrived <= self.loop.now - TAIL]
        ended = [call for call in self.done if call.ended >= plan.warm]
        whole, database, costs = self.loop.now, self.database, self.costs
        return Result(
            calls=len(ended),
            per_s=len(ended) / seconds,
            outcomes=dict(sorted(Counter(call.outcome for call in self.done).items())),
            added=sorted(map(self._added, late)),
            added_effects=sorted(self._added(call) for call in late if call.effect),
            open_mean=self._open_seconds / seconds,
            time_mean=sum(call.ended - call.arrived for call in ended) / max(1, len(ended)),
            commits_per_s=database.commits / whole,
            rows_per_s=database.rows / whole,
            flushes_per_s=database.flushes / whole,
            wal_bytes_per_s=database.bytes / whole + whole_pages(plan, costs, database.rows / whole),
            lease_statements_per_s=database.lease_statements / whole,
            lease_round=max((max(gateway.rounds) for gateway in self.gateways if gateway.rounds), default=math.nan),
            gateway_busy=max(gateway.processor.busy for gateway in self.gateways) / whole,
            database_cores=database.busy / whole,
            gateway_mib=costs.gateway_base_mib + costs.gateway_task_kib * plan.tasks / plan.gateways / 1024,
            arrived=self.arrived,
            still_open=self.open,
            executed_twice=self.executed_twice,
            taken_over=self.taken_over,
            waiting=self.waiting,
            started=sorted(self._times_of_starts()),
        )

    def _times_of_starts(self) -> Iterator[float]:
        """Of sessions that began in the time that is measured; of one that has not started yet, so far."""
        end = self.loop.now - TAIL
        yield from (took for began, took in self._started if self.plan.warm <= began <= end)
        yield from (self.loop.now - began for began in self._starting.values() if self.plan.warm <= began <= end)


def whole_pages(plan: Plan, costs: Costs, rows_per_s: float) -> float:
    """Bytes a second of pages that the log has whole, because they are changed for the first time after a checkpoint.

    Rows go to random pages of the index: each task is at another place of it.
    """
    pages = max(1.0, plan.tasks * PAGE_ROWS_KEPT / costs.rows_per_index_page)
    rows = rows_per_s * CHECKPOINT_SECONDS
    return pages * -math.expm1(-rows / pages) * costs.wal_page_bytes / CHECKPOINT_SECONDS


def run(plan: Plan, costs: Costs | None = None) -> Result:
    """What a plan leads to. The same plan has the same result, always."""
    simulation = Simulation(plan, costs or Costs.load())
    gc.disable()  # there are many small objects and no cycles worth a search
    try:
        simulation.start()
        simulation.loop.run(plan.warm + plan.seconds)
        return simulation.result()
    finally:
        gc.enable()
