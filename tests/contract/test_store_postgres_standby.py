"""A synchronous standby that is promoted has everything that was acknowledged, and the store finds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from adjourn.errors import ConflictError, StoreError
from adjourn.store import EMPTY, Head
from adjourn.store.conformance.entries import check_chain, entry
from adjourn.store.postgres import PostgresStore

psycopg = pytest.importorskip("psycopg")

SECONDS = 60


def until(look: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < end
        time.sleep(0.02)


class Pair:
    """A primary and the standby that it waits for, in the folder and by the programs of another server."""

    def __init__(self, server: Any) -> None:
        self.run = server._run
        self.sockets = server.folder
        self.folders = [f"{server.folder}/{name}" for name in ("primary", "standby")]
        primary, standby = self.folders
        hosts = f"host={self.sockets},{self.sockets}&port=6001,6002"
        self.url = f"postgresql://adjourn@/postgres?{hosts}&target_session_attrs=read-write"
        self.run("initdb", "-D", primary, "-U", "adjourn", "-A", "trust", "-E", "UTF8", "--no-sync")
        self.start(primary, 6001)
        source = f"host={self.sockets} port=6001 user=adjourn application_name=standby"
        self.run("pg_basebackup", "-D", standby, "-d", source, "-R", "-c", "fast", "--no-sync")
        self.start(standby, 6002)
        self.wait_for("standby")
        with psycopg.connect(self.url, autocommit=True) as admin:
            until(
                lambda: admin.execute("SELECT sync_state FROM pg_stat_replication").fetchall() == [("sync",)]
            )

    def start(self, folder: str, port: int) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.sockets}' -c port={port}"
        self.run("pg_ctl", "-D", folder, "-w", "-l", f"{folder}.log", "-o", options, "start")

    def wait_for(self, standbys: str) -> None:
        """The primary acknowledges what these have."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'".encode())
            admin.execute("SELECT pg_reload_conf()")


@pytest.fixture
def pair(postgres_server: Any) -> Iterator[Pair]:
    pair = Pair(postgres_server)
    yield pair
    pair.run("pg_ctl", "-D", pair.folders[1], "-m", "immediate", "stop")


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
    primary, standby = pair.folders
    pair.run("pg_ctl", "-D", primary, "-m", "immediate", "stop")
    before = dict(acknowledged)
    pair.run("pg_ctl", "-D", standby, "-w", "promote")
    pair.wait_for("")  # it has no standby of its own
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
