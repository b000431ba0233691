"""Access tokens: JSON Web Tokens that the issuer signed, for this gateway, with the scopes that it wants (RFC 9068, RFC 8725).

In this order: the form, the algorithm, the signature, issuer, times, audience, scopes. A token that was verified is remembered until it
ends or the issuer's keys change.

Owns: what a token must be, and who its bearer is. Must never: take an algorithm that a token chooses for another kind of key.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import jwt

from adjourn.gateway.auth.issuer import ALGORITHMS, Issuer
from adjourn.gateway.auth.people import claim_at, is_person
from adjourn.gateway.auth.settings import OAuthSettings
from adjourn.policy import Principal

MAX_TOKEN = 16 * 1024
MAX_KEPT = 10_000
MAX_NAME, MAX_GROUPS = 255, 64
_TYPES = (None, "jwt", "at+jwt", "application/at+jwt")


class TokenRefusal(NamedTuple):
    """Why a token is not taken: a code of RFC 6750, and what is wrong in words."""

    error: Literal["invalid_token", "insufficient_scope"]
    why: str


class _Verified(NamedTuple):
    """A token of the issuer: whose it is, whom it is for, until when (seconds), and by which version of the keys."""

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
        self._settings = settings
        self._named = named
        self._issuer = issuer
        self._clock = clock
        self._kept: OrderedDict[bytes, _Verified] = OrderedDict()

    async def bearer(self, token: str, audiences: Collection[str]) -> Principal | TokenRefusal:
        """Whose a token is, if it is for one of the `audiences`. Raises `StoreError` where the issuer's keys or
        the names are not known.
        """
        verified = await self._verified(token)
        if isinstance(verified, TokenRefusal):
            return verified
        if not any(one in audiences for one in verified.audience):
            return TokenRefusal("invalid_token", "the token is for another resource")
        if missing := [scope for scope in self._settings.scopes if scope not in verified.scopes]:
            return TokenRefusal("insufficient_scope", f"the token lacks the scope {missing[0]}")
        return verified.bearer

    async def _verified(self, token: str) -> _Verified | TokenRefusal:
        digest = sha256(token.encode(errors="replace")).digest()
        kept = self._kept.get(digest)
        if kept is not None and kept.version == self._issuer.version and kept.ends > self._clock() / 1000:
            return kept
        verified = await self._verify(token)
        if isinstance(verified, _Verified):
            self._kept[digest] = verified
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.pop(digest, None)
        return verified

    async def _verify(self, token: str) -> _Verified | TokenRefusal:
        settings = self._settings
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
            return TokenRefusal("invalid_token", "the token's algorithm is not taken")
        key = await self._issuer.key(key_id) if isinstance(key_id, str) else None
        if key is None:
            return TokenRefusal("invalid_token", "the issuer has no such key")
        version = self._issuer.version
        try:
            claims = jwt.decode(
                token,
                key,
                [header["alg"]],
                {
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_aud": False,
                },  # the audience depends on the path
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
    found: set[str] = set()
    for member in ("scope", "scp"):
        value = claims.get(member)
        found.update(value.split(" ") if isinstance(value, str) else _texts(value))
    return frozenset(found)


def _texts(value: object) -> list[str]:
    """A text, or the texts of a list."""
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
