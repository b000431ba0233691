"""The page for people at an address of the gateway: which requests are for it, and that the gateway's limits hold there, too.

Owns: that address. Must never: know what the page shows; whoever composes the process gives it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from adjourn.gateway.asgi import Receive, Scope, Send
from adjourn.gateway.limits import Throttle
from adjourn.gateway.tenants import Tenants
from adjourn.policy import Principal

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
            headers = [(b"retry-after", str(refusal.seconds).encode()), (b"content-type", b"text/plain")]
            await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
            await send({"type": "http.response.body", "body": refusal.why.encode()})
            return True
        try:
            await self._app(scope, receive, send)
        finally:
            self._throttle.end(client, lasts=lasts)
        return True

    async def close(self) -> None:
        """The gateway ends."""
        await self._app.close()
