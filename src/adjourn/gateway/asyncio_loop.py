"""The event loop of a relay over asyncio: each relay has one, all in one thread; what may take long runs in a few others.

Owns: timers and work of one relay. Must never: let the work of one relay run beside itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from adjourn.relay import Outcome

_T = TypeVar("_T")


class AsyncioLoop:
    """See `relay.EventLoop`. `on_error` is called with what an action raises."""

    def __init__(self, workers: ThreadPoolExecutor, on_error: Callable[[Exception], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._workers = workers
        self._on_error = on_error
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._jobs: list[Callable[[], None]] = []
        self._is_working = False
        self._is_closed = False

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        if (earlier := self._timers.pop(action, None)) is not None:
            earlier.cancel()
        if not self._is_closed:
            self._timers[action] = self._loop.call_later(seconds, self._due, action)

    def _due(self, action: Callable[[], None]) -> None:
        self._timers.pop(action, None)
        self._call(action)

    def soon(self, action: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(self._call, action)

    def work(self, job: Callable[[], _T], then: Callable[[Outcome[_T]], None]) -> None:
        def run() -> None:
            outcome = Outcome(job)
            self._loop.call_soon_threadsafe(self._worked, lambda: then(outcome))

        self._jobs.append(run)
        self._begin()

    def _begin(self) -> None:
        if self._jobs and not self._is_working:
            self._is_working = True
            self._workers.submit(self._jobs.pop(0))

    def _worked(self, then: Callable[[], None]) -> None:
        self._is_working = False
        self._call(then)
        self._begin()

    def _call(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # one failure must not end the gateway
            self._on_error(error)

    def close(self) -> None:
        """Cancel what is to happen later."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
