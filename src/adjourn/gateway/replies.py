"""What a client is answered: the events that each of its requests waits for, their form in HTTP, and the streams that stay open.

Most answers come at once. So it is looked only later whether a client is still there, and one round looks at all open streams: each
ends once its request would be let in no longer, as when a key is revoked or a token has expired.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from time import monotonic_ns
from typing import Any, NamedTuple

import msgspec

from adjourn.gateway.http_pool import Headers, StreamEvent, written
from adjourn.gateway.limits import Alarms
from adjourn.gateway.tracing import Trace
from adjourn.mcp import frames, server_lines
from adjourn.mcp.frames import FrameError
from adjourn.mcp.lenient import UNREADABLE
from adjourn.policy.principal import Principal

SUBSCRIBE = "subscriptions/listen"
"""The request of the stateless revision that stays open until the client closes it."""
MAX_KEPT, MAX_KEPT_BYTES = 1000, 64 * 1024 * 1024
"""Events that wait for a client that does not read, and their bytes: beyond that the oldest are dropped, the last one is not."""


class ReplyStream:
    """One answer. `headers` are those of the client's request that go to the server, too."""

    def __init__(self, headers: Headers = (), tokens: Sequence[object] = (), number: str = "") -> None:
        self.begun = monotonic_ns()
        self.number = number
        """The id of the HTTP request."""
        self.trace: Trace | None = None
        self.headers = headers
        self.tokens = tokens
        """The progress tokens of the request."""
        self.status = 200
        self.is_whole = False
        """Whether no more events come."""
        self.is_passed = False
        """Whether the request may pass to where its answer is not seen."""
        self._events: deque[StreamEvent] = deque()
        self._bytes = 0
        self._more: asyncio.Future[None] | None = None

    def put(self, event: StreamEvent, *, is_last: bool = False) -> None:
        """Add an event."""
        self._events.append(event)
        self._bytes += len(event.data)
        while len(self._events) > MAX_KEPT or (self._bytes > MAX_KEPT_BYTES and len(self._events) > 1):
            self._first()
        self.is_whole = self.is_whole or is_last
        self._wake()

    def end(self) -> None:
        """No more events come."""
        self.is_whole = True
        self._wake()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    @property
    def size(self) -> int:
        """Events that wait."""
        return len(self._events)

    async def next(self) -> StreamEvent | None:
        """The next event; None at the end."""
        while not self._events:
            if self.is_whole:
                return None
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        return self._first()

    def _first(self) -> StreamEvent:
        event = self._events.popleft()
        self._bytes -= len(event.data)
        return event


class LineHead(msgspec.Struct):
    """What is read of a line to see where it belongs."""

    id: Any = None
    method: Any = None


_decoded = msgspec.json.Decoder(LineHead).decode


def head_of(line: bytes) -> LineHead:
    """The head of a line; of one that is no message by itself, as a batch, a head that belongs to no request."""
    try:
        return _decoded(line)
    except msgspec.ValidationError:
        return LineHead(method="")
    except UNREADABLE:
        pass
    try:
        reply = server_lines.read(line)[1]
    except FrameError:
        return LineHead(method="")
    method, message_id = reply.method, reply.id
    return LineHead(None if message_id is msgspec.UNSET else message_id, None if method is msgspec.UNSET else method)


def as_line(body: bytes) -> bytes:
    """A message as one line. Raises `msgspec.DecodeError` for a text of several lines that is no JSON."""
    return (msgspec.json.format(body, indent=-1) if b"\n" in body or b"\r" in body else body) + b"\n"


def server_line(body: bytes) -> bytes:
    """What a server says as one line. Raises `msgspec.DecodeError` for a text of several lines that is no message."""
    try:
        return as_line(body)
    except UNREADABLE as error:
        line = body.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
        if head_of(line).method == "" and not server_lines.elements(line):
            raise msgspec.DecodeError(str(error)) from None
        return line


class ServerMessage(NamedTuple):
    """A line of the server: `about` is the id of the request on whose stream it came, `event` how it came.

    `stream` is the client's stream that was opened for what comes so, if one was.
    """

    line: bytes
    about: Any = None
    event: StreamEvent | None = None
    stream: ReplyStream | None = None


# --- the form of HTTP answers to clients, as ASGI has it

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

WATCH_AFTER_SECONDS = 0.1
"""How long an answer may take before it is looked whether its client is still there."""
_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_EVENTS = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform"))


async def body_of(headers: dict[bytes, bytes], receive: Receive, most: int) -> bytes | None:
    """The body of a request; None for one that is too large, or that did not come whole."""
    announced = headers.get(b"content-length", b"")
    if len(announced) > 12 or (announced.isdigit() and int(announced) > most):
        return None
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            return None
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def problem(why: str, code: int = frames.INVALID_REQUEST) -> bytes:
    """The body that says what is wrong with a request."""
    return frames.error(None, code, why).rstrip()


async def answer(send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    """Answer with a body of JSON, or with none."""
    await answer_text(send, status, body, (*headers, _JSON) if body else headers)


async def answer_text(
    send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = (_TEXT,)
) -> None:
    """Answer with a body of the kind that the headers say."""
    sent = [(b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


async def answer_with(
    stream: ReplyStream,
    send: Send,
    headers: tuple[tuple[bytes, bytes], ...],
    receive: Receive,
    slow: Alarms[ClientWatch],
) -> None:
    """One message as JSON; more than one, or one with an id, as a stream of events. `slow` says when it is looked for the client."""
    watch = ClientWatch(stream, receive)
    slow.begin(watch)
    try:
        first = await stream.next()
    finally:
        slow.end(watch)
        watch.stop()
    if first is not None and first.data and not first.id and stream.is_whole and not stream.size:
        await answer(send, stream.status, first.data, headers)
        return
    await send_events(stream, send, headers, receive, first)


async def send_events(
    stream: ReplyStream,
    send: Send,
    headers: tuple[tuple[bytes, bytes], ...],
    receive: Receive,
    first: StreamEvent | None = None,
) -> None:
    """Answer with all events of a stream; `first` is one that was taken from it."""
    await send({"type": "http.response.start", "status": 200, "headers": [*_EVENTS, *headers]})
    leaving = asyncio.get_running_loop().create_task(_end_with_client(stream, receive))
    try:
        event = first
        if event is None:
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            event = await stream.next()
        while event is not None:
            await send({"type": "http.response.body", "body": written(event), "more_body": True})
            event = await stream.next()
        await send({"type": "http.response.body", "body": b""})
    finally:
        leaving.cancel()


class ClientWatch:
    """Ends a stream when its client leaves before the first event. Most answers come before it is worth a task to look for that."""

    def __init__(self, stream: ReplyStream, receive: Receive) -> None:
        self._stream = stream
        self._receive = receive
        self._leaving: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look whether the client leaves."""
        loop = asyncio.get_running_loop()
        self._leaving = loop.create_task(_end_with_client(self._stream, self._receive))

    def stop(self) -> None:
        """Look no more."""
        if self._leaving is not None:
            self._leaving.cancel()


async def _end_with_client(stream: ReplyStream, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end()


# --- streams that clients keep open

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
