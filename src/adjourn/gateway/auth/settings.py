"""`[auth]` of adjourn.toml: the ways by which clients of the gateway authenticate.

    [auth]
    keys = true
    shared = ["ops"]

    [auth.oauth]
    issuer = "https://login.example.com"
    resource = "https://gateway.example.com"
    provider = "keycloak"

    [auth.proxy]
    trusted = ["10.0.0.7"]
    header = "x-client-name"

Owns: this form. Must never: reach an issuer.
"""

from __future__ import annotations

import hmac
import re
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from ipaddress import ip_network
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from adjourn.errors import ConflictError, InvalidError
from adjourn.policy.principal import Principal
from adjourn.store.base import Store

_HEADER = re.compile(r"[a-z0-9-]{1,64}")
_TAKEN = frozenset(("authorization", "host", "origin", "cookie", "content-type", "content-length"))
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class PersonSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `claim` that says that a token is a person's, where it is one of `values` or a list with one of them."""

    claim: str
    values: tuple[str, ...]


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer of access tokens. `resource` is the URL under which clients reach the gateway, without a path; tokens are for it, for an
    address below it, or for one of `audience`. A token must have all `scopes`. `keys` is the address of the issuer's signing keys (default:
    what its metadata says). `name` is the claim with the name that is shown, `groups` the one with the groups; a dot leads into an object.
    Clocks may differ by `leeway` seconds.

    A bearer is a service, unless `provider` or `person` tells that it is a person; where both are there, both have to.
    """

    issuer: str
    resource: str
    audience: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    keys: str = ""
    name: str = "preferred_username"
    groups: str = "groups"
    leeway: Annotated[int, Meta(ge=0, le=300)] = 30
    provider: Literal["", "auth0", "entra", "keycloak", "okta"] = ""
    person: PersonSettings | None = None


class ForwardedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A proxy in front that authenticates clients, as by TLS certificates, and says in a `header` who they are.

    Only what comes from a `trusted` address or network counts. `groups` is a header with group names, with commas between.
    """

    trusted: tuple[str, ...]
    header: str
    groups: str = ""
    type: Literal["human", "service"] = "service"


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ways: API `keys`, an issuer of tokens, a proxy in front. Members of a group that is `shared` share their tasks."""

    keys: bool = False
    shared: tuple[str, ...] = ()
    oauth: OAuthSettings | None = None
    proxy: ForwardedSettings | None = None


def check_auth(settings: AuthSettings, source: str) -> None:
    """Raises `InvalidError` for settings that cannot be used, or that authenticate nobody."""
    if not (settings.keys or settings.oauth or settings.proxy):
        raise InvalidError(
            f"{source}: [auth] names no way to authenticate",
            "set keys = true, or add [auth.oauth] or [auth.proxy]",
        )
    if settings.oauth is not None:
        _check_oauth(settings.oauth, source)
    if settings.proxy is not None:
        _check_proxy(settings.proxy, source)


def _check_oauth(oauth: OAuthSettings, source: str) -> None:
    for member, url in (("issuer", oauth.issuer), ("resource", oauth.resource), ("keys", oauth.keys)):
        if url or member != "keys":
            try:
                check_secure(url)
            except InvalidError as error:
                raise InvalidError(
                    f"{source}: {member} of [auth.oauth]: {error.message}", error.remedy
                ) from error
    if urlsplit(oauth.resource).path not in ("", "/") or urlsplit(oauth.resource).query:
        raise InvalidError(
            f"{source}: resource of [auth.oauth] is {oauth.resource[:200]!r}",
            "give the address of the gateway without a path, such as https://gateway.example.com",
        )
    person = oauth.person
    if person is not None and not (person.claim and person.values and all(person.values)):
        raise InvalidError(
            f"{source}: person of [auth.oauth] names no claim or no value",
            'name both, such as person = {claim = "realm_access.roles", values = ["person"]}',
        )


def _check_proxy(proxy: ForwardedSettings, source: str) -> None:
    if not proxy.trusted:
        raise InvalidError(f"{source}: [auth.proxy] trusts no address", "name the proxy's address")
    for address in proxy.trusted:
        try:
            ip_network(address)
        except ValueError as error:
            raise InvalidError(
                f"{source}: trusted of [auth.proxy]: {error}", "give an address, or a network as 10.0.0.0/24"
            ) from error
    for header in filter(None, (proxy.header, proxy.groups)):
        if _HEADER.fullmatch(header) is None or header in _TAKEN or header.startswith("mcp-"):
            raise InvalidError(
                f"{source}: [auth.proxy] cannot use the header {header[:80]!r}",
                "name a header of the proxy's own, in lower case, such as x-client-name",
            )
    if proxy.header in ("", proxy.groups):
        raise InvalidError(f"{source}: [auth.proxy] names no header of its own", "set header")


def check_secure(url: str) -> None:
    """Raises `InvalidError` for what is no https address, or http on this machine."""
    place = urlsplit(url)
    if not place.hostname or place.username or place.fragment:
        raise InvalidError(f"{url[:200]!r} is not an address", "give an https URL")
    if place.scheme != "https" and not (place.scheme == "http" and place.hostname in _LOOPBACK):
        raise InvalidError(
            f"{url[:200]!r} is not protected by TLS", "give an https URL; http is for this machine only"
        )


# --- whose a name is

PREFIX = "named/"
MAX_KEPT = 10_000


class NameRegister:
    """The names of a store's principals. `key_named` returns the principal of the keys of a type and name, "" for none."""

    def __init__(self, store: Store, secret: bytes, key_named: Callable[[str, str], str]) -> None:
        self._store = store
        self._secret = secret
        self._key_named = key_named
        self._known: OrderedDict[Principal, Principal] = OrderedDict()

    def known(self, principal: Principal) -> Principal | None:
        """What an earlier `look_up` found."""
        return self._known.get(principal)

    def look_up(self, principal: Principal) -> Principal:
        """The principal with its name, if that is its own, else with one that no rule can have. Raises `StoreError`."""
        owner = self._key_named(principal.type, principal.name) or self._first(principal)
        other = f"another {principal.name} ({principal.id})"
        found = principal if owner == principal.id else replace(principal, name=other)
        self._known[principal] = found
        if len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)
        return found

    def _first(self, principal: Principal) -> str:
        """The id of whoever came with a name first: this one, if nobody has."""
        ref = _ref(principal.type, principal.name)
        there = self._store.ref(ref)
        if not (found := _owner(self._secret, ref, there)):
            found, value = principal.id, f"{_seal(self._secret, ref, principal.id)}:{principal.id}"
            try:
                self._store.swap(ref, value, expect=there)
            except ConflictError:  # another one came with it just now
                found = _owner(self._secret, ref, self._store.ref(ref))
        return found


def first_named(store: Store, secret: bytes, kind: str, name: str) -> str:
    """The id of the principal that came with a name first, without a key; "" for nobody."""
    ref = _ref(kind, name)
    return _owner(secret, ref, store.ref(ref))


def _owner(secret: bytes, ref: str, value: str | None) -> str:
    """The id that a ref has under a seal; "" for none."""
    seal, _, owner = (value or "").partition(":")
    return owner if hmac.compare_digest(seal.encode(), _seal(secret, ref, owner).encode()) else ""


def _ref(kind: str, name: str) -> str:
    return PREFIX + sha256(f"{kind}:{name}".encode()).hexdigest()


def _seal(secret: bytes, ref: str, owner: str) -> str:
    return hmac.digest(secret, f"adjourn/named/1:{ref}:{owner}".encode(), "sha256").hex()
