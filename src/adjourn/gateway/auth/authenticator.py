"""Who asks, before anything that the gateway serves to clients, by the ways that are configured.

A request with an Authorization header is who that says, or nobody; without one it is whom a trusted proxy names. No way is tried after
one that failed.

Owns: this order, the challenges. Must never: let a request pass without a principal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from adjourn.errors import AdjournError
from adjourn.gateway.asgi import Scope
from adjourn.gateway.auth.api_keys import KEY, KeyRing, bearer_named
from adjourn.gateway.auth.forwarded import Forwarded
from adjourn.gateway.auth.names import NameRegister
from adjourn.gateway.auth.resource import Resource
from adjourn.gateway.auth.settings import AuthSettings
from adjourn.policy import Principal
from adjourn.store import Store

if TYPE_CHECKING:
    from adjourn.gateway.auth.tokens import Tokens


class Challenge(NamedTuple):
    """Why a request may not pass: status, text, and the value of WWW-Authenticate ("" for none)."""

    status: int
    text: str
    header: str = ""

    @property
    def is_unknown(self) -> bool:
        """Whether it could not be looked up who asks."""
        return self.status == 503

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The headers of the answer."""
        return ((b"www-authenticate", self.header.encode()),) if self.header else ()


class AuthenticatorParts(NamedTuple):
    """What an authenticator works with: the store that has the keys, the secret that seals them, a clock (milliseconds), threads that may
    wait, and who hears of errors.
    """

    store: Store
    secret: bytes
    clock: Callable[[], int]
    workers: Executor
    on_error: Callable[[str], None]


class Authenticator:
    """The ways of one gateway."""

    def __init__(self, settings: AuthSettings, parts: AuthenticatorParts) -> None:
        self.settings = settings
        self._parts = parts
        self._ring = KeyRing(parts.store, parts.secret, parts.clock) if settings.keys else None
        self._looking = asyncio.Lock()
        self._names = NameRegister(
            parts.store, parts.secret, partial(bearer_named, parts.store, parts.secret)
        )
        self._forwarded = Forwarded(settings.proxy) if settings.proxy is not None else None
        self._resource: Resource | None = None
        self._tokens: Tokens | None = None
        if settings.oauth is not None:
            from adjourn.gateway.auth.issuer import Issuer  # noqa: PLC0415  # 11 MiB, only where tokens are taken
            from adjourn.gateway.auth.tokens import Tokens  # noqa: PLC0415

            self._resource = Resource(settings.oauth)
            issuer = Issuer(settings.oauth, parts.workers, parts.on_error)
            self._tokens = Tokens(settings.oauth, issuer, parts.clock, self._named)

    def metadata(self, path: str) -> bytes | None:
        """What clients learn of the issuer at an address, if anything: anybody may ask for it."""
        return self._resource.metadata(path) if self._resource is not None else None

    async def authenticate(self, scope: Scope) -> Principal | Challenge:
        """Who sent a request."""
        path, headers = scope["path"], scope["headers"]
        shown = [value for name, value in headers if name == b"authorization"]
        if shown:
            kind, _, credential = shown[0].partition(b" ")
            if len(shown) > 1 or kind.lower() != b"bearer":
                return self._challenge(path, "invalid_request", "one bearer token is wanted")
        try:
            if shown:
                return await self._bearer(credential.decode("ascii").strip(), path)
            if self._forwarded is not None:
                peer = scope.get("client") or ("",)
                found = self._forwarded.find(headers, str(peer[0]))
                if found is not None:
                    return await self._named(found)
        except UnicodeDecodeError:
            return self._challenge(path, "invalid_token", "the token is not valid")
        except AdjournError as error:
            self._parts.on_error(str(error))
            return Challenge(503, "who asks cannot be looked up now; retry later")
        return self._challenge(path)

    async def _named(self, principal: Principal) -> Principal:
        """The principal, by a name that is its own. Raises `StoreError`."""
        found = self._names.known(principal)
        if found is None:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._parts.workers, self._names.look_up, principal)
        return found

    async def _bearer(self, credential: str, path: str) -> Principal | Challenge:
        if self._ring is not None and (KEY.fullmatch(credential) or self._tokens is None):
            if self._ring.is_due(credential):
                async with self._looking:
                    if self._ring.is_due(credential):  # else another request has looked meanwhile
                        loop = asyncio.get_running_loop()
                        await loop.run_in_executor(self._parts.workers, self._ring.look)
            found = self._ring.find(credential)
            return found or self._challenge(path, "invalid_token", "the key is not valid")
        if self._tokens is None or self._resource is None:
            return self._challenge(path, "invalid_token", "tokens are not taken here")
        verified = await self._tokens.bearer(credential, self._resource.audiences(path))
        if isinstance(verified, Principal):
            return verified
        return self._challenge(path, verified.error, verified.why)

    def _challenge(self, path: str, error: str = "", why: str = "") -> Challenge:
        if self._resource is not None:
            header = self._resource.challenge(path, error, why)
        else:
            header = 'Bearer realm="adjourn"' + (f', error="{error}"' if error else "")
        status = 403 if error == "insufficient_scope" else 400 if error == "invalid_request" else 401
        return Challenge(status, f"authentication is required{': ' * bool(why)}{why}", header)
