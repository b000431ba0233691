"""Calls that were refused since committing them failed, although their intents may have been written.

Of an append whose connection broke it is not known whether it was made. Who refused its calls knows that none was sent: once the history
shows an intent, the call is settled as an error. So nothing is in doubt, and its idempotency key is free for a repetition.

Owns: which calls these are. Must never: settle a call that may have been sent, or take back what a call counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from adjourn.log import kinds
from adjourn.tasks import idempotency
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import SYSTEM, NewEvent, Task

MAX_UNSENT = 1000
"""Calls of a session that are kept. The first ones are: while a store is away, no later intent reaches it."""
WHY = "it was not sent: its intent could not be confirmed"


class _Refused(NamedTuple):
    """Where the history ended before the intent of a call."""

    call: str
    seq: int


class UnsentCalls:
    """Those of one session."""

    def __init__(self) -> None:
        self.calls: list[_Refused] = []
        """Empty, but while a store fails."""

    def add(self, ledger: Ledger, calls: Iterable[str]) -> None:
        """Calls that are refused. The ledger is the one that they were decided at."""
        room = MAX_UNSENT - len(self.calls)
        self.calls += [_Refused(call, ledger.seq) for call in islice(calls, room)]

    def settle(self, task: Task, session: str) -> None:
        """Settle those whose intents were written, and forget those whose intents never can be. Raises `StoreError`."""
        settled: list[kinds.ToolSettled] = []

        def build(ledger: Ledger) -> list[NewEvent]:
            settled[:] = [
                kinds.ToolSettled(call=one.call, message=WHY, outcome="error")
                for one in self.calls
                if one.call in ledger.open_calls or one.call in ledger.doubts
            ]
            return [NewEvent(fact, SYSTEM, session) for fact in settled]

        task.commit(build, refs=lambda _: idempotency.keep(task, settled, {}))
        # behind a longer history than they were decided at, no intent can appear any more
        self.calls = [one for one in self.calls if one.seq == task.ledger.seq]
