"""The gateway's ASGI application: what is asked for, and whether by whom it may be.

    /NAME/mcp           the server NAME
    /NAME/t/TASK/mcp    the same, working on the task TASK
    /mcp, /t/TASK/mcp   all servers together, or the only one
    /healthz, /readyz   whether the process lives, and whether it can work

Owns: these addresses, the check of Host and Origin (a web page in a browser here must not speak to it), the life of contexts. Must never:
look into a message.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from adjourn import checkpoints
from adjourn.aex import canonical_server
from adjourn.clients import ClientContext, ClientOptions
from adjourn.errors import AdjournError, InvalidError
from adjourn.gateway.asgi import Receive, Scope, Send
from adjourn.gateway.auth import Authenticator, AuthenticatorParts, Challenge
from adjourn.gateway.endpoint import Endpoint, Sender
from adjourn.gateway.exchange import Exchange, ExchangeParts, ServerLink
from adjourn.gateway.http_link import HttpLink, LinkUser, patience
from adjourn.gateway.http_pool import HttpPool
from adjourn.gateway.kept_login import credentials_of
from adjourn.gateway.limits import Throttle
from adjourn.gateway.monitoring import Gauges, Monitoring
from adjourn.gateway.person_page import PageMaker, PersonPage, finder
from adjourn.gateway.pipe_link import PipeLink
from adjourn.gateway.replica import Replica
from adjourn.gateway.settings import GatewaySettings, ServerSettings
from adjourn.gateway.tenants import Tenants
from adjourn.gateway.together import Member, SingleAddress
from adjourn.gateway.turns import Turn
from adjourn.host import Workspace, keys, now
from adjourn.policy import Contract, Principal, reread_policy
from adjourn.relay import RelayOptions, StderrLog
from adjourn.store import Store
from adjourn.tasks import PendingCommit, check_task_id, commit_together, expire_dead_sessions

WORKERS = 16
TIDY_SECONDS, HEARTBEAT_SECONDS = 0.25, 20.0
CLOSE_SECONDS = 10.0
LINGER_SECONDS = 2.0
_PATH = re.compile(r"(?:/([A-Za-z0-9][A-Za-z0-9_-]{0,63}))?(?:/t/([A-Za-z0-9_.-]{1,100}))?/mcp/?")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_TEXT, _JSON = (b"content-type", b"text/plain; charset=utf-8"), (b"content-type", b"application/json")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")


_NO_SERVER = ServerSettings()
"""Of the context that has the meta-tools of a session with all servers."""


@dataclass(eq=False)
class _Shared:
    """A context that several exchanges use."""

    context: ClientContext
    users: set[Exchange] = field(default_factory=set)
    left: float = 0.0
    """When the last one left it (`time.monotonic`)."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is open."""
        return not any(exchange.waiting or exchange.connection.requests for exchange in self.users)


class Ground(NamedTuple):
    """What all calls are decided on with, and recorded in. `environment` is that of servers that are commands.

    The store is shared by all contexts, and closed by whoever opened it. So is `lease_store`, the same one opened again for this
    process's lease.
    """

    workspace: Workspace
    contract: Contract
    store: Store
    environment: Mapping[str, str]
    lease_store: Store


class GatewayApp:
    """Serves the settings' servers."""

    def __init__(
        self,
        settings: GatewaySettings,
        ground: Ground,
        report: StderrLog,
        make_page: PageMaker | None = None,
    ) -> None:
        self._settings = settings
        self._ground = ground
        self._report = report
        self._pools = {name: HttpPool(server.url) for name, server in settings.servers.items() if server.url}
        self._patience = {name: patience(server.seconds) for name, server in settings.servers.items()}
        self._credentials = {name: credentials_of(server) for name, server in settings.servers.items()}
        self.throttle = Throttle(settings.limits)
        looks: dict[str, Callable[[], object]] = {
            "store": partial(ground.store.ref, "health"),
            "policy": partial(reread_policy, ground.workspace.root, ground.contract),
        }
        self.monitoring = Monitoring(settings.metrics, settings.traces, looks, self.throttle, report)
        ground = self._ground = ground._replace(store=self.monitoring.observed(ground.store))
        self._parts = ExchangeParts(
            ThreadPoolExecutor(WORKERS, "relay"),
            report,
            RelayOptions(meta_tools="always"),
            Turn(self._failed),
            self.monitoring.of_calls,
        )
        self._endpoints = {
            name: Endpoint(partial(self._new, name), self.throttle, self.monitoring.tracer)
            for name in settings.servers
        }
        self._together = SingleAddress(settings.servers, self, report, self.throttle)
        self._contexts: dict[tuple[str, str, Sender], _Shared] = {}
        self._of_task: dict[str, set[_Shared]] = {}
        """Those of `_contexts` that work on a task of the path."""
        self._leaving: set[asyncio.Task[None]] = set()
        """For the servers of closed exchanges to end."""
        self._replica = Replica(ground.lease_store, report, self._wanted)
        self._hosts = {*_LOOPBACK, *settings.hosts, settings.address[0]}
        contexts = self._contexts.values()
        self.monitoring.expose(
            Gauges(
                self._endpoints,
                lambda: [shared.context for shared in list(contexts)],
                self._pools,
                self.throttle,
                self._parts.workers,
                report,
            ).now
        )
        self._tenants = Tenants(ground.workspace.root, settings.auth.shared if settings.auth else ())
        self._authenticator: Authenticator | None = None
        if settings.auth is not None:
            on_error = partial(report.event, "auth.error")
            parts = AuthenticatorParts(ground.store, keys.secret(), now, self._parts.workers, on_error)
            self._authenticator = Authenticator(settings.auth, parts)
        self._page: PersonPage | None = None
        if make_page is not None and self._authenticator is not None:
            page = make_page(finder(self._authenticator), self._tenants.space)
            self._page = PersonPage(page, settings.page.address[1], self.throttle)

    def _failed(self, error: Exception) -> None:
        self._report.event("gateway.bug", f"{type(error).__name__}: {error}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, self.monitoring.watched(scope, send))

    # --- requests

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._page is not None and await self._page.answer(scope, receive, send):
            return
        if await self.monitoring.answer(scope, send):
            return
        path = scope["path"]
        headers = dict(scope["headers"])
        if not self._is_host(headers.get(b"host", b"").decode("latin-1")):
            await _plain(send, 421, "this Host is not the gateway's: name it in `hosts` of adjourn.toml")
            return
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and not self._is_host(urlsplit(origin).netloc):
            await _plain(send, 403, "this Origin may not use the gateway")
            return
        principal = None
        if self._authenticator is not None:
            if (about := self._authenticator.metadata(path)) is not None:
                await _plain(send, 200, about.decode(), (_JSON,))
                return
            asked = await self._authenticator.authenticate(scope)
            if isinstance(asked, Challenge):
                await _plain(send, asked.status, asked.text, (_TEXT, *asked.headers))
                return
            principal = asked
        await self._serve(scope, receive, send, principal)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, principal: Principal | None) -> None:
        """Answer a request of a principal; of None where nobody authenticates."""
        found = _PATH.fullmatch(scope["path"])
        endpoint = self._endpoint(found[1]) if found is not None else None
        if found is None or endpoint is None:
            known = ", ".join(f"/{one}/mcp" for one in self._endpoints)
            await _plain(send, 404, f"no server is here; there is {known}")
            return
        task = found[2] or ""
        try:
            if task:
                task = check_task_id(self._tenants.task_named(principal, task))
        except InvalidError as error:
            await _plain(send, 400, f"{error.message}; {error.remedy}")
            return
        await endpoint.handle(scope, receive, send, Sender(principal, task))

    def _endpoint(self, name: str | None) -> Endpoint | None:
        if name:
            return self._endpoints.get(name)
        return next(iter(self._endpoints.values())) if len(self._endpoints) == 1 else self._together.endpoint

    def _is_host(self, host: str) -> bool:
        return host.rpartition(":")[0] in self._hosts or host in self._hosts

    # --- exchanges

    def _new(self, server: str, client: str, sender: Sender) -> Exchange:
        shared = self._shared(server, client, sender)
        exchange = Exchange(self._parts, shared.context, partial(self.link, server))
        self._use(shared, exchange, sender.task)
        return exchange

    def _use(self, shared: _Shared, exchange: Exchange, task: str) -> None:
        shared.users.add(exchange)
        exchange.on_close = partial(self._left, shared, exchange)
        if task:
            exchange.on_use = partial(self._hand_over, task, shared.context)

    def member(
        self, server: str, client: str, sender: Sender, link: Callable[[Exchange], ServerLink]
    ) -> Member:
        """A part of a client's session with all servers; see `single_address.Servers`."""
        shared = self._shared(server, client, sender)
        listing = "never" if server else "always"  # once a client
        parts = self._parts._replace(options=RelayOptions(meta_tools=listing))
        member = Member(parts, shared.context, link, canonical_server(server))
        self._use(shared, member, sender.task)
        return member

    def link(self, server: str, user: LinkUser) -> ServerLink:
        """A new way to a server."""
        settings = self._settings.servers[server]
        if settings.url:
            return HttpLink(user, self._pools[server], self._patience[server], self._credentials[server])
        ground = self._ground
        return PipeLink(user, settings.command, ground.environment, ground.workspace.tree)

    def _left(self, shared: _Shared, exchange: Exchange) -> None:
        """A client has ended a session; it may begin another one at once."""
        shared.users.discard(exchange)
        shared.left = time.monotonic()
        self._leaving.add(task := asyncio.get_running_loop().create_task(exchange.link.left(CLOSE_SECONDS)))
        task.add_done_callback(self._leaving.discard)

    def _give_back(self) -> None:
        """End the work of clients that have ended their last session a moment ago."""
        since = time.monotonic() - LINGER_SECONDS
        for key, shared in list(self._contexts.items()):
            if not shared.users and shared.left < since:
                del self._contexts[key]  # from now on another context is made
                if (others := self._of_task.get(key[2].task)) is not None:
                    others.discard(shared)
                    if not others:
                        del self._of_task[key[2].task]
                self._parts.workers.submit(self._end, shared.context, "client-end")

    def _hand_over(self, task: str, to: ClientContext) -> None:
        """Have other clients that are not at work on a task give it back: `to` is about to work on it."""
        for shared in self._of_task.get(task, ()):
            context = shared.context
            if context.group != to.group and context.sessions and shared.is_idle:
                self._end(context, "handed-over")

    def _wanted(self, task: str) -> None:
        """Another replica asks for a task. In the thread of the lease."""
        self._loop.call_soon_threadsafe(self._give, task)

    def _give(self, task: str) -> None:
        """Give a task of the path back to another replica, unless calls are open: then it asks again."""
        contexts = [shared for shared in self._of_task.get(task, ()) if shared.context.sessions]
        if not all(shared.is_idle for shared in contexts):
            return
        for shared in contexts:
            self._end(shared.context, "handed-over")
        self._parts.workers.submit(self._replica.answer, task)

    def _shared(self, server: str, client: str, sender: Sender) -> _Shared:
        """The context of a client at a server."""
        key, task = (server, client, sender), sender.task
        found = self._contexts.get(key)
        if found is None:
            workspace, settings = self._ground.workspace, self._settings.servers.get(server, _NO_SERVER)
            options = ClientOptions(
                root=workspace.root,
                tree=workspace.tree,
                contract=self._ground.contract,
                task=task,
                server=server,
                command=settings.url or " ".join(settings.command),
                principal=sender.principal,
                space=self._tenants.space(sender.principal),
                home=self._tenants.home(sender.principal),
            )
            context = ClientContext(options, on_event=self._report.event, store=self._ground.store)
            name = _UNSAFE.sub("-", client)[:40] or "client"
            own = f"{options.space.own}/" if options.space is not None else ""
            context.join(f"gateway/{own}{name}", self._replica.ref)
            context.on_held = self._replica.ask
            with suppress(AdjournError):
                context.meet_servers()
            found = self._contexts[key] = _Shared(context)
            if task:
                self._of_task.setdefault(task, set()).add(found)
        return found

    # --- the life

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._loop = asyncio.get_running_loop()
        self._replica.start()
        tidying = asyncio.get_running_loop().create_task(self._tidy())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.throttle.is_leaving = self.throttle.is_draining = True
        tidying.cancel()
        await self._close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _tidy(self) -> None:
        """Write what waits to be written, keep leases, end what nobody uses."""
        loop, beaten = asyncio.get_running_loop(), time.monotonic()
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            if beats := time.monotonic() - beaten > HEARTBEAT_SECONDS:
                beaten = time.monotonic()
            try:
                await loop.run_in_executor(self._parts.workers, self._keep, beats)
                self._give_back()
                self._together.look_after()
                if beats:
                    for endpoint in (*self._endpoints.values(), self._together.endpoint):
                        endpoint.expire(self.throttle.limits.session_seconds)
            except Exception as error:  # whatever it is, the leases have to be kept
                self._failed(error)
            self._report.flush()

    def _keep(self, beats: bool) -> None:  # one caller
        sessions = [one for shared in list(self._contexts.values()) for one in shared.context.sessions]
        late = [PendingCommit(one.task) for one in sessions if one.task.deferred]
        commit_together(late)
        for error in (one.error for one in late if one.error is not None):
            self._report.event("store.error", str(error))
        for session in sessions:
            try:
                if beats:
                    session.heartbeat()
                if self._replica.is_gone(session.task.ledger.sessions.values()):
                    expire_dead_sessions(session.task)
            except AdjournError as error:
                self._report.event("store.error", str(error))

    def end_requests(self) -> None:
        """Answer what is open with an error, and end streams."""
        for endpoint in (*self._endpoints.values(), self._together.endpoint):
            endpoint.close("the gateway ended")

    async def _close(self) -> None:
        """End every exchange and session; what was answered is in the store already."""
        self.end_requests()
        loop = asyncio.get_running_loop()
        ended = [
            loop.run_in_executor(self._parts.workers, self._end, shared.context, "gateway-end")
            for shared in self._contexts.values()
        ]
        if waited := [*ended, *self._leaving]:
            await asyncio.wait(waited, timeout=CLOSE_SECONDS)
        self._parts.workers.shutdown(wait=False)
        await loop.run_in_executor(None, self._replica.stop)
        for pool in self._pools.values():
            pool.close()
        if self._page is not None:
            await self._page.close()
        await self.monitoring.close()
        self._report.flush()

    def _end(self, context: ClientContext, reason: str) -> None:
        """Close the sessions of a context, with a last checkpoint. It may open others later."""
        options = context.options
        for session in context.sessions:
            try:
                checkpoints.close_session(session, reason, options.checkpoint_root, tree=options.page_tree)
            except AdjournError as error:
                self._report.event("checkpoint.failed", str(error))
        context.close(reason)


async def _plain(
    send: Send, status: int, text: str, more: tuple[tuple[bytes, bytes], ...] = (_TEXT,)
) -> None:
    body = text.encode()
    headers = [(b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
