"""What a store promises to those who wait for an append, and when it is closed.

Owns: these tests. Must never: import pytest, or test what the protocol does not promise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from adjourn.errors import StoreError
from adjourn.store import checks
from adjourn.store.base import EMPTY, ZERO_HASH, Head, Store
from adjourn.store.conformance.entries import append_racing, entry
from adjourn.store.conformance.suite import Suite, refused


class WatchCases(Suite):
    """A watch ends with an append, with its time, and with the store."""

    def test_watching_returns_at_once_when_the_head_differs(self) -> None:
        store = self._new()
        assert store.watch("s", Head(3, ZERO_HASH), 60) == EMPTY
        head = store.append("s", [entry(b"x")], expect=EMPTY)
        assert store.watch("s", EMPTY, 60) == head

    def test_watching_ends_with_its_time(self) -> None:
        store = self._new()
        head = store.append("s", [entry(b"x")], expect=EMPTY)
        began = time.monotonic()
        assert store.watch("s", head, 0.2) == head
        assert time.monotonic() - began >= 0.15
        assert store.watch("s", head, 0) == head
        assert store.watch("s", head, -1) == head

    def test_watching_sees_an_append(self) -> None:
        store = self._new()
        self._watch(store, store)

    def test_watching_sees_an_append_of_another_opener(self) -> None:
        store = self._new()
        again, _ = self._again(store)
        self._watch(store, again)
        self._watch(again, store)

    def _watch(self, watching: Store, appending: Store) -> None:
        head = watching.head("s")
        later = threading.Timer(0.1, append_racing, (appending, "s", "x"))
        later.start()
        try:
            seen = watching.watch("s", head, 30)
        finally:
            later.join()
        assert seen.seq == head.seq + 1

    def test_closing_twice_is_harmless_and_a_closed_store_says_so(self) -> None:
        store = self._new()
        store.append("s", [entry(b"x")] * (checks.PAGE_ENTRIES + 2), expect=EMPTY)
        reading = store.read("s")
        next(reading)
        store.close()
        store.close()
        uses: tuple[Callable[[], object], ...] = (
            partial(store.append, "s", [entry(b"x")], expect=EMPTY),
            partial(store.append, "s", [entry(b"x")] * 2, expect=EMPTY),
            partial(store.head, "s"),
            partial(store.read, "s"),
            store.streams,
            partial(store.ref, "r"),
            store.refs,
            partial(store.swap, "r", "v", expect=None),
            partial(store.put_blob, b"x"),
            partial(store.get_blob, ZERO_HASH),
            partial(store.forget, ZERO_HASH),
            partial(store.watch, "s", EMPTY, 0.1),
            partial(list, reading),
        )
        for use in uses:
            with refused(StoreError):
                use()

    def test_closing_ends_a_watch(self) -> None:
        store = self._new()
        threading.Timer(0.2, store.close).start()
        began = time.monotonic()
        with refused(StoreError):
            store.watch("s", EMPTY, 60)
        assert time.monotonic() - began < 30
