"""A PostgreSQL server that answers nothing any more, and ends nothing itself: every use of the store has an end."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import StoreError
from adjourn.store import EMPTY
from adjourn.store.conformance.documents import entry
from adjourn.store.postgres import PostgresStore
from adjourn.store.postgres_link import RETRY_SECONDS, PostgresServer

psycopg = pytest.importorskip("psycopg")

HASTY = "%20-cstatement_timeout%3D500&connect_timeout=2"
SECONDS = 60


@pytest.fixture
def store(new_postgres_url: Callable[[], str]) -> Iterator[PostgresStore]:
    url = new_postgres_url()
    PostgresStore(url).close()  # making the tables takes longer than a hasty statement may
    store = PostgresStore(url + HASTY)
    yield store
    store.close()


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def backend(store: PostgresStore) -> int:
    assert store._line.connection is not None
    return store._line.connection.info.backend_pid


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What it returns or raises. Fails when that takes longer."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except StoreError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, f"still waiting after {seconds} s"
    return found[0]


def test_a_stopped_server_is_given_up(store: PostgresStore, postgres_server: Any) -> None:
    """Reads and writes fail with a remedy, further ones at once for a while, and the store works when the server continues."""
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    postmaster = int(Path(postgres_server.folder, "data", "postmaster.pid").read_text().split()[0])
    with frozen(postmaster, backend(store)):
        failed = within(SECONDS, lambda: store.append("s", [entry(b"2")], expect=head))
        assert isinstance(failed, StoreError)
        assert failed.remedy
        again = within(RETRY_SECONDS, lambda: [store_error(store.head, "s") for _ in range(20)])
        assert {one.message for one in again} == {failed.message}
    deadline = time.monotonic() + SECONDS
    while isinstance(found := within(SECONDS, lambda: store.head("s")), StoreError):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    if found == head:
        found = store.append("s", [entry(b"2")], expect=head)
    assert found == (1, entry(b"2").hash)
    assert [one.data for one in store.read("s")] == [b"1", b"2"]


def store_error(work: Callable[..., Any], *arguments: Any) -> StoreError:
    with pytest.raises(StoreError) as caught:
        work(*arguments)
    return caught.value


def test_one_dead_connection_is_replaced(store: PostgresStore) -> None:
    """Where only the way to the server is gone, as behind a network that has forgotten it, the store continues by another."""
    head = store.append("s", [entry(b"1")], expect=EMPTY)
    with frozen(backend(store)):
        assert within(SECONDS, lambda: store.head("s")) == head
        assert within(SECONDS, lambda: store.append("s", [entry(b"2")], expect=head)).seq == 1


@pytest.mark.parametrize(("took", "pause"), [(2.0, 2.0), (60.0, RETRY_SECONDS)])
def test_a_slow_server_is_left_alone_for_as_long_as_it_took(took: float, pause: float) -> None:
    """After a failure that took its time, the next connection is tried after as long again, but after 5 s in any case."""
    times = iter([0.0, took, took + pause - 0.1, took + pause + 0.1, took + pause + 0.2])
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"postgresql://me@127.0.0.1:{nobody.getsockname()[1]}/db"
    server = PostgresServer(url, lambda: next(times))
    tried = [store_error(server.connect).__cause__ is not None for _ in range(3)]
    assert tried == [True, False, True]


def test_a_server_that_accepts_and_says_nothing_is_given_up() -> None:
    """Whatever listens there: opening a store on it ends."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"postgresql://me@127.0.0.1:{deaf.getsockname()[1]}/db?connect_timeout=2"
        failed = within(SECONDS, lambda: PostgresStore(url))
    assert isinstance(failed, StoreError)
    assert "127.0.0.1" in failed.message


def test_a_name_that_nobody_looks_up_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """libpq and the resolver know no limit for that."""
    never = threading.Event()

    def deaf(*_: Any, **__: Any) -> Any:
        never.wait(SECONDS)
        raise psycopg.OperationalError("no such host")

    monkeypatch.setattr(psycopg.Connection, "connect", classmethod(deaf))
    failed = within(SECONDS / 2, lambda: PostgresStore("postgresql://me@nowhere.invalid/db?connect_timeout=2"))
    never.set()
    assert isinstance(failed, StoreError)
    assert "no connection within" in failed.message


def test_waiting_for_news_is_no_silence(store: PostgresStore) -> None:
    """`watch` may wait for longer than a statement may take."""
    assert store._line.connection is not None
    silence = store._line.connection.silence  # type: ignore[attr-defined]
    assert silence == pytest.approx(2.5)
    begun = time.monotonic()
    assert store.watch("s", EMPTY, silence + 1) == EMPTY
    assert time.monotonic() - begun >= silence + 1
