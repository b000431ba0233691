"""What a store promises of streams: appends, appends made together, and waiting for one."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice

from adjourn.errors import AdjournError, ConflictError, InvalidError, StoreError
from adjourn.store import base
from adjourn.store.base import EMPTY, ZERO_HASH, Append, Entry, Head, Store, Swap
from adjourn.store.conformance.documents import NAMES, Suite, append_racing, check_chain, entry, linked, refused


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
        entries = [entry(data) for data in (b"", b"\0", bytes(range(256)), b"{}", b"x" * 100_000)]
        head = EMPTY
        for number, one in enumerate(entries):
            head = store.append("s", [one], expect=head)
            assert head == (number, one.hash)
            assert store.head("s") == head
        assert list(store.read("s")) == entries
        assert all(isinstance(one, Entry) and type(one.data) is bytes for one in store.read("s"))

    def test_several_entries_are_one_append(self) -> None:
        store = self._new()
        entries = [entry(b"%d" % number) for number in range(70)]
        head = store.append("s", entries[:64], expect=EMPTY, durable=False)
        assert head == Head(63, entries[63].hash)
        assert store.append("s", entries[64:], expect=head) == Head(69, entries[69].hash)
        assert list(store.read("s")) == entries

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
                    store.append("s", entries, expect=expect, refs={"r": "new", "q": "new"}, blobs=[blob, b"other"])
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
        for prefix in (*NAMES, *(name[:1] for name in NAMES), "no such stream"):
            assert store.streams(prefix) == {name: head for name, head in heads.items() if name.startswith(prefix)}
        for number, name in enumerate(NAMES):
            assert [one.data for one in store.read(name)] == [name.encode()] * (number + 1)

    def test_a_range_is_read(self) -> None:
        store = self._new()
        entries = [entry(b"%d" % number) for number in range(10)]
        store.append("s", entries, expect=EMPTY)
        for start, stop in ((0, None), (3, None), (3, 7), (9, None), (10, None), (0, 0), (7, 3), (99, 999)):
            assert list(store.read("s", start, stop)) == entries[start:stop]
        assert list(store.read("s", -5, 2**70)) == entries
        assert list(store.read("s", 2**70)) == []
        assert list(store.read("nothing", 0, 5)) == []

    def test_reading_is_lazy_and_sees_what_was_there(self) -> None:
        store = self._new()
        entries = [entry(b"%d" % number) for number in range(base.PAGE_ENTRIES * 2 + 100)]
        head = store.append("s", entries, expect=EMPTY, durable=False)
        one, other = store.read("s"), store.read("s", 5)
        assert next(one) == entries[0]
        assert list(islice(other, 3)) == entries[5:8]
        head = store.append("s", [entry(b"later")], expect=head, durable=False)
        assert list(one) == entries[1:]
        assert list(other) == entries[8:]
        assert store.head("s") == head

    def test_long_histories_are_paged(self) -> None:
        store = self._new()
        entries = [entry(b"%d" % number) for number in range(base.PAGE_ENTRIES * 3)]
        store.append("s", entries, expect=EMPTY, durable=False)
        assert list(store.read("s")) == entries
        for start in (base.PAGE_ENTRIES - 1, base.PAGE_ENTRIES, base.PAGE_ENTRIES + 1):
            assert (
                list(store.read("s", start, start + base.PAGE_ENTRIES + 1))
                == (entries[start : start + base.PAGE_ENTRIES + 1])
            )

    def test_big_entries_are_paged(self) -> None:
        store = self._new()
        entries = [entry(bytes([number]) * (base.PAGE_BYTES // 3)) for number in range(8)]
        store.append("s", entries, expect=EMPTY, durable=False)
        assert list(store.read("s")) == entries

    def test_the_hash_is_taken_at_its_word(self) -> None:
        store = self._new()
        odd = Entry("ab" * 32, b"not what that is the hash of")
        store.append("s", [odd], expect=EMPTY)
        assert list(store.read("s")) == [odd]


# --- what a store promises of appends that are made together


class ManyAppends(Suite):
    """Each append of several is all or nothing by itself."""

    def test_appends_to_many_streams_are_made_together(self) -> None:
        store = self._new()
        assert store.append_many([]) == []
        made = {f"s{number}": entry(b"%d" % number) for number in range(70)}
        blob = b"kept"
        appends = [Append(stream, [one, one], EMPTY, {f"r/{stream}": stream}, [blob]) for stream, one in made.items()]
        assert store.append_many(appends) == [Head(1, one.hash) for one in made.values()]
        assert store.streams() == {stream: Head(1, one.hash) for stream, one in sorted(made.items())}
        assert len(store.refs("r/")) == len(made)
        assert store.get_blob(hashlib.sha256(blob).hexdigest()) == blob

    def test_a_stale_one_of_many_writes_nothing(self) -> None:
        store = self._new()
        head = store.append("b", [entry(b"first")], expect=EMPTY, refs={"n": "0", "gone": "1"})
        outcomes = store.append_many(
            [
                Append("a", [entry(b"a")], EMPTY, {"gone": None}),
                Append("b", [entry(b"stale")], EMPTY, {"x": "1"}, [b"stale"], {"n": Swap("0", "9")}),
                Append("c", [entry(b"c")], EMPTY, {"y": "1"}, [b"also"], {"n": Swap("1", "2")}),
                Append("d", [entry(b"d")], EMPTY, {}, (), {"n": Swap("0", "1")}),
                Append("e", [entry(b"e")], Head(3, head.hash)),
                Append("f", (), head),
            ],
            durable=False,
        )
        assert [isinstance(outcome, ConflictError) for outcome in outcomes] == [False, True, True, False, True, True]
        assert list(store.streams()) == ["a", "b", "d"]
        assert store.head("b") == head
        assert store.refs() == {"n": "1"}
        assert list(store.blobs()) == []

    def test_appends_to_one_stream_are_made_in_their_order(self) -> None:
        store = self._new()
        first = linked(EMPTY, "1")
        second = linked(Head(0, first.hash), "2")
        outcomes = store.append_many(
            [
                Append("s", [first], EMPTY, {}, (), {"n": Swap(None, "1")}),
                Append("t", [first], EMPTY, {}, (), {"n": Swap("1", "2")}),
                Append("s", [second], Head(0, first.hash), {}, (), {"n": Swap("2", "3")}),
            ]
        )
        assert outcomes == [Head(0, first.hash), Head(0, first.hash), Head(1, second.hash)]
        check_chain(list(store.read("s")))
        assert store.ref("n") == "3"

    def test_one_that_is_invalid_leaves_all_out(self) -> None:
        store = self._new()
        for bad in (Append("", [entry(b"x")], EMPTY), Append("t", [entry(b"x")._replace(hash="X")], EMPTY)):
            with refused(InvalidError):
                store.append_many([Append("s", [entry(b"x")], EMPTY), bad])
        assert store.streams() == {}

    def test_a_closed_store_makes_none(self) -> None:
        store = self._new()
        store.append("s", [entry(b"x")], expect=EMPTY)
        store.close()
        try:
            outcomes = store.append_many([Append("t", [entry(b"x")], EMPTY), Append("u", [entry(b"x")], EMPTY)])
        except StoreError:
            return
        assert all(isinstance(outcome, StoreError) for outcome in outcomes)

    def test_racing_batches_lose_nothing(self) -> None:
        store = self._new()
        streams = ("a", "b", "c")

        def run(who: int) -> None:
            for number in range(self.appends):
                left = list(streams)
                while left:
                    heads = {stream: store.head(stream) for stream in left}
                    outcomes = store.append_many(
                        [Append(stream, [linked(heads[stream], f"{who}-{number}")], heads[stream]) for stream in left],
                        durable=False,
                    )
                    left = [s for s, one in zip(left, outcomes, strict=True) if isinstance(one, AdjournError)]

        self._race([partial(run, who) for who in range(self.racers)])
        for stream in streams:
            self._check_all(store, stream)

    def _check_all(self, store: Store, stream: str) -> None:
        entries = list(store.read(stream))
        check_chain(entries)
        assert len({one.data[65:] for one in entries}) == len(entries) == self.racers * self.appends


# --- what a store promises to those who wait for an append, and when it is closed


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
        store.append("s", [entry(b"x")] * (base.PAGE_ENTRIES + 2), expect=EMPTY)
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
