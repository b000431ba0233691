"""Who sits on a task, and whether they still do.

Owns: liveness of sessions, and that those which ended without closing are over. Must never: end one that lives.
"""

from __future__ import annotations

from typing import Literal

from adjourn.engine.process import Process, lives
from adjourn.engine.task import Fact, Task
from adjourn.log import kinds
from adjourn.state.ledger import Ledger
from adjourn.state.ledger import Session as Holder
from adjourn.store.base import Store

LEASE_MILLISECONDS = 60_000
"""How long a session on a machine that cannot be looked at is taken to live without a sign of life."""
MAX_LISTED_CALLS = 1000
Reason = Literal["dead", "expired", "taken-over"]


def seat(holder: Holder) -> str:
    """Through what a client sits on a task. The hook's visits have no process of their own where the client's is not known."""
    return f"process {holder.pid} on {holder.host.split(':')[0]}" if holder.pid else "through its hook"


def is_alive(store: Store, task: str, holder: Holder, now: int) -> bool | None:
    """True: lives. False: seen dead. None: out of sight, and its lease has run out."""
    alive = lives(Process(holder.host, holder.pid, holder.started))
    if alive is not None:
        return alive
    lease = store.ref(f"lease/{task}/{holder.id}") or "0"
    return True if lease.isdigit() and int(lease) > now else None


def lost(ledger: Ledger, holder: Holder, reason: Reason) -> kinds.SessionLost:
    """That a session is over, and which of its effects are in doubt by that."""
    calls = [call.call for call in ledger.open_calls.values() if call.session == holder.id and call.effectful]
    return kinds.SessionLost(calls=calls[:MAX_LISTED_CALLS], lost=holder.id, reason=reason)


def lose_dead(task: Task) -> None:
    """Write down that sessions which are over without having closed are over, so that their effects can be settled."""

    def build(ledger: Ledger) -> list[Fact]:
        alive = {
            holder.id: is_alive(task.store, task.id, holder, task.clock())
            for holder in ledger.sessions.values()
        }
        return [
            Fact(lost(ledger, holder, "dead" if alive[holder.id] is False else "expired"))
            for holder in ledger.sessions.values()
            if not alive[holder.id]
        ]

    task.commit(build)
