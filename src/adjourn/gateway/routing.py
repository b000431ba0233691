"""Servers and routes: which servers there are, the sessions at each, and who may ask.

All is one value, which other settings replace as a whole.

A request keeps the value that it began with. A server that is not in the new one takes no new session: its open calls finish, then
its sessions end, at the latest when the time for that is over. A server with other settings is another server.

SIGHUP has `adjourn.toml` read again: what is new holds at once, or is named as what needs a restart.

Must never: change a value that is in force, end a call before its time, or take a part of a file that is wrong.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from adjourn.clients.served_tools import ToolHints
from adjourn.errors import AdjournError, RefusedError, UsageError
from adjourn.gateway.authenticator import Authenticator
from adjourn.gateway.endpoint import Endpoint
from adjourn.gateway.http_pool import Credentials, HttpPool, from_variables
from adjourn.gateway.links import patience
from adjourn.gateway.login_store import KeptLogin
from adjourn.gateway.network_path import path_to
from adjourn.gateway.processes import ServerProcesses
from adjourn.gateway.settings import AuthSettings, GatewaySettings, ServerSettings, read_settings
from adjourn.gateway.token_requests import ClientTokens, ExchangedToken, TokenExchange
from adjourn.host.executables import common
from adjourn.policy.principal import Principal
from adjourn.relay.ports import StderrLog


class GatewayUpstream:
    """A server of the settings; a command starts in `folder`. `endpoint` makes what has its sessions. Raises `UsageError` for a variable without a value."""

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        folder: str,
        endpoint: Callable[[GatewayUpstream], Endpoint],
        tokens: ClientTokens,
    ) -> None:
        self.name = name
        self.settings = settings
        self.pool = HttpPool(settings.url, path_to(settings.url, settings, folder)) if settings.url else None
        self.hints = ToolHints()
        self.patience = patience(settings.seconds)
        self._credentials = credentials_of(settings)
        self.exchange = (
            TokenExchange(settings.exchange, tokens, self._credentials, os.environ) if settings.exchange else None
        )
        self.processes = ServerProcesses(name, settings, variables_of(name, settings, os.environ), folder)
        self.endpoint = endpoint(self)

    @property
    def command(self) -> str:
        """What it is reached as: its URL, or the words of its command."""
        return self.settings.url or " ".join(self.settings.command)

    def credentials_for(self, principal: Principal | None) -> Credentials:
        """What opens the server on behalf of a principal."""
        return ExchangedToken(self.exchange, principal) if self.exchange is not None else self._credentials

    def close(self) -> None:
        """Keep no connection. No session is left."""
        self.processes.close()
        if self.pool is not None:
            self.pool.close()


def credentials_of(server: ServerSettings) -> Credentials:
    """What opens a server of the gateway. Raises `UsageError` for a variable without a value."""
    fixed = from_variables(server.bearer_env, server.headers_env, os.environ)
    return KeptLogin(server.url, fixed) if server.login else fixed


def variables_of(name: str, settings: ServerSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a server's command gets: those by which programs run, and its own. Raises `UsageError` for one without a value."""
    if missing := [source for source in settings.env_from.values() if source not in environment]:
        raise UsageError(
            f"the variable {missing[0][:80]} of the server {name} is not set",
            "set it where the gateway is started, or write a value into env in place of env_from",
        )
    own = {variable: environment[source] for variable, source in settings.env_from.items()}
    return common(environment) | settings.env | own


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
        # the address of all has another meaning once the server there is not the only one: sessions there start again
        same = {} if before.only is not None and len(settings.servers) > 1 else before.upstreams
        upstreams = {
            name: upstream
            if (upstream := same.get(name)) is not None and upstream.settings == server
            else self._upstream(name, server)
            for name, server in settings.servers.items()
        }
        authenticator = before.authenticator
        if settings.auth != before.settings.auth or authenticator is None:
            authenticator = self._authenticator(settings.auth) if settings.auth is not None else None
        hosts = frozenset((*_LOOPBACK, *settings.hosts, settings.address[0]))
        self.now = Routing(settings, upstreams, authenticator, hosts)
        in_force = set(upstreams.values())
        end = time.monotonic() + settings.limits.drain_seconds
        self._ending |= {upstream: end for upstream in before.upstreams.values() if upstream not in in_force}
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


# --- other settings while the gateway serves

FIXED = ("authorize", "listen", "log", "metrics", "page", "traces")
"""What a process has from its start to its end, beside who shares tasks (`auth.shared`)."""


class Reload:
    """`settings` are those that the gateway was started with, from the file at `path`; it listens at `address`. `change` has others in force,
    or raises `AdjournError`.
    """

    def __init__(
        self,
        path: str,
        settings: GatewaySettings,
        address: str,
        change: Callable[[GatewaySettings], None],
        report: StderrLog,
    ) -> None:
        self._path = path
        self._started_with = self._now = settings
        self._address = address
        self._change = change
        self._report = report

    def now(self) -> None:
        """Read the file. One that cannot be read or used changes nothing, and is named in the log."""
        try:
            wanted = read_settings(self._path)
            check_reach(self._address, wanted.auth)
            settings = self._usable(wanted)
            self._change(settings)
        except AdjournError as error:
            self._report.event("settings.error", f"{error.message}; {error.remedy}; the settings before it stay")
            return
        before, self._now = self._now, settings
        changed = ", ".join(_changes(before, settings)) or "nothing changed"
        self._report.event("settings.read", f"{self._path} is in force: {changed}")
        if waiting := list(self._waiting(wanted)):
            text = f"{self._path}: {', '.join(waiting)} changed; restart the gateway for that"
            self._report.event("settings.restart", text)

    def _usable(self, wanted: GatewaySettings) -> GatewaySettings:
        """The settings of a file, as far as they can be had without a restart."""
        started = self._started_with
        auth = wanted.auth
        if auth is not None:
            auth = msgspec.structs.replace(auth, shared=_shared(started.auth))
        fixed: Mapping[str, Any] = {name: getattr(started, name) for name in FIXED}
        return msgspec.structs.replace(wanted, auth=auth, **fixed)

    def _waiting(self, wanted: GatewaySettings) -> Iterator[str]:
        """What is in the file, and needs a restart."""
        started = self._started_with
        yield from (name for name in FIXED if getattr(wanted, name) != getattr(started, name))
        if wanted.auth is not None and wanted.auth.shared != _shared(started.auth):
            yield "auth.shared"


def _shared(auth: AuthSettings | None) -> tuple[str, ...]:
    return auth.shared if auth is not None else ()


def _changes(before: GatewaySettings, now: GatewaySettings) -> Iterator[str]:
    """What differs, for people."""
    for name in now.servers:
        if name not in before.servers:
            yield f"server {name} added"
        elif now.servers[name] != before.servers[name]:
            yield f"server {name} changed"
    yield from (f"server {name} removed" for name in before.servers if name not in now.servers)
    yield from (
        f"{name} changed" for name in ("auth", "hosts", "limits") if getattr(now, name) != getattr(before, name)
    )


def check_reach(address: str, auth: AuthSettings | None) -> None:
    """Raises `RefusedError` for an address that other machines reach, where nothing tells who asks."""
    if auth is None and not (address.startswith("127.") or address == "::1"):
        raise RefusedError(
            f"{address} is open to other machines, and clients do not authenticate",
            "say in [auth] of adjourn.toml how clients authenticate, or listen on 127.0.0.1",
        )
