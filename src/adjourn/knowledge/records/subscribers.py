"""Deliver events to subscribers: after the write, in the order of the writes, each event once.

Owns: the queue between writers and subscribers. Must never: let a subscriber break a write, or another subscriber.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock

import msgspec

from adjourn.knowledge.cognition import RecordChange
from adjourn.knowledge.model import CRAuthor, CREvent, Tree, tree_of, view

Subscriber = Callable[[CREvent], object]


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

    def queue(self, events: Iterable[CREvent]) -> None:
        """Queue events. Call it while the writer still holds its lock, so that they keep the order of the writes."""
        if self._callbacks:
            self._waiting.extend(events)

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


def events_of(
    version: Tree, happenings: Sequence[RecordChange], author: CRAuthor, previous: str = ""
) -> Iterator[CREvent]:
    """The events of a sealed version, one for each change."""
    for happening in happenings:
        event = {
            "type": happening.type,
            "crId": version["id"],
            "contentHash": version["contentHash"],
            **({"previousHash": previous} if previous else {}),
            "author": tree_of(author),
            "timestamp": version["lastModifiedAt"],
            **({"path": happening.path} if happening.path else {}),
            **({} if happening.detail is None else {"detail": msgspec.to_builtins(happening.detail)}),
        }
        yield view(event, CREvent)
