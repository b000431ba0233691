"""Who asks, before anything that the gateway serves to clients, by the ways that are configured.

A request with an Authorization header is who that says, or nobody; without one it is whom a trusted proxy names. No way is tried after
one that failed.

Owns: this order, the challenges. Must never: let a request pass without a principal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from adjourn.errors import AdjournError
from adjourn.gateway.api_keys import KEY, KeyRing, NameRegister, bearer_named
from adjourn.gateway.replies import Scope
from adjourn.gateway.settings import AuthSettings
from adjourn.policy.principal import Principal
from adjourn.store.base import Store

if TYPE_CHECKING:
    from adjourn.gateway.tokens import Tokens
from ipaddress import ip_address, ip_network

import msgspec

from adjourn.gateway.settings import ForwardedSettings, OAuthSettings


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


class AuthenticatorResources(NamedTuple):
    """What an authenticator works with: the store that has the keys, the secret that seals them, a clock (milliseconds), threads that may
    wait, and who hears of errors.
    """

    store: Store
    secret: bytes
    clock: Callable[[], int]
    workers: Executor
    on_error: Callable[[str], None]
    verified: Callable[[Principal, str], None] | None = None
    """Hears which token a principal has shown."""


class Authenticator:
    """The ways of one gateway."""

    def __init__(self, settings: AuthSettings, resources: AuthenticatorResources) -> None:
        self.settings = settings
        self._resources = resources
        self._ring = KeyRing(resources.store, resources.secret, resources.clock) if settings.keys else None
        self._looking = asyncio.Lock()
        self._names = NameRegister(
            resources.store, resources.secret, partial(bearer_named, resources.store, resources.secret)
        )
        self._forwarded = ForwardedIdentity(settings.proxy) if settings.proxy is not None else None
        self._resource: ProtectedResource | None = None
        self._tokens: dict[str, Tokens] = {}
        """By the issuer."""
        if settings.oauth is not None:
            from adjourn.gateway.tokens import Issuer, Tokens  # 11 MiB, only where tokens are taken

            self._resource = ProtectedResource(settings.oauth, settings.issuers)
            for oauth in settings.all_issuers:
                issuer = Issuer(oauth, resources.workers, resources.on_error)
                self._tokens[oauth.issuer] = Tokens(oauth, issuer, resources.clock, self._named)

    def metadata(self, path: str) -> bytes | None:
        """What clients learn of the issuer at an address, if anything: anybody may ask for it."""
        return self._resource.metadata(path) if self._resource is not None else None

    async def authenticate(self, scope: Scope) -> Principal | Challenge:
        """Who sent a request."""
        path, headers = scope["path"], scope["headers"]
        credentials = [value for name, value in headers if name == b"authorization"]
        if credentials:
            kind, _, credential = credentials[0].partition(b" ")
            if len(credentials) > 1 or kind.lower() != b"bearer":
                return self._challenge(path, "invalid_request", "there must be one bearer token")
        try:
            if credentials:
                return await self._bearer(credential.decode("ascii").strip(), path)
            if self._forwarded is not None:
                peer = scope.get("client") or ("",)
                forwarded = self._forwarded.find(headers, str(peer[0]))
                if forwarded is not None:
                    return await self._named(forwarded)
        except UnicodeDecodeError:
            return self._challenge(path, "invalid_token", "the token is not valid")
        except AdjournError as error:
            self._resources.on_error(str(error))
            return Challenge(503, "who asks cannot be looked up now. Retry later.")
        return self._challenge(path)

    async def _named(self, principal: Principal) -> Principal:
        """The principal, by a name that is its own. Raises `StoreError`."""
        named = self._names.known(principal)
        if named is None:
            loop = asyncio.get_running_loop()
            named = await loop.run_in_executor(self._resources.workers, self._names.look_up, principal)
        return named

    async def _bearer(self, credential: str, path: str) -> Principal | Challenge:
        if self._ring is not None and (KEY.fullmatch(credential) or not self._tokens):
            if self._ring.is_due(credential):
                async with self._looking:
                    if self._ring.is_due(credential):  # else another request has looked meanwhile
                        loop = asyncio.get_running_loop()
                        await loop.run_in_executor(self._resources.workers, self._ring.look)
            bearer = self._ring.find(credential)
            return bearer or self._challenge(path, "invalid_token", "the key is not valid")
        if not self._tokens or self._resource is None:
            return self._challenge(path, "invalid_token", "this gateway accepts no tokens")
        tokens = next(iter(self._tokens.values()))
        if len(self._tokens) > 1:
            from adjourn.gateway.tokens import claimed_issuer

            claimed = self._tokens.get(claimed_issuer(credential)) or self._of_opaque(credential)
            if claimed is None:
                return self._challenge(path, "invalid_token", "the token is of no issuer that this gateway accepts")
            tokens = claimed  # which takes a token of its own issuer alone
        verified = await tokens.bearer(credential, self._resource.audiences(path, tokens.settings))
        if isinstance(verified, Principal):
            if self._resources.verified is not None:
                self._resources.verified(verified, credential)
            return verified
        return self._challenge(path, verified.error, verified.why)

    def _of_opaque(self, credential: str) -> Tokens | None:
        """The one issuer that is asked about tokens that name none. A JSON Web Token of another one is not shown to it."""
        from adjourn.gateway.tokens import is_web_token

        asked = (tokens for tokens in self._tokens.values() if tokens.settings.introspection is not None)
        return None if is_web_token(credential) else next(asked, None)

    def _challenge(self, path: str, error: str = "", why: str = "") -> Challenge:
        if self._resource is not None:
            header = self._resource.challenge(path, error, why)
        else:
            header = 'Bearer realm="adjourn"' + (f', error="{error}"' if error else "")
        status = 403 if error == "insufficient_scope" else 400 if error == "invalid_request" else 401
        text = f"authentication is required{': ' * bool(why)}{why}. Send a valid key or token as a bearer token."
        return Challenge(status, text, header)


# --- metadata for clients about the accepted issuer

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MAX_PATH = 200


class ProtectedResource:
    """The gateway as a protected resource."""

    def __init__(self, settings: OAuthSettings, further: Sequence[OAuthSettings] = ()) -> None:
        self._settings = settings
        self._issuers = [settings.issuer, *(each.issuer for each in further)]
        self._base = settings.resource.rstrip("/")

    def metadata(self, path: str) -> bytes | None:
        """The answer at an address; None for one that has no metadata."""
        if not (path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/")) or len(path) > MAX_PATH:
            return None
        about = {
            "resource": self._base + path.removeprefix(WELL_KNOWN).rstrip("/"),
            "authorization_servers": self._issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": "adjourn gateway",
        }
        if self._settings.scopes:
            about["scopes_supported"] = list(self._settings.scopes)
        return msgspec.json.encode(about)

    def audiences(self, path: str, settings: OAuthSettings) -> frozenset[str]:
        """Whom a token of an issuer must be for that is shown at a path."""
        base, path = self._base, path.rstrip("/")
        return frozenset((base, f"{base}/", f"{base}{path}", *settings.audience))

    def challenge(self, path: str, error: str = "", why: str = "") -> str:
        """The value of WWW-Authenticate. `error` is a code of RFC 6750, `why` a text without quotes."""
        is_plain = path.isascii() and path.isprintable() and not set(path) & set('"\\ ')
        suffix = path.rstrip("/") if len(path) <= MAX_PATH - len(WELL_KNOWN) and is_plain else ""
        members = [("resource_metadata", f"{self._base}{WELL_KNOWN}{suffix}")]
        if self._settings.scopes:
            members.append(("scope", " ".join(self._settings.scopes)))
        if error:
            members += [("error", error), ("error_description", why)]
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in members)


# --- an identity that a proxy in front has checked, as by a client's TLS certificate, and passes in a header

MAX_IDENTITY = 512
MAX_GROUPS = 64
RawHeaders = list[tuple[bytes, bytes]]


class ForwardedIdentity:
    """Reads the headers of one proxy."""

    def __init__(self, settings: ForwardedSettings) -> None:
        self._settings = settings
        self._networks = [ip_network(address) for address in settings.trusted]

    def is_trusted(self, peer: str) -> bool:
        """Whether a connection comes from the proxy. `peer` is the address that the socket says."""
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._networks)

    def find(self, headers: RawHeaders, peer: str) -> Principal | None:
        """Whom the proxy names; None where it names nobody, or the headers are not its own."""
        if not self.is_trusted(peer):
            return None
        settings = self._settings
        name = _one(headers, settings.header)
        groups = _one(headers, settings.groups) if settings.groups else ""
        if not name or groups is None:
            return None
        listed = tuple(dict.fromkeys(filter(None, (group.strip() for group in groups.split(",")))))
        if len(listed) > MAX_GROUPS:
            return None
        return Principal(id=f"proxy:{name}", name=name, type=settings.type, groups=listed)


def _one(headers: RawHeaders, name: str) -> str | None:
    """The only value of a header, "" where it is not there; None for several, or what is no text of a usual length."""
    values = [value for key, value in headers if key == name.encode()]
    if len(values) > 1:
        return None
    try:
        text = values[0].decode().strip() if values else ""
    except UnicodeDecodeError:
        return None
    return text if len(text) <= MAX_IDENTITY and text.isprintable() else None
