"""The one address of all servers: the sessions of clients that use them together, and how the servers fare.

Owns: these sessions, when a server that failed is tried again. Must never: speak to a client or a server itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from adjourn.aex import canonical_server
from adjourn.gateway.endpoint import Endpoint, Sender
from adjourn.gateway.exchange import Exchange, ServerLink
from adjourn.gateway.http_link import LinkUser
from adjourn.gateway.limits import Throttle
from adjourn.gateway.together.combined import Combined, Server
from adjourn.gateway.together.member import Member
from adjourn.gateway.together.own_link import OwnLink
from adjourn.gateway.together.server_health import ServerHealth
from adjourn.gateway.together.upstream_session import UpstreamSession
from adjourn.relay import StderrLog

LOOK_SECONDS = 0.5


class Servers(Protocol):
    """What the gateway has for sessions with its servers."""

    def member(
        self, server: str, client: str, sender: Sender, link: Callable[[Exchange], ServerLink], /
    ) -> Member:
        """A member of a client's session; `server` is "" for the gateway's own."""

    def link(self, server: str, user: LinkUser, /) -> ServerLink:
        """A new way to a server."""


class SingleAddress:
    """Of the servers with these `names`."""

    def __init__(self, names: Iterable[str], servers: Servers, report: StderrLog, throttle: Throttle) -> None:
        self._servers = servers
        self._report = report
        self._health = {name: ServerHealth(canonical_server(name), report) for name in names}
        self._recoveries = 0
        self._looked = 0.0
        self.endpoint = Endpoint(self._new, throttle)

    def _new(self, client: str, sender: Sender) -> Combined:
        servers = {}
        for name, health in self._health.items():
            found: list[UpstreamSession] = []

            def link(
                exchange: Exchange, name: str = name, found: list[UpstreamSession] = found
            ) -> UpstreamSession:
                found.append(
                    UpstreamSession(exchange, lambda user: self._servers.link(name, user), self._health[name])
                )
                return found[0]

            member = self._servers.member(name, client, sender, link)
            servers[member.name] = Server(member, found[0], health)
        own_links: list[OwnLink] = []

        def own_link(exchange: Exchange) -> OwnLink:
            own_links.append(OwnLink(exchange))
            return own_links[0]

        own = self._servers.member("", client, sender, own_link)
        return Combined(servers, own, own_links[0], self._report, client)

    def _sessions(self) -> Iterator[Combined]:
        for session in list(self.endpoint.sessions.values()):
            if isinstance(session, Combined):
                yield session
        for lanes in list(self.endpoint.lanes.values()):
            yield from (session for session in lanes if isinstance(session, Combined))

    def look_after(self) -> None:
        """Try servers that failed, by one session each, and tell all when one is back."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for health in self._health.values():
            if health.why and health.may_try and (one := next(self._sessions(), None)) is not None:
                one.connect(health.name)
        recoveries = sum(health.recoveries for health in self._health.values())
        if recoveries != self._recoveries:
            self._recoveries = recoveries
            for session in self._sessions():
                session.recovered()
