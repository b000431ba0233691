"""Logging in at a server, and renewing what is kept of it.

Owns: both, from the first request to what is kept. Must never: log in without a person.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import httpx2
import msgspec
from mcp.client.auth import OAuthFlowError
from mcp.types import LATEST_PROTOCOL_VERSION
from pydantic import ValidationError

from adjourn.errors import AdjournError, NotFoundError, RefusedError, UsageError
from adjourn.gateway.login import kept
from adjourn.gateway.login.browser import BrowserVisit, has_browser
from adjourn.gateway.login.device import DeviceFlow
from adjourn.gateway.login.guarded import client
from adjourn.gateway.login.kept import Login
from adjourn.gateway.login.provider import LoginProvider, Wish, can_reuse, port_of
from adjourn.mcp import frames

_ASKED = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            frames.META_VERSION: LATEST_PROTOCOL_VERSION,
            frames.META_CLIENT: {"name": "adjourn", "version": "1"},
            frames.META_CAPABILITIES: {},
        }
    },
}
"""What is asked so that the server refuses it: it begins no session."""
_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": LATEST_PROTOCOL_VERSION,
    "mcp-method": "server/discover",
}
_DEAD = "invalid_grant"


def log_in(url: str, wish: Wish, say: Callable[[str], None]) -> Login:
    """Have a person log in at a server; returns the login, which is not kept yet. Raises `RefusedError`, `UsageError`."""
    _quiet()
    return asyncio.run(_log_in(kept.canonical(url), wish, say))


async def _log_in(url: str, wish: Wish, say: Callable[[str], None]) -> Login:
    known = kept.read(url)
    visit = BrowserVisit(say, opens_browser=wish.browser and has_browser() and not wish.device)
    port = wish.port or port_of(known)
    if not await visit.listen(port) and (wish.port or not await visit.listen(0)):
        raise UsageError(f"port {wish.port} is in use", "choose another --port")
    if known is not None and (wish.client_id or not can_reuse(known, wish, visit.port)):
        known = None
    try:
        async with client(url) as asking:
            provider = LoginProvider(url, wish, known, visit, DeviceFlow(asking, say))
            body = msgspec.json.encode(_ASKED)
            response = await asking.post(url, content=body, headers=_HEADERS, auth=provider)
    except (OAuthFlowError, ValidationError, ValueError) as error:
        raise RefusedError(
            f"no login at {url}: {str(error)[:300]}", "check the address, or ask the server's operator"
        ) from error
    except httpx2.HTTPError as error:
        raise NotFoundError(
            f"no login at {url}: {str(error)[:200] or type(error).__name__}", "check that the servers run"
        ) from error
    finally:
        visit.close()
    if not provider.wanted_login:
        raise RefusedError(f"{url} asks for no login (HTTP status {response.status_code})", "use it as it is")
    return provider.login()


def renew(url: str, mark: str) -> None:
    """Renew the kept token with this `mark`, if no other process has done it. Raises `RefusedError` where a person must log in.

    A kill between the answer of the authorization server and the file loses a token that it gives once; so whoever calls this does it in
    a process of its own, which nobody kills with the client.
    """
    _quiet()
    with kept.alone(url):
        login = kept.read(url)
        again = f"run: adjourn login {kept.canonical(url)}"
        if login is None:
            raise RefusedError(f"{url} needs a login", again)
        if login.mark != mark:
            return
        if not login.refresh:
            raise RefusedError(f"the login at {url} has ended", again)
        problem, newer = asyncio.run(_renewed(login))
        if newer is not None:
            kept.keep(newer)
        elif problem.startswith(_DEAD):
            kept.keep(msgspec.structs.replace(login, refresh="", expires=time.time() - 1))
            raise RefusedError(f"the login at {url} has ended ({problem})", again)
        else:
            raise NotFoundError(f"the token for {url} is not renewed: {problem}", "try again")


async def _renewed(login: Login) -> tuple[str, Login | None]:
    provider = LoginProvider(login.url, Wish(), login, None, None)
    try:
        async with client(login.url) as asking:
            problem = await provider.renew(login, asking)
    except (OAuthFlowError, ValidationError, httpx2.HTTPError) as error:
        return str(error)[:200] or type(error).__name__, None
    return problem, None if problem else provider.login()


def revoke(login: Login) -> bool:
    """Have the authorization server end a login (RFC 7009); False where it cannot, or does not answer."""
    _quiet()
    endpoint = login.server.get("revocation_endpoint")
    return isinstance(endpoint, str) and asyncio.run(_revoked(login, endpoint))


async def _revoked(login: Login, endpoint: str) -> bool:
    provider = LoginProvider(login.url, Wish(), login, None, None)
    data = {"token": login.refresh or login.access, "client_id": str(login.client.get("client_id", ""))}
    try:
        data, headers = provider.context.prepare_token_auth(data, {})
        async with client(login.url) as asking:
            answer = await asking.post(endpoint, data=data, headers=headers)
    except (OAuthFlowError, AdjournError, httpx2.HTTPError):
        return False
    return answer.status_code == 200


def _quiet() -> None:
    """The SDK logs failures with their traceback, and answers that may have secrets in them."""
    for name in ("mcp", "httpx2", "httpcore2"):
        logging.getLogger(name).disabled = True
    logging.getLogger("mcp.client.auth.oauth2").disabled = True
