"""Whose a name is: rules and approvals name a principal by it, so that no two may have the same.

An API key, a token and a proxy in front may each name somebody `ann`. The name is the key's; without a key, it is that of whoever came
with it first, as the ref `named/DIGEST` of the store says, sealed like a key. Anybody else who comes with it is another one.

Owns: these refs. Must never: give one name to two principals.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from msgspec.structs import replace

from adjourn.errors import ConflictError
from adjourn.policy import Principal
from adjourn.store import Store

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
