"""What the gateway asks authorization servers itself: what a token says (RFC 7662), and a token for a server in exchange for a client's
(RFC 8693).

Owns: these requests, and the tokens that are kept for them, in memory alone. Must never: take an answer that is not a clear yes, or show
a token to anything but the authorization server of the settings; a server gets what it was exchanged for.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote_plus, urlencode

import msgspec

from adjourn.errors import AdjournError, StoreError, UsageError
from adjourn.gateway.http_pool import Credentials, Headers, UnreachableError
from adjourn.gateway.settings import ClientSettings, ExchangeSettings, IntrospectionSettings
from adjourn.host.http import UnansweredError, exchange
from adjourn.policy.principal import Principal

MAX_BYTES = 256 * 1024
MAX_TOKEN = 16 * 1024
MAX_KEPT = 10_000
ASK_SECONDS = 5.0
MAX_ASKED = 4
"""Tokens that are asked about at the same time: whoever sends wrong ones leaves the gateway's threads to others."""
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  # a type, no secret
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class TokenEndpoint:
    """An endpoint of an authorization server, and the secret of the gateway there. Raises `UsageError` for a variable without a value."""

    def __init__(self, settings: ClientSettings, environment: Mapping[str, str]) -> None:
        secret = environment.get(settings.secret_env, "")
        if not secret:
            raise UsageError(
                f"the variable {settings.secret_env[:80]} has no secret for {settings.url}",
                "set it where the gateway is started",
            )
        self._url = settings.url
        pair = f"{quote_plus(settings.client)}:{quote_plus(secret)}"
        self._headers = {
            "Authorization": f"Basic {b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    async def ask(self, form: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """The status and the members of an answer. Raises `StoreError` for none that can be read."""
        try:
            status, body = await asyncio.to_thread(
                exchange, "POST", self._url, urlencode(form).encode(), MAX_BYTES, ASK_SECONDS, headers=self._headers
            )
            return status, msgspec.json.decode(body, type=dict[str, Any])
        except (UnansweredError, AdjournError, msgspec.MsgspecError, ValueError) as error:
            raise StoreError(f"{self._url} gives no answer that can be read: {error}", "retry later") from error


# --- what a token says that is no JSON Web Token


class Introspection:
    """What the issuer says of its tokens."""

    def __init__(self, settings: IntrospectionSettings, environment: Mapping[str, str]) -> None:
        self.seconds = settings.seconds
        self._endpoint = TokenEndpoint(settings, environment)
        self.asking = asyncio.Semaphore(MAX_ASKED)

    async def claims(self, token: str) -> Mapping[str, Any] | None:
        """The claims of an active token, None for another. Raises `StoreError` where that is not known."""
        status, said = await self._endpoint.ask({"token": token, "token_type_hint": "access_token"})
        if status != 200:
            raise StoreError(
                f"the issuer refuses to tell of tokens: HTTP status {status}", "check client and secret_env"
            )
        return said if said.get("active") is True else None


# --- a token for a server in exchange for a client's

MARGIN = 30.0
"""Seconds before its end at which a token is used no longer."""
USUAL_SECONDS, MOST_SECONDS = 60.0, 3600.0
"""How long a token is used for which no end is said, and any at the most."""
RETRY_SECONDS = 5.0
"""How long a refusal is kept. A token that a server refuses so soon after it was made is not exchanged again."""


class ClientTokens:
    """The newest verified token of each principal, where a server `is_wanting` them."""

    def __init__(self) -> None:
        self.is_wanting = False
        self._tokens: OrderedDict[str, str] = OrderedDict()

    def keep(self, principal: Principal, token: str) -> None:
        """A principal has shown a token that is valid."""
        if not self.is_wanting:
            return
        self._tokens[principal.id] = token
        self._tokens.move_to_end(principal.id)
        if len(self._tokens) > MAX_KEPT:
            self._tokens.popitem(last=False)

    def of(self, principal: Principal) -> str:
        """The token of a principal; "" for one that has shown none."""
        return self._tokens.get(principal.id, "")


class _Exchanged:
    """What a token was exchanged for, or why it was not."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.headers: Headers = ()
        self.failure = ("", "")
        """Why there is none, for the log and for clients."""
        self.made = self.until = float("-inf")


class TokenExchange:
    """That of one server; `further` headers go with each token."""

    def __init__(
        self, settings: ExchangeSettings, tokens: ClientTokens, further: Credentials, environment: Mapping[str, str]
    ) -> None:
        self._settings = settings
        tokens.is_wanting = True
        self._tokens = tokens
        self._further = further
        self._endpoint = TokenEndpoint(settings, environment)
        self._exchanged: OrderedDict[bytes, _Exchanged] = OrderedDict()
        """By the digest of the client's token."""

    async def for_principal(self, principal: Principal | None) -> _Exchanged:
        """A token for the server that is valid now. Raises `UnreachableError`."""
        token = self._tokens.of(principal) if principal is not None else ""
        if not token:
            raise UnreachableError(
                "this server needs a token of your own: show the gateway an access token in place of a key",
                was_sent=False,
            )
        digest = sha256(token.encode()).digest()
        found = self._exchanged.setdefault(digest, _Exchanged())
        self._exchanged.move_to_end(digest)
        if len(self._exchanged) > MAX_KEPT:
            self._exchanged.popitem(last=False)
        async with found.lock:
            if time.monotonic() >= found.until:
                await self._renew(found, token)
        why, public = found.failure
        if why:
            raise UnreachableError(why, was_sent=False, public=public)
        return found

    async def _renew(self, found: _Exchanged, token: str) -> None:
        settings = self._settings
        form = {
            "grant_type": EXCHANGE,
            "subject_token": token,
            "subject_token_type": ACCESS_TOKEN,
            "requested_token_type": ACCESS_TOKEN,
            "audience": settings.audience,
            "resource": settings.resource,
            "scope": " ".join(settings.scopes),
        }
        began = time.monotonic()
        try:
            status, said = await self._endpoint.ask({name: value for name, value in form.items() if value})
        except StoreError as error:
            self._refuse(found, error.message, "the authorization server of this server does not answer; retry later")
            return
        access = said.get("access_token")
        if status != 200 or not _is_bearer(said, access):
            code = said.get("error")
            what = f"HTTP status {status}, {str(code)[:80] if isinstance(code, str) else 'no bearer token'}"
            public = "the authorization server gives no token for this server in exchange for yours; log in again"
            self._refuse(found, f"the token was not exchanged: {what}", public)
            return
        found.failure = ("", "")
        found.headers = ((b"authorization", f"Bearer {access}".encode()), *await self._further.headers())
        found.made, found.until = began, began + _lifetime(said.get("expires_in"))

    @staticmethod
    def _refuse(found: _Exchanged, why: str, public: str) -> None:
        found.headers, found.failure, found.until = (), (why, public), time.monotonic() + RETRY_SECONDS


def _is_bearer(said: Mapping[str, Any], access: object) -> bool:
    """Whether an answer has an access token that a request may carry."""
    is_token = isinstance(access, str) and 0 < len(access) <= MAX_TOKEN and access.isascii()
    is_one = is_token and str(access).isprintable() and " " not in str(access)
    kind, issued = said.get("token_type"), said.get("issued_token_type", ACCESS_TOKEN)
    return is_one and isinstance(kind, str) and kind.lower() == "bearer" and issued == ACCESS_TOKEN


def _lifetime(seconds: object) -> float:
    """How long a token is used that is valid for so many seconds."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        return USUAL_SECONDS
    return min(float(max(seconds - MARGIN, seconds / 2)), MOST_SECONDS)


class ExchangedToken:
    """The credentials of one principal at a server."""

    def __init__(self, tokens: TokenExchange, principal: Principal | None) -> None:
        self._tokens = tokens
        self._principal = principal
        self._shown: _Exchanged | None = None

    async def headers(self) -> Headers:
        """See `Credentials`."""
        self._shown = await self._tokens.for_principal(self._principal)
        return self._shown.headers

    async def refused(self, used: Headers, status: int, challenge: bytes) -> str:
        """See `Credentials`."""
        del challenge
        shown = self._shown
        if status == 403:
            return "the token that the authorization server gave in exchange for yours lacks the rights for this"
        if shown is not None and shown.headers is used:
            if time.monotonic() < shown.made + RETRY_SECONDS:
                return f"the server refuses the token that was given in exchange for yours (HTTP status {status})"
            shown.until = float("-inf")
        return ""
