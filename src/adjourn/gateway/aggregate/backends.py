"""The parts of one client's session with all servers: one for each server, the gateway's own, and those of servers that it had before.

Owns: which parts there are. Must never: look into a message, or end a part with an open call before its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from adjourn import __version__
from adjourn.gateway.aggregate.handshake import ServerHealth
from adjourn.gateway.aggregate.member import Member
from adjourn.gateway.aggregate.merging import Greeting, complete, discovered, initialized, negotiated
from adjourn.gateway.aggregate.task_handles import offers
from adjourn.gateway.aggregate.upstream_session import UpstreamSession
from adjourn.gateway.exchange import Exchange
from adjourn.gateway.replies import Heard, ReplyStream
from adjourn.gateway.routing import NOT_SERVED, GatewayUpstream
from adjourn.mcp import frames
from adjourn.relay.ports import NEVER
from adjourn.text.redact import beginning

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


class Server(NamedTuple):
    """The part that is with one server."""

    member: Member
    upstream: UpstreamSession
    health: ServerHealth

    def may_have(self, kind: str) -> bool:
        """Whether it may offer something: it says so, or has not said anything yet."""
        return not self.health.is_met or kind in self.upstream.capabilities

    def may_have_tasks(self, *, modern: bool) -> bool:
        """Whether it may make tasks, for clients of an era."""
        return not self.health.is_met or offers(self.upstream.capabilities, modern=modern)


class OwnPart(NamedTuple):
    """The gateway's own part."""

    member: Member
    link: OwnLink


class Parts:
    """`begin` makes the part that is with a server. There are none at first."""

    def __init__(self, own: Member, begin: Callable[[GatewayUpstream], Server]) -> None:
        self._own = own
        self._begin = begin
        self._of: dict[GatewayUpstream, Server] = {}
        self.by_name: dict[str, Server] = {}
        """By the servers' names in rules, in the order of the settings."""
        self.by_member: dict[Member, Server] = {}
        self._ending: dict[Member, float] = {}
        """Of servers that are in force no longer, and when what is open there is ended (`time.monotonic`)."""

    @property
    def members(self) -> tuple[Member, ...]:
        """All of them, also those that are ending."""
        return (self._own, *self.by_member, *self._ending)

    def change(self, upstreams: Iterable[GatewayUpstream], end: float) -> list[Server]:
        """Have a part with each of these servers; others end, at a time at the latest. Returns those that are new."""
        before = self._of
        self._of = {one: before.get(one) or self._begin(one) for one in upstreams}
        self.by_name = {server.member.name: server for server in self._of.values()}
        self.by_member = {server.member: server for server in self._of.values()}
        self._ending |= {server.member: end for one, server in before.items() if one not in self._of}
        return [server for one, server in self._of.items() if one not in before]

    def end_idle(self, now: float, listener: ReplyStream | None) -> bool:
        """End parts with servers that are in force no longer, once nothing is open there. Returns whether some are left.

        `listener` is the client's stream, which the other parts still use.
        """
        for member, end in list(self._ending.items()):
            if not member.is_busy or now >= end:
                del self._ending[member]
                if listener is not None:
                    member.leave(None, listener)
                member.close(NOT_SERVED)
        return bool(self._ending)
