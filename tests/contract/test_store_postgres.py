"""What only the PostgreSQL store promises: about its server, its connection and its schema."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import ConflictError, IntegrityError, SchemaError, StoreError
from adjourn.log.kinds import TaskOpened
from adjourn.store import EMPTY, Head, open_store
from adjourn.store.base import LATEST
from adjourn.store.conformance.documents import append_racing, check_chain, entry
from adjourn.store.postgres import PostgresStore
from adjourn.tasks.task import NewEvent, Task
from support.clock import Clock

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


def _run(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return list(cursor.fetchall()) if cursor.description else []


def until(look: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not look():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_clock_is_the_servers(store: PostgresStore) -> None:
    """All users of a store read one clock, in milliseconds, and it advances."""
    first, there, second = (store.now(), _run(store._url, "SELECT extract(epoch FROM clock_timestamp())"), store.now())
    assert first <= float(there[0][0]) * 1000 <= second + 1


def _break(store: PostgresStore) -> None:
    """Have the server end the store's connection, unnoticed until its next use."""
    assert store._line.connection is not None
    pid = store._line.connection.info.backend_pid
    _run(store._url, f"SELECT pg_terminate_backend({pid})")
    while _run(store._url, f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid}"):
        time.sleep(0.01)


class _Lossy:
    """A connection whose next statement is done by the server, but whose answer never arrives."""

    def __init__(self, connection: Any, *, before: bool) -> None:
        self._connection, self._before = connection, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, *args: Any, **options: Any) -> Any:
        if not self._before:
            self._connection.execute(*args, **options)
        self._connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


def test_reads_and_writes_go_on_after_a_broken_connection(store: PostgresStore) -> None:
    """One reconnect, unseen by the caller."""
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    for work in (
        lambda: store.head("s"),
        lambda: list(store.read("s")),
        store.streams,
        lambda: store.put_blob(b"x"),
        lambda: store.swap("r", "2", expect=store.ref("r")),
    ):
        _break(store)
        work()
    _break(store)
    head = store.append("s", [entry(b"2")], expect=head)
    _break(store)
    head = store.append("s", [entry(b"3"), entry(b"4")], expect=head, refs={"r": "3"})
    assert [one.data for one in store.read("s")] == [b"1", b"2", b"3", b"4"]
    assert store.ref("r") == "3"


@pytest.mark.parametrize("before", [True, False])
def test_a_lost_acknowledgement_is_resolved_by_looking(store: PostgresStore, before: bool) -> None:
    """Whether the server did it or not, the append is there once, and is no conflict."""
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    store._line.connection = _Lossy(store._line.connection, before=before)  # type: ignore[assignment]
    head = store.append("s", [entry(b"2")], expect=head)
    store._line.connection = _Lossy(store._line.connection, before=before)  # type: ignore[assignment]
    store.swap("r", "v", expect=None)
    store._line.connection = _Lossy(store._line.connection, before=before)  # type: ignore[assignment]
    store.swap("r", None, expect="v")
    assert store.head("s") == head == (1, entry(b"2").hash)
    assert store.ref("r") is None


def test_a_lost_connection_does_not_hide_a_conflict(store: PostgresStore) -> None:
    """When another was first, that is said, lost connection or not."""
    store.append("s", [entry(b"1")], expect=EMPTY)
    for before in (True, False):
        store._line.connection = _Lossy(store._line.connection, before=before)  # type: ignore[assignment]
        with pytest.raises(ConflictError):
            store.append("s", [entry(b"other")], expect=EMPTY)
    assert [one.data for one in store.read("s")] == [b"1"]


def test_a_server_that_is_away_is_named_and_the_store_works_once_it_is_back(
    postgres_server: Any, store: PostgresStore
) -> None:
    """A crashed server loses nothing that was acknowledged, durable or not."""
    head = EMPTY
    for number in range(20):
        head = store.append("s", [entry(b"%d" % number)], expect=head, durable=number % 2 == 0)
    postgres_server.stop("immediate")
    try:
        for _ in range(2):
            with pytest.raises(StoreError) as caught:
                store.append("s", [entry(b"x")], expect=head)
            assert caught.value.remedy
            assert not isinstance(caught.value, ConflictError)
    finally:
        postgres_server.start()
    assert store.head("s") == head
    store.append("s", [entry(b"x")], expect=head)


def test_openers_of_a_fresh_database_all_succeed(url: str) -> None:
    """One makes the tables, the others wait."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            one = open_store(url)
            append_racing(one, "s", "x")
            one.close()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised
    again = PostgresStore(url)
    check_chain(list(again.read("s")))
    assert again.head("s").seq == 4
    again.close()


def test_a_newer_schema_is_refused(store: PostgresStore, url: str) -> None:
    """A store of a newer adjourn is not opened."""
    _run(url, f"UPDATE adjourn_schema SET version = {LATEST['postgres'] + 1}")
    with pytest.raises(SchemaError, match=f"schema {LATEST['postgres'] + 1}"):
        PostgresStore(url)


def test_the_search_path_of_the_url_keeps_stores_apart(new_postgres_url: Callable[[], str]) -> None:
    """Two schemas are two stores."""
    one, other = PostgresStore(new_postgres_url()), PostgresStore(new_postgres_url())
    one.append("s", [entry(b"x")], expect=EMPTY)
    assert other.streams() == {}
    one.close()
    other.close()


def test_a_standby_or_read_only_database_is_named(store: PostgresStore, url: str) -> None:
    """Reading continues, writing says where to connect."""
    head = store.append("s", [entry(b"x")], expect=EMPTY)
    limited = PostgresStore(f"{url}%20-cdefault_transaction_read_only%3Don")
    assert limited.head("s") == head
    for count in (1, 2):
        with pytest.raises(StoreError, match="no writes") as caught:
            limited.append("s", [entry(b"y")] * count, expect=head)
        assert "primary" in caught.value.remedy
    limited.close()


def test_a_missing_schema_is_named(postgres_server: Any) -> None:
    """A search path that leads nowhere says what to create."""
    with pytest.raises(StoreError, match="schema") as caught:
        PostgresStore(f"{postgres_server.url}&options=-csearch_path%3Dnowhere")
    assert "create" in caught.value.remedy


def test_a_lock_that_lasts_ends_in_an_error(store: PostgresStore, url: str) -> None:
    """Waiting is bounded, and nothing was written."""
    impatient = PostgresStore(f"{url}%20-clock_timeout%3D200")
    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE adjourn_event")
        with pytest.raises(StoreError, match="locked"):
            impatient.append("s", [entry(b"x")], expect=EMPTY)
    assert impatient.append("s", [entry(b"x")], expect=EMPTY) == Head(0, entry(b"x").hash)
    impatient.close()


def test_commits_are_never_asynchronous(url: str) -> None:
    """A server's default of synchronous_commit = off is overruled."""
    store = PostgresStore(f"{url}%20-csynchronous_commit%3Doff")
    assert store._query("SHOW synchronous_commit") == [("on",)]
    store.close()


def test_a_stopped_client_keeps_no_transaction_open(store: PostgresStore, new_postgres_url: Callable[[], str]) -> None:
    """The server ends it after a while, or after what the URL says."""
    ask = "SHOW idle_in_transaction_session_timeout"
    assert store._query(ask) == [("10s",)]
    patient = PostgresStore(f"{new_postgres_url()}%20-cidle_in_transaction_session_timeout%3D60000")
    assert patient._query(ask) == [("1min",)]
    patient.close()


def test_no_plan_walks_a_table(url: str) -> None:
    """Plans are kept, so one that was made while the tables were small must use the keys, too."""
    store = PostgresStore(url)
    head = store.append("s", [entry(b"%d" % number) for number in range(60)], expect=EMPTY, refs={"r": "v"})
    store.put_blob(b"document")
    store.close()  # the server then counts what it did
    _run(url, "ANALYZE")
    tables = "FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname <> 'adjourn_schema'"
    until(lambda: _run(url, f"SELECT sum(idx_scan) > 0 {tables}") == [(True,)])
    before = _run(url, f"SELECT sum(seq_scan) {tables}")
    again = PostgresStore(url)
    for number in range(20):
        head = again.append("s", [entry(b"x")], expect=head, refs={"r": str(number)}, blobs=[b"%d" % number])
        assert again.ref("r") == str(number)
        assert again.refs("r") == {"r": str(number)}
        assert again.head("s") == head
        assert len(list(again.read("s", 70, 75))) == min(5, max(0, number - 9))
    again.close()
    until(lambda: _run(url, f"SELECT sum(idx_scan) > 100 {tables}") == [(True,)])
    assert _run(url, f"SELECT sum(seq_scan) {tables}") == before


def test_every_key_of_events_begins_with_the_stream(store: PostgresStore, url: str) -> None:
    """So that a table of events can be partitioned, or distributed over servers, by the stream."""
    first = """
        SELECT i.relname, a.attname FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid
        JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
        WHERE x.indrelid = 'adjourn_event'::regclass
    """
    assert _run(url, first) == [("adjourn_event_pkey", "stream")]


def test_changed_blobs_and_missing_entries_are_integrity_errors(store: PostgresStore, url: str) -> None:
    """What another program changed is not returned."""
    digest = store.put_blob(b"true")
    store.append("s", [entry(b"%d" % number) for number in range(10)], expect=EMPTY)
    _run(url, "UPDATE adjourn_blob SET data = 'x'")
    _run(url, "DELETE FROM adjourn_event WHERE seq = 4")
    with pytest.raises(IntegrityError):
        store.get_blob(digest)
    with pytest.raises(IntegrityError):
        list(store.read("s"))


def test_its_place_is_the_schema_and_tells_no_password(
    url: str, store: PostgresStore, new_postgres_url: Callable[[], str]
) -> None:
    """Heads are kept by place: the same for everybody who opens these tables, another for another schema."""
    again, other = PostgresStore(url), PostgresStore(new_postgres_url())
    try:
        assert store.place == again.place != other.place
        assert store.place.startswith("postgresql://")
        assert "adjourn@" not in store.place
    finally:
        again.close()
        other.close()


def test_a_history_that_was_deleted_from_the_tables_is_refused(
    url: str, store: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A living task notices it at its next append, a new one when it is loaded."""
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path))
    task = Task(store, "t", clock=Clock(), secret=b"s" * 32)
    task.commit(lambda _: [NewEvent(TaskOpened(goal="g"))])
    task.keep_head()
    _run(url, "DELETE FROM adjourn_event")
    with pytest.raises(IntegrityError, match="was cut or changed"):
        task.commit(lambda _: [NewEvent(TaskOpened(goal="g"))])
    with pytest.raises(IntegrityError, match="it was seen to reach"):
        Task(store, "t", clock=Clock(), secret=b"s" * 32)
