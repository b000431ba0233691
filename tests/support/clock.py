"""A clock that tests set by hand."""

from __future__ import annotations

NOON = 1_777_735_812_345
"""Some noon or other, in milliseconds."""


class Clock:
    """A clock in milliseconds that tests move; each look at it moves it by `step`."""

    def __init__(self, now: int = NOON, *, step: int = 0) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> int:
        self.now += self.step
        return self.now

    def move(self, *, seconds: float) -> None:
        self.now += int(seconds * 1000)
