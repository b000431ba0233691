"""Types of `adjourn.store` and its conformance suite, as their users see them. mypy checks this file (`make lint`); nothing runs it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import assert_type

from adjourn.store import (
    EMPTY,
    NO_REFS,
    ZERO_HASH,
    Entry,
    Head,
    MemoryStore,
    PostgresStore,
    SqliteStore,
    Store,
    open_store,
)
from adjourn.store.conformance import StoreConformance
from adjourn.store.conformance.documents import Opener

# Each backend is a Store.
BACKENDS: list[type[Store]] = [MemoryStore, SqliteStore, PostgresStore]


def protocol(store: Store) -> None:
    """What goes in and out is plain data."""
    assert_type(store.append("s", [Entry(hash="0" * 64, data=b"{}")], expect=EMPTY), Head)
    assert_type(store.head("s"), Head)
    assert_type(store.read("s", 0, 1), Iterator[Entry])
    assert_type(store.streams(), dict[str, Head])
    assert_type(store.ref("r"), str | None)
    assert_type(store.refs("lease/"), dict[str, str])
    assert_type(store.put_blob(b""), str)
    assert_type(store.get_blob("0" * 64), bytes | None)
    assert_type(store.blobs(), Iterator[tuple[str, int]])
    assert_type(store.watch("s", store.head("s"), 1.0), Head)
    store.swap("r", "new", expect=None)
    store.swap("r", "new")  # type: ignore[call-arg]
    store.append("s", [b"{}"], expect=EMPTY)  # type: ignore[list-item]


def values(entry: Entry, head: Head) -> None:
    assert_type(entry.hash, str)
    assert_type(entry.data, bytes)
    assert_type(head, Head)
    assert_type(EMPTY, Head)
    assert_type(ZERO_HASH, str)
    print(NO_REFS)


def opening() -> None:
    assert_type(open_store(), Store)
    assert_type(open_store("sqlite:a.db"), Store)


class MyConformance(StoreConformance):
    """A backend of one's own is tested by a subclass with two methods."""

    def make_store(self) -> Store:
        return SqliteStore("a.db")

    def opener(self, store: Store) -> Opener | None:
        return partial(SqliteStore, "a.db")
