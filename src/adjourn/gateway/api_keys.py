"""API keys, and the owners of principals' names: refs of the store, each sealed with the gateway's secret.

A name belongs to whoever came with it first, or has a key of it; anybody else with that name gets another one, which no rule can have.
"""

from __future__ import annotations

import hmac
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from secrets import token_urlsafe
from time import monotonic
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from adjourn.errors import AdjournError, ConflictError, InvalidError, NotFoundError, StoreError
from adjourn.host import clock
from adjourn.policy.principal import Principal
from adjourn.store.base import Store

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
        """The principal that the key belongs to."""
        return Principal(id=f"key:{self.principal}", name=self.name, type=self.type, groups=self.groups)


class NewKey(NamedTuple):
    """A key that was made, and its text, which nobody can see again."""

    key: ApiKey
    text: str


class KeyOptions(NamedTuple):
    """What a key is to be like; it ends after so many `days`."""

    name: str
    type: Literal["human", "service"] = "service"
    groups: tuple[str, ...] = ()
    days: int = 90


def add_key(store: Store, secret: bytes, wish: KeyOptions, now: int) -> NewKey:
    """Make a key and keep its digest. `now` is in milliseconds. Raises `InvalidError` for a name of it or a group that cannot be one,
    and for a name that is somebody else's.
    """
    for name in (wish.name, *wish.groups):
        if NAME.fullmatch(name) is None:
            raise InvalidError(f"{name[:80]!r} is not a name", "use letters, digits, dots, dashes, underscores and @")
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
        id=clock.short(10),
        name=wish.name,
        type=wish.type,
        groups=wish.groups,
        principal=same or clock.short(16),
        created=now,
        expires=now + wish.days * DAY,
        digest=sha256(text.encode()).hexdigest(),
    )
    stored = msgspec.json.encode(key).decode()
    name = f"{PREFIX}{key.id}"
    store.swap(name, _sealed(secret, "api-key", name, stored), expect=None)
    return NewKey(key, f"adj_{key.id}_{text}")


def keys_of(store: Store, secret: bytes) -> list[ApiKey]:
    """The keys of a store, also those that have ended, in the order they were made in."""
    keys = (_read(secret, name, value) for name, value in store.refs(PREFIX).items())
    return sorted((key for key in keys if key is not None), key=lambda key: (key.created, key.id))


def bearer_named(store: Store, secret: bytes, kind: str, name: str) -> str:
    """The id of the principal that has keys of this type and name; "" for no key."""
    owners = (key.bearer.id for key in keys_of(store, secret) if (key.type, key.name) == (kind, name))
    return next(owners, "")


def revoke_key(
    store: Store, secret: bytes, key_id: str, *, before_writing: Callable[[], None] = lambda: None
) -> ApiKey:
    """Delete a key, by its id, after `before_writing`. Raises `NotFoundError`."""
    name = f"{PREFIX}{key_id}"
    value = store.ref(name) if re.fullmatch(r"[0-9a-z]{10}", key_id) else None
    key = _read(secret, name, value) if value is not None else None
    if key is None:
        raise NotFoundError(f"no API key has the id {key_id[:40]!r}", "list them: adjourn serve keys")
    before_writing()
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
        match = KEY.fullmatch(text)
        is_new = match is not None and match[1] not in self._known
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
        """The owner of a key; None for an unknown, expired or revoked one. Raises `StoreError` once the store has failed
        for too long.

        The id is public. All that depends on the secret is compared in constant time, for an id that is not there, too.
        """
        if self._tried - self._read > KEPT_SECONDS:
            raise StoreError(f"the API keys cannot be read: {self._failure}", "retry later")
        match = KEY.fullmatch(text)
        if match is None:
            return None
        key = self._known.get(match[1])
        digest = sha256(match[2].encode()).hexdigest()
        is_right = hmac.compare_digest(digest, key.digest if key is not None else _NOBODYS)
        return key.bearer if key is not None and is_right and key.expires > self._clock() else None


_NOBODYS = "-" * 64


def _read(secret: bytes, name: str, value: str) -> ApiKey | None:
    try:
        key = msgspec.json.decode(_unsealed(secret, "api-key", name, value), type=ApiKey)
    except msgspec.DecodeError:
        return None
    return key if name == f"{PREFIX}{key.id}" else None


def _sealed(secret: bytes, kind: str, ref: str, text: str) -> str:
    """The value of a ref: a text, and before it a seal of the gateway's secret that binds it to the ref."""
    seal = hmac.digest(secret, f"adjourn/{kind}/1:{ref}:{text}".encode(), "sha256").hex()
    return f"{seal}:{text}"


def _unsealed(secret: bytes, kind: str, ref: str, value: str) -> str:
    """The text of a value; "" for one without a seal that is right."""
    text = value.partition(":")[2]
    return text if hmac.compare_digest(value.encode(), _sealed(secret, kind, ref, text).encode()) else ""


# --- owners of names

NAMED_PREFIX = "named/"
MAX_NAMES = 10_000


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
        named = principal if owner == principal.id else replace(principal, name=other)
        self._known[principal] = named
        if len(self._known) > MAX_NAMES:
            self._known.popitem(last=False)
        return named

    def _first(self, principal: Principal) -> str:
        """The id of whoever came with a name first: this one, if nobody has."""
        ref = _ref(principal.type, principal.name)
        there = self._store.ref(ref)
        if not (owner := _owner(self._secret, ref, there)):
            owner, value = principal.id, _sealed(self._secret, "named", ref, principal.id)
            try:
                self._store.swap(ref, value, expect=there)
            except ConflictError:  # another one came with it just now
                owner = _owner(self._secret, ref, self._store.ref(ref))
        return owner


def first_named(store: Store, secret: bytes, kind: str, name: str) -> str:
    """The id of the principal that came with a name first, without a key; "" for nobody."""
    ref = _ref(kind, name)
    return _owner(secret, ref, store.ref(ref))


def _owner(secret: bytes, ref: str, value: str | None) -> str:
    """The id that a ref has under a seal; "" for none."""
    return _unsealed(secret, "named", ref, value or "")


def _ref(kind: str, name: str) -> str:
    return NAMED_PREFIX + sha256(f"{kind}:{name}".encode()).hexdigest()
