"""Looking at what waits, and telling each target of what is new.

One thread looks; each target has one of its own, so that one that does not answer keeps no other waiting.

Owns: these threads. Must never: end because a store cannot be read or a target does not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from adjourn.errors import AdjournError
from adjourn.handover import Inbox
from adjourn.log import timestamp
from adjourn.notify.message import Notification, notification, sample
from adjourn.notify.outbox import Outbox, QueuedNotification
from adjourn.notify.senders import Sender, UndeliveredError
from adjourn.store import Head, Store

LOOK_SECONDS = 1.0
AGAIN_SECONDS = 15.0
"""How often what waits is read without a change: a session that died leaves calls in doubt without an event."""
_END_SECONDS = 5.0
Complain = Callable[[str], None]


class Notifier:
    """The targets' senders by their keys, and how messages name them. `find` reads what waits in a store.

    `page` is what links to the web page begin with; "" for none.
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
            heads, now = store.streams(), time.monotonic()
            if heads == self._heads and now - self._read < AGAIN_SECONDS:
                return 0
            found = self._find(store)
            self._heads, self._read = heads, now
        except AdjournError as error:
            self._say(f"cannot read the store: {error.message}")
            return 0
        self._say(
            "; ".join(f"{name} cannot be read: {error.message}" for name, error in found.unreadable.items())
        )
        told = (notification(one, workspace, self._page) for one in found.items)
        return outbox.add(told, self._senders, self._clock())

    def _say(self, what: str) -> None:
        if what and what != self._said:
            self._complain(what)
        self._said = what

    def deliver_due(self, outbox: Outbox, target: str) -> None:
        """Tell a target all whose time has come."""
        while (one := outbox.due(target, self._clock())) is not None:
            self._deliver(outbox, one)

    def _deliver(self, outbox: Outbox, one: QueuedNotification) -> None:
        try:
            self._senders[one.target](one.told, self._clock())
        except UndeliveredError as error:
            attempts = one.attempts + 1
            if not outbox.failed(one, self._clock()):
                self._complain(f"{self._names[one.target]}: given up after {attempts} attempts: {error}")
            elif attempts == 1:
                self._complain(f"{self._names[one.target]}: not delivered: {error}; trying again")
        else:
            outbox.delivered(one)

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
        told = sample(workspace, timestamp(now))
        return {self._names[key]: self._try(sender, told, now) for key, sender in self._senders.items()}

    @staticmethod
    def _try(sender: Sender, told: Notification, now: int) -> str:
        try:
            sender(told, now)
        except UndeliveredError as error:
            return str(error)
        return ""


def _join(threads: list[threading.Thread]) -> None:
    end = time.monotonic() + _END_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
