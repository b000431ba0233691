"""Time-outs of one length for many: one timer for all of them, set for the one that began first.

A timer for each request costs more than to look at a dictionary once in a while.

Owns: who waits, since when. Must never: ring for somebody who has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")


class Alarms(Generic[Key]):
    """Calls `ring` with each key that began `seconds` ago and has not ended since. For the thread of the event loop."""

    def __init__(self, seconds: float, ring: Callable[[Key], object]) -> None:
        self.seconds = seconds
        self._ring = ring
        self._due: dict[Key, float] = {}
        """In the order in which they ring."""
        self._is_set = False

    def begin(self, key: Key) -> None:
        """Have a key ring, unless it ends before."""
        loop = asyncio.get_running_loop()
        self._due[key] = loop.time() + self.seconds
        if not self._is_set:
            self._is_set = True
            loop.call_later(self.seconds, self._look)

    def extend(self, key: Key) -> None:
        """Have a key that has not rung yet ring later: as if it began now."""
        if self.end(key):
            self.begin(key)

    def end(self, key: Key) -> bool:
        """Whether a key had neither rung nor ended. It no longer rings."""
        return self._due.pop(key, None) is not None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        over = []
        self._is_set = False
        for key, due in self._due.items():
            if due > now:
                self._is_set = True
                loop.call_at(due, self._look)
                break
            over.append(key)
        for key in over:
            if self.end(key):  # what rang before it may have ended it
                self._ring(key)
