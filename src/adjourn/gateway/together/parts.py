"""The parts of one client's session with all servers: one for each server, the gateway's own, and those of servers that it had before.

Owns: which parts there are. Must never: look into a message, or end a part with an open call before its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from adjourn.gateway.replies import ReplyStream
from adjourn.gateway.routing import NOT_SERVED
from adjourn.gateway.together.member import Member
from adjourn.gateway.together.own_link import OwnLink
from adjourn.gateway.together.server_health import ServerHealth
from adjourn.gateway.together.task_handles import offers
from adjourn.gateway.together.upstream_session import UpstreamSession
from adjourn.gateway.upstream import GatewayUpstream


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
