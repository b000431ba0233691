"""Appends that wait at the same moment are written together, and each has an outcome of its own."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import takewhile
from typing import Any, Self

import pytest

from adjourn.errors import ConflictError, StoreError
from adjourn.store import EMPTY, Entry, Head
from adjourn.store.conformance.documents import append_racing, check_chain, entry
from adjourn.store.postgres import PostgresStore

psycopg = pytest.importorskip("psycopg")

SECONDS = 30
OURS = "FROM pg_stat_activity WHERE application_name = 'adjourn' AND pid <> pg_backend_pid()"


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


@pytest.fixture
def admin(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True, application_name="admin") as connection:
        yield connection


def until(look: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < end
        time.sleep(0.005)


class Together:
    """Appends that are made by a thread each while both connections are busy, so that all but the two that lead line up."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.outcomes: list[Any] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for line in (self.store._line, self.store._second):
            line.lock.acquire()
        for number in range(2):
            self.append(f"leader-{number}", [entry(b"leads")], EMPTY)
            until(partial(self._lead, number + 1))
        return self

    def _lead(self, writers: int) -> bool:
        return self.store._appends._writers == writers

    def append(self, stream: str, entries: Sequence[Entry], expect: Head, **more: Any) -> None:
        number, waiting = len(self.outcomes), len(self.store._appends._waiting)
        self.outcomes.append(None)
        thread = threading.Thread(target=self._run, args=(number, stream, entries, expect, more))
        self._threads.append(thread)
        thread.start()
        if number >= 2:
            until(lambda: len(self.store._appends._waiting) > waiting)

    def _run(self, number: int, stream: str, entries: Sequence[Entry], expect: Head, more: dict[str, Any]) -> None:
        try:
            self.outcomes[number] = self.store.append(stream, entries, expect=expect, **more)
        except Exception as error:
            self.outcomes[number] = error

    def __exit__(self, *_: object) -> None:
        for line in (self.store._second, self.store._line):
            line.lock.release()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()

    @property
    def others(self) -> list[Any]:
        assert self.outcomes[:2] == [Head(0, entry(b"leads").hash)] * 2
        return self.outcomes[2:]


def test_what_waits_together_is_one_statement_and_one_notification(store: PostgresStore, admin: Any) -> None:
    """Forty appends, some of several entries, come in the transaction of one of the two that were already at work."""
    admin.execute("LISTEN adjourn")
    with Together(store) as together:
        for number in range(40):
            together.append(f"s{number}", [entry(b"%d" % part) for part in range(1 + number % 3)], EMPTY)
    assert together.others == [Head(n % 3, entry(b"%d" % (n % 3)).hash) for n in range(40)]
    assert [len(list(store.read(f"s{number}"))) for number in range(3)] == [1, 2, 3]
    assert admin.execute("SELECT count(DISTINCT xmin::text) FROM adjourn_event").fetchone() == (2,)
    admin.execute("NOTIFY adjourn, 'end'")
    heard = list(takewhile(lambda news: news.payload != "end", admin.notifies(timeout=SECONDS)))
    assert len(heard) == 2


def test_each_append_of_a_batch_has_its_own_outcome(store: PostgresStore) -> None:
    """A stale head, a gap and the loser of two of one stream are conflicts; all others are stored, none in part."""
    first = store.append("old", [entry(b"1")], expect=EMPTY)
    two = [entry(b"a"), entry(b"b")]
    with Together(store) as together:
        together.append("old", two, EMPTY)
        together.append("gap", two, Head(4, entry(b"no").hash))
        together.append("new", two, EMPTY)
        together.append("new", [entry(b"rival")], EMPTY)
        together.append("last", two, EMPTY)
    stale, gap, new, rival, last = together.others
    assert [type(one) for one in (stale, gap)] == [ConflictError] * 2
    assert last == Head(1, two[1].hash)
    assert store.head("old") == first
    assert store.head("gap") == EMPTY
    assert list(store.read("last")) == two
    # Both leaders write at once, each with one of the two: either may win.
    won, lost, stored = (new, rival, two) if isinstance(new, Head) else (rival, new, [entry(b"rival")])
    assert isinstance(lost, ConflictError)
    assert won == Head(len(stored) - 1, stored[-1].hash)
    assert list(store.read("new")) == stored


def test_refs_and_documents_come_with_the_append_that_brings_them(store: PostgresStore) -> None:
    """Those of a conflict are not written; of two appends that set one ref, either comes last."""
    one = [entry(b"x")]
    with Together(store) as together:
        together.append("a", one, EMPTY, refs={"shared": "a", "of a": "1"}, blobs=[b"both", b"of a"])
        together.append("b", one, EMPTY, refs={"shared": "b"}, blobs=[b"both"])
        together.append("gap", one, Head(4, one[0].hash), refs={"of gap": "1"}, blobs=[b"of gap"])
        together.append("c", one, EMPTY, blobs=[b"both"])
    assert [type(outcome) for outcome in together.others] == [Head, Head, ConflictError, Head]
    shared = store.refs()["shared"]
    assert shared in {"a", "b"}  # both leaders write at once, each with one of the two
    assert store.refs() == {"of a": "1", "shared": shared}
    assert dict(store.blobs()) == {sha256(data).hexdigest(): len(data) for data in (b"both", b"of a")}


def test_an_append_that_is_alone_waits_for_nobody(store: PostgresStore, url: str) -> None:
    """One connection is enough for one thread; while an append waits for a lock, others are written by the second."""
    head = EMPTY
    for number in range(10):
        head = store.append("s", [entry(b"%d" % number)], expect=head)
    assert store._second.connection is None
    with psycopg.connect(url, application_name="rival") as rival:
        rival.execute("SET adjourn.schema = 2")
        rival.execute("INSERT INTO adjourn_event VALUES ('slow', 0, %s, '')", ("0" * 64,))
        slow = threading.Thread(target=append_racing, args=(store, "slow", "x"))
        slow.start()
        with psycopg.connect(url, autocommit=True, application_name="admin") as admin:
            until(lambda: admin.execute(f"SELECT 1 {OURS} AND wait_event_type = 'Lock'".encode()).fetchone())
        assert store.append("fast", [entry(b"x")], expect=EMPTY).seq == 0
        assert slow.is_alive()
        rival.rollback()
    slow.join(SECONDS)
    check_chain(list(store.read("slow")))


def test_one_that_cannot_be_written_does_not_fail_the_others(url: str) -> None:
    """A place that somebody holds for too long is the error of that append only."""
    store = PostgresStore(f"{url}%20-clock_timeout%3D200")
    with psycopg.connect(url) as rival:
        rival.execute("SET adjourn.schema = 2")
        rival.execute("INSERT INTO adjourn_event VALUES ('m', 0, %s, '')", ("0" * 64,))
        with Together(store) as together:
            for stream in ("a", "m", "z"):
                together.append(stream, [entry(b"x")], EMPTY)
        rival.rollback()
    before, held, after = together.others
    assert before == after == Head(0, entry(b"x").hash)
    assert isinstance(held, StoreError)
    assert "locked" in held.message
    assert store.head("m") == EMPTY
    store.close()


@pytest.mark.parametrize("answered", [False, True])
def test_a_connection_lost_in_the_middle_of_a_batch_loses_and_doubles_nothing(
    store: PostgresStore, answered: bool
) -> None:
    """Whether the server did the statement or not; what conflicts is a conflict, as it is without the loss."""
    store.append("old", [entry(b"1")], expect=EMPTY)
    store._second.connected()
    for line in (store._line, store._second):
        line.connection = Lossy(line.connection, does=answered)  # type: ignore[assignment]
    with Together(store) as together:
        for number in range(20):
            refs = {f"r{number}": "v"} if number % 2 else {}
            together.append(f"s{number}", [entry(b"a"), entry(b"%d" % number)], EMPTY, refs=refs)
        together.append("old", [entry(b"other")], EMPTY)
    *stored, stale = together.others
    assert stored == [Head(1, entry(b"%d" % number).hash) for number in range(20)]
    assert isinstance(stale, ConflictError)
    for number in range(20):
        assert list(store.read(f"s{number}")) == [entry(b"a"), entry(b"%d" % number)]
    assert store.refs() == {f"r{number}": "v" for number in range(1, 20, 2)}


class Lossy:
    """A connection whose next statement fails, done by the server or not."""

    def __init__(self, connection: Any, *, does: bool) -> None:
        self._connection, self._does = connection, does

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, *arguments: Any, **options: Any) -> Any:
        if self._does:
            self._connection.execute(*arguments, **options)
        self._connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


def test_a_server_that_ends_connections_under_load_loses_and_doubles_nothing(store: PostgresStore, admin: Any) -> None:
    """Both connections are ended again and again while many threads append: the chains are whole, each entry is there once."""
    enough = threading.Event()
    heads: dict[str, Head] = {}
    threads = [threading.Thread(target=append_until, args=(enough, store, f"s{number}", heads)) for number in range(12)]
    for thread in threads:
        thread.start()
    ended = 0
    while ended < 10:
        ended += len(admin.execute(f"SELECT pg_terminate_backend(pid) {OURS}".encode()).fetchall())
        time.sleep(0.02)
    enough.set()
    for thread in threads:
        thread.join(SECONDS)
    assert len(heads) == 12
    for stream, head in heads.items():
        entries = list(store.read(stream))
        check_chain(entries)
        assert [one.data[65:] for one in entries] == [b"%d" % one for one in range(head.seq + 1)]


def append_until(enough: threading.Event, store: PostgresStore, stream: str, heads: dict[str, Head]) -> None:
    """Append numbers, each once: an acknowledged one must be the head, and after an error, one look tells whether it was written."""
    head = EMPTY
    while not enough.is_set():
        new = entry(f"{head.hash} {head.seq + 1}".encode())
        try:
            head = store.append(stream, [new], expect=head)
        except ConflictError:
            return
        except StoreError:
            head = read_head(store, stream)
    if read_head(store, stream) == head:
        heads[stream] = head


def read_head(store: PostgresStore, stream: str) -> Head:
    while True:
        try:
            return store.head(stream)
        except StoreError:
            continue


def test_who_is_interrupted_in_the_line_leaves_it(store: PostgresStore) -> None:
    """Ctrl-C for one that waits: nobody waits for it, and it is not written later."""

    class InterruptedAppendError(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise InterruptedAppendError

    held, done = threading.Event(), threading.Event()

    def lead() -> None:
        with Together(store):
            held.set()
            until(lambda: store._appends._waiting)
            signal.pthread_kill(main, signal.SIGUSR1)
            done.wait(SECONDS)

    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, interrupt)
    leaders = threading.Thread(target=lead)
    leaders.start()
    try:
        held.wait(SECONDS)
        with pytest.raises(InterruptedAppendError):
            store.append("s", [entry(b"x")], expect=EMPTY)
    finally:
        signal.signal(signal.SIGUSR1, before)
        done.set()
        leaders.join(SECONDS)
    assert store.head("s") == EMPTY
    assert store.append("s", [entry(b"y")], expect=EMPTY).seq == 0
