"""Write versions: an operation on the newest version becomes a stored version and its events.

Events are delivered after the write, in the order of the writes, each once. Must never: hold a rule of a record, or let
a subscriber break a write or another subscriber.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, RLock

import msgspec

from adjourn.errors import AdjournError, ConflictError, InvalidError, RefusedError
from adjourn.knowledge.cognition.transitions import RecordChange, Transition
from adjourn.knowledge.model.documents import EncodedDocument, Tree, tree_of, view
from adjourn.knowledge.model.record import CRAuthor, CREvent
from adjourn.knowledge.records.interventions import already_used, consumption_key
from adjourn.knowledge.records.version_log import VersionLog, VersionStore, head_moved, unknown_record
from adjourn.knowledge.records.versions import Stored, following, next_version
from adjourn.log.canonical_json import digest
from adjourn.log.merkle import Frontier
from adjourn.store.base import Store, append_with_retry

Operation = Callable[[Tree, int], Transition]
"""Makes a transition of a record from its newest version and the time in milliseconds."""
Change = Callable[[EncodedDocument, Tree, int], Transition]
"""The same, given also the encoded newest version, whose parts it may share."""
Subscriber = Callable[[CREvent], object]


class VersionWriter:
    """Writes the versions of one store, and delivers their events. `clock` returns milliseconds. Thread-safe."""

    def __init__(self, versions: VersionStore, clock: Callable[[], int]) -> None:
        self.versions = versions
        self.clock = clock
        self.lock = RLock()
        self.subscribers = Subscribers()

    def log(self, cr_id: str) -> VersionLog:
        """The log of a record at its newest version. Raises `UnknownRecordError`."""
        with self.lock:
            log = self.versions.head(cr_id)
        if log is None:
            raise unknown_record(cr_id)
        return log

    def create(
        self, cr_id: str, stored: Stored, parent: Frontier | None, changes: Sequence[RecordChange], author: CRAuthor
    ) -> Tree:
        """Write the first version of a record; `parent` is the Merkle frontier of the version that it is a fork of.

        Raises `ConflictError` if the id is taken.
        """
        with self.lock:
            try:
                log = self.versions.append(None, cr_id, stored, parent)
            except ConflictError as error:
                raise ConflictError(f"record {cr_id} already exists", "update it, or choose another id") from error
            self.subscribers.queue(log, changes, author)
        self.subscribers.deliver()
        return log.record

    def update(self, cr_id: str, change: Change, author: CRAuthor, *, expected_head: str | None = None) -> Tree:
        """Write the version that `change` makes of the newest one, or return that one if nothing changes. Never retries.

        Raises `ConflictError` if another process wrote first, or if `expected_head` is not the newest version.
        """
        fields = self._write_after_cached(cr_id, change, author, expected_head)
        if fields is not None:
            return fields
        log = self.log(cr_id)
        if expected_head not in (None, log.at.hash):
            raise head_moved(cr_id, str(expected_head), log.at.hash)
        try:
            return self._write(log, change, author) or log.record
        except ConflictError:
            raise head_moved(cr_id, log.at.hash, self.log(cr_id).at.hash) from None

    def act(self, cr_id: str, operation: Operation, author: CRAuthor) -> Tree:
        """`update`, but calls `operation` again on the new head if another process wrote first."""

        def change(_encoded: EncodedDocument, head: Tree, at: int) -> Transition:
            return operation(head, at)

        def attempt() -> Tree:
            log = self.log(cr_id)
            return self._write(log, change, author) or log.record

        fields = self._write_after_cached(cr_id, change, author)
        return fields or append_with_retry(attempt, f"record {cr_id}")

    def commit(self, log: VersionLog, version: Tree, changes: Sequence[RecordChange], author: CRAuthor) -> Tree:
        """Write a version after the head of `log`, and return it sealed. Raises `ConflictError`, `InvalidError`."""
        stored, encoded = following(log.encoded, version)
        copy = encoded.copy()  # before the write, which waits for the disk: after it, the caches are cold
        with self.lock:
            append = self.versions.append(log, log.id, stored, encoded=encoded)
            self.subscribers.queue(append, changes, author)
        self.subscribers.deliver()
        return append.seal(copy)

    def _write_after_cached(
        self, cr_id: str, change: Change, author: CRAuthor, expected_head: str | None = None
    ) -> Tree | None:
        """Write after the cached head without reading the head: the append finds out whether it is the newest. None if it failed."""
        cached = self.versions.cached(cr_id)
        if cached is None or expected_head not in (None, cached.at.hash):
            return None
        try:
            return self._write(cached, change, author)
        except AdjournError:
            return None

    def _write(self, log: VersionLog, change: Change, author: CRAuthor) -> Tree | None:
        """Write the version that a change makes of a log's head; None if it changes nothing."""
        head, at = log.head, self.clock()
        step = change(log.encoded, head, at)
        version = next_version(head, step.record, author, at)
        return None if version is None else self.commit(log, version, step.events, author)


class UsedApprovals:
    """The keys of all approvals ever used in a store. Kept outside the versions, so that no older version revives one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __contains__(self, key: object) -> bool:
        return self._store.ref(_ref(str(key))) is not None

    @contextmanager
    def add(self, record: Tree, point_id: str, now: int) -> Iterator[None]:
        """Store that an approval is used, before its steps start in the body. Undone if the body refuses or conflicts.

        Raises `RefusedError` if it was used already.
        """
        name = _ref(consumption_key(record, point_id))
        try:
            self._store.swap(name, f"{now} {record['contentHash']}", expect=None)
        except ConflictError as error:
            raise already_used(point_id) from error
        try:
            yield
        except (RefusedError, InvalidError, ConflictError):
            with suppress(ConflictError):
                self._store.swap(name, None, expect=self._store.ref(name))
            raise


class Subscribers:
    """The subscribers of a store. A subscriber that writes gets the events of its own write after all got the current one."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Subscriber] = {}
        self._waiting: deque[CREvent] = deque()
        self._delivering = Lock()
        self.failed: list[Exception] = []
        """The last hundred exceptions that subscribers raised."""

    def add(self, subscriber: Subscriber) -> Callable[[], None]:
        """Add a subscriber. Returns a function that removes it."""
        key = object()
        self._callbacks[key] = subscriber

        def unsubscribe() -> None:
            self._callbacks.pop(key, None)

        return unsubscribe

    def queue(self, log: VersionLog, changes: Sequence[RecordChange], author: CRAuthor) -> None:
        """Queue the events of a version. Call it while the writer holds its lock, so that they keep the order of the writes."""
        if self._callbacks:
            self._waiting.extend(_events(log, changes, author))

    def deliver(self) -> None:
        """Deliver all queued events. Returns at once if another thread, or a caller up the stack, is delivering already."""
        while self._waiting and self._delivering.acquire(blocking=False):
            try:
                while self._waiting:
                    event = self._waiting.popleft()
                    for subscriber in list(self._callbacks.values()):
                        self._call(subscriber, event)
            finally:
                self._delivering.release()

    def _call(self, subscriber: Subscriber, event: CREvent) -> None:
        try:
            subscriber(event)
        except Exception as error:  # the write is done, and the other subscribers still get the event
            self.failed = [*self.failed[-99:], error]


def _events(log: VersionLog, changes: Sequence[RecordChange], author: CRAuthor) -> Iterator[CREvent]:
    """The events of the version at a head, one for each change."""
    version = log.encoded.tree
    previous = version.get("parentCRHash")
    for change in changes:
        event = {
            "type": change.type,
            "crId": log.id,
            "contentHash": log.at.hash,
            **({"previousHash": previous} if previous else {}),
            "author": tree_of(author),
            "timestamp": version["lastModifiedAt"],
            **({"path": change.path} if change.path else {}),
            **({} if change.detail is None else {"detail": msgspec.to_builtins(change.detail)}),
        }
        yield view(event, CREvent)


def _ref(key: str) -> str:
    return f"consumed/{digest(key.encode())}"
