"""The gateway's ASGI application: what is asked for, and whether by whom it may be.

    /NAME/mcp           the server NAME
    /NAME/t/TASK/mcp    the same, working on the task TASK
    /mcp, /t/TASK/mcp   all servers together, or the only one
    /healthz, /readyz   whether the process lives, and whether it can work

Owns: these addresses, the check of Host and Origin (a web page in a browser here must not speak to it), the life of the application. Must
never: look into a message.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from adjourn.aex.match import canonical_server
from adjourn.errors import InvalidError, StoreError, sentences
from adjourn.gateway.aggregate.address import SingleAddress
from adjourn.gateway.aggregate.backends import BackendSession
from adjourn.gateway.authenticator import Authenticator, AuthenticatorResources, Challenge
from adjourn.gateway.contexts import CLOSE_SECONDS, ContextKey, Contexts, GatewayContext, Tenants
from adjourn.gateway.endpoint import SESSION, Endpoint, Sender
from adjourn.gateway.exchange import Exchange, ExchangeResources
from adjourn.gateway.group_commit import GroupCommit
from adjourn.gateway.limits import Throttle
from adjourn.gateway.links import HttpLink, LinkUser, ServerLink
from adjourn.gateway.metrics import GatewayState
from adjourn.gateway.monitoring import Monitoring
from adjourn.gateway.replies import OpenStreams, Receive, Scope, Send, answer_text
from adjourn.gateway.routing import GatewayUpstream, Routes, Routing
from adjourn.gateway.settings import AuthSettings, GatewaySettings, ServerSettings, secret_files
from adjourn.gateway.token_requests import ClientTokens
from adjourn.host import keys
from adjourn.host.clock import now
from adjourn.policy.contract import reread_policy
from adjourn.policy.principal import Principal
from adjourn.relay.ports import StderrLog
from adjourn.relay.relay import RelayOptions
from adjourn.tasks.task import check_task_id

if TYPE_CHECKING:
    from adjourn.gateway.authorization import Authorization

WORKERS = 16
TIDY_SECONDS, HEARTBEAT_SECONDS = 0.25, 20.0
_PATH = re.compile(r"(?:/([A-Za-z0-9][A-Za-z0-9_-]{0,63}))?(?:/t/([A-Za-z0-9_.-]{1,100}))?/mcp/?")
_TEXT, _JSON = (b"content-type", b"text/plain; charset=utf-8"), (b"content-type", b"application/json")


class GatewayApp:
    """Serves the settings' servers, until it has others."""

    def __init__(
        self, settings: GatewaySettings, gateway: GatewayContext, report: StderrLog, make_page: PageMaker | None = None
    ) -> None:
        self._report = report
        self.throttle = Throttle(settings.limits)
        looks: dict[str, Callable[[], object]] = {
            "store": partial(gateway.store.ref, "health"),
            "policy": partial(reread_policy, gateway.workspace.root, gateway.contract),
        }
        self.monitoring = Monitoring(settings.metrics, settings.traces, looks, self.throttle, report)
        gateway = self._gateway = gateway._replace(store=self.monitoring.observed(gateway.store))
        self._resources = ExchangeResources(
            ThreadPoolExecutor(WORKERS, "relay"),
            report,
            RelayOptions(meta_tools="always"),
            GroupCommit(self._failed),
            gateway.incidents,
            self.monitoring.of_calls,
        )
        self._tenants = Tenants(gateway.workspace.root, settings.auth.shared if settings.auth else ())
        self._streams = OpenStreams(self._may_stay)
        self._contexts = Contexts(gateway, self._tenants, self._resources.workers, report)
        self._client_tokens = ClientTokens()
        self._routes = Routes(settings, self._upstream, self._authenticator)
        self._keep_secret(settings)
        self._aggregate = SingleAddress(
            self._routing.upstreams.values(),
            self,
            report,
            lambda new: Endpoint(new, self.throttle, streams=self._streams),
        )
        workers = self._resources.workers
        self.monitoring.expose(GatewayState(self._routes.all, self._contexts.all, self.throttle, workers, report))
        self._authorization = self._authorization_at(settings.authorize.listen) if settings.authorize.listen else None
        self._page: PersonPage | None = None
        if make_page is not None:
            page = make_page(self._person, self._tenants)
            self._page = PersonPage(page, settings.page.address[1], self.throttle)

    @property
    def _routing(self) -> Routing:
        return self._routes.now

    def _upstream(self, name: str, settings: ServerSettings) -> GatewayUpstream:
        return GatewayUpstream(name, settings, self._gateway.workspace.tree, self._endpoint_of, self._client_tokens)

    def _endpoint_of(self, upstream: GatewayUpstream) -> Endpoint:
        return Endpoint(partial(self._new, upstream), self.throttle, self.monitoring.tracer, self._streams)

    def _authenticator(self, settings: AuthSettings) -> Authenticator:
        on_error = partial(self._report.event, "auth.error")
        for oauth in settings.all_issuers:
            if not (oauth.provider or oauth.person):
                text = f"each token of {oauth.issuer} is a service's; set provider or person in [auth.oauth] to tell people"
                self._report.event("auth.services", text)
        workers, verified = self._resources.workers, self._client_tokens.keep
        resources = AuthenticatorResources(self._gateway.store, keys.secret(), now, workers, on_error, verified)
        return Authenticator(settings, resources)

    def _keep_secret(self, settings: GatewaySettings) -> None:
        """Have no call read the settings, nor the files with secrets that they name."""
        gateway = self._gateway
        self._contexts.keep_secret((*gateway.secret, *secret_files(settings, gateway.workspace.tree)))

    def change(self, settings: GatewaySettings) -> None:
        """Serve other servers and clients from now on, with other limits. Raises `AdjournError` where that cannot be: then all stays.

        What the process was started with stays in any case: its addresses, who shares tasks, metrics, traces and the form of the log.
        """
        before = self._routing
        self._routes.change(settings)
        self._keep_secret(settings)
        if settings.limits != before.settings.limits:
            self.throttle.change(settings.limits)
        if self._routing.upstreams != before.upstreams:
            self._aggregate.change(self._routing.upstreams.values(), settings.limits.drain_seconds)

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
        path, routing = scope["path"], self._routing
        headers = dict(scope["headers"])
        if not routing.is_host(headers.get(b"host", b"").decode("latin-1")):
            await answer_text(send, 421, b"this Host is not the gateway's: name it in `hosts` of adjourn.toml")
            return
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and not routing.is_host(urlsplit(origin).netloc):
            await answer_text(send, 403, b"this Origin may not use the gateway")
            return
        principal = None
        if routing.authenticator is not None:
            if (about := routing.authenticator.metadata(path)) is not None:
                await answer_text(send, 200, about, (_JSON,))
                return
            sender = await routing.authenticator.authenticate(scope)
            if isinstance(sender, Challenge):
                await answer_text(send, sender.status, sender.text.encode(), (_TEXT, *sender.headers))
                return
            principal = sender
        await self._serve(routing, scope, receive, send, principal)

    async def _serve(
        self, routing: Routing, scope: Scope, receive: Receive, send: Send, principal: Principal | None
    ) -> None:
        """Answer a request of a principal; of None where nobody authenticates."""
        match = _PATH.fullmatch(scope["path"])
        session = next((value for name, value in scope["headers"] if name == SESSION), b"")
        endpoint = self._endpoint(routing, match[1] or "", session, principal) if match is not None else None
        if match is None or endpoint is None:
            addresses = ", ".join(f"/{name}/mcp" for name in routing.upstreams)
            await answer_text(send, 404, f"no server is here. Use {addresses}.".encode())
            return
        task = match[2] or ""
        try:
            if task:
                task = check_task_id(self._tenants.task_named(principal, task))
        except InvalidError as error:
            await answer_text(send, 400, sentences(error.message, error.remedy).encode())
            return
        await endpoint.handle(scope, receive, send, Sender(principal, task))

    def _endpoint(self, routing: Routing, name: str, session: bytes, principal: Principal | None) -> Endpoint | None:
        """Where a request for a server goes ("": for all): to where its session is, else by the settings that it came under."""
        if session:
            begun = session.decode(errors="replace")
            if (ending := self._routes.of_session(name, begun, principal)) is not None:
                return ending
            if not name and (begun, principal) in self._aggregate.endpoint.sessions:
                return self._aggregate.endpoint
        upstream = routing.upstreams.get(name) if name else routing.only
        return upstream.endpoint if upstream is not None else None if name else self._aggregate.endpoint

    async def _may_stay(self, scope: Scope, principal: Principal | None) -> bool | None:
        """Whether the ways that are in force let a request in as a principal's; None where that cannot be looked up now."""
        authenticator = self._routing.authenticator
        sender = await authenticator.authenticate(scope) if authenticator is not None else None
        if isinstance(sender, Challenge):
            return None if sender.is_unknown else False
        return sender == principal

    async def _person(self, scope: Scope) -> Principal | None:
        """Who sent a request to the page, by the ways that are in force. Raises `StoreError` where that cannot be looked up now."""
        authenticator = self._routing.authenticator
        sender = await authenticator.authenticate(scope) if authenticator is not None else None
        if isinstance(sender, Challenge) and sender.is_unknown:
            raise StoreError(sender.text, "retry later")
        return None if isinstance(sender, Challenge) else sender

    # --- exchanges

    def _new(self, upstream: GatewayUpstream, client: str, sender: Sender) -> Exchange:
        shared = self._contexts.context_of(ContextKey(upstream.name, upstream.command, client, sender))
        shared.context.served.hints = upstream.hints
        exchange = Exchange(self._resources, shared.context)
        exchange.connect(self.link(upstream, sender, exchange))
        self._contexts.use(shared, exchange, sender.task)
        return exchange

    def _authorization_at(self, listen: str) -> Authorization:
        from adjourn.gateway.authorization import Authorization, CheckEndpoint  # gRPC, only where it is asked for

        def endpoint(server: str) -> CheckEndpoint:
            return CheckEndpoint(partial(self._new_checked, server), self.throttle)

        return Authorization(listen, endpoint, lambda: self._routing.authenticator, self.throttle, self._report)

    def _new_checked(self, server: str, client: str, sender: Sender) -> Exchange:
        """Decides on messages to a server that another gateway passes on."""
        from adjourn.gateway.authorization import PassingLink

        key = ContextKey(server, f"behind another gateway: {server}", client, sender, sees_outcomes=False)
        shared = self._contexts.context_of(key)
        options = RelayOptions(meta_tools="never", confirm_seconds=None)
        exchange = Exchange(self._resources._replace(options=options), shared.context)
        exchange.connect(PassingLink(exchange))
        self._contexts.use(shared, exchange, sender.task)
        return exchange

    def backend_session(self, upstream: GatewayUpstream | None, client: str, sender: Sender) -> BackendSession:
        """A part of a client's session with all servers; see `address.Servers`."""
        name, command = ("", "") if upstream is None else (upstream.name, upstream.command)
        shared = self._contexts.context_of(ContextKey(name, command, client, sender, names_are_joined=True))
        if upstream is not None:
            shared.context.served.hints = upstream.hints
        listing = "never" if name else "always"  # once a client
        resources = self._resources._replace(options=RelayOptions(meta_tools=listing))
        session = BackendSession(resources, shared.context, canonical_server(name))
        self._contexts.use(shared, session, sender.task)
        return session

    def link(self, upstream: GatewayUpstream, sender: Sender, user: LinkUser) -> ServerLink:
        """A new way to a server, for whoever is behind a client."""
        if upstream.pool is not None:
            return HttpLink(user, upstream.pool, upstream.patience, upstream.credentials_for(sender.principal))
        return upstream.processes.link(user)

    # --- the life

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self._contexts.start()
        if self._authorization is not None:
            await self._authorization.start()
        loop = asyncio.get_running_loop()
        lasting = (self._tidy(), self._streams.watch(), self._contexts.follow_policy())
        tasks = [loop.create_task(work) for work in lasting]
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.throttle.is_leaving = self.throttle.is_draining = True
        for task in tasks:
            task.cancel()
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
                await loop.run_in_executor(self._resources.workers, self._contexts.keep, beats)
                self._contexts.give_back()
                self._routes.end_idle()
                self._aggregate.look_after()
                if beats:
                    for endpoint in self._endpoints():
                        endpoint.expire(self.throttle.limits.session_seconds)
            except Exception as error:  # whatever it is, the leases have to be kept
                self._failed(error)
            self._report.flush()

    def _endpoints(self) -> list[Endpoint]:
        checked = self._authorization.endpoints() if self._authorization is not None else ()
        return [*(upstream.endpoint for upstream in self._routes.all()), self._aggregate.endpoint, *checked]

    def end_requests(self) -> None:
        """Answer what is open with an error, and end streams."""
        for endpoint in self._endpoints():
            endpoint.close("the gateway ended")

    async def _close(self) -> None:
        """End every exchange and session; what was answered is in the store already."""
        self.end_requests()
        if self._authorization is not None:
            await self._authorization.stop(0)
        await self._contexts.close(max(self.throttle.ends, time.monotonic()))
        self._resources.workers.shutdown(wait=False)
        await self._contexts.release()
        upstreams = list(self._routes.all())
        for upstream in upstreams:
            upstream.close()
        await asyncio.gather(*(upstream.processes.left(CLOSE_SECONDS) for upstream in upstreams))
        if self._page is not None:
            await self._page.close()
        await self.monitoring.close()
        self._report.flush()


# --- the page for people at an address of the gateway

Find = Callable[[Scope], Awaitable[Principal | None]]
"""Who sent a request, if anybody that authenticates. Raises `StoreError` where that cannot be looked up now."""
STREAM = "/live"


class WebApp(Protocol):
    """The page."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

    async def close(self) -> None:
        """The gateway ends."""


PageMaker = Callable[[Find, Tenants], WebApp]


class PersonPage:
    """The page on one port."""

    def __init__(self, app: WebApp, port: int, throttle: Throttle) -> None:
        self._app = app
        self._port = port
        self._throttle = throttle

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a request for the page. False for any other."""
        if scope["server"] is None or scope["server"][1] != self._port:
            return False
        client, lasts = f"page {(scope.get('client') or ('',))[0]}", scope["path"] == STREAM
        refusal = self._throttle.message(client) or self._throttle.begin(client, lasts=lasts)
        if refusal is not None:
            await answer_text(send, refusal.status, refusal.why.encode(), (*refusal.headers, _TEXT))
            return True
        try:
            await self._app(scope, receive, send)
        finally:
            self._throttle.end(client, lasts=lasts)
        return True

    async def close(self) -> None:
        """The gateway ends."""
        await self._app.close()
