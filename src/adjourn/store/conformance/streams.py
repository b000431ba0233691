"""What a store promises of streams.

Owns: these tests. Must never: import pytest, or test what the protocol does not promise.
"""

from __future__ import annotations

import hashlib
from itertools import islice

from adjourn.errors import ConflictError
from adjourn.store import checks
from adjourn.store.base import EMPTY, ZERO_HASH, Entry, Head, Swap
from adjourn.store.conformance.entries import entry
from adjourn.store.conformance.suite import NAMES, Suite, refused


class Streams(Suite):
    """Entries are kept as they came, in their order, and only at the head."""

    def test_a_new_store_is_empty(self) -> None:
        store = self._new()
        assert store.head("s") == EMPTY
        assert list(store.read("s")) == []
        assert store.streams() == {}
        assert store.ref("r") is None
        assert store.refs() == {}
        assert store.get_blob(ZERO_HASH) is None

    def test_bytes_are_read_as_they_were_appended(self) -> None:
        store = self._new()
        made = [entry(data) for data in (b"", b"\0", bytes(range(256)), b"{}", b"x" * 100_000)]
        head = EMPTY
        for number, one in enumerate(made):
            head = store.append("s", [one], expect=head)
            assert head == (number, one.hash)
            assert store.head("s") == head
        assert list(store.read("s")) == made
        assert all(isinstance(one, Entry) and type(one.data) is bytes for one in store.read("s"))

    def test_several_entries_are_one_append(self) -> None:
        store = self._new()
        made = [entry(b"%d" % number) for number in range(70)]
        head = store.append("s", made[:64], expect=EMPTY, durable=False)
        assert head == Head(63, made[63].hash)
        assert store.append("s", made[64:], expect=head) == Head(69, made[69].hash)
        assert list(store.read("s")) == made

    def test_a_stale_expect_writes_nothing(self) -> None:
        store = self._new()
        kept = entry(b"kept")
        first = store.append("s", [kept], expect=EMPTY, refs={"r": "old"})
        head = store.append("s", [entry(b"second")], expect=first)
        stale = (
            EMPTY,
            first,
            Head(head.seq, first.hash),
            Head(head.seq, ZERO_HASH),
            Head(head.seq + 1, head.hash),
            Head(head.seq + 2**70, head.hash),
            Head(-1, head.hash),
            Head(-2, ZERO_HASH),
            Head(head.seq, head.hash.upper()),
            Head(head.seq, "\0\ud800"),
        )
        blob = b"stale"
        for expect in stale:
            for entries in ([entry(b"x")], [entry(b"x"), entry(b"y")], []):
                with refused(ConflictError):
                    store.append(
                        "s", entries, expect=expect, refs={"r": "new", "q": "new"}, blobs=[blob, b"other"]
                    )
            with refused(ConflictError):
                store.append("s", [entry(b"x")], expect=expect)
        assert store.head("s") == head
        assert list(store.read("s")) == [kept, entry(b"second")]
        assert store.refs() == {"r": "old"}
        assert store.get_blob(hashlib.sha256(blob).hexdigest()) is None

    def test_an_empty_stream_refuses_a_gap(self) -> None:
        store = self._new()
        for expect in (Head(0, ZERO_HASH), Head(5, ZERO_HASH), Head(-1, entry(b"").hash)):
            for entries in ([entry(b"x")], [entry(b"x"), entry(b"y")]):
                with refused(ConflictError):
                    store.append("s", entries, expect=expect)
        assert store.streams() == {}

    def test_refs_and_blobs_come_with_the_entries(self) -> None:
        store = self._new()
        blob = b"document"
        head = store.append("s", [entry(b"1")], expect=EMPTY, refs={"a": "1", "b": "1"}, blobs=[blob, blob])
        head = store.append("s", [entry(b"2")], expect=head, refs={"a": "2", "b": None, "absent": None})
        assert store.refs() == {"a": "2"}
        assert store.get_blob(hashlib.sha256(blob).hexdigest()) == blob
        assert store.append("s", [], expect=head, refs={"c": "3"}, blobs=[b"more"]) == head
        assert store.append("new", [], expect=EMPTY, refs={"d": "4"}) == EMPTY
        assert store.refs() == {"a": "2", "c": "3", "d": "4"}
        assert store.streams() == {"s": head}

    def test_refs_are_swapped_with_the_entries_or_nothing_is_written(self) -> None:
        store = self._new()
        head = store.append("s", [entry(b"1")], expect=EMPTY, swaps={"n": Swap(None, "1")})
        for wrong in (Swap(None, "2"), Swap("0", "2"), Swap("0", None)):
            for entries in ([entry(b"x")], [entry(b"x"), entry(b"y")], []):
                with refused(ConflictError):
                    swaps = {"m": Swap(None, "new"), "n": wrong, "o": Swap(None, "new")}
                    store.append("s", entries, expect=head, refs={"r": "new"}, blobs=[b"x"], swaps=swaps)
        assert store.refs() == {"n": "1"}
        assert store.streams() == {"s": head}
        swaps = {"n": Swap("1", "2"), "o": Swap(None, None)}
        head = store.append("s", [entry(b"2")], expect=head, swaps=swaps)
        assert store.refs() == {"n": "2"}
        store.append("s", [entry(b"3"), entry(b"4")], expect=head, swaps={"n": Swap("2", None)})
        assert store.refs() == {}

    def test_streams_do_not_touch_each_other(self) -> None:
        store = self._new()
        heads = {}
        for number, name in enumerate(NAMES):
            heads[name] = store.append(name, [entry(name.encode())] * (number + 1), expect=EMPTY)
        assert store.streams() == heads
        assert list(store.streams()) == sorted(NAMES)
        for number, name in enumerate(NAMES):
            assert [one.data for one in store.read(name)] == [name.encode()] * (number + 1)

    def test_a_range_is_read(self) -> None:
        store = self._new()
        made = [entry(b"%d" % number) for number in range(10)]
        store.append("s", made, expect=EMPTY)
        for start, stop in ((0, None), (3, None), (3, 7), (9, None), (10, None), (0, 0), (7, 3), (99, 999)):
            assert list(store.read("s", start, stop)) == made[start:stop]
        assert list(store.read("s", -5, 2**70)) == made
        assert list(store.read("s", 2**70)) == []
        assert list(store.read("nothing", 0, 5)) == []

    def test_reading_is_lazy_and_sees_what_was_there(self) -> None:
        store = self._new()
        made = [entry(b"%d" % number) for number in range(checks.PAGE_ENTRIES * 2 + 100)]
        head = store.append("s", made, expect=EMPTY, durable=False)
        one, other = store.read("s"), store.read("s", 5)
        assert next(one) == made[0]
        assert list(islice(other, 3)) == made[5:8]
        head = store.append("s", [entry(b"later")], expect=head, durable=False)
        assert list(one) == made[1:]
        assert list(other) == made[8:]
        assert store.head("s") == head

    def test_long_histories_are_paged(self) -> None:
        store = self._new()
        made = [entry(b"%d" % number) for number in range(checks.PAGE_ENTRIES * 3)]
        store.append("s", made, expect=EMPTY, durable=False)
        assert list(store.read("s")) == made
        for start in (checks.PAGE_ENTRIES - 1, checks.PAGE_ENTRIES, checks.PAGE_ENTRIES + 1):
            assert (
                list(store.read("s", start, start + checks.PAGE_ENTRIES + 1))
                == (made[start : start + checks.PAGE_ENTRIES + 1])
            )

    def test_big_entries_are_paged(self) -> None:
        store = self._new()
        made = [entry(bytes([number]) * (checks.PAGE_BYTES // 3)) for number in range(8)]
        store.append("s", made, expect=EMPTY, durable=False)
        assert list(store.read("s")) == made

    def test_the_hash_is_taken_at_its_word(self) -> None:
        store = self._new()
        odd = Entry("ab" * 32, b"not what that is the hash of")
        store.append("s", [odd], expect=EMPTY)
        assert list(store.read("s")) == [odd]
