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
from adjourn.gateway.auth.settings import AuthSettings, NameRegister
from adjourn.policy.principal import Principal
from adjourn.store.base import Store

if TYPE_CHECKING:
    from adjourn.gateway.auth.tokens import Tokens
import hmac
import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from ipaddress import ip_address, ip_network
from secrets import token_urlsafe
from time import monotonic
from typing import Literal

import msgspec

from adjourn.errors import ConflictError, InvalidError, NotFoundError, StoreError
from adjourn.gateway.auth.settings import ForwardedSettings, OAuthSettings, first_named
from adjourn.host import clock as ids


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
            from adjourn.gateway.auth.tokens import (
                Issuer,  # 11 MiB, only where tokens are taken
                Tokens,
            )

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


# --- what clients learn of the issuer whose tokens the gateway takes

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MAX_PATH = 200


class Resource:
    """The gateway as a protected resource."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self._base = settings.resource.rstrip("/")

    def metadata(self, path: str) -> bytes | None:
        """The answer at an address; None for one that has no metadata."""
        if not (path == WELL_KNOWN or path.startswith(f"{WELL_KNOWN}/")) or len(path) > MAX_PATH:
            return None
        about = {
            "resource": self._base + path.removeprefix(WELL_KNOWN).rstrip("/"),
            "authorization_servers": [self._settings.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "adjourn gateway",
        }
        if self._settings.scopes:
            about["scopes_supported"] = list(self._settings.scopes)
        return msgspec.json.encode(about)

    def audiences(self, path: str) -> frozenset[str]:
        """Whom a token must be for that is shown at a path."""
        base, path = self._base, path.rstrip("/")
        return frozenset((base, f"{base}/", f"{base}{path}", *self._settings.audience))

    def challenge(self, path: str, error: str = "", why: str = "") -> str:
        """The value of WWW-Authenticate. `error` is a code of RFC 6750, `why` a text without quotes."""
        shown = path.rstrip("/") if len(path) <= MAX_PATH - len(WELL_KNOWN) and _is_plain(path) else ""
        members = [("resource_metadata", f"{self._base}{WELL_KNOWN}{shown}")]
        if self._settings.scopes:
            members.append(("scope", " ".join(self._settings.scopes)))
        if error:
            members += [("error", error), ("error_description", why)]
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in members)


def _is_plain(path: str) -> bool:
    return path.isascii() and path.isprintable() and not set(path) & set('"\\ ')


# --- an identity that a proxy in front has checked, as by a client's TLS certificate, and passes in a

MAX_IDENTITY = 512
MAX_GROUPS = 64
RawHeaders = list[tuple[bytes, bytes]]


class Forwarded:
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
        listed = tuple(dict.fromkeys(filter(None, (one.strip() for one in groups.split(",")))))
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


# --- API keys

PREFIX = "api-key/"
KEY = re.compile(r"adj_([0-9a-z]{10})_([A-Za-z0-9_-]{43})")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
DAY = 86_400_000
MAX_KEYS = 100_000
LOOK_SECONDS = 1.0
"""How long a key that was revoked may still be used."""
NEW_KEY_SECONDS = 0.1
"""How long a new key may not be known yet, and how often requests with keys that do not exist have the store looked at."""
KEPT_SECONDS = 30.0
"""How long the keys are still known that were there before the store failed."""


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a key. Times are in milliseconds; `principal` is random, `digest` that of the secret."""

    id: str
    name: str
    type: Literal["human", "service"]
    groups: tuple[str, ...]
    principal: str
    created: int
    expires: int
    digest: str

    @property
    def bearer(self) -> Principal:
        """Whose key it is."""
        return Principal(id=f"key:{self.principal}", name=self.name, type=self.type, groups=self.groups)


class NewKey(NamedTuple):
    """A key that was made, and its text, which nobody can see again."""

    key: ApiKey
    text: str


class KeyWish(NamedTuple):
    """What a key is to be like; it ends after so many `days`."""

    name: str
    type: Literal["human", "service"] = "service"
    groups: tuple[str, ...] = ()
    days: int = 90


def add_key(store: Store, secret: bytes, wish: KeyWish, now: int) -> NewKey:
    """Make a key and keep its digest. `now` is in milliseconds. Raises `InvalidError` for a name of it or a group that cannot be one,
    and for a name that is somebody else's.
    """
    for name in (wish.name, *wish.groups):
        if NAME.fullmatch(name) is None:
            raise InvalidError(
                f"{name[:80]!r} is not a name", "use letters, digits, dots, dashes, underscores and @"
            )
    if first_named(store, secret, wish.type, wish.name):
        raise InvalidError(
            f"the name {wish.name} is that of somebody who authenticated without a key", "use another name"
        )
    there = keys_of(store, secret)
    if len(there) >= MAX_KEYS:
        raise InvalidError(f"there are {MAX_KEYS:,} keys", "revoke those that are not used")
    same = next((key.principal for key in there if (key.name, key.type) == (wish.name, wish.type)), "")
    text = token_urlsafe(32)
    key = ApiKey(
        id=ids.short(10),
        name=wish.name,
        type=wish.type,
        groups=wish.groups,
        principal=same or ids.short(16),
        created=now,
        expires=now + wish.days * DAY,
        digest=sha256(text.encode()).hexdigest(),
    )
    stored = msgspec.json.encode(key).decode()
    name = f"{PREFIX}{key.id}"
    store.swap(name, f"{_seal(secret, name, stored)}:{stored}", expect=None)
    return NewKey(key, f"adj_{key.id}_{text}")


def keys_of(store: Store, secret: bytes) -> list[ApiKey]:
    """The keys of a store, also those that have ended, in the order they were made in."""
    found = (_read(secret, name, value) for name, value in store.refs(PREFIX).items())
    return sorted((key for key in found if key is not None), key=lambda key: (key.created, key.id))


def bearer_named(store: Store, secret: bytes, kind: str, name: str) -> str:
    """The id of the principal whose keys have a type and a name; "" for no key."""
    found = (key.bearer.id for key in keys_of(store, secret) if (key.type, key.name) == (kind, name))
    return next(found, "")


def revoke_key(store: Store, secret: bytes, key_id: str) -> ApiKey:
    """Delete a key, by its id. Raises `NotFoundError`."""
    name = f"{PREFIX}{key_id}"
    value = store.ref(name) if re.fullmatch(r"[0-9a-z]{10}", key_id) else None
    key = _read(secret, name, value) if value is not None else None
    if key is None:
        raise NotFoundError(f"no API key has the id {key_id[:40]!r}", "list them: adjourn api-keys")
    with suppress(ConflictError):  # somebody else has revoked it
        store.swap(name, None, expect=value)
    return key


class KeyRing:
    """The keys of a store, to look up those of requests. Not thread-safe, but `look` may run beside `find`."""

    def __init__(self, store: Store, secret: bytes, clock: Callable[[], int]) -> None:
        self._store = store
        self._secret = secret
        self._clock = clock
        self._known: Mapping[str, ApiKey] = {}
        self._read = self._tried = float("-inf")
        self._failure = ""

    def is_due(self, text: str) -> bool:
        """Whether the store has to be looked at before `find` is asked for a text: one that names a new key is looked for sooner."""
        said = KEY.fullmatch(text)
        is_new = said is not None and said[1] not in self._known
        return monotonic() - self._tried > (NEW_KEY_SECONDS if is_new else LOOK_SECONDS)

    def look(self) -> None:
        """Take in which keys there are, if the store can be read."""
        try:
            self._known = {key.id: key for key in keys_of(self._store, self._secret)}
            self._read = monotonic()
        except AdjournError as error:
            self._failure = str(error)
        self._tried = monotonic()

    def find(self, text: str) -> Principal | None:
        """Whose key a text is; None for what is no key, or one that has ended or was revoked. Raises `StoreError` once the store has failed
        for too long.

        The id is public. All that depends on the secret is compared in constant time, for an id that is not there, too.
        """
        if self._tried - self._read > KEPT_SECONDS:
            raise StoreError(f"the API keys cannot be read: {self._failure}", "retry later")
        said = KEY.fullmatch(text)
        if said is None:
            return None
        key = self._known.get(said[1])
        digest = sha256(said[2].encode()).hexdigest()
        is_right = hmac.compare_digest(digest, key.digest if key is not None else _NOBODYS)
        return key.bearer if key is not None and is_right and key.expires > self._clock() else None


_NOBODYS = "-" * 64


def _read(secret: bytes, name: str, value: str) -> ApiKey | None:
    seal, _, stored = value.partition(":")
    if not hmac.compare_digest(seal.encode(), _seal(secret, name, stored).encode()):
        return None
    try:
        key = msgspec.json.decode(stored, type=ApiKey)
    except msgspec.DecodeError:
        return None
    return key if name == f"{PREFIX}{key.id}" else None


def _seal(secret: bytes, name: str, stored: str) -> str:
    return hmac.digest(secret, f"adjourn/api-key/1:{name}:{stored}".encode(), "sha256").hex()
