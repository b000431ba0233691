"""A task as a row of a list: what it is for, who works on it, how much of its budget is spent.

Owns: `TaskRow`, how it is made of a ledger. Must never: read more events than name the client.
"""

from __future__ import annotations

from typing import NamedTuple

from adjourn.handover import last_client
from adjourn.store import Head
from adjourn.tasks import OpenSession, Task


class TaskRow(NamedTuple):
    """A task in the list, as of its `head`. `words` are what it is found by, `order` is what lists are sorted by, `asked` the times until which its
    questions wait.
    """

    head: Head
    id: str
    words: str
    order: str = ""
    goal: str = ""
    client: str = ""
    used: int = 0
    budget: int | None = None
    touched: str = ""
    is_finished: bool = False
    doubts: int = 0
    asked: tuple[str, ...] = ()
    sessions: tuple[OpenSession, ...] = ()
    problem: str = ""

    @property
    def share(self) -> int:
        """How much of the budget is spent, in percent."""
        return min(100, round(100 * self.used / self.budget)) if self.budget else 0


def row_of(task: Task) -> TaskRow:
    """The row of a task."""
    ledger = task.ledger
    client = last_client(task.store, ledger)
    return TaskRow(
        Head(ledger.seq, ledger.hash),
        task.id,
        f"{task.id} {ledger.goal} {client}".casefold(),
        f"{ledger.touched} {task.id}",
        ledger.goal,
        client,
        ledger.calls_used,
        ledger.budget,
        ledger.touched,
        bool(ledger.finished),
        len(ledger.doubts),
        tuple(one.expires for one in ledger.approvals.values() if not (one.approved or one.refused)),
        tuple(ledger.sessions.values()),
    )
