"""Time that a test moves, and the event loop of one relay in it.

Everything runs in the thread of the test, one step after another, so that a test sees each state as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from adjourn.relay.ports import NEVER, Outcome

_T = TypeVar("_T")


class SteppedClock:
    """A clock that stands still until `seconds` is set. `began` is its first time of day, in milliseconds since 1970."""

    def __init__(self, began: int) -> None:
        self._began = began
        self.seconds = 0.0
        """Since it began."""

    def now(self) -> int:
        """Return the time of day in milliseconds since 1970."""
        return self._began + round(self.seconds * 1000)


class SteppedLoop:
    """The `EventLoop` of one relay. It does one thing a step."""

    def __init__(self, clock: SteppedClock) -> None:
        self._clock = clock
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: dict[Callable[[], None], float] = {}

    def time(self) -> float:
        return self._clock.seconds

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._timers[action] = self._clock.seconds + seconds

    def soon(self, action: Callable[[], None]) -> None:
        self._soon.append(action)

    def work(self, job: Callable[[], _T], then: Callable[[Outcome[_T]], None]) -> None:
        # Not at once: a relay is busy from here on, and takes up no other line until the outcome is there.
        self._soon.append(lambda: then(Outcome(job)))

    @property
    def next(self) -> float:
        """The time of the next timer; `NEVER` without one."""
        return min(self._timers.values(), default=NEVER)

    def step(self) -> bool:
        """Do one thing that is due. Returns whether there was one."""
        if self._soon:
            self._soon.popleft()()
            return True
        for action in self._due():
            del self._timers[action]
            action()
            return True
        return False

    def _due(self) -> Iterator[Callable[[], None]]:
        """The timer that is due first, if any is."""
        if self.next <= self._clock.seconds:
            yield min(self._timers, key=self._timers.__getitem__)

    def close(self) -> None:
        """Forget what waits."""
        self._soon.clear()
        self._timers.clear()
