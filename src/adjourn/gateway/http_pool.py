"""Requests to one HTTP/1.1 server over kept connections, with bodies of answers as they come.

A client library of the usual kind costs more for each call than all else that the gateway does; so this is asyncio and the parser that
uvicorn uses, and nothing else: no redirects, no cookies, no compression.

Beside it stand what every link needs of HTTP: server-sent events, and the credentials that a server is shown. Must never: send a request
twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol, cast
from urllib.parse import urlsplit

import httptools

from adjourn.errors import AdjournError, UsageError
from adjourn.gateway.network_path import NetworkPath, TunnelError, connect, path_to

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 4.0
"""How long an unused connection is kept: less than servers keep theirs, so that none ends just as a request is written."""
MAX_IDLE = 256
MAX_AHEAD = 1024 * 1024
"""Bytes of a body that wait to be taken before no more is read."""
MAX_HEADER_BYTES = 64 * 1024
_CHALLENGE = b"www-authenticate"
_LENGTHS = {b"content-length", b"transfer-encoding"}

Headers = Sequence[tuple[bytes, bytes]]


class UnreachableError(AdjournError):
    """A request could not be made, or has no whole answer. `was_sent`: the server may have acted on it. `public` is what clients of
    a gateway receive, where the message names an address or a file.
    """

    def __init__(self, message: str, *, was_sent: bool, public: str = "") -> None:
        super().__init__(message, "check that the server runs, and its address")
        self.was_sent = was_sent
        self.public = public or message


class HttpReply(asyncio.Protocol):
    """A connection, and the answer to the request that was sent on it last."""

    def __init__(self, pool: HttpPool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self.is_lost = False
        self.since = 0.0
        """When it became idle."""
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self._parts: deque[bytes] = deque()
        self._ahead = self._header_bytes = 0
        self._is_paused = self._is_done = self._keeps = False
        self._head: asyncio.Future[None] | None = None
        self._more: asyncio.Future[None] | None = None

    # --- what asyncio and the parser call

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no class of asyncio

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def eof_received(self) -> None:
        """The peer closes: `connection_lost` says so to whoever waits."""

    def connection_lost(self, error: Exception | None) -> None:
        is_end = error is None and not self.is_lost
        if is_end and self.status >= 200 and not _LENGTHS & self.headers.keys():
            self._is_done = True  # a body without a length is whole at the connection's end
        self.is_lost = True
        if self._head is not None and not self._head.done():
            self._head.set_exception(UnreachableError("the server closed the connection", was_sent=True))
        self._wake()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES:
            self.close()
            return
        key = name.lower()
        if key == _CHALLENGE and key in self.headers:  # a server may want one of several things
            value = self.headers[key] + b", " + value
        self.headers[key] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self._head is not None and not self._head.done() and self.status >= 200:
            self._head.set_result(None)

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)
        self._ahead += len(part)
        if self._ahead > MAX_AHEAD and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if self.status < 200:  # an answer before the answer
            return
        self._is_done = True
        self._keeps = self._parser.should_keep_alive()
        self._wake()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    # --- what the pool and its users call

    async def send(self, data: bytes) -> None:
        """Send a request, and wait for the head of its answer. Raises `UnreachableError`."""
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers, self._header_bytes = 0, {}, 0
        self._is_done = False
        self._head = asyncio.get_running_loop().create_future()
        assert self._transport is not None
        self._transport.write(data)
        try:
            await self._head
        except asyncio.CancelledError:
            self.close()
            raise

    async def parts(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises `UnreachableError` where it ends too early."""
        while True:
            if self._parts:
                part = self._parts.popleft() if len(self._parts) == 1 else b"".join(self._parts)
                self._parts.clear()
                self._ahead = 0
                if self._is_paused and self._transport is not None:
                    self._is_paused = False
                    self._transport.resume_reading()
                yield part
            elif self._is_done:
                return
            elif self.is_lost:
                raise UnreachableError("the server's answer is not whole", was_sent=True)
            else:
                self._more = asyncio.get_running_loop().create_future()
                await self._more

    async def body(self, most: int) -> bytes:
        """The whole body. Raises `UnreachableError` for one that is longer than `most`."""
        parts, size = [], 0
        async for part in self.parts():
            parts.append(part)
            size += len(part)
            if size > most:
                self.close()
                raise UnreachableError(f"the server's answer is longer than {most:,} bytes", was_sent=True)
        return b"".join(parts)

    def release(self) -> None:
        """Return the connection to the pool; close it if its answer was not read to the end."""
        if self._is_done and self._keeps and not self.is_lost and not self._parts:
            self._pool.keep(self)
        else:
            self.close()

    def close(self) -> None:
        """End the connection, and whatever is read of it."""
        self.is_lost = True
        if self._transport is not None:
            self._transport.abort()


class HttpPool:
    """The connections to the server of a URL."""

    def __init__(self, url: str, path: NetworkPath | None = None) -> None:
        """Raises `UsageError` where the way there cannot be used. `path` is that way (default: as the environment says)."""
        self.url = url
        self._path = path or path_to(url)
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        is_tls = parts.scheme == "https"
        self._port = parts.port or (443 if is_tls else 80)
        self._target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}".encode()
        default = self._port == (443 if is_tls else 80)
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._head = f" HTTP/1.1\r\nhost: {host}{'' if default else f':{self._port}'}\r\n".encode()
        self._idle: deque[HttpReply] = deque()
        self._is_closed = False
        self.is_up: bool | None = None
        """Whether the last connection could be made; None before the first."""

    async def request(self, method: bytes, headers: Headers, body: bytes = b"", target: bytes = b"") -> HttpReply:
        """Send a request; returns the answer once its head is there. `release` it in the end. `target` is the path and query of another
        address of the server than the URL. Raises `UnreachableError`.
        """
        lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
        if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers) or b"\0" in lines:
            # it would start another header or another request
            raise UnreachableError("a header of the request has an end of a line in it", was_sent=False)
        length = b"content-length: %d\r\n" % len(body) if body or method == b"POST" else b""
        reply = self._free() or await self._connect()
        await reply.send(b"%b %b%b%b%b\r\n%b" % (method, target or self._target, self._head, lines, length, body))
        return reply

    def _free(self) -> HttpReply | None:
        now = time.monotonic()
        while self._idle:
            reply = self._idle.pop()
            if not reply.is_lost and now - reply.since < IDLE_SECONDS:
                return reply
            reply.close()
        return None

    async def _connect(self) -> HttpReply:
        reply = HttpReply(self)
        try:
            await asyncio.wait_for(connect(self._path, self._host, self._port, reply), CONNECT_SECONDS)
        except (OSError, TimeoutError) as error:
            self.is_up = False
            why = getattr(error, "strerror", "") or (
                str(error) if isinstance(error, TunnelError) else type(error).__name__
            )
            raise UnreachableError(
                f"cannot connect to {self._host}:{self._port}: {why}",
                was_sent=False,
                public="the server cannot be reached",
            ) from error
        self.is_up = True
        return reply

    def keep(self, reply: HttpReply) -> None:
        """Take back a connection that another request may use."""
        if self._is_closed or len(self._idle) >= MAX_IDLE:
            reply.close()
            return
        reply.since = time.monotonic()
        self._idle.append(reply)

    def close(self) -> None:
        """Close all that is idle, and what becomes idle later."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()


# --- server-sent events

MAX_EVENT = 64 * 1024 * 1024
"""Bytes of one event."""


class StreamEvent(NamedTuple):
    """An event. `retry` is its line, if it has one; `name` what it is called, nothing for a message."""

    data: bytes
    id: bytes = b""
    retry: bytes = b""
    name: bytes = b""


class EventReader:
    """Takes the parts of a stream; `feed` returns the events that are whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._id = self._retry = self._name = b""
        self._size = 0

    def feed(self, part: bytes) -> list[StreamEvent]:
        """Raises `ValueError` for an event that is too long."""
        events: list[StreamEvent] = []
        text = self._rest + part
        if text.endswith(b"\r"):  # a line feed may follow
            text, self._rest = text[:-1], b"\r"
        else:
            self._rest = b""
        *lines, last = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = last + self._rest
        if len(self._rest) > MAX_EVENT:
            raise ValueError("an event of the server's stream is too long")
        for line in lines:
            if line:
                self._take(line)
            elif self._data or self._id or self._retry:
                events.append(StreamEvent(b"\n".join(self._data), self._id, self._retry, self._name))
                self._data, self._id, self._retry, self._name, self._size = [], b"", b"", b"", 0
            else:
                self._name = b""
        return events

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value)
            if self._size > MAX_EVENT:
                raise ValueError("an event of the server's stream is too long")
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value
        elif name == b"retry" and value.isdigit():
            self._retry = value
        elif name == b"event":
            self._name = b"" if value == b"message" else value


def written(event: StreamEvent) -> bytes:
    """An event as it is sent."""
    lines = [b"event: %b\n" % (event.name or b"message")] if event.data else []
    if event.id:
        lines.append(b"id: %b\n" % event.id)
    if event.retry:
        lines.append(b"retry: %b\n" % event.retry)
    lines += [b"data: %b\n" % line for line in event.data.split(b"\n")]
    return b"".join(lines) + b"\n"


# --- what a server is shown so that it lets a request in

CHALLENGE = b"www-authenticate"
_MORE_RIGHTS = b"insufficient_scope"


class Credentials(Protocol):
    """Whatever opens a server."""

    async def headers(self) -> Headers:
        """The headers of a request. Raises `UnreachableError` where none can be had now."""

    async def refused(self, used: Headers, status: int, challenge: bytes) -> str:
        """The server refused these headers: "" if a request may be made again with newer ones, else why not, and what to do.

        Raises `UnreachableError` for a reason with an address.
        """


class FixedCredentials:
    """Headers that do not change. `source` says where they come from, for the error of a server that refuses them."""

    def __init__(self, headers: Headers = (), source: str = "") -> None:
        self._headers = tuple(headers)
        self._source = source

    async def headers(self) -> Headers:
        return self._headers

    async def refused(self, used: Headers, status: int, challenge: bytes) -> str:
        del used, challenge
        wants = f"the server refuses {self._source}" if self._source else "the server wants a login"
        return f"{wants} (HTTP status {status})"


NO_CREDENTIALS = FixedCredentials()


async def ask(
    pool: HttpPool, credentials: Credentials, method: bytes, headers: Headers, body: bytes = b"", *, target: bytes = b""
) -> HttpReply:
    """Send a request with the credentials, and once more if the server refuses them and there are newer ones; see `HttpPool.request`.

    Raises `UnreachableError`, for a refusal with the reason.
    """
    for _ in range(2):
        credential_headers = await credentials.headers()
        reply = await pool.request(method, [*headers, *credential_headers], body, target)
        challenge = reply.headers.get(CHALLENGE, b"")
        if reply.status != 401 and not (reply.status == 403 and _MORE_RIGHTS in challenge):
            return reply
        reply.close()
        why = await credentials.refused(credential_headers, reply.status, challenge)
        if why:
            break
    raise UnreachableError(why or "the server refuses a token that was just issued", was_sent=False)


def from_variables(bearer: str, headers: Mapping[str, str], environment: Mapping[str, str]) -> FixedCredentials:
    """The token in the variable `bearer`, and `headers` by the variables that have their values. Raises `UsageError`."""
    wanted = [("Authorization", bearer)] if bearer else []
    wanted += headers.items()
    pairs = []
    for name, variable in wanted:
        value = environment.get(variable, "")
        if not value.isascii() or not value.isprintable() or not value:
            raise UsageError(
                f"the variable {variable[:80]} has no token"
                if name == "Authorization"
                else f"the variable {variable[:80]} has no value for the header {name}",
                "set it where the client or the gateway is started",
            )
        text = f"Bearer {value}" if variable == bearer and name == "Authorization" else value
        pairs.append((name.lower().encode(), text.encode()))
    return FixedCredentials(pairs, " and ".join(f"what {variable} has" for _, variable in wanted))
