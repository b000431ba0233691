"""Which servers there are, and who may ask: one value, which other settings replace as a whole.

A request keeps the value that it began with. A server that is not in the new one takes no new session: its open calls finish, then
its sessions end, at the latest when the time for that is over. A server with other settings is another server.

Owns: this value, the servers that are ending. Must never: change a value that is in force, or end a call before its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from adjourn.gateway.auth import Authenticator, AuthSettings
from adjourn.gateway.endpoint import Endpoint
from adjourn.gateway.settings import GatewaySettings, ServerSettings
from adjourn.gateway.upstream import GatewayUpstream
from adjourn.policy import Principal

NOT_SERVED = "the gateway does not serve this server any more"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")


class Routing(NamedTuple):
    """The servers by their names, in the order of the settings; the way to tell who asks, None for none; the gateway's own names."""

    settings: GatewaySettings
    upstreams: Mapping[str, GatewayUpstream]
    authenticator: Authenticator | None
    hosts: frozenset[str]

    @property
    def only(self) -> GatewayUpstream | None:
        """The one server that has the address of all; None where several share it."""
        return next(iter(self.upstreams.values())) if len(self.upstreams) == 1 else None

    def is_host(self, host: str) -> bool:
        """Whether a name, with or without a port, is the gateway's."""
        return host.rpartition(":")[0] in self.hosts or host in self.hosts


class Routes:
    """What is in force `now`, and what was. `upstream` and `authenticator` make what the settings name; they raise `AdjournError` for what
    cannot be used.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        upstream: Callable[[str, ServerSettings], GatewayUpstream],
        authenticator: Callable[[AuthSettings], Authenticator],
    ) -> None:
        self._upstream = upstream
        self._authenticator = authenticator
        self._ending: dict[GatewayUpstream, float] = {}
        """Servers that are in force no longer, and when their last sessions are ended (`time.monotonic`)."""
        self.now = Routing(settings, {}, None, frozenset())
        self.change(settings)

    def change(self, settings: GatewaySettings) -> None:
        """Have other settings in force. Raises `AdjournError` where they cannot be used: then nothing has changed."""
        before = self.now
        # the address of all has another meaning once the server there is not the only one: sessions there begin again
        same = {} if before.only is not None and len(settings.servers) > 1 else before.upstreams
        upstreams = {
            name: known
            if (known := same.get(name)) is not None and known.settings == server
            else self._upstream(name, server)
            for name, server in settings.servers.items()
        }
        authenticator = before.authenticator
        if settings.auth != before.settings.auth or authenticator is None:
            authenticator = self._authenticator(settings.auth) if settings.auth is not None else None
        hosts = frozenset((*_LOOPBACK, *settings.hosts, settings.address[0]))
        self.now = Routing(settings, upstreams, authenticator, hosts)
        kept = set(upstreams.values())
        end = time.monotonic() + settings.limits.drain_seconds
        self._ending |= {one: end for one in before.upstreams.values() if one not in kept}
        self.end_idle()  # at once: whoever has read that they are in force gets nothing of what was before

    def of_session(self, name: str, session: str, principal: Principal | None) -> Endpoint | None:
        """The endpoint of a server that is ending, if it has this session: what belongs to its open calls goes there."""
        for upstream in self._ending:
            if name in ("", upstream.name) and (session, principal) in upstream.endpoint.sessions:
                return upstream.endpoint
        return None

    def end_idle(self) -> None:
        """End the sessions of servers that are in force no longer, once nothing of theirs is open, or their time is over."""
        now = time.monotonic()
        for upstream, end in list(self._ending.items()):
            upstream.endpoint.end_idle(NOT_SERVED)
            if now >= end:
                upstream.endpoint.close(NOT_SERVED)
                upstream.close()
                del self._ending[upstream]

    def all(self) -> Iterator[GatewayUpstream]:
        """Those in force, and those that are ending."""
        yield from self.now.upstreams.values()
        yield from self._ending
