"""Where all streams of a SQLite file end: asked for again and again, it is read again only where something was written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adjourn.errors import IntegrityError
from adjourn.store import EMPTY, Head
from adjourn.store.conformance.entries import entry
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
