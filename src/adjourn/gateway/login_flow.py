"""Logging in at a server with the MCP SDK's OAuth client, and renewing the login.

The SDK does the protocol: discovery, registration, PKCE, the resource indicator, the checks of issuers. Here stand what it asks of its
user (storage, a browser), and a transport that bounds where a login may lead.

Must never: log in without a person.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    create_oauth_metadata_request,
    is_valid_client_metadata_url,
    issuers_match,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, ValidationError

from adjourn.errors import AdjournError, NotFoundError, RefusedError, UsageError
from adjourn.gateway import login_store as kept
from adjourn.gateway.login_browser import BrowserVisit, has_browser
from adjourn.gateway.login_store import Login, is_loopback
from adjourn.mcp import frames

_PROBE = {
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
"""A request that the server refuses without a token; it starts no session."""
_PROBE_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": LATEST_PROTOCOL_VERSION,
    "mcp-method": "server/discover",
}
_ENDED = "invalid_grant"
_BASIC = "client_secret_basic"


@dataclass(frozen=True)
class LoginOptions:
    """What the person says of a login.

    `scope` replaces the rights that the server names. `client_id` is known to the authorization server, or the https URL of the client's
    metadata document. `port` is for the browser's answer (0: any). `issuer` is the only authorization server that may be used.
    """

    scope: str = ""
    client_id: str = ""
    client_secret: str = ""
    port: int = 0
    issuer: str = ""
    browser: bool = True


class _TokensReceived(Exception):  # noqa: N818  # it ends the SDK's flow, and is no error
    """The storage has the tokens: the SDK would repeat the request now, which nobody needs."""


class _Storage:
    """The SDK's storage for one login or one renewal."""

    def __init__(self, client: OAuthClientInformationFull | None, tokens: OAuthToken | None = None) -> None:
        self._client = client
        self._tokens = tokens

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        del tokens  # the provider's context has them
        raise _TokensReceived

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


# --- a login


def log_in(url: str, options: LoginOptions, say: Callable[[str], None]) -> Login:
    """Have a person log in at a server; returns the login, which is not kept yet. Raises `RefusedError`, `UsageError`."""
    _quiet()
    return asyncio.run(_log_in(kept.canonical(url), options, say))


async def _log_in(url: str, options: LoginOptions, say: Callable[[str], None]) -> Login:
    earlier = kept.read(url)
    visit = BrowserVisit(say, opens_browser=options.browser and has_browser())
    port = options.port or port_of(earlier)
    if not await visit.listen(port) and (options.port or not await visit.listen(0)):
        raise UsageError(f"port {options.port} is in use", "choose another --port")
    if earlier is not None and (options.client_id or not can_reuse(earlier, options, visit.port)):
        earlier = None
    metadata = OAuthClientMetadata(client_name="adjourn", redirect_uris=[AnyUrl(visit.redirect_uri)])
    document = options.client_id if is_valid_client_metadata_url(options.client_id) else None
    info = _client_of(earlier)
    given_id = info.client_id if earlier is not None and earlier.is_given_client and info is not None else ""
    if earlier is None and options.client_id and document is None:
        given_id = options.client_id
        info = OAuthClientInformationFull(
            client_id=given_id,
            client_secret=options.client_secret or None,
            token_endpoint_auth_method=None if options.client_secret else "none",
            redirect_uris=metadata.redirect_uris,
        )

    async def ask(address: str) -> None:
        _check_before_asking(provider.context, options.issuer, address)
        _choose_secret_form(provider.context, given_id)
        await visit.ask(address)

    provider = OAuthClientProvider(url, metadata, _Storage(info), ask, visit.answer, document)
    try:
        async with client(url, options.scope) as asking:
            body = msgspec.json.encode(_PROBE)
            response = await asking.post(url, content=body, headers=_PROBE_HEADERS, auth=provider)
    except _TokensReceived:
        return _login_of(provider.context, given_id)
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
    raise RefusedError(f"{url} asks for no login (HTTP status {response.status_code})", "use it as it is")


def _check_before_asking(context: OAuthContext, issuer: str, address: str) -> None:
    """Raise `RefusedError` where the person should not even be asked."""
    if issuer and not issuers_match(_issuer_of(context), issuer):
        raise RefusedError(
            f"{context.server_url} leads to the authorization server {_issuer_of(context)}, not to {issuer}",
            "do not log in, unless you trust that one",
        )
    metadata = context.oauth_metadata
    if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise RefusedError(
            f"the authorization server {metadata.issuer} does not say that it knows PKCE with S256",
            "ask its operator to support it",
        )
    check_address(address, context.server_url)


def _choose_secret_form(context: OAuthContext, given_id: str) -> None:
    """How the secret of a given client is sent: as RFC 8414 has it, by HTTP Basic where nothing else is said."""
    info, metadata = context.client_info, context.oauth_metadata
    if info is not None and info.client_secret and info.client_id == given_id:
        methods = (metadata.token_endpoint_auth_methods_supported if metadata else None) or [_BASIC]
        info.token_endpoint_auth_method = _BASIC if _BASIC in methods else "client_secret_post"


def _issuer_of(context: OAuthContext) -> str:
    return context.auth_server_url or context.get_authorization_base_url(context.server_url)


def _client_of(login: Login | None) -> OAuthClientInformationFull | None:
    if login is None or not login.client:
        return None
    return OAuthClientInformationFull.model_validate(login.client)


def _login_of(context: OAuthContext, given_id: str) -> Login:
    """What is to be kept, once the SDK has the tokens."""
    tokens, info, issuer = context.current_tokens, context.client_info, _issuer_of(context)
    assert tokens is not None
    assert info is not None
    if info.issuer is None:
        info.issuer = issuer
    return Login(
        url=context.server_url,
        issuer=issuer,
        access=tokens.access_token,
        refresh=tokens.refresh_token or "",
        expires=time.time() + tokens.expires_in if tokens.expires_in is not None else 0.0,
        scope=tokens.scope or "",
        client=_plain(info),
        is_given_client=info.client_id == given_id,
        server=_plain(context.oauth_metadata),
        resource=_plain(context.protected_resource_metadata),
    )


def _plain(model: Any) -> dict[str, Any]:
    members: dict[str, Any] = model.model_dump(mode="json", exclude_none=True) if model is not None else {}
    return members


def port_of(login: Login | None) -> int:
    """The port that the kept client is registered with; 0 where there is none."""
    uris = login.client.get("redirect_uris") if login is not None else None
    return urlsplit(uris[0]).port or 0 if uris else 0


def can_reuse(login: Login, options: LoginOptions, port: int) -> bool:
    """Whether the client of an earlier login may ask for this one: authorization servers compare ports and rights with the registration."""
    if login.is_given_client:
        return True
    registered = set(str(login.client.get("scope", "")).split())
    expires = login.client.get("client_secret_expires_at") or 0
    is_fresh = not expires or expires > time.time()
    return port == port_of(login) and is_fresh and set(options.scope.split()) <= registered


# --- the renewal and the end of a login


def renew(url: str, mark: str) -> None:
    """Renew the kept token with this `mark`, if no other process has done it. Raises `RefusedError` where a person must log in.

    A kill between the answer of the authorization server and the file loses a token that it gives once; so whoever calls this does it in
    a process of its own, which nobody kills with the client.
    """
    _quiet()
    with kept.alone(url):
        login = kept.read(url)
        again = f"run: adjourn serve login {kept.canonical(url)}"
        if login is None:
            raise RefusedError(f"{url} needs a login", again)
        if login.mark != mark:
            return
        if not login.refresh:
            raise RefusedError(f"the login at {url} has ended", again)
        problem = asyncio.run(_renew(login))
        if problem.startswith(_ENDED):
            kept.keep(msgspec.structs.replace(login, refresh="", expires=time.time() - 1))
            raise RefusedError(f"the login at {url} has ended ({problem})", again)
        if problem:
            raise NotFoundError(f"the token for {url} is not renewed: {problem}", "try again")


async def _renew(login: Login) -> str:
    """Exchange the refresh token and keep what comes; returns why that failed, "" after a success."""
    provider = _provider_of(login)
    context = provider.context
    context.token_expiry_time = 1.0  # long ago, so that the SDK renews before it sends the request
    if login.server:
        context.oauth_metadata = OAuthMetadata.model_validate(login.server)
    if login.resource:
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)
        context.auth_server_url = login.issuer
    try:
        async with client(login.url) as asking:
            body = msgspec.json.encode(_PROBE)
            await asking.post(login.url, content=body, headers=_PROBE_HEADERS, auth=provider)
    except _TokensReceived:
        info = context.client_info
        given_id = info.client_id if info is not None and login.is_given_client else ""
        kept.keep(_login_of(context, given_id))
        return ""
    except TokenRefusedError as error:
        return error.problem
    except (OAuthFlowError, ValidationError, httpx2.HTTPError) as error:
        return str(error)[:200] or type(error).__name__
    return "the answer cannot be read"


def _provider_of(login: Login) -> OAuthClientProvider:
    """The SDK's client with a kept login; it asks nobody."""
    metadata = OAuthClientMetadata(client_name="adjourn", redirect_uris=[AnyUrl("http://127.0.0.1/callback")])
    tokens = OAuthToken(access_token=login.access, refresh_token=login.refresh or None, scope=login.scope or None)
    return OAuthClientProvider(login.url, metadata, _Storage(_client_of(login), tokens))


def revoke(login: Login) -> bool:
    """Have the authorization server end a login (RFC 7009); False where it cannot, or does not answer."""
    _quiet()
    endpoint = login.server.get("revocation_endpoint")
    return isinstance(endpoint, str) and asyncio.run(_revoke(login, endpoint))


async def _revoke(login: Login, endpoint: str) -> bool:
    context = _provider_of(login).context
    context.client_info = _client_of(login)
    data = {"token": login.refresh or login.access, "client_id": str(login.client.get("client_id", ""))}
    try:
        data, headers = context.prepare_token_auth(data, {})
        async with client(login.url) as asking:
            answer = await asking.post(endpoint, data=data, headers=headers)
    except (OAuthFlowError, AdjournError, httpx2.HTTPError):
        return False
    return answer.status_code == 200


def _quiet() -> None:
    """The SDK logs failures with their traceback, and answers that may have secrets in them."""
    for name in ("mcp", "mcp.client.auth.oauth2", "httpx2", "httpcore2"):
        logging.getLogger(name).disabled = True


# --- where a login may send requests, and what comes back of them at most

MAX_BYTES = 1024 * 1024
REQUEST_SECONDS = 30.0


class TokenRefusedError(RefusedError):
    """The authorization server gave no token. `problem` is its reason, as RFC 6749 has it."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the authorization server gave no token: {problem}",
            "log in again; if that does not help, ask its operator",
        )
        self.problem = problem


class LoginTransport(httpx2.AsyncBaseTransport):
    """Requests for a login at the MCP server of `url`. `scope` are the rights to ask for instead of those that the server names."""

    def __init__(self, url: str, scope: str) -> None:
        self._url = url
        self._scope = scope
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._send(request)
        if request.method == "POST" and request.url == httpx2.URL(self._url):
            return await self._challenge(answer)
        is_for_token = request.method == "POST" and b"grant_type=" in request.content
        if is_for_token and answer.status_code not in (200, 201):
            raise TokenRefusedError(problem_of(answer))
        return answer

    async def _challenge(self, answer: httpx2.Response) -> httpx2.Response:
        """The server's challenge. A server may let this request in and want a login for others: then its metadata say so."""
        is_open = answer.status_code != 401
        for address in build_protected_resource_metadata_discovery_urls(None, self._url) if is_open else ():
            is_open = is_open and (await self._send(create_oauth_metadata_request(address))).status_code != 200
        if is_open:
            return answer
        challenge = answer.headers.get("www-authenticate", "Bearer")
        if self._scope:
            challenge = f'Bearer scope="{self._scope}", {challenge.partition(" ")[2]}'.rstrip(", ")
        return httpx2.Response(401, headers={"www-authenticate": challenge}, request=answer.request)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
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
            raise RefusedError(f"the answer of {host} is longer than {MAX_BYTES:,} bytes", "tell its operator")
    return b"".join(parts)


def check_address(address: str, url: str) -> None:
    """Raise `RefusedError` for an address that a login at the server of `url` must not lead to."""
    parts = httpx2.URL(address)
    local = is_loopback(address)
    if parts.userinfo or parts.scheme not in ("http", "https"):
        raise RefusedError(f"the server leads to {without_secrets(address)}, no plain https address", "do not log in")
    if local and not is_loopback(url):
        raise RefusedError(f"{url} leads to {without_secrets(address)} on this machine", "do not log in")
    if parts.scheme == "http" and not local:
        raise RefusedError(
            f"{without_secrets(address)} would get secrets without encryption", "ask its operator for https"
        )


def without_secrets(address: str) -> str:
    """An address of a server without what may be secret in it."""
    return str(httpx2.URL(address).copy_with(userinfo=b"", query=None, fragment=None))[:200]


def client(url: str, scope: str = "") -> httpx2.AsyncClient:
    """For all requests of a login at the server of `url`."""
    transport, headers = LoginTransport(url, scope), {"accept-encoding": "identity"}
    return httpx2.AsyncClient(transport=transport, timeout=REQUEST_SECONDS, headers=headers)


class _Problem(msgspec.Struct):
    """RFC 6749, section 5.2."""

    error: str = ""
    error_description: str = ""


def problem_of(response: httpx2.Response) -> str:
    """Why an authorization server refused, in its words; of an answer of another form only the status, for it may have secrets."""
    try:
        problem = msgspec.json.decode(response.content, type=_Problem)
    except msgspec.MsgspecError:
        problem = _Problem()
    reason = f"{problem.error}: {problem.error_description}".strip(": ")
    return reason[:300] or f"HTTP status {response.status_code}"
