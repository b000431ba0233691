"""One session with a server that speaks HTTP+SSE, the transport before Streamable HTTP (revision 2024-11-05).

A GET opens a stream of events. The first one names the address that takes messages by POST; all that the server says comes on the stream.
The session ends with it.

Owns: the stream, and which address is accepted. Must never: send a message twice, or to another origin than the server's.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Protocol
from urllib.parse import SplitResult, urljoin, urlsplit

import msgspec

from adjourn.gateway.credentials import Credentials, ask
from adjourn.gateway.event_stream import EventReader, StreamEvent
from adjourn.gateway.http_pool import Headers, HttpPool, HttpReply, UnreachableError
from adjourn.gateway.replies import server_line

OPEN_SECONDS = 30.0
"""How long a server has to name the address for messages."""
_STREAM = b"text/event-stream"
_ADDRESS = re.compile(rb"[!-~]{1,8192}")
_PORTS = {"http": 80, "https": 443}


class ForgottenError(UnreachableError):
    """The server does not know the session any more."""


class SessionUser(Protocol):
    """Whoever has a session."""

    def heard(self, session: SseSession, line: bytes, /) -> None:
        """A message of the server."""

    def ended(self, session: SseSession, why: str, /) -> None:
        """An open session is over. Called once."""


class SseSession:
    """See above. Messages may be posted once it is open."""

    def __init__(self, pool: HttpPool, credentials: Credentials, user: SessionUser) -> None:
        self._pool = pool
        self._credentials = credentials
        self._user = user
        self._reply: HttpReply | None = None
        self._reading: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._address: asyncio.Future[bytes] = self._loop.create_future()
        self._target = b""
        self.questions: set[Any] = set()
        """The ids of what the server has asked here."""
        self.quiet_since = self._loop.time()
        """When something came last (of the event loop's clock)."""

    async def open(self) -> None:
        """Begin the session. Raises `UnreachableError`."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                reply = self._reply = await ask(self._pool, self._credentials, b"GET", [(b"accept", _STREAM)])
                kind = reply.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
                if reply.status != 200 or kind != _STREAM:
                    raise UnreachableError(
                        f"the server takes no message by POST, and has no event stream (HTTP status {reply.status}): check"
                        " the path of its address",
                        was_sent=False,
                    )
                self._reading = self._loop.create_task(self._read(reply))
                self._target = target_of(self._pool.url, await self._address)
        except TimeoutError as error:
            raise UnreachableError(
                f"the server's event stream names no address for messages in {OPEN_SECONDS:g} seconds",
                was_sent=False,
            ) from error

    async def post(self, line: bytes, headers: Headers, seconds: float) -> None:
        """Send a message: its answer comes on the stream. Raises `UnreachableError`."""
        sent = [(b"content-type", b"application/json"), *headers]
        try:
            async with asyncio.timeout(seconds):
                reply = await ask(self._pool, self._credentials, b"POST", sent, line, target=self._target)
                try:
                    async for _ in reply.parts():  # what it says there is not for the client
                        pass
                finally:
                    reply.release()
        except TimeoutError as error:
            raise UnreachableError(
                f"the server did not take a message in {seconds:g} seconds", was_sent=True
            ) from error
        if not 200 <= reply.status < 300:
            kind = ForgottenError if reply.status in (404, 410) else UnreachableError
            raise kind(
                f"the server refuses the message (HTTP status {reply.status})",
                was_sent=not 300 <= reply.status < 500,
            )

    async def _read(self, reply: HttpReply) -> None:
        reader, why = EventReader(), "the server has ended its event stream"
        try:
            async for part in reply.parts():
                self.quiet_since = self._loop.time()
                for event in reader.feed(part):
                    self._take(event)
        except UnreachableError:
            why = "the server has broken off its event stream"
        except (ValueError, msgspec.DecodeError) as error:
            why = f"the server's event stream cannot be read: {error}"
        self.lose(why)

    def _take(self, event: StreamEvent) -> None:
        if event.name == b"endpoint":
            if not self._address.done():
                self._address.set_result(event.data)
        elif not event.name and event.data and self._target:
            self._user.heard(self, server_line(event.data))

    def lose(self, why: str) -> None:
        """End the session, and say so."""
        self.close()
        if not self._address.done():
            self._address.set_exception(UnreachableError(why, was_sent=False))
        elif self._target:
            self._target = b""
            self._user.ended(self, why)

    def close(self) -> None:
        """End the session."""
        if self._reading is not None:
            self._reading.cancel()
        if self._reply is not None:
            self._reply.close()


def target_of(url: str, address: bytes) -> bytes:
    """What requests to an address name, if it has the origin of `url`. Raises `UnreachableError`."""
    own = _origin(urlsplit(url))
    try:
        found = urlsplit(urljoin(url, address.decode()))
        theirs = _origin(found)
    except ValueError:  # as of a port that is none
        theirs = ""
    if not theirs or not _ADDRESS.fullmatch(address):
        raise UnreachableError(
            f"the server at {own} names no address for messages: see whether the URL is that of its event stream",
            was_sent=False,
            public="the server names no address for messages",
        )
    if theirs != own:
        raise UnreachableError(
            f"the server at {own} wants messages at {theirs[:200]}, another origin: have it name an address of its"
            " own, or use the URL of the origin that it names",
            was_sent=False,
            public="the server wants messages at another origin",
        )
    return f"{found.path or '/'}{'?' + found.query if found.query else ''}".encode()


def _origin(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.hostname}:{parts.port or _PORTS.get(parts.scheme)}"
