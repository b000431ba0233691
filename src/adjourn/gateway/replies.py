"""What HTTP requests of a client wait for: events, of which the last one ends the answer; and what a server says.

Owns: `ReplyStream`, `Heard`. Must never: know whose it is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from time import monotonic_ns
from typing import Any, NamedTuple

import msgspec

from adjourn.gateway.event_stream import StreamEvent
from adjourn.gateway.http_pool import Headers
from adjourn.gateway.monitoring import Trace
from adjourn.mcp import UNREADABLE, FrameError, server_lines

SUBSCRIBE = "subscriptions/listen"
"""The request of the stateless revision whose answer lasts as long as the client likes."""
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
    return LineHead(
        None if message_id is msgspec.UNSET else message_id, None if method is msgspec.UNSET else method
    )


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


class Heard(NamedTuple):
    """A line of the server: `about` is the id of the request on whose stream it came, `event` how it came.

    `stream` is the client's stream that was opened for what comes so, if one was.
    """

    line: bytes
    about: Any = None
    event: StreamEvent | None = None
    stream: ReplyStream | None = None
