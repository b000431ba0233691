"""Connections of clients, with an end to how long they may hold one without a whole request, or without reading.

uvicorn waits for headers and bodies as long as a client likes; so this is its protocol with the times noted, and a look at all of them once
a second. No timer is set for a request.

Owns: time-outs and the number of connections. Must never: touch a request that came in time.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import sys
import termios
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from adjourn.gateway.joined_writes import JoinedWrites
from adjourn.gateway.limits import RETRY_SECONDS, LoadLimits

MAX_HEAD_BYTES = 64 * 1024
NEVER = math.inf
_PHRASES = {408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


class BoundedConfig(uvicorn.Config):
    """uvicorn's settings, with the limits of connections as they are at each moment."""

    def __init__(self, app: Any, limits: Callable[[], LoadLimits], **options: Any) -> None:
        super().__init__(app, http=BoundedProtocol, **options)
        self.limits = limits


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `since` is when what is awaited of the client began: headers, or a body."""

    def __init__(
        self,
        config: BoundedConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = config.limits
        self.since = time.monotonic()
        self._in_head = True
        self._head_bytes = 0
        self._unread = 0
        self._unread_since = NEVER

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport, self.loop)))
        if len(self.connections) > self._limits().connections:
            self._end_with(503, "too many connections", b"retry-after: %d\r\n" % RETRY_SECONDS)

    def data_received(self, data: bytes) -> None:
        was_in_head = self._in_head
        super().data_received(data)
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self._end_with(431, f"the headers have more than {MAX_HEAD_BYTES:,} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self.since = time.monotonic()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.since = NEVER
        super().on_message_complete()

    def expire(self, now: float) -> None:
        """End the connection if its client is too slow."""
        limits = self._limits()
        if now - self.since > (limits.header_seconds if self._in_head else limits.body_seconds):
            what = "headers" if self._in_head else "body"
            self._end_with(408, f"the request's {what} did not arrive in time")
        elif self.flow.write_paused:
            self._expire_unread(now)
        else:
            self._unread_since = NEVER

    def _expire_unread(self, now: float) -> None:
        """While bytes wait, nothing is added: fewer than before is progress, also of those that the kernel has."""
        waiting = self.transport.get_write_buffer_size() + _unacknowledged(self.transport)
        if self._unread_since is NEVER or waiting < self._unread:
            self._unread_since = now
        elif now - self._unread_since > self._limits().stalled_seconds:
            self.transport.abort()
        self._unread = waiting

    def _end_with(self, status: int, why: str, header: bytes = b"") -> None:
        """Answer by ourselves: the application has not been asked, or waits for what does not come."""
        self.since = NEVER
        text = f"{why}\n".encode()
        head = f"HTTP/1.1 {status} {_PHRASES[status]}\r\nconnection: close\r\ncontent-length: {len(text)}\r\n"
        self.transport.write(head.encode() + header + b"content-type: text/plain\r\n\r\n" + text)
        self.transport.close()


def _unacknowledged(transport: asyncio.Transport) -> int:
    """Bytes that the kernel keeps for the client; 0 where it does not say."""
    found = bytearray(4)
    with suppress(OSError):
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, found)
    return int.from_bytes(found, sys.byteorder)


def expire_all(connections: Iterable[object], now: float) -> None:
    """End all connections whose clients are too slow."""
    for connection in list(connections):
        if isinstance(connection, BoundedProtocol):
            connection.expire(now)
