"""Whose a name is, where keys, tokens and a proxy may all name somebody so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from adjourn.aex.layers import permits
from adjourn.errors import InvalidError
from adjourn.gateway.api_keys import KeyOptions, NameRegister, add_key, bearer_named, revoke_key
from adjourn.policy.principal import Principal, space_of
from adjourn.store import MemoryStore

SECRET = b"\1" * 32
TOKEN = Principal(id="https://login.example.com ann", name="ann", type="human", label="Ann")
PROXY = Principal(id="proxy:ann", name="ann", type="human")
RULE = ["user:ann"]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def names_of(store: MemoryStore) -> NameRegister:
    return NameRegister(store, SECRET, partial(bearer_named, store, SECRET))


def test_a_name_is_that_of_whoever_came_with_it_first(store: MemoryStore) -> None:
    """Also after a restart and for another replica; who comes later is let in, and no rule names it."""
    assert names_of(store).look_up(TOKEN) == TOKEN
    later = names_of(store).look_up(PROXY)
    assert (later.id, later.type) == (PROXY.id, "human")
    assert not permits(RULE, later)
    assert later.shown != TOKEN.shown
    assert names_of(store).look_up(TOKEN) == TOKEN


def test_a_key_has_its_name_also_where_it_was_made_before_names_were_kept(store: MemoryStore) -> None:
    """A key and a token of one name are two principals: of spaces, of rules, and on record."""
    key = add_key(store, SECRET, KeyOptions("ann", "human"), 1).key
    token = names_of(store).look_up(TOKEN)
    assert permits(RULE, key.bearer)
    assert not permits(RULE, token)
    assert space_of(key.bearer).own != space_of(token).own
    assert key.bearer.shown != token.shown


def test_a_key_cannot_get_the_name_of_a_token(store: MemoryStore) -> None:
    """Making it is refused; a service of that name is another name, and so is the name once the key is gone."""
    first = add_key(store, SECRET, KeyOptions("ann", "human"), 1).key
    revoke_key(store, SECRET, first.id)
    names_of(store).look_up(TOKEN)
    with pytest.raises(InvalidError, match="is that of somebody who authenticated without a key"):
        add_key(store, SECRET, KeyOptions("ann", "human"), 1)
    add_key(store, SECRET, KeyOptions("ann", "service"), 1)


def test_a_name_that_somebody_wrote_into_the_store_is_nobodys(store: MemoryStore) -> None:
    """Who can write there cannot seal."""
    names_of(store).look_up(TOKEN)
    ((ref, value),) = store.refs("named/").items()
    store.swap(ref, value.replace(TOKEN.id, PROXY.id), expect=value)
    assert names_of(store).look_up(TOKEN) == TOKEN
    assert not permits(RULE, names_of(store).look_up(PROXY))


def test_of_many_that_come_at_once_one_has_the_name(store: MemoryStore) -> None:
    """Whatever replica they come to."""
    everybody = [Principal(id=f"proxy {number}", name="ann", type="human") for number in range(32)]
    with ThreadPoolExecutor(8) as workers:
        found = list(workers.map(lambda one: names_of(store).look_up(one), everybody))
    assert sum(permits(RULE, one) for one in found) == 1
    assert len({one.name for one in found}) == len(everybody)
