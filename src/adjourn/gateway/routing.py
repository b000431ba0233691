"""Servers and routes: which servers there are, the sessions at each, and who may ask.

All is one value, which other settings replace as a whole.

A request keeps the value that it began with. A server that is not in the new one takes no new session: its open calls finish, then
its sessions end, at the latest when the time for that is over. A server with other settings is another server.

Owns: this value, the servers that are ending. Must never: change a value that is in force, or end a call before its time.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from adjourn.errors import AdjournError, RefusedError, UsageError
from adjourn.gateway.authenticator import Authenticator
from adjourn.gateway.endpoint import Endpoint
from adjourn.gateway.http_link import patience
from adjourn.gateway.http_pool import (
    NO_CREDENTIALS,
    Credentials,
    FixedCredentials,
    Headers,
    HttpPool,
    UnreachableError,
    from_variables,
)
from adjourn.gateway.settings import AuthSettings, GatewaySettings, ServerSettings, read_settings
from adjourn.host import executables
from adjourn.host.executables import OF_CODE, common, outside
from adjourn.policy.principal import Principal
from adjourn.relay.stderr_log import StderrLog

if TYPE_CHECKING:
    from adjourn.gateway.login_store import Login


class GatewayUpstream:
    """See above. `endpoint` makes what has its sessions. Raises `UsageError` for a variable without a value."""

    def __init__(
        self, name: str, settings: ServerSettings, endpoint: Callable[[GatewayUpstream], Endpoint]
    ) -> None:
        self.name = name
        self.settings = settings
        self.pool = HttpPool(settings.url) if settings.url else None
        self.patience = patience(settings.seconds)
        self.credentials = credentials_of(settings)
        self.environment = variables_of(name, settings, os.environ)
        """The variables of its command."""
        self.endpoint = endpoint(self)

    @property
    def command(self) -> str:
        """What it is reached as: its URL, or the words of its command."""
        return self.settings.url or " ".join(self.settings.command)

    def close(self) -> None:
        """Keep no connection. No session is left."""
        if self.pool is not None:
            self.pool.close()


def variables_of(name: str, settings: ServerSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a server's command gets: those by which programs run, and its own. Raises `UsageError` for one without a value."""
    if missing := [source for source in settings.env_from.values() if source not in environment]:
        raise UsageError(
            f"the variable {missing[0][:80]} of the server {name} is not set",
            "set it where the gateway is started, or write a value into env in place of env_from",
        )
    own = {variable: environment[source] for variable, source in settings.env_from.items()}
    return common(environment) | settings.env | own


# --- a kept login as the credentials of a server

MARGIN = 30.0
"""Seconds before its end at which a token is renewed."""
RENEWAL_SECONDS = 120.0
RETRY_SECONDS = 5.0
FRESH_SECONDS = 5.0
"""A token that is refused so soon after its renewal is not renewed again: the server wants another one."""
_OF_LOGINS = (
    "ADJOURN_CONFIG", "DBUS_SESSION_BUS_ADDRESS", "PYTHON_KEYRING_BACKEND",
    "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "all_proxy", "https_proxy", "http_proxy", "no_proxy",
)  # fmt: skip
"""Variables that a renewal needs beside the common ones: it gets no other secrets of this process."""
_SCOPE = re.compile(r"""\bscope="([\x21\x23-\x5b\x5d-\x7e ]{1,500})\"""")


def credentials_of(server: ServerSettings) -> Credentials:
    """What opens a server of the gateway. Raises `UsageError` for a variable without a value."""
    fixed = from_variables(server.bearer_env, server.headers_env, os.environ)
    return KeptLogin(server.url, fixed) if server.login else fixed


class KeptLogin:
    """The login of this user at the server of `url`; `further` headers go with its own."""

    def __init__(self, url: str, further: FixedCredentials = NO_CREDENTIALS) -> None:
        from adjourn.gateway.login_store import canonical

        self._further = further
        self._url = canonical(url)
        self._login: Login | None = None
        self._headers: Headers = ()
        self._until = 0.0
        """When the login is looked at again (`time.time`)."""
        self._lock = asyncio.Lock()
        self._failed = ("", 0.0, "")
        """The last renewal that failed: of which token, when, why."""
        self._renewed = ("", 0.0)
        """The token of the last renewal, and when it was."""

    async def headers(self) -> Headers:
        if time.time() < self._until:
            return self._headers
        async with self._lock:
            if time.time() >= self._until:
                await self._look()
                if self._login is not None and time.time() >= self._until:
                    await self._renew_early(self._login)
            return self._headers

    async def _renew_early(self, login: Login) -> None:
        """Renew a token that ends soon. While it has not ended, a failure is no matter; then it is the reason for the next one."""
        why = await self._renew(login)
        if why and time.time() < login.expires:
            self._until = time.time() + RETRY_SECONDS
        elif why:
            raise _wanting(why)

    async def refused(self, used: Headers, status: int, challenge: bytes) -> str:
        async with self._lock:
            if used is not self._headers:
                return ""
            before = self._login
            await self._look()
            if self._login is None:
                raise _wanting(f"{self._url} needs a login; run: {self._command()}")
            if _mark(before) != self._login.mark:
                return ""
            if status == 403:
                raise _wanting(self._lacks(self._login, challenge.decode("latin-1")))
            if not self._login.refresh:
                raise _wanting(f"the login at {self._url} has ended; run: {self._command()}")
            mark, at = self._renewed
            if mark == self._login.mark and time.monotonic() < at + FRESH_SECONDS:
                raise _wanting(
                    f"the server refuses a token that it was just given for {self._url}; run: {self._command()}"
                )
            if why := await self._renew(self._login):
                raise _wanting(why)
            return ""

    def _lacks(self, login: Login, challenge: str) -> str:
        found = _SCOPE.search(challenge)
        wanted = dict.fromkeys([*login.scope.split(), *(found[1].split() if found else ())])
        rights = f" ({found[1]})" if found else ""
        return f"the login at {self._url} has not the rights for this{rights}; run: {self._command(' '.join(wanted))}"

    def _command(self, scope: str = "") -> str:
        words = ["adjourn", "login", *(["--scope", scope] if scope else []), self._url]
        return shlex.join(words)

    async def _look(self) -> None:
        """Read what is kept."""
        from adjourn.gateway.login_store import read

        try:
            login = await asyncio.to_thread(read, self._url)
        except AdjournError as error:
            raise _wanting(str(error)) from error
        if not self._headers or _mark(login) != _mark(self._login):
            token = f"Bearer {login.access}".encode("latin-1", "replace") if login is not None else b""
            own = [(b"authorization", token)] if token else []
            self._headers = (*own, *await self._further.headers())
        self._login = login
        self._until = float("inf")
        if login is not None and login.expires and login.refresh:
            left = login.expires - time.time()
            self._until = login.expires - min(MARGIN, left / 2) if left > 1 else 0.0

    async def _renew(self, login: Login) -> str:
        """Have the token renewed; returns why not, "" after a success."""
        mark, at, why = self._failed
        if mark == login.mark and time.monotonic() < at + RETRY_SECONDS:
            return why
        words = executables.python_command("-m", "adjourn", "connect", "--renew", login.mark, "--", self._url)
        given = {name: os.environ[name] for name in (*OF_CODE, *_OF_LOGINS) if name in os.environ}
        variables = outside(common(os.environ) | given, os.getcwd())
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env=variables,
            )
            said, _ = await asyncio.wait_for(process.communicate(), RENEWAL_SECONDS)
            ended_well = process.returncode == 0
            why = "" if ended_well else said.decode(errors="replace").strip()[:500] or "the renewal failed"
        except (OSError, TimeoutError) as error:
            why = str(error) or "no answer in time"
        if why:
            self._failed = (login.mark, time.monotonic(), why)
            return why
        await self._look()
        self._renewed = (_mark(self._login), time.monotonic())
        return ""


def _wanting(why: str) -> UnreachableError:
    """What is wrong with a login: its server's address and the command for the operator are no client's."""
    return UnreachableError(why, was_sent=False, public="the server wants a login that the gateway has not")


def _mark(login: Login | None) -> str:
    return login.mark if login is not None else ""


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


# --- other settings while the gateway serves

FIXED = ("listen", "log", "metrics", "page", "traces")
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
            self._report.event(
                "settings.error", f"{error.message}; {error.remedy}; the settings before it stay"
            )
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
        f"{name} changed"
        for name in ("auth", "hosts", "limits")
        if getattr(now, name) != getattr(before, name)
    )


def check_reach(address: str, auth: AuthSettings | None) -> None:
    """Raises `RefusedError` for an address that other machines reach, where nothing tells who asks."""
    if auth is None and not (address.startswith("127.") or address == "::1"):
        raise RefusedError(
            f"{address} can be reached by other machines, and nothing tells who asks",
            "say in [auth] of adjourn.toml how clients authenticate, or listen on 127.0.0.1",
        )
