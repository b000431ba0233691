"""The signing keys of an OAuth issuer: found by its metadata, kept, and read again when a token names one that is not known.

Owns: these keys, and how often the issuer is asked. Must never: take a key that could be used to sign by whoever verifies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import jwt
import msgspec

from adjourn.errors import AdjournError, StoreError
from adjourn.gateway.auth.settings import OAuthSettings, check_secure
from adjourn.host import UnansweredError, exchange

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
"""The kinds of keys that are taken, and how the algorithms begin that each is for."""


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
        found = self._find(key_id)
        if (found is None or age > FRESH_SECONDS) and monotonic() - self._asked > PAUSE_SECONDS:
            async with self._asking:
                if monotonic() - self._asked > PAUSE_SECONDS:  # else another request has asked meanwhile
                    self._asked = monotonic()
                    await self._ask()
            found = self._find(key_id)
        if monotonic() - self._read > STALE_SECONDS:
            raise StoreError("the keys of the tokens' issuer cannot be read", "retry later")
        return found

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
        if keys.keys() != self._keys.keys() or any(
            key.key != self._keys[name].key for name, key in keys.items()
        ):
            self.version += 1
        self._keys = keys

    def _fetch(self) -> Mapping[str, jwt.PyJWK]:
        url = self._settings.keys or self._found_by_metadata()
        check_secure(url)
        listed = _get(url).get("keys")
        keys: dict[str, jwt.PyJWK] = {}
        for one in listed[:MAX_KEYS] if isinstance(listed, list) else ():
            if isinstance(one, dict) and (key := _usable(one)) is not None:
                keys[str(one.get("kid", ""))] = key
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
                said = _get(url)
            except ValueError:
                continue
            if said.get("issuer") != issuer:
                raise ValueError(f"{url} is the metadata of {str(said.get('issuer'))[:200]!r}")
            return str(said.get("jwks_uri", ""))
        raise ValueError(f"{issuer} has no metadata")


def _get(url: str) -> dict[str, Any]:
    status, body = exchange("GET", url, b"", MAX_BYTES, ASK_SECONDS)
    if status != 200:
        raise ValueError(f"{url} answered with status {status}")
    return msgspec.json.decode(body, type=dict[str, Any])


def _usable(said: Mapping[str, Any]) -> jwt.PyJWK | None:
    """A key of a list, if it is a public one for signatures, of a kind and an algorithm that are taken."""
    begins = _KINDS.get(str(said.get("kty")), ())
    algorithm = said.get("alg")
    if not begins or said.get("use", "sig") != "sig" or "d" in said:
        return None
    if algorithm is not None and not (algorithm in ALGORITHMS and str(algorithm).startswith(begins)):
        return None
    try:
        return jwt.PyJWK(dict(said))
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
