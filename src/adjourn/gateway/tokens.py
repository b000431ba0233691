"""Access tokens: JSON Web Tokens that the issuer signed, for this gateway, with the scopes that it wants (RFC 9068, RFC 8725).

In this order: the form, the algorithm, the signature, issuer, times, audience, scopes. A token that was verified is remembered until it
ends or the issuer's keys change.

Owns: what a token must be, and who its bearer is. Must never: take an algorithm that a token chooses for another kind of key.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Executor
from hashlib import sha256
from time import monotonic
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import jwt
import msgspec

from adjourn.errors import AdjournError, StoreError
from adjourn.gateway.settings import OAuthSettings, check_secure
from adjourn.gateway.token_requests import Introspection
from adjourn.host.http import UnansweredError, exchange
from adjourn.policy.principal import Principal

MAX_TOKEN = 16 * 1024
MAX_KEPT = 10_000
MAX_NAME, MAX_GROUPS = 255, 64
_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")


class TokenRefusal(NamedTuple):
    """Why a token is not taken: a code of RFC 6750, and what is wrong in words."""

    error: Literal["invalid_token", "insufficient_scope"]
    why: str


class _Verified(NamedTuple):
    """A verified token: its subject, audience, expiry (seconds) and the version of the keys that verified it."""

    bearer: Principal
    audience: Collection[str]
    scopes: Collection[str]
    ends: float
    version: int


class Tokens:
    """Verifies the tokens of one issuer. `clock` returns milliseconds, `named` the bearer with a name that is its own."""

    def __init__(
        self,
        settings: OAuthSettings,
        issuer: Issuer,
        clock: Callable[[], int],
        named: Callable[[Principal], Awaitable[Principal]],
    ) -> None:
        self.settings = settings
        self._named = named
        self._issuer = issuer
        self._clock = clock
        self._verified_before: OrderedDict[bytes, _Verified] = OrderedDict()
        introspection = settings.introspection
        self._introspection = Introspection(introspection, os.environ) if introspection is not None else None

    async def bearer(self, token: str, audiences: Collection[str]) -> Principal | TokenRefusal:
        """The principal of a token, if it is for one of the `audiences`. Raises `StoreError` where the issuer's keys or
        the names are not known.
        """
        verified = await self._verified(token)
        if isinstance(verified, TokenRefusal):
            return verified
        if not any(audience in audiences for audience in verified.audience):
            return TokenRefusal("invalid_token", "the token is for another resource")
        if missing := [scope for scope in self.settings.scopes if scope not in verified.scopes]:
            return TokenRefusal("insufficient_scope", f"the token lacks the scope {missing[0]}")
        return verified.bearer

    async def _verified(self, token: str) -> _Verified | TokenRefusal:
        digest = sha256(token.encode(errors="replace")).digest()
        if (known := self._known(digest)) is not None:
            return known
        if self._introspection is not None and len(token) <= MAX_TOKEN and not is_web_token(token):
            async with self._introspection.asking:
                verified = self._known(digest) or await self._introspected(token, self._introspection)
        else:
            verified = await self._verify(token)
        if isinstance(verified, _Verified):
            self._verified_before[digest] = verified
            if len(self._verified_before) > MAX_KEPT:
                self._verified_before.popitem(last=False)
        else:
            self._verified_before.pop(digest, None)
        return verified

    def _known(self, digest: bytes) -> _Verified | None:
        known = self._verified_before.get(digest)
        is_current = known is not None and known.version == self._issuer.version
        return known if known is not None and is_current and known.ends > self._clock() / 1000 else None

    async def _introspected(self, token: str, introspection: Introspection) -> _Verified | TokenRefusal:
        claims, settings = await introspection.claims(token), self.settings
        now = self._clock() / 1000
        if claims is None or claims.get("iss", settings.issuer) != settings.issuer:
            return TokenRefusal("invalid_token", "the token is not valid")
        starts, ends = (claims.get(name, otherwise) for name, otherwise in (("nbf", now), ("exp", float("inf"))))
        if not all(isinstance(moment, (int, float)) for moment in (starts, ends)):
            return TokenRefusal("invalid_token", "the token is not valid")
        if starts > now + settings.leeway or ends <= now - settings.leeway:
            return TokenRefusal("invalid_token", "the token has expired, or is not valid yet")
        if str(claims.get("token_type", "bearer")).lower() != "bearer":
            return TokenRefusal("invalid_token", "the token is not a bearer token")
        bearer = bearer_of(claims, settings)
        if bearer is None:
            return TokenRefusal("invalid_token", "the token does not say who its bearer is")
        until = min(ends + settings.leeway, now + introspection.seconds)
        named = await self._named(bearer)
        return _Verified(named, _texts(claims.get("aud")), _scopes(claims), until, self._issuer.version)

    async def _verify(self, token: str) -> _Verified | TokenRefusal:
        settings = self.settings
        if len(token) > MAX_TOKEN:
            return TokenRefusal("invalid_token", "the token is too long")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            return TokenRefusal("invalid_token", "the token is not a JSON Web Token")
        kind, key_id = header.get("typ"), header.get("kid", "")
        if (kind.lower() if isinstance(kind, str) else kind) not in _TYPES or "crit" in header:
            return TokenRefusal("invalid_token", "the token is not an access token")
        if header.get("alg") not in ALGORITHMS:
            return TokenRefusal("invalid_token", "the token is signed with an algorithm that is not accepted")
        key = await self._issuer.key(key_id) if isinstance(key_id, str) else None
        if key is None:
            return TokenRefusal("invalid_token", "the issuer has no key of the token's id")
        version = self._issuer.version
        try:
            claims = jwt.decode(
                token,
                key,
                [header["alg"]],
                {"require": ["exp", "iss", "aud", "sub"], "verify_aud": False},  # the audience depends on the path
                issuer=settings.issuer,
                leeway=settings.leeway,
            )
        except jwt.ExpiredSignatureError:
            return TokenRefusal("invalid_token", "the token has expired")
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return TokenRefusal("invalid_token", "the token is not valid")
        bearer = bearer_of(claims, settings)
        if bearer is None:
            return TokenRefusal("invalid_token", "the token does not say who its bearer is")
        ends = float(claims["exp"]) + settings.leeway
        return _Verified(await self._named(bearer), _texts(claims["aud"]), _scopes(claims), ends, version)


def is_web_token(token: str) -> bool:
    """Whether a token has the form of a JSON Web Token."""
    try:
        jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        return False
    return True


def claimed_issuer(token: str) -> str:
    """The issuer that a token names, which nothing has verified yet; "" for none."""
    if len(token) > MAX_TOKEN:
        return ""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return ""
    issuer = claims.get("iss")
    return issuer if isinstance(issuer, str) else ""


def bearer_of(claims: Mapping[str, Any], settings: OAuthSettings) -> Principal | None:
    """Whom the claims of a token name: its subject, which nobody can choose. None for nobody."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_NAME or not subject.isprintable():
        return None
    label, groups = claim_at(claims, settings.name), _texts(claim_at(claims, settings.groups))
    if len(groups) > MAX_GROUPS:
        return None
    is_label = isinstance(label, str) and 0 < len(label) <= MAX_NAME and label.isprintable()
    return Principal(
        id=f"{settings.issuer} {subject}",
        name=subject,
        type="human" if is_person(claims, settings) else "service",
        groups=tuple(dict.fromkeys(groups)),
        label=str(label) if is_label else subject,
    )


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    scopes: set[str] = set()
    for member in ("scope", "scp"):
        value = claims.get(member)
        scopes.update(value.split(" ") if isinstance(value, str) else _texts(value))
    return frozenset(scopes)


def _texts(value: object) -> list[str]:
    """A text, or the texts of a list."""
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


# --- the signing keys of an OAuth issuer

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
FRESH_SECONDS = 3600.0
"""How long keys are used before the issuer is asked again."""
STALE_SECONDS = 86_400.0
"""How long they are used while the issuer does not answer."""
PAUSE_SECONDS = 30.0
"""How long the issuer is left alone after it was asked, whatever tokens name."""
ASK_SECONDS = 5.0
MAX_BYTES = 256 * 1024
MAX_KEYS = 100
_KINDS = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("EdDSA",)}
"""Accepted types of keys, each with the prefixes of its algorithms."""


class Issuer:
    """One issuer's keys. `on_error` receives why they could not be read."""

    def __init__(self, settings: OAuthSettings, workers: Executor, on_error: Callable[[str], None]) -> None:
        self._settings = settings
        self._workers = workers
        self._on_error = on_error
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._read = self._asked = float("-inf")
        self._asking = asyncio.Lock()
        self.version = 0
        """Changes with the keys."""

    async def key(self, key_id: str) -> jwt.PyJWK | None:
        """The key of a name ("": the only one); None for one that the issuer does not have. Raises `StoreError` where that is not known."""
        age = monotonic() - self._read
        key = self._find(key_id)
        if (key is None or age > FRESH_SECONDS) and monotonic() - self._asked > PAUSE_SECONDS:
            async with self._asking:
                if monotonic() - self._asked > PAUSE_SECONDS:  # else another request has asked meanwhile
                    self._asked = monotonic()
                    await self._ask()
            key = self._find(key_id)
        if monotonic() - self._read > STALE_SECONDS:
            raise StoreError("the keys of the tokens' issuer cannot be read", "retry later")
        return key

    def _find(self, key_id: str) -> jwt.PyJWK | None:
        if key_id:
            return self._keys.get(key_id)
        return next(iter(self._keys.values())) if len(self._keys) == 1 else None

    async def _ask(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            keys = await loop.run_in_executor(self._workers, self._fetch)
        except (UnansweredError, AdjournError, msgspec.MsgspecError, ValueError) as error:
            self._on_error(f"the keys of {self._settings.issuer} cannot be read: {error}")
            return
        self._read = monotonic()
        if keys.keys() != self._keys.keys() or any(key.key != self._keys[name].key for name, key in keys.items()):
            self.version += 1
        self._keys = keys

    def _fetch(self) -> Mapping[str, jwt.PyJWK]:
        url = self._settings.keys or self._found_by_metadata()
        check_secure(url)
        listed = _get(url).get("keys")
        keys: dict[str, jwt.PyJWK] = {}
        for member in listed[:MAX_KEYS] if isinstance(listed, list) else ():
            if isinstance(member, dict) and (key := _usable(member)) is not None:
                keys[str(member.get("kid", ""))] = key
        if not keys:
            raise ValueError(f"{url} lists no key to verify with")
        return keys

    def _found_by_metadata(self) -> str:
        """The address of the keys, as the issuer's metadata has it (RFC 8414, else OpenID Connect Discovery)."""
        issuer = self._settings.issuer
        place = urlsplit(issuer)
        origin, path = f"{place.scheme}://{place.netloc}", place.path.rstrip("/")
        tried = (
            f"{origin}/.well-known/oauth-authorization-server{path}",
            f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        )
        for url in tried:
            try:
                metadata = _get(url)
            except ValueError:
                continue
            if metadata.get("issuer") != issuer:
                raise ValueError(f"{url} is the metadata of {str(metadata.get('issuer'))[:200]!r}")
            return str(metadata.get("jwks_uri", ""))
        raise ValueError(f"{issuer} has no metadata")


def _get(url: str) -> dict[str, Any]:
    status, body = exchange("GET", url, b"", MAX_BYTES, ASK_SECONDS)
    if status != 200:
        raise ValueError(f"{url} answered with status {status}")
    return msgspec.json.decode(body, type=dict[str, Any])


def _usable(member: Mapping[str, Any]) -> jwt.PyJWK | None:
    """A key of a list, if it is a public one for signatures, of a kind and an algorithm that are taken."""
    begins = _KINDS.get(str(member.get("kty")), ())
    algorithm = member.get("alg")
    if not begins or member.get("use", "sig") != "sig" or "d" in member:
        return None
    if algorithm is not None and not (algorithm in ALGORITHMS and str(algorithm).startswith(begins)):
        return None
    try:
        return jwt.PyJWK(dict(member))
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None


# --- whether a token is a person's

CLIENTS = ("azp", "client_id", "clientId", "cid", "appid")
"""The claims that name the client that got the token."""
_OF_MACHINES = (
    "act",  # somebody else acts for the subject (RFC 8693)
    "clientId", "clientHost", "clientAddress",  # service accounts of Keycloak
    "xms_act_fct", "xms_sub_fct", "xms_par_app_azp",  # agents of Entra ID
)  # fmt: skip
"""The claims that only tokens of machines have, or of machines that act for a person."""
_GRANT = "client-credentials"
_SERVICE_ACCOUNT = "service-account-"


def claim_at(claims: Mapping[str, Any], path: str) -> object:
    """The claim of this name; else what the names lead to that dots divide it into. None for nothing."""
    if path in claims:
        return claims[path]
    value: object = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def is_person(claims: Mapping[str, Any], settings: OAuthSettings) -> bool:
    """Whether the settings tell that the bearer of a token with these claims is a person."""
    proofs = []
    if settings.provider:
        proofs.append(_PROOFS[settings.provider](claims))
    if (person := settings.person) is not None:
        proofs.append(any(value in person.values for value in _listed(claim_at(claims, person.claim))))
    return bool(proofs) and all(proofs) and not _is_machine(claims)


def _is_machine(claims: Mapping[str, Any]) -> bool:
    """Whether anything says that no person is behind a token, whatever else does."""
    subject = _text(claims, "sub").casefold()
    grants = [grant for name in ("gty", "grant_type") for grant in _listed(claims.get(name))]
    return (
        any(name in claims for name in _OF_MACHINES)
        or claims.get("idtyp", "user") != "user"
        or subject.endswith("@clients")
        or subject in [_text(claims, name).casefold() for name in CLIENTS]
        or any(str(grant).strip().casefold().replace("_", "-") == _GRANT for grant in grants)
        or _text(claims, "preferred_username").casefold().startswith(_SERVICE_ACCOUNT)
    )


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value.strip() if isinstance(value, str) else ""


def _client(claims: Mapping[str, Any], *names: str) -> bool:
    """Whether a token says which client got it."""
    return any(_text(claims, name) for name in names)


def _keycloak(claims: Mapping[str, Any]) -> bool:
    return bool(_text(claims, "sid") and _text(claims, "preferred_username")) and _client(claims, "azp")


def _auth0(claims: Mapping[str, Any]) -> bool:
    connection, _, user = _text(claims, "sub").partition("|")
    is_grant = "gty" not in claims or bool(_text(claims, "gty"))
    return bool(connection and user and is_grant) and _client(claims, "azp", "client_id")


def _okta(claims: Mapping[str, Any]) -> bool:
    user = _text(claims, "uid")
    return bool(user) and _client(claims, "cid") and user != _text(claims, "cid")


def _entra(claims: Mapping[str, Any]) -> bool:
    user = _text(claims, "oid")
    is_delegated = bool(_text(claims, "scp")) and _client(claims, "azp", "appid")
    return bool(user) and user != _text(claims, "sub") and is_delegated


_PROOFS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "auth0": _auth0, "entra": _entra, "keycloak": _keycloak, "okta": _okta,
}  # fmt: skip
