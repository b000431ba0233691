"""A deadline for a piece of work, with cancellation and progress reports. It starts no thread."""

from __future__ import annotations

import time
from collections.abc import Callable

from adjourn.errors import AdjournError


class CancelledError(AdjournError):
    """The client cancelled the request."""


class Deadline:
    """Checked between units of work: an expired deadline returns partial results, a cancelled one raises."""

    def __init__(
        self,
        seconds: float | None = None,
        *,
        cancelled: Callable[[], bool] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._ends_at = None if seconds is None else time.monotonic() + seconds
        self._cancelled = cancelled
        self._progress = progress

    def expired(self) -> bool:
        """Whether the deadline has passed. Raises `CancelledError` if the work was cancelled."""
        if self._cancelled is not None and self._cancelled():
            raise CancelledError("the request was cancelled", "repeat the request")
        return self._ends_at is not None and time.monotonic() >= self._ends_at

    def remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return None if self._ends_at is None else max(self._ends_at - time.monotonic(), 0.0)

    def at_most(self, seconds: float) -> Deadline:
        """A deadline for a part of the work: this one, or `seconds` from now if that is earlier."""
        remaining = self.remaining()
        return Deadline(seconds if remaining is None else min(seconds, remaining), cancelled=self._cancelled)

    def report(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)
