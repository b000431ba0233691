"""Notifications that are still to be delivered, and the ids of all that were queued: kept beside the user's keys, so that a kill loses nothing.

What begins to wait is written down together with whom it is for, in one step, before the first delivery. It is crossed out after it was
delivered: a kill in between has it delivered again, with the same id.

Owns: `notify/PLACE/state.json`, where PLACE stands for the store. Must never: hold a second process, or grow without bound.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from adjourn.errors import StoreError
from adjourn.host import keys, locked, read_file, write_file
from adjourn.log import digest
from adjourn.notify.message import Notification

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
                f"cannot read {path}: {error}", "delete it; what waits now is then told again"
            ) from error

    def _write(self) -> None:
        write_file(self._folder, _STATE, msgspec.json.encode(self._state), 0o600)

    def add(self, found: Iterable[Notification], targets: Collection[str], now: int) -> int:
        """Queue what was not queued before, for each target. Returns how many notifications are new."""
        with self._lock:
            known = set(self._state.told)
            new = [one for one in found if one.id not in known]
            if not new:
                return 0
            self._state.told = [*self._state.told, *(one.id for one in new)][-MAX_TOLD:]
            self._state.queue += [
                QueuedNotification(told=one, target=name, queued=now, due=now)
                for one in new
                for name in targets
            ]
            self._state.queue = self._state.queue[-MAX_QUEUED:]
            self._write()
            return len(new)

    def due(self, target: str, now: int) -> QueuedNotification | None:
        """The oldest notification for a target whose time has come."""
        with self._lock:
            return next((one for one in self._state.queue if one.target == target and one.due <= now), None)

    def delivered(self, one: QueuedNotification) -> None:
        """Cross out what a target has got."""
        with self._lock:
            self._state.queue.remove(one)
            self._write()

    def failed(self, one: QueuedNotification, now: int) -> bool:
        """Put a notification off. Returns False where it is too old, and is crossed out."""
        with self._lock:
            if now - one.queued >= MAX_AGE:
                self._state.queue.remove(one)
            else:
                one.due = now + min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(one.attempts, 20))
                one.attempts += 1
            self._write()
            return now - one.queued < MAX_AGE

    def forget_others(self, targets: Collection[str]) -> None:
        """Cross out what is for targets that the settings do not name any more."""
        with self._lock:
            kept = [one for one in self._state.queue if one.target in targets]
            if len(kept) < len(self._state.queue):
                self._state.queue = kept
                self._write()

    @property
    def count(self) -> int:
        """Notifications that are still to be delivered."""
        with self._lock:
            return len(self._state.queue)
