"""What is open about a call in all tasks of a workspace: calls in doubt, calls that happened unseen, questions and approvals.

The chains of the tasks have all of it. The refs kept here, `open/DIGEST/TASK/ID` by the digest of the call's arguments, are an index of
that, written in the same transactions: who is about to make a call finds with one look what any task of the workspace has open about
it. An entry that is out of date does no harm, since the task's own ledger is asked; a missing one would.

A killed session writes nothing. So before a call with effects each session looks whether those of other tasks still live, and writes
down that they are lost.

Owns: that index, and telling other tasks that their calls were repeated. Must never: decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Lock
from typing import NamedTuple, cast
from weakref import WeakKeyDictionary

import msgspec

from adjourn.errors import AdjournError, ConflictError, IntegrityError
from adjourn.host.process import Process, lives
from adjourn.log import kinds
from adjourn.store.base import Store
from adjourn.tasks import idempotency
from adjourn.tasks.decision import ALONE, WorkspaceState
from adjourn.tasks.entries import Approval, OpenCall, OpenSession
from adjourn.tasks.lease import REPLICA, expire_dead_sessions, lease_end, time_of
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import OPEN_INDEX, NewEvent, Task, open_entries, open_ref, tasks_of

RECENT_SECONDS = 0.25
"""How old may be what was seen of a store that is reached over a network."""
MAX_RECENT = 1000
"""Entries of a store beyond which each call asks for its own instead."""
INDEXED = "indexed/calls"
"""The ref that says that all tasks of the store are in the index: those that an earlier version wrote as well."""


_building = Lock()
"""The sessions of a process that start at once wait for one of them, in place of reading all tasks each."""


class OpenElsewhere(msgspec.Struct):
    """What other tasks have open about one call; `owners` are the tasks, by the id of the call or approval."""

    state: WorkspaceState = ALONE
    owners: Mapping[str, str] = {}


NOTHING_ELSEWHERE = OpenElsewhere()


def open_elsewhere(task: Task, digest: str) -> OpenElsewhere:
    """What the other tasks of the workspace have open about calls with these arguments (their digest). Raises `StoreError`, and `IntegrityError` where one of their
    histories was cut.
    """
    names = task.store.refs(f"{OPEN_INDEX}{digest}/")
    if not names:
        return NOTHING_ELSEWHERE
    doubts: list[OpenCall] = []
    unseen: list[OpenCall] = []
    approvals: dict[str, Approval] = {}
    owners: dict[str, str] = {}
    for other in _tasks_in(task, names):
        ledger = other.ledger
        doubts += (doubt for doubt in ledger.doubts.values() if doubt.digest == digest)
        unseen += (call for call in ledger.unseen.values() if call.digest == digest)
        approvals |= {
            approval.id: approval
            for approval in ledger.approvals.values()
            if approval.digest == digest and open_ref(other.id, approval.digest, approval.id) in names
        }
        owners |= dict.fromkeys((*ledger.doubts, *ledger.unseen, *ledger.approvals), other.id)
    return OpenElsewhere(WorkspaceState(doubts=doubts, unseen=unseen, approvals=approvals), owners)


def tell(task: Task, owner: str, fact: kinds.EffectRepeated) -> None:
    """Tell another task that what it has open was repeated in this one. Where that cannot be written it stays open there: a person is
    asked once more.
    """
    told = msgspec.structs.replace(fact, task=task.id)
    with suppress(AdjournError):
        _other(task, owner).commit(lambda ledger: [NewEvent(told)] if _is_open(ledger, told) else [])


def _is_open(ledger: Ledger, fact: kinds.EffectRepeated) -> bool:
    return fact.call in ledger.doubts or fact.call in ledger.unseen or fact.approval in ledger.approvals


def tell_askers(task: Task, digest: str, facts: Callable[[Ledger], Iterable[NewEvent]]) -> None:
    """Write to each other task that has something open about a call what follows for it, by its ledger. One that cannot be written
    learns nothing: its question waits until it expires.
    """
    for other in _tasks_in(task, task.store.refs(f"{OPEN_INDEX}{digest}/")):
        with suppress(AdjournError):
            other.commit(lambda ledger: list(facts(ledger)))


def owner_of(task: Task, call: str) -> Task:
    """The task of a call in doubt that a question of this task is about; this one where no other is known to have it."""
    for approval in task.ledger.approvals.values():
        if approval.doubt == call and call not in task.ledger.doubts:
            for other in _tasks_in(task, task.store.refs(f"{OPEN_INDEX}{approval.digest}/")):
                if call in other.ledger.doubts:
                    return other
    return task


def _tasks_in(task: Task, names: Iterable[str]) -> Iterator[Task]:
    owners = dict.fromkeys(name.split("/", 3)[2] for name in names)
    owners.pop(task.id, None)
    for owner in owners:
        yield _other(task, owner)


def _other(task: Task, owner: str) -> Task:
    return Task(task.store, owner, clock=task.clock, secret=task.secret)


class _Seen(NamedTuple):
    """The digests of all calls that something is open about in a store, as of a version of its refs or of a time (`time.monotonic`)."""

    when: object
    digests: frozenset[str] | None
    """None: they were not read, or are too many."""


_seen: WeakKeyDictionary[Store, _Seen] = WeakKeyDictionary()


class Neighbours:
    """The other tasks of a workspace, as one session sees them.

    What was read of the store is read again after it may have changed. A SQLite store tells whether it may have (`SqliteStore.refs_version`). Of
    one that is reached over a network the session's first call reads; a later one may go by what another session saw in the last
    `RECENT_SECONDS`.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._version: Callable[[], object] = getattr(task.store, "refs_version", object)
        self._just_read: object = None
        """The version at which `expire_dead` found that all sessions live: the look-up after it needs no newer one."""
        self._seen = _Seen(None, None)
        self._has_looked = False
        self._leases: Mapping[str, str] = {}
        """The leases of the sessions of other tasks, as of `_leases_at`."""
        self._leases_at: object = None
        self._known: dict[str, OpenSession | None] = {}
        """These sessions by lease. None: the session has ended, or its task cannot be read."""

    def look_up(self, digest: str) -> OpenElsewhere:
        """`open_elsewhere`, where something may be open by what `refresh` found."""
        if self._seen.digests is not None and digest not in self._seen.digests:
            return NOTHING_ELSEWHERE
        return open_elsewhere(self._task, digest)

    def refresh(self) -> None:
        """Look what may be open now. Of a store that tells its version, all is read once two calls in a row have found the same one."""
        store = self._task.store
        if getattr(store, "now", None) is not None:
            self._seen = self._recent(getattr(store, "below", store))
            return
        version, self._just_read = self._just_read or self._version(), None
        if self._seen.when != version:
            self._seen = _Seen(version, None)
        elif self._seen.digests is None and not self._has_looked:
            self._seen = _Seen(version, _indexed(store))
            self._has_looked = self._seen.digests is None  # too many, and so they will be

    def _recent(self, store: Store) -> _Seen:
        recent, now = _seen.get(store), time.monotonic()
        if recent is None or not self._has_looked or now - cast("float", recent.when) > RECENT_SECONDS:
            recent = _seen[store] = _Seen(now, _indexed(store))
            self._has_looked = True
        return recent

    def expire_dead(self) -> None:
        """Write down of sessions that are over without having closed that they are lost. Raises `StoreError`."""
        task = self._task
        self._just_read = version = self._version()
        if version != self._leases_at:
            own, leases = f"lease/{task.id}/", task.store.refs("lease/")
            self._leases = {name: lease for name, lease in leases.items() if not name.startswith(own)}
            self._leases_at = version
            for name in self._known.keys() - self._leases.keys():
                del self._known[name]
        for name, lease in self._leases.items():
            _, owner, session = name.split("/", 2)
            if lease.startswith(REPLICA) and task.store.ref(lease) is not None:
                continue
            with suppress(IntegrityError):  # whoever works on it gets the error; others continue
                if self._is_over(name, lease, owner, session):
                    self._just_read = None  # somebody writes that it is over: this session, or another one before
                    expire_dead_sessions(_other(task, owner))
                    self._known[name] = None

    def _is_over(self, name: str, lease: str, owner: str, session: str) -> bool:
        """Whether a session of another task ended without having closed."""
        if name not in self._known:
            self._known[name] = None
            self._known[name] = _other(self._task, owner).ledger.sessions.get(session)
        holder, task = self._known[name], self._task
        if holder is None:
            return False
        alive = lives(Process(holder.host, holder.pid, holder.started))
        if alive is None:  # on another machine
            return lease_end(task.store, lease) <= time_of(task.store, task.clock())
        return not alive


def _indexed(store: Store) -> frozenset[str] | None:
    """The digests in the index; None where there are too many entries."""
    names = store.refs(OPEN_INDEX)
    return frozenset(name.split("/", 2)[1] for name in names) if len(names) <= MAX_RECENT else None


def expire_sessions_of(store: Store, lease: str, *, clock: Callable[[], int], secret: bytes) -> None:
    """Write down of all sessions of a replica that is gone that they are lost. Raises `StoreError`."""
    tasks = {name.split("/", 2)[1] for name, value in store.refs("lease/").items() if value == lease}
    for name in tasks:
        with suppress(AdjournError):  # the next session that opens there does it
            expire_dead_sessions(Task(store, name, clock=clock, secret=secret))


def build_index(store: Store, *, clock: Callable[[], int], secret: bytes) -> None:
    """Add the tasks that an earlier version wrote to the index, once for each store. Raises `StoreError`."""
    below: Store = getattr(store, "below", store)
    if below.ref(INDEXED) is not None:
        return
    with _building:
        if below.ref(INDEXED) is not None:
            return
        for name in tasks_of(below):
            with suppress(AdjournError):  # whoever opens it hears of what is wrong with it
                ledger = Task(below, name, clock=clock, secret=secret).ledger
                _add(below, open_entries(ledger))
        _add(below, idempotency.of_workspace(below))
        _add(below, {INDEXED: "1"})


def _add(store: Store, refs: Mapping[str, str]) -> None:
    for name, value in refs.items():
        with suppress(ConflictError):  # it is there already
            store.swap(name, value, expect=None)
