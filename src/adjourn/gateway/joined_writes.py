"""A transport that sends the head of an answer with the first part of its body.

uvicorn writes the two one after the other, and a write costs more than it does to decide on a call.

Owns: a head that waits. Must never: keep one for longer than a turn of the event loop.
"""

from __future__ import annotations

import asyncio
from typing import Any

_HEAD = b"HTTP/1."


class JoinedWrites:
    """The given transport in all other respects."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data. What begins like a head waits for what is written next, at most until the loop's next turn."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Close the transport, once what was written is sent."""
        self._flush()
        self._transport.close()
