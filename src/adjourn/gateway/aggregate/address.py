"""The one address of all servers: the sessions of clients that use them together, and how the servers fare.

Owns: these sessions, when a server that failed is tried again. Must never: speak to a client or a server itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from adjourn.aex.match import canonical_server
from adjourn.gateway.aggregate.backends import Backend, BackendSession
from adjourn.gateway.aggregate.handshake import ServerHealth
from adjourn.gateway.aggregate.session import AggregateSession
from adjourn.gateway.aggregate.upstream_session import UpstreamSession
from adjourn.gateway.endpoint import Endpoint, NewExchange, Sender
from adjourn.gateway.links import LinkUser, ServerLink
from adjourn.gateway.routing import GatewayUpstream
from adjourn.relay.ports import StderrLog

LOOK_SECONDS = 0.5


class Servers(Protocol):
    """What the gateway has for sessions with its servers."""

    def backend_session(self, upstream: GatewayUpstream | None, client: str, sender: Sender, /) -> BackendSession:
        """A part of a client's session, which has no link yet; None is for the gateway's own."""

    def link(self, upstream: GatewayUpstream, sender: Sender, user: LinkUser, /) -> ServerLink:
        """A new way to a server, for whoever is behind a client."""


class SingleAddress:
    """Of these servers, in the order of the settings. `endpoint` makes what has the sessions."""

    def __init__(
        self,
        upstreams: Iterable[GatewayUpstream],
        servers: Servers,
        report: StderrLog,
        endpoint: Callable[[NewExchange], Endpoint],
    ) -> None:
        self._servers = servers
        self._report = report
        self._health = {upstream: ServerHealth(canonical_server(upstream.name), report) for upstream in upstreams}
        self._recoveries = 0
        self._looked = 0.0
        self._is_ending = False
        """Whether sessions may have parts with servers that are not in force any longer."""
        self.endpoint = endpoint(self._new)

    def _new(self, client: str, sender: Sender) -> AggregateSession:
        own = self._servers.backend_session(None, client, sender)
        begin = partial(self._begin, client, sender)
        return AggregateSession(self._health, begin, own, self._report, client)

    def _begin(self, client: str, sender: Sender, upstream: GatewayUpstream) -> Backend:
        """The part of a client's session that is with one server."""
        session = self._servers.backend_session(upstream, client, sender)
        health = self._health[upstream]
        if upstream.exchange is not None:  # that one person gets no token is no reason to leave others waiting
            health = ServerHealth(canonical_server(upstream.name), self._report)
        link = UpstreamSession(session, partial(self._servers.link, upstream, sender), health)
        session.connect(link)
        return Backend(session, link, health)

    def change(self, upstreams: Iterable[GatewayUpstream], seconds: float) -> None:
        """Have other servers from now on, and tell clients. Calls that are open at one that is left out may take so many seconds."""
        before = self._health
        self._health = {
            upstream: before.get(upstream) or ServerHealth(canonical_server(upstream.name), self._report)
            for upstream in upstreams
        }
        self._is_ending = True
        for session in self._sessions():
            session.change(self._health, time.monotonic() + seconds)

    def _sessions(self) -> Iterator[AggregateSession]:
        for session in list(self.endpoint.sessions.values()):
            if isinstance(session, AggregateSession):
                yield session
        for lanes in list(self.endpoint.lanes.values()):
            yield from (session for session in lanes if isinstance(session, AggregateSession))

    def look_after(self) -> None:
        """Try servers that failed, by one session each, and tell all when one is back."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        if self._is_ending:
            self._is_ending = sum(session.end_idle(now) for session in self._sessions()) > 0
        for health in self._health.values():
            if health.why and health.may_try and (session := next(self._sessions(), None)) is not None:
                session.connect(health.name)
        recoveries = sum(health.recoveries for health in self._health.values())
        if recoveries != self._recoveries:
            self._recoveries = recoveries
            for session in self._sessions():
                session.recovered()
