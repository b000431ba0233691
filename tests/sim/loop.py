"""Time that only events move: a heap of actions, and processors that serve a queue.

Owns: the order of events. Must never: read a clock or draw a number, so that a run depends on its seeds alone.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

Action = Callable[[], Any]


class Loop:
    """Runs actions in the order of their times; equal times in the order in which they were given."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Action]] = []
        self._numbers = 0

    def after(self, seconds: float, action: Action) -> None:
        self._numbers += 1
        heapq.heappush(self._heap, (self.now + seconds, self._numbers, action))

    def run(self, until: float) -> None:
        """Everything that happens up to a time."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, action = heapq.heappop(heap)
            action()
        self.now = max(self.now, until)


class Processors:
    """So many processors before one queue, first come, first served."""

    def __init__(self, loop: Loop, number: int = 1) -> None:
        self._loop = loop
        self._free = number
        self._queue: deque[tuple[float, Action]] = deque()
        self.busy = 0.0
        """Seconds of work that were done, over all processors."""

    def use(self, seconds: float, then: Action) -> None:
        """Compute so long once a processor is free, then do the next thing."""
        if self._free:
            self._free -= 1
            self._begin(seconds, then)
        else:
            self._queue.append((seconds, then))

    def take(self, then: Action) -> None:
        """Have a processor from when one is free until `release`."""
        self.use(-1.0, then)

    def release(self) -> None:
        if self._queue:
            self._begin(*self._queue.popleft())
        else:
            self._free += 1

    def _begin(self, seconds: float, then: Action) -> None:
        if seconds < 0:
            self._loop.after(0.0, then)
            return
        self.busy += seconds
        self._loop.after(seconds, lambda: self._done(then))

    def _done(self, then: Action) -> None:
        self.release()
        then()
