"""The gateway as a server of its own, behind the relay that has the meta-tools: it greets, and has nothing else.

Owns: these answers. Must never: do I/O.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from adjourn import __version__
from adjourn.gateway.exchange import Exchange
from adjourn.gateway.replies import Heard, ReplyStream
from adjourn.gateway.together.merging import Greeting, complete, discovered, initialized, negotiated
from adjourn.mcp import frames
from adjourn.relay import NEVER
from adjourn.text import beginning

_OFFERED = Greeting({"tools": {"listChanged": True}})
MAX_SHOWN = 80


class _Line(msgspec.Struct):
    id: Any = None
    method: str = ""
    params: dict[str, Any] = {}


_line_of = msgspec.json.Decoder(_Line).decode


class OwnLink:
    """See `ServerLink`. `on_listen` gets a `subscriptions/listen` that was let through: its id, and what it wants."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.on_listen: Callable[[Any, dict[str, Any]], None] = _nothing
        self.size = 0
        self.since = NEVER

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        for line in data.split(b"\n"):
            if line:
                self._answer(_line_of(line))

    def _answer(self, line: _Line) -> None:
        if not frames.is_id(line.id) or not line.method:
            return
        if line.method == "subscriptions/listen":
            wanted = line.params.get("notifications")
            self.on_listen(line.id, wanted if isinstance(wanted, dict) else {})
            return
        meta = line.params.get("_meta")
        result = _result(line, is_modern=isinstance(meta, dict) and frames.META_VERSION in meta)
        if result is not None:
            answer = frames.result(line.id, result)
        elif line.method == "tools/call":
            name = beginning(str(line.params.get("name")), MAX_SHOWN)
            answer = frames.error(line.id, frames.INVALID_PARAMS, f"no server has a tool named {name}")
        else:
            what = beginning(line.method, MAX_SHOWN)
            answer = frames.error(line.id, frames.METHOD_NOT_FOUND, f"there is no method {what} here")
            self._exchange.answered_with(line.id, 404)
        asyncio.get_running_loop().call_soon(self._exchange.hear, Heard(answer, line.id))

    def abandon(self, request_id: Any) -> None:
        """Nothing takes long here."""

    def listen(self, stream: ReplyStream, last_event: bytes) -> None:
        """Nothing is said without being asked."""

    def leave(self, stream: ReplyStream) -> None:
        """As above."""

    def lose(self) -> None:
        """It does not end by itself."""

    def drain(self, seconds: float) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """There is nothing to close."""

    async def left(self, seconds: float) -> None:
        """There is nothing to wait for."""


def _result(line: _Line, *, is_modern: bool) -> dict[str, Any] | None:
    if line.method == "initialize":
        return initialized(_OFFERED, negotiated(line.params.get("protocolVersion")), __version__)
    if line.method == "server/discover":
        return discovered(_OFFERED, __version__)
    if line.method == "tools/list":
        return complete({"tools": []}, is_cached=True) if is_modern else {"tools": []}
    if line.method == "ping" and not is_modern:
        return {}
    return None


def _nothing(_request_id: object, _wanted: object) -> None:
    """Nobody wants to know."""
