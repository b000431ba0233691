"""A synchronous standby that is promoted has everything that was acknowledged, and the store finds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from adjourn.errors import ConflictError, StoreError
from adjourn.store import EMPTY, Head
from adjourn.store.conformance.documents import check_chain, entry
from adjourn.store.postgres import PostgresStore
from support.standby import Pair, until

SECONDS = 60


@pytest.fixture
def pair(postgres_server: Any) -> Iterator[Pair]:
    pair = Pair(postgres_server)
    yield pair
    pair.stop(1)


def test_a_promoted_standby_has_all_that_was_acknowledged(pair: Pair) -> None:
    """The primary is killed under load and its standby promoted by hand: nothing is lost or doubled, and appends continue."""
    store = PostgresStore(pair.url)
    acknowledged: dict[str, Head] = {}
    enough = threading.Event()

    def run(stream: str) -> None:
        head = EMPTY
        while not enough.is_set():
            try:
                head = store.append(stream, [entry(f"{head.hash} {head.seq + 1}".encode())], expect=head)
                acknowledged[stream] = head
            except ConflictError:  # ours, of which we got no answer: one more may be there
                head = store.head(stream)
                assert head.seq <= acknowledged[stream].seq + 1
            except StoreError:
                time.sleep(0.05)

    threads = [threading.Thread(target=run, args=(f"s{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    until(lambda: len(acknowledged) == 12 and min(head.seq for head in acknowledged.values()) > 5)
    pair.stop(0)
    before = dict(acknowledged)
    pair.promote()
    until(lambda: all(acknowledged[stream].seq > head.seq + 5 for stream, head in before.items()))
    enough.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    for stream, head in acknowledged.items():
        entries = list(store.read(stream))
        check_chain(entries)
        assert entries[head.seq].hash == head.hash
        assert [one.data[65:] for one in entries] == [b"%d" % number for number in range(len(entries))]
        assert entries[before[stream].seq].hash == before[stream].hash
    store.close()
