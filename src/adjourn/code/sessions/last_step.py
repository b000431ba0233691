"""The last step of a coding session, from the events of its task.

Owns: reading the end of that chain. Must never: import the state of a session, for `adjourn status` starts with this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adjourn.log import kinds
from adjourn.log.event import decode
from adjourn.store.base import Head, Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger

_TAIL = 1_000
"""Events that are read."""


def last_step(store: Store, ledger: Ledger) -> kinds.PhaseEntered | None:
    """The last step in a coding session's chain; None for another task."""
    steps = [data for data in tail(store, ledger) if isinstance(data, kinds.PhaseEntered)]
    return steps[-1] if steps else None


def tail(store: Store, ledger: Ledger) -> Iterator[Any]:
    """The facts at the end of a task's chain."""
    for entry in verified_entries_from(store, ledger.task, ledger.seq - _TAIL, Head(ledger.seq, ledger.hash)):
        yield kinds.data_of(decode(entry.data))
