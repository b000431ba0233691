"""What a PostgreSQL store deletes and forgets gives its room back, and keeps nobody waiting meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from hashlib import sha256
from random import Random
from typing import Any

import pytest

from adjourn.store import EMPTY, PostgresStore
from adjourn.store.conformance.documents import entry
from adjourn.store.postgres import DROPPED_TOGETHER
from support.proxy import wait_for

psycopg = pytest.importorskip("psycopg")

SECONDS = 60
ROUNDS = 20
DOCUMENTS = 40


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


@pytest.fixture
def admin(store: PostgresStore, url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True, application_name="admin") as connection:
        yield connection


def test_rounds_of_writing_and_deleting_take_the_room_of_one(store: PostgresStore, admin: Any) -> None:
    """Twenty rounds of documents that are deleted or forgotten, and of leases that are renewed: vacuum makes room for the next one."""
    random = Random(1)
    sizes = []
    for number in range(ROUNDS):
        digests = [store.put_blob(random.randbytes(20_000)) for _ in range(DOCUMENTS)]
        for lease in range(20):
            name, value = f"lease/{number}/{lease}", None
            for until_ in range(5):
                store.swap(name, str(until_), expect=value)
                value = str(until_)
            store.swap(name, None, expect=value)
        for digest in digests[::4]:
            store.forget(digest)
        store.drop(set(digests) - set(digests[::4]))
        admin.execute("VACUUM adjourn_blob, adjourn_ref")
        sizes.append(
            admin.execute(
                "SELECT pg_total_relation_size('adjourn_blob') + pg_total_relation_size('adjourn_ref')"
            ).fetchone()[0]
        )
    assert list(store.blobs()) == []
    assert store.refs() == {}
    assert sizes[-1] <= 2 * max(sizes[0], DOCUMENTS * 20_000)


def test_many_documents_are_deleted_a_few_at_a_time(store: PostgresStore, admin: Any) -> None:
    """While the last ones cannot be deleted yet, the first ones are gone, and an append is made."""
    documents = [b"%d" % number for number in range(2 * DROPPED_TOGETHER + 1)]
    store.append("s", [entry(b"1")], expect=EMPTY, blobs=documents)
    digests = sorted(sha256(data).hexdigest() for data in documents)
    dropping = threading.Thread(target=store.drop, args=(digests,))
    with psycopg.connect(store._url, application_name="rival") as rival:
        rival.execute("SELECT 1 FROM adjourn_blob WHERE hash = %s FOR UPDATE", (digests[-1],))
        dropping.start()
        wait_for(lambda: admin.execute("SELECT count(*) FROM adjourn_blob").fetchone() == (1,), SECONDS)
        assert store.append("other", [entry(b"x")], expect=EMPTY).seq == 0
        assert dropping.is_alive()
        rival.rollback()
    dropping.join(SECONDS)
    assert list(store.blobs()) == []
