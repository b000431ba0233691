"""What is asked for again and again of a SQLite file is read again only where something was written: where its streams end, its refs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adjourn.errors import IntegrityError
from adjourn.store import EMPTY, Head
from adjourn.store.conformance.documents import entry
from adjourn.store.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        yield store


def test_what_another_process_appends_is_seen(store: SqliteStore) -> None:
    """Also in streams that were known, and in new ones, which are in the order of their names."""
    first = store.append("b", [entry(b"1")], expect=EMPTY)
    assert store.streams() == {"b": first}
    with closing(SqliteStore(store.path)) as other:
        second = other.append("b", [entry(b"2")], expect=first)
        assert store.streams() == {"b": second}
        new = other.append("a", [entry(b"3")], expect=EMPTY)
    assert list(store.streams().items()) == [("a", new), ("b", second)]


def test_nothing_is_read_where_nothing_was_written(store: SqliteStore) -> None:
    """The same heads are returned; what a caller does with the dictionary changes nothing."""
    head = store.append("a", [entry(b"1")], expect=EMPTY)
    known = store.streams()
    assert known["a"] is store.streams()["a"]
    known["a"] = Head(7, "x")
    assert store.streams() == {"a": head}


def test_a_stream_that_something_else_deleted_is_gone(store: SqliteStore) -> None:
    """Only a stream with entries is one."""
    kept = store.append("a", [entry(b"1")], expect=EMPTY)
    store.append("b", [entry(b"2")], expect=EMPTY)
    assert len(store.streams()) == 2
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("DELETE FROM event WHERE hash = ?", (entry(b"2").hash,))
    assert store.streams() == {"a": kept}


@pytest.mark.parametrize("name", ["a\tb", "a\nb\t1\tc", "a\tx\tb"])
def test_names_that_no_store_writes_are_refused(store: SqliteStore, name: str) -> None:
    """A file that something else has edited is an error, and never makes up a stream."""
    store.append("a", [entry(b"1")], expect=EMPTY)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("UPDATE stream SET name = ?", (name,))
    with pytest.raises(IntegrityError, match="no store writes"):
        store.streams()


def test_refs_keep_their_version_until_they_may_have_changed(store: SqliteStore) -> None:
    """The entries of this store leave the version; its refs, and whatever another connection writes, change it."""
    head = store.append("a", [entry(b"1")], expect=EMPTY)
    before = store.refs_version()
    for number in range(2000):  # the log is copied meanwhile
        head = store.append("a", [entry(b"%d" % number)], expect=head, durable=number % 2 == 0)
    assert store.refs_version() == before
    store.swap("r", "1", expect=None)
    second = store.refs_version()
    store.append("a", [], expect=head, refs={"r": "2"})
    third = store.refs_version()
    with closing(SqliteStore(store.path)) as other:
        other.append("b", [entry(b"2")], expect=EMPTY)
    assert len({before, second, third, store.refs_version()}) == 4
