"""API keys, and identities from a proxy in front: who sent a request, and what the others are answered with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from adjourn.errors import StoreError
from adjourn.gateway import api_keys
from adjourn.gateway.api_keys import DAY, KeyOptions, add_key, revoke_key
from adjourn.gateway.authenticator import Authenticator, AuthenticatorResources, Challenge
from adjourn.gateway.settings import AuthSettings, ForwardedSettings
from adjourn.policy.principal import Principal
from adjourn.store import MemoryStore

SECRET = b"\1" * 32
KEYS = AuthSettings(keys=True)
UNKNOWN = f"adj_{'a' * 10}_{'b' * 43}"


class CountedStore(MemoryStore):
    """Counts how often its refs are listed, and fails as long as it `is_down`."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.is_down = False

    def refs(self, prefix: str = "", *, start: str = "", limit: int = 0) -> dict[str, str]:
        self.looks += 1
        if self.is_down:
            raise StoreError("the store is away")
        return super().refs(prefix, start=start, limit=limit)


class Gateway:
    """Who asks at one gateway, whose times the test sets: `time` in seconds, `now` in milliseconds."""

    def __init__(self, settings: AuthSettings, workers: ThreadPoolExecutor, loop: asyncio.Runner) -> None:
        self._loop = loop
        self.store = CountedStore()
        self.time = 1_000.0
        self.now = 1
        self.errors: list[str] = []
        parts = AuthenticatorResources(self.store, SECRET, lambda: self.now, workers, self.errors.append)
        self._authenticator = Authenticator(settings, parts)

    def key(self, **wish: Any) -> tuple[str, str]:
        """The id and the text of a new key."""
        made = add_key(self.store, SECRET, KeyOptions(**{"name": "ann"} | wish), self.now)
        return made.key.id, made.text

    def asked(self, *keys: str) -> list[Principal | Challenge]:
        """What requests get that come at once and show these keys."""

        async def run() -> list[Principal | Challenge]:
            shown = [(("authorization", f"Bearer {key}"),) for key in keys]
            return await asyncio.gather(*(self._asked(headers, "127.0.0.1") for headers in shown))

        return self._loop.run(run())

    def forwarded(self, peer: str, *headers: tuple[str, str]) -> Principal | Challenge:
        """What a request gets that comes from this address."""
        return self._loop.run(self._asked(headers, peer))

    async def _asked(self, headers: tuple[tuple[str, str], ...], peer: str) -> Principal | Challenge:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        scope: dict[str, Any] = {"type": "http", "path": "/up/mcp", "client": (peer, 1), "headers": raw}
        return await self._authenticator.authenticate(scope)


@contextmanager
def _gateway(settings: AuthSettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with ThreadPoolExecutor(4) as workers, asyncio.Runner() as loop:
        gateway = Gateway(settings, workers, loop)
        monkeypatch.setattr(api_keys, "monotonic", lambda: gateway.time)
        yield gateway


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with _gateway(KEYS, monkeypatch) as made:
        yield made


def status(answer: Principal | Challenge) -> int:
    return answer.status if isinstance(answer, Challenge) else 200


def test_requests_that_come_at_once_have_the_store_looked_at_once(gateway: Gateway) -> None:
    """However many show keys that nobody knows: who has no key cannot occupy the threads that wait for the store."""
    _, key = gateway.key()
    answers = gateway.asked(*[UNKNOWN] * 200, key)
    assert [status(one) for one in answers] == [401] * 200 + [200]
    assert gateway.store.looks - 1 == 1  # the first was for the key that was added


@pytest.mark.parametrize("is_down", [False, True])
def test_a_key_that_nobody_knows_has_the_store_looked_at_at_most_ten_times_a_second(
    gateway: Gateway, is_down: bool
) -> None:
    """Whether the store can be read or not."""
    gateway.asked(UNKNOWN)
    gateway.store.is_down = is_down
    before = gateway.store.looks
    for _ in range(100):
        gateway.time += 0.01
        assert status(*gateway.asked(UNKNOWN)) == 401
    assert 9 <= gateway.store.looks - before <= 10


def test_a_new_key_is_known_soon_and_a_revoked_one_not_for_long(gateway: Gateway) -> None:
    """A tenth of a second for the one, a second for the other."""
    key_id, key = gateway.key()
    (ann,) = gateway.asked(key)
    assert isinstance(ann, Principal)
    assert (ann.name, ann.type) == ("ann", "service")
    _, second = gateway.key(name="bob")
    gateway.time += 0.11
    assert [status(one) for one in gateway.asked(second)] == [200]
    revoke_key(gateway.store, SECRET, key_id)
    gateway.time += 1.01
    assert [status(one) for one in gateway.asked(key, second)] == [401, 200]


def test_a_key_ends_at_its_time(gateway: Gateway) -> None:
    """By the clock, without a look at the store."""
    _, key = gateway.key(days=2)
    assert status(*gateway.asked(key)) == 200
    looks = gateway.store.looks
    gateway.now += 2 * DAY
    assert status(*gateway.asked(key)) == 401
    assert gateway.store.looks == looks


def test_keys_are_known_for_half_a_minute_without_the_store(gateway: Gateway) -> None:
    """Then nobody is let in, and no key is called wrong; once the store is back, the key is taken again."""
    _, key = gateway.key()
    assert status(*gateway.asked(key)) == 200
    gateway.store.is_down = True
    gateway.time += 29
    assert [status(one) for one in gateway.asked(key, UNKNOWN)] == [200, 401]
    gateway.time += 2
    assert [status(one) for one in gateway.asked(key, UNKNOWN)] == [503, 503]
    assert "the store is away" in gateway.errors[0]
    gateway.store.is_down = False
    gateway.time += 1.01
    assert [status(one) for one in gateway.asked(key, UNKNOWN)] == [200, 401]


def test_a_key_that_somebody_wrote_into_the_store_is_none(gateway: Gateway) -> None:
    """Who can write there cannot seal; nor does the seal of one key serve for another."""
    key_id, key = gateway.key()
    value = gateway.store.ref(f"api-key/{key_id}")
    assert value is not None
    changed = value.replace('"ann"', '"bob"')
    other = UNKNOWN[4:14]
    gateway.store.swap(f"api-key/{key_id}", changed, expect=value)
    gateway.store.swap(f"api-key/{other}", value.replace(key_id, other), expect=None)
    assert [status(one) for one in gateway.asked(key, key.replace(key_id, other))] == [401, 401]


PROXY = ForwardedSettings(trusted=("10.0.0.0/24", "fd00::1"), header="x-client", groups="x-groups")


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with _gateway(AuthSettings(keys=True, proxy=PROXY), monkeypatch) as made:
        yield made


@pytest.mark.parametrize("peer", ["10.0.0.7", "::ffff:10.0.0.7", "fd00::1", "fd00::1%eth0"])
def test_a_trusted_proxy_names_who_asks(behind: Gateway, peer: str) -> None:
    """By its address, in either form; a group is one once, however often it is named."""
    found = behind.forwarded(peer, ("x-client", "ann"), ("x-groups", "ops, dev,,ops"))
    assert found == Principal(id="proxy:ann", name="ann", type="service", groups=("ops", "dev"))


@pytest.mark.parametrize("peer", ["10.0.1.7", "::ffff:10.0.1.7", "fd00::2", "127.0.0.1", "", "10.0.0.7.evil"])
def test_what_others_say_of_themselves_does_not_count(behind: Gateway, peer: str) -> None:
    """Whatever they put into the header, and whatever address another header names."""
    said = (("x-client", "ann"), ("x-forwarded-for", "10.0.0.7"), ("forwarded", "for=10.0.0.7"))
    assert status(behind.forwarded(peer, *said)) == 401


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("x-client", ""),),
        (("x-client", "ann"), ("x-client", "bob")),
        (("x-client", "ann"), ("x-groups", "ops"), ("x-groups", "dev")),
        (("x-client", "a" * 513),),
        (("x-client", "a\xff"),),
        (("x-client", "a\x1b"),),
        (("x-client", "ann"), ("x-groups", ",".join(f"g{n}" for n in range(65)))),
    ],
)
def test_an_identity_that_is_not_clear_is_none(behind: Gateway, headers: tuple[tuple[str, str], ...]) -> None:
    """A header that is missing, empty, there twice, too long, or no text; too many groups."""
    assert status(behind.forwarded("10.0.0.7", *headers)) == 401


def test_a_credential_that_fails_is_not_made_good_by_the_proxy(behind: Gateway) -> None:
    """A request that shows a key is who the key says, or nobody."""
    wrong = ("authorization", f"Bearer {UNKNOWN}")
    assert status(behind.forwarded("10.0.0.7", wrong, ("x-client", "ann"))) == 401
    twice = (("authorization", "Bearer a"), ("authorization", "Bearer b"), ("x-client", "ann"))
    assert status(behind.forwarded("10.0.0.7", *twice)) == 400
