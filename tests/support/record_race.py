"""The process of a race between writers of one Continuation Record.

Owns: `racer`, which a new interpreter imports by name; pytest's own names of test modules cannot be imported there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from adjourn.errors import StoreError
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.store import Store


def racer(opener: Callable[[], Store], number: int, start: Any, wins: Any, seconds: float) -> None:
    """Write as fast as possible for `seconds`, each time on the head just read; put (number, successes) into `wins`."""
    backend = opener()
    store, won = RecordTrees(backend), 0
    author = CRAuthor(id=f"racer-{number}", type="agent")
    start.wait()
    until = time.monotonic() + seconds
    while time.monotonic() < until or not won:
        head = store.resolve("line")
        summary = {**head["executionSummary"], "stepsCompleted": head["executionSummary"]["stepsCompleted"] + 1}
        try:
            store.update("line", {"executionSummary": summary}, author, expected_head=head["contentHash"])
            won += 1
        except StoreError:  # another was faster, or kept the file to itself for too long
            continue
    backend.close()
    wins.put((number, won))
