"""One replica of the gateway: a process with one processor, and at most two batches of appends under way.

Owns: the path of a call through a gateway, its group commit, its leases. Must never: know where a call comes from.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from sim.database import MICRO, Batch, Database
from sim.loop import Action, Loop, Processors
from sim.settings import Costs, Plan

PARTS = (0.5, 0.2, 0.3)
"""Of a gateway's work for a call: until it is decided, to forward it, to answer it."""
CHUNK = 10
"""Sessions whose leases are renewed in one event of the simulation."""
SESSION_INTERVAL = 20.0


@dataclass(eq=False)
class Call:
    """One call of a client, and its outcome. Times are those of the loop."""

    task: int
    effect: bool
    arrived: float
    service: float
    """How long its server works on it."""
    executions: int = 0
    outcome: str = ""
    intended: bool = False
    settled: bool = False
    forwarded: bool = False
    ended: float = 0.0


class Append(NamedTuple):
    task: int
    rows: int
    size: float
    done: Action


class Gateway:
    """Takes calls; `answered` of a call is called once it is."""

    def __init__(self, loop: Loop, plan: Plan, costs: Costs, database: Database) -> None:
        self._loop, self._plan, self._costs, self._database = loop, plan, costs, database
        self.processor = Processors(loop)
        self._waiting: deque[Append] = deque()
        self._writers = 0
        self.is_alive = True
        self.open: dict[Call, Action] = {}
        self.most_open = 0
        self.rounds: list[float] = []
        """Seconds between two renewals of one lease."""
        self.renewed = 0.0

    # --- calls

    def take(self, call: Call, take_over: bool, answered: Action) -> None:
        """Handle a call. With `take_over`, the gateway first makes the task its own."""
        self.open[call] = answered
        self.most_open = max(self.most_open, len(self.open))
        whole = (self._costs.gateway_effect_us if call.effect else self._costs.gateway_reading_us) * MICRO
        more = 2 if take_over else 0  # session.lost and session.opened
        read = whole * PARTS[0] + (whole if take_over else 0)
        self._compute(read, lambda: self._decided(call, whole, more))

    def start(self, task: int, started: Action) -> None:
        """Open a session, whose client lists tools; then its first call opens the task's session. `started` is called in between."""
        costs = self._costs
        rows = round(costs.first_rows)

        def first() -> None:
            started()
            append = Append(task, rows, costs.intent_bytes * rows, lambda: None)
            self._compute(costs.gateway_first_us * MICRO, lambda: self.append(append))

        self._compute_parts(3, costs.gateway_session_us * MICRO, first)

    def _compute_parts(self, number: int, seconds: float, then: Action) -> None:
        """Compute in so many requests, one after the other."""
        rest = then if number == 1 else lambda: self._compute_parts(number - 1, seconds * (number - 1) / number, then)
        self._compute(seconds / number, rest)

    def _decided(self, call: Call, whole: float, more: int) -> None:
        size = self._costs.intent_bytes

        def intended() -> None:
            call.intended = True
            if call.effect:
                self._compute(whole * PARTS[1], lambda: self._forward(call, whole))
            elif call.forwarded:
                self._settle(call, whole)

        if not call.effect:  # a reading is forwarded while its intent is written
            self._compute(whole * PARTS[1], lambda: self._forward(call, whole))
        self.append(Append(call.task, 1 + more, size * (1 + more), intended))

    def _forward(self, call: Call, whole: float) -> None:
        call.executions += 1

        def back() -> None:
            call.forwarded = True
            if call.intended:
                self._settle(call, whole)

        self._loop.after(call.service, back)

    def _settle(self, call: Call, whole: float) -> None:
        if not self.is_alive:
            return

        def settled() -> None:
            call.settled = True
            if call.effect:
                self._compute(whole * PARTS[2], lambda: self._answer(call))

        append = Append(call.task, 1, self._costs.settlement_bytes, settled)
        if call.effect:
            self.append(append)
        else:
            self._compute(whole * PARTS[2], lambda: self._answer(call))
            self._loop.after(0.25, lambda: self.append(append))

    def _answer(self, call: Call) -> None:
        if self.is_alive and (answered := self.open.pop(call, None)):
            answered()

    def _compute(self, seconds: float, then: Action) -> None:
        if self.is_alive:
            self.processor.use(seconds, lambda: then() if self.is_alive else None)

    def kill(self) -> list[Call]:
        """Lose all that is not stored; returns the calls whose clients get no answer."""
        self.is_alive = False
        self._waiting.clear()
        lost, self.open = list(self.open), {}
        return lost

    # --- appends

    def append(self, append: Append) -> None:
        if not self.is_alive:
            return
        if self._plan.batching:
            self._waiting.append(append)
            self._write()
        else:
            self.processor.take(lambda: self._write_one(append))

    def _write_one(self, append: Append) -> None:
        def done() -> None:
            self.processor.release()
            append.done()

        self._commit([append], done)

    def _write(self) -> None:
        if not self._waiting or self._writers == self._plan.writers:
            return
        self._writers += 1
        batch: list[Append] = []
        left: list[Append] = []
        tasks: set[int] = set()
        while self._waiting and len(batch) < self._plan.most:
            append = self._waiting.popleft()
            if append.task in tasks:
                left.append(append)
            else:
                tasks.add(append.task)
                batch.append(append)
        self._waiting.extendleft(reversed(left))

        def done() -> None:
            self._writers -= 1
            for append in batch:
                append.done()
            self._write()

        rows = sum(append.rows for append in batch)
        computed = (self._costs.gateway_statement_us + self._costs.gateway_row_us * rows) * MICRO
        self._compute(computed, lambda: self._commit(batch, done))

    def _commit(self, batch: list[Append], done: Action) -> None:
        rows = sum(append.rows for append in batch)
        size = sum(append.size for append in batch) + rows * self._costs.wal_row_bytes
        self._database.commit(Batch(rows, size, done))

    # --- leases

    def keep_leases(self, offset: float) -> None:
        """Begin renewing: one lease, or one for each task after the other."""
        sessions = self._plan.tasks // self._plan.gateways
        renew = self._renew_all if self._plan.leases == "session" else self._renew_one
        self.renewed = self._loop.now
        self._loop.after(offset, lambda: renew(sessions, self._loop.now))

    def _renew_one(self, sessions: int, began: float) -> None:
        def done() -> None:
            self.rounds.append(self._loop.now - self.renewed)
            self.renewed = self._loop.now
            self._loop.after(self._plan.lease_interval, lambda: self._renew_one(sessions, self._loop.now))

        self._renew(1, done)

    def _renew_all(self, left: int, began: float) -> None:
        if left > 0:
            self._renew(min(CHUNK, left), lambda: self._renew_all(left - CHUNK, began))
            return
        sessions = self._plan.tasks // self._plan.gateways
        took = self._loop.now - began
        self.rounds.append(max(took, SESSION_INTERVAL))
        self._loop.after(max(0.0, SESSION_INTERVAL - took), lambda: self._renew_all(sessions, self._loop.now))

    def _renew(self, leases: int, done: Action) -> None:
        costs = self._costs
        statements = costs.heartbeat_statements * leases
        seconds, size = costs.heartbeat_database_us * leases * MICRO, costs.heartbeat_wal_bytes * leases
        self._compute(
            costs.heartbeat_gateway_us * leases * MICRO,
            lambda: self._database.renew(statements, seconds, size, lambda: done() if self.is_alive else None),
        )
