"""A PostgreSQL server that ends connections while they are at work: what was written is there once, and the store continues."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest

from adjourn.errors import ConflictError
from adjourn.store import EMPTY, Head, Swap
from adjourn.store.conformance.documents import entry
from adjourn.store.postgres import PostgresStore

psycopg = pytest.importorskip("psycopg")

OURS = "FROM pg_stat_activity WHERE application_name = 'adjourn' AND pid <> pg_backend_pid()"
SECONDS = 20


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


@pytest.fixture
def other(url: str) -> Iterator[PostgresStore]:
    """The same store as another machine has it."""
    store = PostgresStore(url)
    yield store
    store.close()


def until(look: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < end
        time.sleep(0.01)


def cut_off(url: str, table: str, work: Callable[[], object]) -> list[object]:
    """Do something whose connection the server ends while it waits for a lock on a table. Returns its outcome."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    with (
        psycopg.connect(url, application_name="rival") as rival,
        psycopg.connect(url, autocommit=True, application_name="admin") as admin,
    ):
        rival.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        thread = threading.Thread(target=run)
        thread.start()
        waiting = f"SELECT pid {OURS} AND wait_event_type = 'Lock'".encode()
        until(lambda: admin.execute(waiting).fetchone())
        admin.execute(f"SELECT pg_terminate_backend(pid) {OURS} AND wait_event_type = 'Lock'".encode())
        until(lambda: found or admin.execute(waiting).fetchone())  # on its second connection
        rival.rollback()
        thread.join(SECONDS)
    assert not thread.is_alive()
    return found


def cut_all(url: str) -> None:
    """End every connection that a store has now, idle or not."""
    with psycopg.connect(url, autocommit=True, application_name="admin") as admin:
        ended = admin.execute(f"SELECT pid, pg_terminate_backend(pid) {OURS}".encode()).fetchall()
        pids = [pid for pid, _ in ended]
        until(lambda: not admin.execute(f"SELECT pid {OURS} AND pid = ANY(%s)".encode(), (pids,)).fetchone())


@pytest.mark.parametrize("table", ["adjourn_event", "adjourn_ref", "adjourn_blob"])
def test_an_append_that_is_cut_off_in_its_transaction_is_there_once(store: PostgresStore, url: str, table: str) -> None:
    """Before its events, its refs or its documents were written: all of it is there in the end, and nothing twice."""
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    both = [entry(b"2"), entry(b"3")]
    (made,) = cut_off(url, table, lambda: store.append("s", both, expect=head, refs={"r": "v"}, blobs=[b"document"]))
    assert made == Head(2, both[1].hash)
    assert [one.data for one in store.read("s")] == [b"1", b"2", b"3"]
    assert store.ref("r") == "v"
    assert [size for _, size in store.blobs()] == [8]


def test_single_writes_that_are_cut_off_are_there_once(store: PostgresStore, url: str) -> None:
    """An event, a name, a document: each is written on the next connection."""
    (head,) = cut_off(url, "adjourn_event", lambda: store.append("s", [entry(b"1")], expect=EMPTY))
    assert head == Head(0, entry(b"1").hash) == store.head("s")
    assert cut_off(url, "adjourn_ref", lambda: store.swap("r", "v", expect=None)) == [None]
    assert store.ref("r") == "v"
    (digest,) = cut_off(url, "adjourn_blob", lambda: store.put_blob(b"document"))
    assert store.get_blob(str(digest)) == b"document"


def test_a_rival_wins_while_the_connection_is_gone(store: PostgresStore, other: PostgresStore, url: str) -> None:
    """What the other machine wrote stays, and the one that was cut off gets an error."""
    other.append("s", [entry(b"theirs")], expect=EMPTY)
    other.swap("r", "theirs", expect=None)
    (told,) = cut_off(url, "adjourn_event", lambda: store.append("s", [entry(b"ours")], expect=EMPTY))
    assert isinstance(told, ConflictError)
    (told,) = cut_off(url, "adjourn_ref", lambda: store.swap("r", "ours", expect=None))
    assert isinstance(told, ConflictError)
    assert [one.data for one in store.read("s")] == [b"theirs"]
    assert store.ref("r") == "theirs"


def test_who_waits_for_news_waits_on(store: PostgresStore, other: PostgresStore, url: str) -> None:
    """Connections that were ended between two watches, or during one, cost no error and no news."""
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    watchers = [threading.Thread(target=store.watch, args=("s", head, 0.2)) for _ in range(3)]
    for watcher in watchers:  # each leaves a connection behind
        watcher.start()
    for watcher in watchers:
        watcher.join()
    cut_all(url)
    assert store.watch("s", head, 0.1) == head
    seen: list[object] = []

    def watch() -> None:
        try:
            seen.append(store.watch("s", head, SECONDS))
        except Exception as error:
            seen.append(error)

    waiting = threading.Thread(target=watch)
    waiting.start()
    with psycopg.connect(url, autocommit=True, application_name="admin") as admin:
        listens = f"SELECT pid {OURS} AND query LIKE 'LISTEN%'".encode()
        until(lambda: admin.execute(listens).fetchone())
    cut_all(url)
    new = other.append("s", [entry(b"2")], expect=head)
    waiting.join(SECONDS)
    assert seen == [new]


def test_all_who_wait_share_a_connection_that_is_left_quiet(
    store: PostgresStore, other: PostgresStore, url: str
) -> None:
    """Ten watches of five streams listen on one connection; each sees its stream change, and afterwards nothing listens."""
    heads = {f"s{number}": store.append(f"s{number}", [entry(b"1")], expect=EMPTY) for number in range(5)}
    seen: list[tuple[str, Head]] = []

    def watch(stream: str) -> None:
        seen.append((stream, store.watch(stream, heads[stream], SECONDS)))

    watchers = [threading.Thread(target=watch, args=(stream,)) for stream in (*heads, *heads)]
    for watcher in watchers:
        watcher.start()
    with psycopg.connect(url, autocommit=True, application_name="admin") as admin:
        listening = f"SELECT count(*) {OURS} AND query LIKE 'LISTEN%'".encode()
        until(lambda: admin.execute(listening).fetchone() == (1,))
        until(lambda: sum(map(len, store._watch._bells.values())) == 10)
        new = {stream: other.append(stream, [entry(b"2")], expect=head) for stream, head in heads.items()}
        for watcher in watchers:
            watcher.join(SECONDS)
        assert sorted(seen) == sorted([*new.items(), *new.items()])
        assert admin.execute(listening).fetchone() == (0,)
        assert admin.execute(f"SELECT count(*) {OURS}".encode()).fetchone() == (3,)


def test_a_lost_notification_only_delays(store: PostgresStore, url: str) -> None:
    """An append that notified nobody is found by looking."""
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    seen: list[Head] = []
    waiting = threading.Thread(target=lambda: seen.append(store.watch("s", head, SECONDS)))
    waiting.start()
    new = entry(b"2")
    with psycopg.connect(url, autocommit=True, application_name="admin") as admin:
        until(lambda: admin.execute(f"SELECT 1 {OURS} AND query LIKE 'LISTEN%'".encode()).fetchone())
        admin.execute("SET adjourn.schema = 2")
        admin.execute("INSERT INTO adjourn_event VALUES ('s', 1, %s, %s)", new)
    waiting.join(SECONDS)
    assert seen == [Head(1, new.hash)]


@pytest.mark.parametrize("streams", ["a", "ab"])
def test_who_waits_asks_seldom(store: PostgresStore, streams: str) -> None:
    """One or two that wait for two seconds, in which nothing happens, look at the head now and then."""
    looks = count()
    head = store.head

    def counted(stream: str) -> Head:
        next(looks)
        return head(stream)

    store._watch._head = counted
    watchers = [threading.Thread(target=store.watch, args=(stream, EMPTY, 2)) for stream in streams]
    for watcher in watchers:
        watcher.start()
    for watcher in watchers:
        watcher.join(SECONDS)
    assert next(looks) < 30


@pytest.mark.parametrize("more", [{}, {"swaps": {"r": Swap(None, "v")}}])
def test_what_no_standby_has_yet_is_not_acknowledged_by_looking(
    store: PostgresStore, url: str, more: dict[str, Any]
) -> None:
    """A commit that waits for its standby is visible once its connection is ended, but is acknowledged only when a standby has it."""
    made: list[object] = []
    waiting = f"SELECT pid {OURS} AND wait_event = 'SyncRep'".encode()

    def begun(stream: str) -> threading.Thread:
        """An append to a stream; swaps are of a ref of its own."""
        swaps = {f"{name} {stream}": swap for name, swap in more.get("swaps", {}).items()}
        options: dict[str, Any] = {"swaps": swaps} if swaps else {}
        append = partial(store.append, stream, [entry(b"1")], expect=EMPTY, **options)
        thread = threading.Thread(target=lambda: made.append(append()))
        thread.start()
        return thread

    with psycopg.connect(url, autocommit=True, application_name="admin") as admin:
        try:
            admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            admin.execute("SELECT pg_reload_conf()")
            until(lambda: admin.execute("SHOW synchronous_standby_names").fetchone() == ("nobody",))
            for tries in count(1):  # until the checkpointer has read the setting, commits wait for nobody
                appending = begun(f"s{tries}")
                until(lambda: made or admin.execute(waiting).fetchone())
                if not made:
                    break
                made.clear()
            (first,) = admin.execute(waiting).fetchone()
            admin.execute("SELECT pg_terminate_backend(%s)", (first,))
            until(lambda: made or admin.execute(waiting).fetchone() not in (None, (first,)))
            assert made == []
            assert admin.execute("SELECT hash FROM adjourn_event").fetchall() == [(entry(b"1").hash,)] * tries
        finally:
            admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
            admin.execute("SELECT pg_reload_conf()")
    appending.join(SECONDS)
    assert made == [Head(0, entry(b"1").hash)]
