"""Which client works on a task.

Owns: `last_client`. Must never: write.
"""

from __future__ import annotations

from adjourn.errors import AdjournError
from adjourn.log.event import decode
from adjourn.store.base import Store
from adjourn.tasks.ledger import Ledger

_TAIL = 16
"""Events at the end of a task in which the name of its last client is looked for."""


def last_client(store: Store, ledger: Ledger) -> str:
    """The client that works on a task, or did so last; "" if it is not among the last events."""
    if ledger.sessions:
        return list(ledger.sessions.values())[-1].client
    for entry in reversed(list(store.read(ledger.task, max(0, ledger.seq + 1 - _TAIL)))):
        try:
            event = decode(entry.data)
        except AdjournError:
            return ""
        if event.by.type == "agent":
            return event.by.id
    return ""
