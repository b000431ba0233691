"""Logging in at a server, and renewing what is kept of it.

Owns: both, from the first request to what is kept. Must never: log in without a person.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
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
from adjourn.gateway.login import kept
from adjourn.gateway.login.consent import GRANT, BrowserVisit, DeviceFlow, check_address, client, has_browser
from adjourn.gateway.login.kept import Login, canonical
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


# --- the SDK's OAuth client, with what a login here adds to it

CHALLENGE = "www-authenticate"
_REFRESH = "refresh_token"
_S256 = "S256"
_OF_AUTHORIZATION_SERVER = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_BASIC = "client_secret_basic"


@dataclass(frozen=True)
class Wish:
    """What the person said of a login: rights instead of those that the server names, a client that is known to the authorization server
    (an https URL: that of its metadata document), a port for the browser's answer, the only authorization server (`issuer`) that may be used.
    """

    scope: str = ""
    client_id: str = ""
    client_secret: str = ""
    port: int = 0
    issuer: str = ""
    device: bool = False
    browser: bool = True


class _Device(msgspec.Struct):
    """What authorization server metadata says of the device flow (RFC 8628, section 4)."""

    device_authorization_endpoint: str = ""


class NothingKept:
    """The SDK's storage: what is kept is read before and written after."""

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """`login` has them."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """`login` has it."""


class LoginProvider(OAuthClientProvider):
    """The client of one login. `visit` and `device` ask the person; without them it only renews what is kept."""

    def __init__(
        self, url: str, wish: Wish, kept: Login | None, visit: BrowserVisit | None, device: DeviceFlow | None
    ) -> None:
        document = wish.client_id if is_valid_client_metadata_url(wish.client_id) else None
        metadata = OAuthClientMetadata(
            client_name="adjourn",
            redirect_uris=[AnyUrl(visit.redirect_uri if visit else "http://127.0.0.1/callback")],
            grant_types=["authorization_code", _REFRESH, *([GRANT] if device and wish.device else [])],
        )
        super().__init__(
            canonical(url),
            metadata,
            NothingKept(),
            visit.ask if visit else None,
            visit.answer if visit else None,
            document,
        )
        self._wish = wish
        self._device = device
        self._device_endpoint = ""
        self._initialized = True
        self._given = "" if document else wish.client_id
        """The id of the client that the user named."""
        self.wanted_login = False
        """Whether the server refused a request without a token."""
        if kept is not None:
            self._take_kept(kept, renews=visit is None)
        elif self._given:
            self.context.client_info = OAuthClientInformationFull(
                client_id=wish.client_id,
                client_secret=wish.client_secret or None,
                token_endpoint_auth_method=None if wish.client_secret else "none",
                redirect_uris=metadata.redirect_uris,
            )

    def _take_kept(self, kept: Login, *, renews: bool) -> None:
        """Take the client of an earlier login; a login finds its servers again, a renewal uses those that are known."""
        context = self.context
        if kept.client:
            context.client_info = OAuthClientInformationFull.model_validate(kept.client)
            self._given = context.client_info.client_id if kept.is_given_client else ""
        if kept.server and renews:
            context.oauth_metadata = OAuthMetadata.model_validate(kept.server)
        if kept.resource and renews:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(kept.resource)
            context.auth_server_url = kept.issuer

    # --- a login

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's flow, without the last step, which repeats the request."""
        flow = super()._auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield outgoing
                if outgoing is request:
                    is_open = response.status_code != 401
                    for url in build_protected_resource_metadata_discovery_urls(None, str(request.url)):
                        if is_open:  # for this request; the server may want a login for others
                            is_open = (yield create_oauth_metadata_request(url)).status_code != 200
                    if is_open:
                        return
                    self.wanted_login = True
                    response = self._challenge(response)
                self._note_device(response)
                outgoing = await flow.asend(response)
                if outgoing is request:
                    return
        finally:
            await flow.aclose()

    def _challenge(self, response: httpx2.Response) -> httpx2.Response:
        """The challenge, as if it asked for the rights that the person named."""
        challenge = response.headers.get(CHALLENGE, "Bearer")
        if self._wish.scope:
            challenge = f'Bearer scope="{self._wish.scope}", {challenge.partition(" ")[2]}'.rstrip(", ")
        return httpx2.Response(401, headers={CHALLENGE: challenge}, request=response.request)

    def _note_device(self, response: httpx2.Response) -> None:
        path = response.request.url.path
        if response.status_code != 200 or not any(name in path for name in _OF_AUTHORIZATION_SERVER):
            return
        try:
            found = msgspec.json.decode(response.content, type=_Device)
        except msgspec.MsgspecError:
            return
        self._device_endpoint = found.device_authorization_endpoint or self._device_endpoint

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return next((one for one in advertised if issuers_match(one, self._wish.issuer)), advertised[0])

    async def _perform_authorization(self) -> httpx2.Request:
        """Ask the person; returns the request for the token."""
        metadata = self.context.oauth_metadata
        if self._wish.issuer and not issuers_match(self._expected_issuer(), self._wish.issuer):
            raise RefusedError(
                f"{self.context.server_url} leads to the authorization server {self._expected_issuer()}, not to {self._wish.issuer}",
                "do not log in, unless you trust that one",
            )
        if metadata is not None and _S256 not in (metadata.code_challenge_methods_supported or ()):
            raise RefusedError(
                f"the authorization server {metadata.issuer} does not say that it knows PKCE with S256",
                "ask its operator to support it",
            )
        self._choose_secret_form()
        if self._device is not None and self._wants_device():
            check_address(self._device_endpoint, self.context.server_url)
            return await self._device.begin(self.context, self._device_endpoint, self._get_token_endpoint())
        if metadata is not None:
            check_address(str(metadata.authorization_endpoint), self.context.server_url)
        return await super()._perform_authorization()

    def _choose_secret_form(self) -> None:
        """How the secret of a given client is sent: as RFC 8414 has it, by HTTP Basic where nothing else is said."""
        info, metadata = self.context.client_info, self.context.oauth_metadata
        if info is not None and info.client_secret and info.client_id == self._given:
            known = (metadata.token_endpoint_auth_methods_supported if metadata else None) or [_BASIC]
            info.token_endpoint_auth_method = _BASIC if _BASIC in known else "client_secret_post"

    def _wants_device(self) -> bool:
        if self._wish.device and not self._device_endpoint:
            raise RefusedError("the authorization server has no device flow", "leave out --device")
        return self._wish.device

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        if self._device is not None and self._wish.device:
            response = await self._device.wait(response)
        if response.status_code not in (200, 201):
            raise RefusedError(
                f"the authorization server gave no token: {problem_of(response)}",
                "log in again; if that does not help, ask its operator",
            )
        await super()._handle_token_response(response)

    # --- the renewal of a token

    async def renew(self, kept: Login, client: httpx2.AsyncClient) -> str:
        """Exchange the refresh token; returns the error of the authorization server, "" after a success."""
        self.context.current_tokens = OAuthToken(
            access_token=kept.access, refresh_token=kept.refresh, scope=kept.scope or None
        )
        response = await client.send(await self._refresh_token())
        if response.status_code != 200:
            return problem_of(response)
        return "" if await self._handle_refresh_response(response) else "the answer cannot be read"

    # --- what is kept of it

    def login(self) -> Login:
        """What is to be kept. Only after a success."""
        context = self.context
        tokens, info = context.current_tokens, context.client_info
        assert tokens is not None
        assert info is not None
        issuer = self._expected_issuer()
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
            is_given_client=info.client_id == self._given,
            server=_plain(context.oauth_metadata),
            resource=_plain(context.protected_resource_metadata),
        )


def _plain(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = model.model_dump(mode="json", exclude_none=True) if model is not None else {}
    return found


class _Problem(msgspec.Struct):
    """RFC 6749, section 5.2."""

    error: str = ""
    error_description: str = ""


def problem_of(response: httpx2.Response) -> str:
    """Why an authorization server refused, in its words; of an answer of another form only the status, for it may have secrets."""
    try:
        found = msgspec.json.decode(response.content, type=_Problem)
    except msgspec.MsgspecError:
        found = _Problem()
    said = f"{found.error}: {found.error_description}".strip(": ")
    return said[:300] or f"HTTP status {response.status_code}"


def port_of(kept: Login | None) -> int:
    """The port that the kept client is registered with; 0 where there is none."""
    uris = kept.client.get("redirect_uris") if kept is not None else None
    return urlsplit(uris[0]).port or 0 if uris else 0


def can_reuse(kept: Login, wish: Wish, port: int) -> bool:
    """Whether the client of an earlier login may ask for this one: authorization servers compare ports and rights with the registration."""
    if kept.is_given_client:
        return True
    registered = set(str(kept.client.get("scope", "")).split())
    expires = kept.client.get("client_secret_expires_at") or 0
    is_fresh = not expires or expires > time.time()
    has_grant = not wish.device or GRANT in kept.client.get("grant_types", ())
    return port == port_of(kept) and is_fresh and has_grant and set(wish.scope.split()) <= registered
