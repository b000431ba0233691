"""The pictures of tasks that pages ask for again and again: what was folded is kept, and only new events are read.

INVARIANT: every event of a picture was verified when it was read, and the first new one follows the last one that was read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple
from urllib.parse import urlencode

from adjourn.handover.lane_history import LaneHistory
from adjourn.handover.lanes import SessionLanes, draw_lanes
from adjourn.store.base import EMPTY, Head, Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger

STEPS = 10
"""A picture begins at a tenth of its length, so that it has the same first event for some time."""
MAX_EVENTS = 300_000
"""Events of all folds that are kept; the ones used longest ago go first. 100,000 take about 15 MB."""


class EventAddresses(NamedTuple):
    """Where a picture of the last `drawn` events of a task leads: those that are `shown` are on its page, others on one that has them in its
    middle, which lists `window` events.
    """

    task: str
    drawn: int
    shown: range
    window: int

    def of(self, seq: int, part: int) -> str:
        """The address of a fact of an event."""
        fields = {"id": self.task, "before": seq + self.window // 2, "drawn": self.drawn}
        return f"{'' if seq in self.shown else f'?{urlencode(fields)}'}#event-{seq}{f'-{part}' if part else ''}"


class _KeptFold:
    """The fold from one position of a task, up to `head`, and the picture that was drawn last."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.head = EMPTY
        self.history = LaneHistory()
        self.drawn: tuple[object, SessionLanes] = (None, SessionLanes())


class KeptLanes:
    """The folds of one store at a time: with another one it starts again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._store: Store | None = None
        self._folds: OrderedDict[tuple[str, int], _KeptFold] = OrderedDict()

    def lanes(self, store: Store, ledger: Ledger, address: EventAddresses) -> SessionLanes:
        """The picture of the last events of a task. Raises `IntegrityError` for an event that was changed."""
        head, doubts = Head(ledger.seq, ledger.hash), sorted(ledger.doubts)
        step = max(1, address.drawn // STEPS)
        start = max(0, head.seq + 1 - address.drawn) // step * step
        fold = self._fold(store, (ledger.task, start))
        with fold.lock:
            try:
                _read_on(fold, store, ledger.task, start, head)
            except BaseException:
                fold.head, fold.history = EMPTY, LaneHistory()  # it may have events that failed verification
                raise
            key = (fold.head, doubts, address)
            if fold.drawn[0] != key:
                fold.drawn = key, draw_lanes(fold.history, doubts, address.of)
            return fold.drawn[1]

    def _fold(self, store: Store, key: tuple[str, int]) -> _KeptFold:
        with self._lock:
            if store is not self._store:
                self._store = store
                self._folds.clear()
            fold = self._folds.setdefault(key, _KeptFold())
            self._folds.move_to_end(key)
            while len(self._folds) > 1 and sum(_sizes(self._folds)) > MAX_EVENTS:
                self._folds.popitem(last=False)
            return fold


def _sizes(folds: OrderedDict[tuple[str, int], _KeptFold]) -> Sequence[int]:
    return [fold.history.count for fold in folds.values()]


def _read_on(fold: _KeptFold, store: Store, task: str, start: int, head: Head) -> None:
    """Feed a fold the events up to `head`, from the first one where it is not of the same history."""
    if fold.head == head:
        return
    if fold.head.seq < head.seq and fold.head != EMPTY:
        entries = verified_entries_from(store, task, fold.head.seq, head)
        if next(entries).hash == fold.head.hash:  # so the chain leads from what was read to `head`
            fold.history.feed(entries)
            fold.head = head
            return
    fold.history = LaneHistory()
    fold.history.feed(verified_entries_from(store, task, start, head))
    fold.head = head
