"""Looking at what waits, and telling each target of what is new.

One thread looks; each target has one of its own, so that one that does not answer keeps no other waiting.

Notifications are in the outbox until they are delivered, so that a kill loses none.

A store that cannot be read, or a target that does not answer, does not end it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import msgspec

from adjourn.errors import AdjournError, StoreError
from adjourn.handover.inbox import Inbox
from adjourn.host import keys
from adjourn.host.workspace import locked, read_file, write_file
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.notify.senders import Notification, Sender, UndeliveredError, notification, sample
from adjourn.store.base import Head, Store
from adjourn.tasks.work_index import waiting_heads

LOOK_SECONDS = 1.0
AGAIN_SECONDS = 15.0
"""How often what waits is read without a change: a session that died leaves calls in doubt without an event."""
_END_SECONDS = 5.0
Complain = Callable[[str], None]


class Notifier:
    """The targets' senders by their keys, and how messages name them. `find` reads what waits in a store.

    `page` is what links to the web page start with; "" for none.
    """

    def __init__(
        self,
        senders: Mapping[str, Sender],
        names: Mapping[str, str],
        *,
        find: Callable[[Store], Inbox],
        clock: Callable[[], int],
        complain: Complain,
        page: str = "",
    ) -> None:
        self._senders = senders
        self._names = names
        self._find = find
        self._clock = clock
        self._complain = complain
        self._page = page
        self._heads: Mapping[str, Head] | None = None
        self._read = float("-inf")
        self._said = ""

    def look(self, store: Store | None, outbox: Outbox, workspace: str) -> int:
        """Queue what began to wait since the last look. Returns how many things that are."""
        if store is None:
            return 0
        try:
            heads, now = waiting_heads(store, timestamp(self._clock())), time.monotonic()
            if heads == self._heads and now - self._read < AGAIN_SECONDS:
                return 0
            inbox = self._find(store)
            self._heads, self._read = heads, now
        except AdjournError as error:
            self._say(f"cannot read the store: {error.message}")
            return 0
        self._say("; ".join(f"{name} cannot be read: {error.message}" for name, error in inbox.unreadable.items()))
        notifications = (notification(item, workspace, self._page) for item in inbox.items)
        return outbox.add(notifications, self._senders, self._clock())

    def _say(self, what: str) -> None:
        if what and what != self._said:
            self._complain(what)
        self._said = what

    def deliver_due(self, outbox: Outbox, target: str) -> None:
        """Send a target all notifications that are due."""
        while (entry := outbox.due(target, self._clock())) is not None:
            self._deliver(outbox, entry)

    def _deliver(self, outbox: Outbox, entry: QueuedNotification) -> None:
        try:
            self._senders[entry.target](entry.told, self._clock())
        except UndeliveredError as error:
            attempts = entry.attempts + 1
            if not outbox.failed(entry, self._clock()):
                self._complain(f"{self._names[entry.target]}: given up after {attempts} attempts: {error}")
            elif attempts == 1:
                self._complain(f"{self._names[entry.target]}: not delivered: {error}; trying again")
        else:
            outbox.delivered(entry)

    def run(
        self, find_store: Callable[[], Store | None], outbox: Outbox, workspace: str, over: threading.Event
    ) -> None:
        """Look and deliver until `over` is set. A delivery that is under way then is repeated at the next start, unless it succeeds at once."""
        news = threading.Condition()
        threads = [
            threading.Thread(target=self._serve, args=(outbox, target, news, over), daemon=True)
            for target in self._senders
        ]
        with ExitStack() as closing:
            closing.callback(_join, threads)
            for thread in threads:
                thread.start()
            while not over.is_set():
                if self.look(self._store(find_store), outbox, workspace):
                    with news:
                        news.notify_all()
                over.wait(LOOK_SECONDS)

    def _store(self, find_store: Callable[[], Store | None]) -> Store | None:
        try:
            return find_store()
        except AdjournError as error:
            self._say(f"cannot open the store: {error.message}")
            return None

    def _serve(self, outbox: Outbox, target: str, news: threading.Condition, over: threading.Event) -> None:
        while not over.is_set():
            try:
                self.deliver_due(outbox, target)
            except AdjournError as error:
                self._complain(f"{self._names[target]}: {error.message}")
            with news:
                news.wait(LOOK_SECONDS)

    def try_each(self, workspace: str) -> dict[str, str]:
        """Tell each target of a test, once. Returns why it failed, or "", by its name."""
        now = self._clock()
        test = sample(workspace, timestamp(now))
        return {self._names[key]: self._try(sender, test, now) for key, sender in self._senders.items()}

    @staticmethod
    def _try(sender: Sender, test: Notification, now: int) -> str:
        try:
            sender(test, now)
        except UndeliveredError as error:
            return str(error)
        return ""


def _join(threads: list[threading.Thread]) -> None:
    end = time.monotonic() + _END_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))


# --- notifications that are still to be delivered, and the ids of all that were queued

MAX_QUEUED = 2_000
MAX_TOLD = 20_000
MAX_BYTES = 32 * 1024 * 1024
FIRST_DELAY, LONGEST_DELAY = 1_000, 300_000
"""Milliseconds until the second attempt, and between later ones at the most; each waits twice as long as the one before."""
MAX_AGE = 24 * 3600 * 1000
_STATE = "state.json"


class QueuedNotification(msgspec.Struct, kw_only=True):
    """A notification for one target. `due` is when the next attempt may be made (milliseconds)."""

    told: Notification
    target: str
    queued: int
    attempts: int = 0
    due: int = 0


class OutboxState(msgspec.Struct, kw_only=True):
    """The file. `told` are the ids of all that was queued, the oldest first."""

    told: list[str] = []
    queue: list[QueuedNotification] = []


class Outbox:
    """The file of one store, of this process alone while it is open. Threads may share it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._state = self._read()

    @classmethod
    @contextmanager
    def opened(cls, place: str) -> Iterator[Outbox]:
        """The outbox of the store at a place. Raises `StoreError` while another process has it open."""
        folder = os.path.join(
            os.path.dirname(keys.folder()), "notify", digest(place.encode(errors="surrogateescape"))[:32]
        )
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make {folder}: {error.strerror}", "make the folder writable") from error
        with locked(folder, 0):
            yield cls(folder)

    def _read(self) -> OutboxState:
        path = os.path.join(self._folder, _STATE)
        if not os.path.lexists(path):
            return OutboxState()
        try:
            return msgspec.json.decode(read_file(path, MAX_BYTES), type=OutboxState)
        except msgspec.DecodeError as error:
            raise StoreError(
                f"cannot read {path}: {error}", "delete it; you are then notified again of what waits"
            ) from error

    def _write(self) -> None:
        write_file(self._folder, _STATE, msgspec.json.encode(self._state), 0o600)

    def add(self, notifications: Iterable[Notification], targets: Collection[str], now: int) -> int:
        """Queue what was not queued before, for each target. Returns how many notifications are new."""
        with self._lock:
            told_ids = set(self._state.told)
            new = [entry for entry in notifications if entry.id not in told_ids]
            if not new:
                return 0
            self._state.told = [*self._state.told, *(entry.id for entry in new)][-MAX_TOLD:]
            self._state.queue += [
                QueuedNotification(told=entry, target=name, queued=now, due=now) for entry in new for name in targets
            ]
            self._state.queue = self._state.queue[-MAX_QUEUED:]
            self._write()
            return len(new)

    def due(self, target: str, now: int) -> QueuedNotification | None:
        """The oldest due notification of a target."""
        with self._lock:
            return next((entry for entry in self._state.queue if entry.target == target and entry.due <= now), None)

    def delivered(self, entry: QueuedNotification) -> None:
        """Cross out what a target has got."""
        with self._lock:
            self._state.queue.remove(entry)
            self._write()

    def failed(self, entry: QueuedNotification, now: int) -> bool:
        """Put a notification off. Returns False where it is too old, and is crossed out."""
        with self._lock:
            if now - entry.queued >= MAX_AGE:
                self._state.queue.remove(entry)
            else:
                entry.due = now + min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(entry.attempts, 20))
                entry.attempts += 1
            self._write()
            return now - entry.queued < MAX_AGE

    def forget_others(self, targets: Collection[str]) -> None:
        """Cross out what is for targets that the settings do not name any more."""
        with self._lock:
            queue = [entry for entry in self._state.queue if entry.target in targets]
            if len(queue) < len(self._state.queue):
                self._state.queue = queue
                self._write()

    @property
    def count(self) -> int:
        """Notifications that are still to be delivered."""
        with self._lock:
            return len(self._state.queue)
