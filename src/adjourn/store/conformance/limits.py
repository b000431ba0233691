"""What no store takes, and what every store does.

Owns: these tests. Must never: import pytest, or test what the protocol does not promise.
"""

from __future__ import annotations

from typing import Any

from adjourn.errors import InvalidError
from adjourn.store import checks
from adjourn.store.base import EMPTY, ZERO_HASH, Entry
from adjourn.store.conformance.suite import Suite, entry, refused

_BAD_NAMES = ("", "nul\0", "line\n", "del\x7f", "c1\x85", "lone\ud800", "x" * 513, "é" * 257)


class Limits(Suite):
    """What is beyond a limit is refused, and nothing is written."""

    def test_names_that_some_store_cannot_hold_are_refused(self) -> None:
        store = self._new()
        for name in _BAD_NAMES:
            with refused(InvalidError):
                store.append(name, [entry(b"x")], expect=EMPTY)
            with refused(InvalidError):
                store.append("s", [entry(b"x")], expect=EMPTY, refs={name: "v"})
            with refused(InvalidError):
                store.swap(name, "v", expect=None)
            for ask in (store.head, store.read, store.ref):
                with refused(InvalidError):
                    ask(name)
            if name:
                with refused(InvalidError):
                    store.refs(name)
        assert store.streams() == {}
        assert store.refs() == {}
        longest = "é" * 256
        head = store.append(longest, [entry(b"x")], expect=EMPTY, refs={longest: "v"})
        assert store.head(longest) == head
        assert store.refs(longest) == {longest: "v"}

    def test_malformed_hashes_are_refused(self) -> None:
        store = self._new()
        good = entry(b"x").hash
        for bad in (
            "",
            good[:-1],
            good + "0",
            good.upper(),
            "g" * 64,
            " " + good[1:],
            good[:31] + "  " + good[33:],
        ):
            for entries in ([Entry(bad, b"x")], [entry(b"x"), Entry(bad, b"x")]):
                with refused(InvalidError):
                    store.append("s", entries, expect=EMPTY, refs={"r": "v"})
            with refused(InvalidError):
                store.get_blob(bad)
            with refused(InvalidError):
                store.forget(bad)
        assert store.streams() == {}
        assert store.refs() == {}

    def test_values_beyond_the_limits_are_refused(self) -> None:
        store = self._new()
        long_value, long_data = "v" * (checks.MAX_REF + 1), bytes(checks.MAX_ENTRY + 1)
        for value in (long_value, "nul\0", "lone\ud800"):
            with refused(InvalidError):
                store.swap("r", value, expect=None)
            with refused(InvalidError):
                store.append("s", [entry(b"x")], expect=EMPTY, refs={"r": value})
        for entries in ([entry(long_data)], [entry(b"x"), entry(long_data)]):
            with refused(InvalidError):
                store.append("s", entries, expect=EMPTY)
        long_blob = bytes(checks.MAX_BLOB + 1)
        with refused(InvalidError):
            store.put_blob(long_blob)
        with refused(InvalidError):
            store.append("s", [entry(b"x")], expect=EMPTY, blobs=[long_blob])
        assert store.streams() == {}
        assert store.refs() == {}

    def test_values_at_the_limits_are_kept(self) -> None:
        store = self._new()
        value, largest = "v" * checks.MAX_REF, entry(bytes(checks.MAX_ENTRY))
        store.append("s", [largest], expect=EMPTY, refs={"r": value}, durable=False)
        assert list(store.read("s")) == [largest]
        assert store.ref("r") == value

    def test_only_bytes_are_data(self) -> None:
        store = self._new()
        odd: Any
        for odd in ("text", bytearray(b"x"), None):
            with refused(InvalidError):
                store.append("s", [Entry(ZERO_HASH, odd)], expect=EMPTY)
            with refused(InvalidError):
                store.put_blob(odd)
        assert store.streams() == {}
