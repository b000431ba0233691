"""What every page is made of: the workspace, its store, the person who looks, all tasks as rows, and what a page is."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from threading import RLock
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec

from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.handover.answered import AnsweredItem, answered_items
from adjourn.handover.calls import CallReport, recent_calls
from adjourn.handover.clients import last_client
from adjourn.handover.held import HeldAnswers
from adjourn.handover.inbox import Inbox, KnownStream, find_waiting, waiting_in_task
from adjourn.handover.lanes import KeptLanes
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.event import Actor, timestamp
from adjourn.policy.contract import Contract
from adjourn.store.base import Head, Store
from adjourn.tasks.entries import OpenSession
from adjourn.tasks.task import Task


class EventAddresses(msgspec.Struct, frozen=True):
    """Where a picture of the last `drawn` events of a task leads: those that are `shown` are on its page, others on one that has them in its
    middle, which lists `window` events.
    """

    task: str
    drawn: int
    shown: range
    window: int

    def __call__(self, seq: int, part: int) -> str:
        """The address of a fact of an event."""
        fields = {"id": self.task, "before": seq + self.window // 2, "drawn": self.drawn}
        return f"{'' if seq in self.shown else f'?{urlencode(fields)}'}#event-{seq}{f'-{part}' if part else ''}"


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
        tuple(
            approval.expires for approval in ledger.approvals.values() if not (approval.approved or approval.refused)
        ),
        tuple(ledger.sessions.values()),
    )


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
    """Use it for one store at a time: with another one it starts again."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = RLock()
        self.lanes = KeptLanes()
        """The pictures of tasks."""
        self.count = 0
        """How much waited for the person when that was counted last."""
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
        self._answered: dict[str, tuple[Head, Sequence[AnsweredItem]]] = {}

    def look(self, store: Store, within: float = 0, share: float = 1) -> Seen:
        """Look at the store, unless somebody did `within` so many seconds, and read what has changed since, for a `share` of a moment."""
        with self._lock:
            self._look(store, within)
            left = self._read_changed(share)
            if self._sorted is None:
                self._sorted = sorted(self._rows.values(), key=_BY_USE, reverse=True)
            return Seen(self._sorted, left)

    @property
    def heads(self) -> Mapping[str, Head]:
        """Where all streams ended at the last look."""
        return self._heads

    def waiting(self, store: Store, within: float = 0, share: float = 1, tree: str = "") -> tuple[Inbox, int]:
        """What waits in the tasks that are read and in all records, and how many tasks could not be read yet. Results that are gone are
        looked for in `tree`.
        """
        from adjourn.host.keys import reading_secret

        with self._lock:
            left = self.look(store, within, share).left
            now = self._clock()
            stamp = timestamp(now)
            for name in [task for task in self._passing if not self._known[task].holds(self._known[task].head, stamp)]:
                self._read_task(name)
            heads = {name: head for name, head in self._heads.items() if "/" in name}
            heads |= {name: row.head for name, row in self._rows.items()}
            secret = reading_secret()
            return find_waiting(
                store, clock=self._clock, secret=secret, known=self._known, heads=heads, tree=tree
            ), left

    def answered(self, store: Store, within: float = 0) -> tuple[list[AnsweredItem], int]:
        """What people answered, the newest first, and how many tasks and records could not be read yet."""
        with self._lock:
            self._look(store, within)
            return answered_items(store, self._heads, self._answered)

    def last_calls(self, name: str) -> Sequence[CallReport]:
        """The last calls of a task, the newest last; none where its history is not here or cannot be read."""
        with self._lock:
            row = self._rows.get(name)
            if row is None or row.problem:
                return ()
            cached = self._calls.get(name)
            if cached is None or cached.head != row.head:
                with suppress(AdjournError):
                    task = self._opened(name)
                    calls = recent_calls(task.store, task.ledger, timestamp(self._clock()), CALLS_TAIL).made
                    cached = _LastCalls(row.head, list(calls.values()))
                    _keep(self._calls, name, cached)
            return cached.calls if cached is not None else ()

    # --- the lock is held

    def _look(self, store: Store, within: float) -> None:
        if store is not self._store:
            self._begin(store)
        if time.monotonic() - self._looked > within:
            heads = store.streams()
            if heads != self._heads:
                self._heads = heads
            self._looked = time.monotonic()

    def _read_changed(self, share: float) -> int:
        """Read tasks that changed, the newest first, for a moment: one at least, however busy the machine is. Returns how many are left."""
        heads, read = self._heads, self._read
        if self._read_up_to is heads:
            return 0
        if len(read) > len(heads):
            for gone in read.keys() - heads.keys():
                self._forget(gone)
        due = [name for name, head in heads.items() if read.get(name) != head]
        ends_at = time.monotonic() + READ_SECONDS * share
        has_read = False
        for number, name in enumerate(reversed(due)):
            if "/" not in name:
                if has_read and time.monotonic() > ends_at:
                    return sum("/" not in text for text in due[: len(due) - number])
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
        from adjourn.host.keys import reading_secret

        task = self._open.pop(name, None)
        if task is not None:
            before = task.head
            task.refresh()
            if head is not None and before == task.head != head:  # the store says otherwise: have it examined
                task = None
        if task is None:
            assert self._store is not None  # it was looked at
            task = Task(self._store, name, clock=self._clock, secret=reading_secret())
        if task.ledger.sessions:
            _keep(self._open, name, task)
        else:
            task.fold_for_readers()
        return task


_T = TypeVar("_T")


def _keep(cache: OrderedDict[str, _T], name: str, value: _T) -> None:
    cache[name] = value
    cache.move_to_end(name)
    if len(cache) > MAX_OPEN:
        cache.popitem(last=False)


class Site(msgspec.Struct, frozen=True):
    """A workspace as it is served: `root` has its policy, `tree` its files. `find_store` gives the store once there is one.

    A look at the store may be `within` so many seconds old: a page that follows it gets an event for what is newer. For a person of
    another machine, `home` has its checkpoints and pages, `contract` returns what its sessions work under (or raises `AdjournError`), and
    `root` and `tree` are an empty place; `words` puts the text of an error into those for the person. `answers` keeps the person's answers
    for as long as they can be undone; by default each is recorded at once. `others` gives the person's other workspaces. `base` is how the
    addresses of the pages of another workspace begin. `roles` are what else rules call the person (`PersonsAnswer`).
    """

    root: str
    tree: str
    find_store: Callable[[], Store | None]
    person: Actor
    clock: Callable[[], int]
    within: float = 0
    home: str = ""
    contract: Callable[[], Contract] | None = None
    words: Callable[[str], str] = str
    seen_by: Overview | None = None
    others: Callable[[], Sequence[Site]] = tuple
    answers: HeldAnswers[Notice] | None = None
    base: str = ""
    roles: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.answers is None:
            msgspec.structs.force_setattr(self, "answers", HeldAnswers(self.clock))
        if self.seen_by is None:
            msgspec.structs.force_setattr(self, "seen_by", Overview(self.clock))

    @property
    def overview(self) -> Overview:
        """What is known of all tasks, by all requests."""
        assert self.seen_by is not None  # made above
        return self.seen_by

    @property
    def held(self) -> HeldAnswers[Notice]:
        """The answers of the person that can be undone."""
        assert self.answers is not None  # made above
        return self.answers

    @property
    def author(self) -> CRAuthor:
        """The person, as records name authors."""
        return CRAuthor(id=self.person.id, type="human")

    def task(self, store: Store, name: str, *, writable: bool = False) -> Task:
        """A task by its whole id. Raises `NotFoundError`."""
        from adjourn.host.keys import reading_secret
        from adjourn.host.keys import secret as host_secret
        from adjourn.tasks.task import existing

        secret = host_secret() if writable else reading_secret()
        opened = existing(store, name, clock=self.clock, secret=secret)
        if opened.id != name:
            raise NotFoundError(f"no task has the id {name!r}", "reload the page")
        return opened

    def records(self, store: Store) -> RecordTrees:
        """The records of a store."""
        return RecordTrees(store, clock=self.clock)


# --- what a page is

Form = Mapping[str, str]
"""The fields of a form, or of a page's address."""
MAX_FIELDS = 50
MAX_EDITED = 256 * 1024
"""Bytes of a text that is edited in a form."""


class Notice(NamedTuple):
    """What an action came to, for the person who asked for it. `tone` is `good`, `bad` or `plain`; `fields` are of the page it is shown on.

    `shown` are values of the action's own template, drawn at once: a preview, or what was typed and could not be used. Such an answer has no
    address, so its template has no `#live`. None: the browser goes to the page after the action.
    """

    text: str
    tone: str = "good"
    remedy: str = ""
    fields: Form = MappingProxyType({})
    shown: Mapping[str, Any] | None = None


class WebPage(NamedTuple):
    """A page. `query` gets the fields of the address and returns what the template shows; `actions` are at PATH/NAME.

    After an action without `shown` the browser goes to the page at `after` ("": this one). `is_listed`: in the navigation. Actions that are
    in `reading` change nothing; all others speak for a person.
    """

    path: str
    title: str
    template: str
    query: Callable[[Site, Form], Mapping[str, Any]]
    actions: Mapping[str, Callable[[Site, Form], Notice]] = MappingProxyType({})
    after: str = ""
    is_listed: bool = True
    reading: frozenset[str] = frozenset()
    is_of_task: bool = False


def read_form(text: str) -> Form:
    """The fields of a form or of an address; of several of one name the first. Raises `UsageError` for too many."""
    fields: dict[str, str] = {}
    try:
        for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS):
            fields.setdefault(name, value)
    except ValueError:
        raise UsageError("the form has too many fields", "reload the page") from None
    return fields
