"""Streams that clients keep open: each ends once its request would be let in no longer, as when a key is revoked or a token has expired.

All of them are looked at every few seconds, one after the other. Calls are not: one that was let in has its answer.

Owns: these looks. Must never: end a stream because nobody knows whether it may stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from adjourn.gateway.asgi import Scope
from adjourn.policy import Principal

LOOK_SECONDS = 2.0
TOGETHER = 100
"""Streams that are looked at before others have their turn."""

MayStay = Callable[[Scope, Principal | None], Awaitable[bool | None]]
"""Whether a request is still that of a principal; None where that cannot be looked up now."""


class _OpenStream(NamedTuple):
    scope: Scope
    principal: Principal | None
    end: Callable[[], None]


class OpenStreams:
    """Of one gateway."""

    def __init__(self, may_stay: MayStay) -> None:
        self._may_stay = may_stay
        self._open: dict[int, _OpenStream] = {}
        self._count = 0

    @contextmanager
    def watched(self, scope: Scope, principal: Principal | None, end: Callable[[], None]) -> Iterator[None]:
        """While this lasts, `end` is called when the request is the principal's no longer."""
        self._count = number = self._count + 1
        self._open[number] = _OpenStream(scope, principal, end)
        try:
            yield
        finally:
            self._open.pop(number, None)

    async def watch(self) -> None:
        """Look until this is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Look at all of them once."""
        for number, stream in list(self._open.items()):
            may_stay = await self._may_stay(stream.scope, stream.principal)
            if may_stay is None:
                return  # nor can that of the others
            if not may_stay:
                stream.end()
            if not number % TOGETHER:
                await asyncio.sleep(0)
