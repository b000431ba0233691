"""PostgreSQL as it matters here: statements need a processor, commits a flush, and a notification the one lock of all commits.

Owns: `Database`. Must never: know what a batch contains beyond its size.
"""

from __future__ import annotations

import math
from random import Random
from typing import NamedTuple

from sim.loop import Action, Loop, Processors
from sim.settings import Costs, Plan

MICRO = 1e-6


class Batch(NamedTuple):
    """One statement and its commit. `done` is called when it is acknowledged."""

    rows: int
    size: float
    """Bytes of the write-ahead log."""
    done: Action


class Flushing:
    """A log that is flushed for all commits that wait, one flush after the other."""

    def __init__(self, loop: Loop, plan: Plan, costs: Costs, random: Random) -> None:
        self._loop, self._plan, self._random = loop, plan, random
        sigma = costs.flush_sigma
        self._mean, self._sigma = math.log(costs.flush_us * MICRO * plan.flush), sigma
        self._waiting: list[Batch] = []
        self._is_flushing = False
        self.flushes = 0

    def add(self, batch: Batch) -> None:
        self._waiting.append(batch)
        if not self._is_flushing:
            self._flush()

    def _flush(self) -> None:
        batches, self._waiting = self._waiting, []
        self._is_flushing = True
        self.flushes += 1
        size = sum(batch.size for batch in batches)
        seconds = self._random.lognormvariate(self._mean, self._sigma) + size / self._plan.bandwidth
        self._loop.after(seconds, lambda: self._flushed(batches))

    def _flushed(self, batches: list[Batch]) -> None:
        self._is_flushing = False
        if self._waiting:
            self._flush()
        for batch in batches:
            batch.done()


class Database:
    """A primary and, if the plan has one, a standby that acknowledges each commit."""

    def __init__(self, loop: Loop, plan: Plan, costs: Costs, random: Random) -> None:
        self._loop, self._plan, self._costs = loop, plan, costs
        self._processors = Processors(loop, plan.cores)
        self._lock = Processors(loop)  # that of NOTIFY: it is kept until the commit is acknowledged
        self._primary, self._standby = (Flushing(loop, plan, costs, random) for _ in range(2))
        self._is_down = False
        self._held_back: list[Action] = []
        self.commits = self.rows = self.lease_statements = 0
        self.bytes = 0.0

    @property
    def busy(self) -> float:
        """Seconds of all processors."""
        return self._processors.busy

    @property
    def flushes(self) -> int:
        return self._primary.flushes

    def commit(self, batch: Batch) -> None:
        """Execute and commit a batch. While no server takes appends it waits, as a store does that tries again."""
        if self._is_down:
            self._held_back.append(lambda: self.commit(batch))
            return
        costs = self._costs
        seconds = (costs.database_statement_us + costs.database_row_us * batch.rows) * MICRO
        executed = self._flush if self._plan.notify == "never" else self._notify
        self._loop.after(self._plan.hop / 2, lambda: self._processors.use(seconds, lambda: executed(batch)))

    def renew(self, statements: float, seconds: float, size: float, done: Action) -> None:
        """Statements that do not wait for a flush."""
        if self._is_down:
            self._held_back.append(lambda: self.renew(statements, seconds, size, done))
            return
        self.lease_statements += int(statements)
        self.bytes += size
        self._loop.after(statements * self._plan.hop, lambda: self._processors.use(seconds, done))

    def fail(self, seconds: float) -> None:
        """Acknowledge nothing for so long. What was under way is found or repeated by the stores afterwards, once each."""
        self._is_down = True
        self._loop.after(seconds, self._recover)

    def _recover(self) -> None:
        self._is_down = False
        held, self._held_back = self._held_back, []
        for action in held:
            action()

    def _notify(self, batch: Batch) -> None:
        def locked() -> None:
            self._loop.after(self._costs.notify_us * MICRO, lambda: self._flush(batch._replace(done=acknowledged)))

        def acknowledged() -> None:
            self._lock.release()
            batch.done()

        self._lock.take(locked)

    def _flush(self, batch: Batch) -> None:
        def done() -> None:
            self.commits += 1
            self.rows += batch.rows
            self.bytes += batch.size
            self._loop.after(self._plan.hop / 2, lambda: self._acknowledge(batch))

        last = batch._replace(done=done)
        if not self._plan.standby:
            self._primary.add(last)
            return
        extra = self._plan.hop + self._costs.standby_us * MICRO
        self._primary.add(batch._replace(done=lambda: self._loop.after(extra, lambda: self._standby.add(last))))

    def _acknowledge(self, batch: Batch) -> None:
        if self._is_down:
            self._held_back.append(batch.done)
        else:
            batch.done()
