"""The way to the server of a URL, over whichever transport it speaks: Streamable HTTP, else HTTP+SSE.

A client finds out as revision 2025-03-26 says: a server that takes no POST may have an event stream for a GET. Each link finds out by
itself, so that a server may change.

Owns: which of the two is used. Must never: look into a message.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from adjourn.gateway.credentials import NO_CREDENTIALS, Credentials
from adjourn.gateway.http_link import HttpLink, LinkUser, Patience
from adjourn.gateway.http_pool import HttpPool
from adjourn.gateway.replies import ReplyStream
from adjourn.gateway.sse_link import SseLink
from adjourn.relay import NEVER


class UrlLink:
    """See `ServerLink`."""

    def __init__(
        self, user: LinkUser, pool: HttpPool, patience: Patience, credentials: Credentials = NO_CREDENTIALS
    ) -> None:
        self._http = HttpLink(user, pool, patience, credentials, link=self, refused=self._refused)
        self._begin_sse = partial(SseLink, user, pool, patience.seconds, credentials, link=self)
        self._sse: SseLink | None = None
        """Made for a server that takes no POST: most do, and there are many links."""
        self.since = NEVER

    def _refused(self, data: bytes) -> None:
        """The server takes no POST."""
        if self._sse is None:
            self._sse = self._begin_sse()
        self._sse.send(data)

    @property
    def _used(self) -> HttpLink | SseLink:
        return self._sse if self._sse is not None and self._sse.is_met else self._http

    @property
    def size(self) -> int:
        """Bytes that the server has not taken yet."""
        return self._http.size + (self._sse.size if self._sse is not None else 0)

    def send(self, data: bytes, about: Any = None) -> None:
        self._used.send(data, about)

    def abandon(self, request_id: Any) -> None:
        self._used.abandon(request_id)

    def listen(self, stream: ReplyStream, last_event: bytes) -> None:
        self._used.listen(stream, last_event)

    def leave(self, stream: ReplyStream) -> None:
        self._used.leave(stream)

    def lose(self) -> None:
        """Each request ends by itself."""

    def drain(self, seconds: float) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        self._http.close()
        if self._sse is not None:
            self._sse.close()

    async def answered(self, seconds: float) -> None:
        """Wait until nothing is on its way."""
        await self._used.answered(seconds)

    async def left(self, seconds: float) -> None:
        await self._http.left(seconds)
