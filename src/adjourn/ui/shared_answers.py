"""Answers that several open pages get alike: after an event, all that show the same ask for it at the same time.

Owns: which answer is still true, namely until the next event. Must never: keep one for who opens a page or has just acted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from starlette.responses import Response


class SharedAnswers:
    """`version` is the number of the last event."""

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version
        self._made_at = 0
        self._locks: dict[str, anyio.Lock] = {}
        self._answers: dict[str, Response] = {}

    async def of(self, address: str, make: Callable[[], Awaitable[Response]]) -> Response:
        """The answer for an address, made after the last event."""
        if self._made_at != self._version():
            self._made_at, self._locks, self._answers = self._version(), {}, {}
        answers = self._answers
        async with self._locks.setdefault(address, anyio.Lock()):
            if address not in answers:
                answers[address] = await make()
            return answers[address]
