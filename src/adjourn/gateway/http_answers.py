"""The form of HTTP answers to clients: one message as JSON, several as a stream of events that ends with its client; and bodies of requests.

Owns: that form. Must never: know a session.
"""

from __future__ import annotations

import asyncio

from adjourn.gateway.alarms import Alarms
from adjourn.gateway.asgi import Receive, Send
from adjourn.gateway.event_stream import StreamEvent, written
from adjourn.gateway.replies import ReplyStream
from adjourn.mcp import frames

WATCH_AFTER_SECONDS = 0.1
"""How long an answer may take before it is looked whether its client is still there."""
_JSON = (b"content-type", b"application/json")
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
    sent = [*headers, (b"content-length", str(len(body)).encode())]
    if body:
        sent.append(_JSON)
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
    """Ends a stream whose client leaves before its first event. Most answers come before it is worth a task to look for that."""

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
