"""Values that are kept while there is room.

Owns: `Memo`. Must never: keep more than its limits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

_V = TypeVar("_V")


class Memo(Generic[_V]):
    """At most `entries` values with `most` items together; those that were used longest ago go first."""

    def __init__(self, entries: int, most: int) -> None:
        self._entries, self._most = entries, most
        self._kept: OrderedDict[Hashable, tuple[_V, int]] = OrderedDict()
        self._items = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> _V | None:
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: Hashable, value: _V, items: int) -> None:
        """Keep a value that has so many items; one with more than there may be is not kept."""
        with self._lock:
            self._items -= self._kept.pop(key, (value, 0))[1]
            if items > self._most:
                return
            self._kept[key] = (value, items)
            self._items += items
            while self._items > self._most or len(self._kept) > self._entries:
                self._items -= self._kept.popitem(last=False)[1][1]
