"""Telling subscribers what was written: after it is in the store, in the order of the writes, each event once.

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
    """Who is told. A subscriber that writes is told of its own write after this one is told to all."""

    def __init__(self) -> None:
        self._told: dict[object, Subscriber] = {}
        self._waiting: deque[CREvent] = deque()
        self._telling = Lock()
        self.failed: list[Exception] = []
        """What subscribers have raised, the last hundred."""

    def add(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell `subscriber` from now on, until the function that is returned is called."""
        key = object()
        self._told[key] = subscriber

        def unsubscribe() -> None:
            self._told.pop(key, None)

        return unsubscribe

    def queue(self, events: Iterable[CREvent]) -> None:
        """Take events in, in the order of the writes: while the writer still keeps others out."""
        if self._told:
            self._waiting.extend(events)

    def tell(self) -> None:
        """Tell all that waits. Within a subscriber, and while another thread tells, it is left to that one."""
        while self._waiting and self._telling.acquire(blocking=False):
            try:
                while self._waiting:
                    event = self._waiting.popleft()
                    for subscriber in list(self._told.values()):
                        self._tell_one(subscriber, event)
            finally:
                self._telling.release()

    def _tell_one(self, subscriber: Subscriber, event: CREvent) -> None:
        try:
            subscriber(event)
        except Exception as error:  # what is written is written, and the others are to be told
            self.failed = [*self.failed[-99:], error]


def events_of(
    version: Tree, happenings: Sequence[RecordChange], author: CRAuthor, previous: str = ""
) -> Iterator[CREvent]:
    """What happened in a sealed version, as subscribers are told."""
    for happening in happenings:
        told = {
            "type": happening.type,
            "crId": version["id"],
            "contentHash": version["contentHash"],
            **({"previousHash": previous} if previous else {}),
            "author": tree_of(author),
            "timestamp": version["lastModifiedAt"],
            **({"path": happening.path} if happening.path else {}),
            **({} if happening.detail is None else {"detail": msgspec.to_builtins(happening.detail)}),
        }
        yield view(told, CREvent)
