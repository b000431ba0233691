"""What the pages know of all tasks and records: each is read once, and again when it has another event.

A store of many tasks takes seconds to read. So a look reads for a moment only, the newest tasks first, and says how many are left;
`live` looks until none is. Tasks at work are kept open, so that what an agent writes a thousand times a second is read once.

Owns: this knowledge, shared by all requests. Must never: write (beyond a cached fold of a task that nobody works on), or decide
what waits, which `handover` does.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from threading import RLock
from typing import NamedTuple, TypeVar

from adjourn import host
from adjourn.errors import AdjournError
from adjourn.handover import CallReport, Inbox, KnownStream, find_waiting, recent_calls, waiting_in_task
from adjourn.log import timestamp
from adjourn.store import Head, Store
from adjourn.tasks import Task
from adjourn.ui.rows import TaskRow, row_of

READ_SECONDS = 0.05
"""How long one look reads tasks that have changed."""
MAX_OPEN = 128
"""Tasks that are kept open."""
CALLS_TAIL = 100
"""Events in which the last calls of a task are looked for."""
_BY_USE = attrgetter("order")


class Seen(NamedTuple):
    """What is known now: the tasks, those used last first, and how many could not be read yet."""

    rows: Sequence[TaskRow]
    left: int


class _LastCalls(NamedTuple):
    head: Head
    calls: Sequence[CallReport]


class Overview:
    """Use it for one store at a time: with another one it begins again."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = RLock()
        self._begin(None)

    def _begin(self, store: Store | None) -> None:
        self._store = store
        self._heads: Mapping[str, Head] = {}
        self._looked = float("-inf")
        self._read: dict[str, Head] = {}
        """Where each stream ended when it was read, or seen not to be a task."""
        self._read_up_to: Mapping[str, Head] | None = None
        self._rows: dict[str, TaskRow] = {}
        self._sorted: Sequence[TaskRow] | None = ()
        self._known: dict[str, KnownStream] = {}
        self._passing: set[str] = set()
        """Tasks in which something may be over without another event."""
        self._open: OrderedDict[str, Task] = OrderedDict()
        self._calls: OrderedDict[str, _LastCalls] = OrderedDict()

    def look(self, store: Store, within: float = 0) -> Seen:
        """Look at the store, unless somebody did `within` so many seconds, and read what has changed since, for a moment."""
        with self._lock:
            self._look(store, within)
            left = self._read_changed()
            if self._sorted is None:
                self._sorted = sorted(self._rows.values(), key=_BY_USE, reverse=True)
            return Seen(self._sorted, left)

    @property
    def heads(self) -> Mapping[str, Head]:
        """Where all streams ended at the last look."""
        return self._heads

    def waiting(self, store: Store, within: float = 0) -> tuple[Inbox, int]:
        """What waits in the tasks that are read and in all records, and how many tasks could not be read yet."""
        with self._lock:
            left = self.look(store, within).left
            now = self._clock()
            stamp = timestamp(now)
            for name in [
                one for one in self._passing if not self._known[one].holds(self._known[one].head, stamp)
            ]:
                self._read_task(name)
            heads = {name: head for name, head in self._heads.items() if "/" in name}
            heads |= {name: row.head for name, row in self._rows.items()}
            secret = host.reading_secret()
            return find_waiting(store, clock=self._clock, secret=secret, known=self._known, heads=heads), left

    def last_calls(self, name: str) -> Sequence[CallReport]:
        """The last calls of a task, the newest last; none where its history is not here or cannot be read."""
        with self._lock:
            row = self._rows.get(name)
            if row is None or row.problem:
                return ()
            found = self._calls.get(name)
            if found is None or found.head != row.head:
                with suppress(AdjournError):
                    task = self._opened(name)
                    made = recent_calls(task.store, task.ledger, timestamp(self._clock()), CALLS_TAIL).made
                    found = _LastCalls(row.head, list(made.values()))
                    _keep(self._calls, name, found)
            return found.calls if found is not None else ()

    # --- the lock is held

    def _look(self, store: Store, within: float) -> None:
        if store is not self._store:
            self._begin(store)
        if time.monotonic() - self._looked > within:
            heads = store.streams()
            if heads != self._heads:
                self._heads = heads
            self._looked = time.monotonic()

    def _read_changed(self) -> int:
        """Read tasks that changed, the newest first, for a moment: one at least, however busy the machine is. Returns how many are left."""
        heads, read = self._heads, self._read
        if self._read_up_to is heads:
            return 0
        if len(read) > len(heads):
            for gone in read.keys() - heads.keys():
                self._forget(gone)
        due = [name for name, head in heads.items() if read.get(name) != head]
        ends_at = time.monotonic() + READ_SECONDS
        has_read = False
        for number, name in enumerate(reversed(due)):
            if "/" not in name:
                if has_read and time.monotonic() > ends_at:
                    return sum("/" not in one for one in due[: len(due) - number])
                self._read_task(name, heads[name])
                has_read = True
            read[name] = heads[name]
        self._read_up_to = heads
        return 0

    def _forget(self, name: str) -> None:
        self._read.pop(name, None)
        self._rows.pop(name, None)
        self._known.pop(name, None)
        self._open.pop(name, None)
        self._calls.pop(name, None)
        self._passing.discard(name)
        self._sorted = None

    def _read_task(self, name: str, head: Head | None = None) -> None:
        """Make a task known. It has to reach this head."""
        try:
            task = self._opened(name, head)
        except AdjournError as error:
            self._forget(name)
            self._rows[name] = TaskRow(head or self._heads[name], name, name, problem=error.message)
            return
        self._rows[name] = row_of(task)
        self._known[name] = waiting_in_task(task, self._clock())
        (self._passing.add if self._known[name].until else self._passing.discard)(name)
        self._sorted = None

    def _opened(self, name: str, head: Head | None = None) -> Task:
        """A task as it is now. Raises `AdjournError`."""
        task = self._open.pop(name, None)
        if task is not None:
            before = task.head
            task.refresh()
            if head is not None and before == task.head != head:  # the store says otherwise: have it examined
                task = None
        if task is None:
            assert self._store is not None  # it was looked at
            task = Task(self._store, name, clock=self._clock, secret=host.reading_secret())
        if task.ledger.sessions:
            _keep(self._open, name, task)
        else:
            task.fold_for_readers()
        return task


_T = TypeVar("_T")


def _keep(kept: OrderedDict[str, _T], name: str, value: _T) -> None:
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > MAX_OPEN:
        kept.popitem(last=False)
