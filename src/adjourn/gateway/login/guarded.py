"""Where a login may send requests, and what comes back of them at most.

The addresses come from servers: the MCP server names its authorization server, that one its endpoints. They lead over https, and to this
machine only where the MCP server itself is here; else a server could have us ask, and tell, programs that listen on loopback.

Owns: these bounds. Must never: follow a redirect; the SDK does, within an origin.
"""

from __future__ import annotations

import httpx2

from adjourn.errors import RefusedError
from adjourn.gateway.login.kept import is_loopback

MAX_BYTES = 1024 * 1024
SECONDS = 30.0


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Requests for a login at the MCP server of `url`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        check_address(str(request.url), self._url)
        answer = await self._inner.handle_async_request(request)
        try:
            body = await _read(answer, request.url.host)
        finally:
            await answer.aclose()
        return httpx2.Response(answer.status_code, headers=answer.headers, content=body, request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(answer: httpx2.Response, host: str) -> bytes:
    """The body of an answer, within bounds. Raises `RefusedError`."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return b""  # of a server that wants no login: it would not end
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(f"{host} compresses what was asked for uncompressed", "tell its operator")
    parts, size = [], 0
    async for part in answer.aiter_raw():
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise RefusedError(
                f"the answer of {host} is longer than {MAX_BYTES:,} bytes", "tell its operator"
            )
    return b"".join(parts)


def check_address(address: str, url: str) -> None:
    """Raise `RefusedError` for an address that a login at the server of `url` must not lead to."""
    parts = httpx2.URL(address)
    local = is_loopback(address)
    if parts.userinfo or parts.scheme not in ("http", "https"):
        raise RefusedError(f"the server leads to {shown(address)}, no plain https address", "do not log in")
    if local and not is_loopback(url):
        raise RefusedError(f"{url} leads to {shown(address)} on this machine", "do not log in")
    if parts.scheme == "http" and not local:
        raise RefusedError(
            f"{shown(address)} would get secrets without encryption", "ask its operator for https"
        )


def shown(address: str) -> str:
    """An address of a server without what may be secret in it."""
    return str(httpx2.URL(address).copy_with(userinfo=b"", query=None, fragment=None))[:200]


def client(url: str) -> httpx2.AsyncClient:
    """For all requests of a login at the server of `url`."""
    return httpx2.AsyncClient(
        transport=GuardedTransport(url), timeout=SECONDS, headers={"accept-encoding": "identity"}
    )
