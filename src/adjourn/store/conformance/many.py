"""What a store promises of appends that are made together.

Owns: these tests. Must never: import pytest, or test what the protocol does not promise.
"""

from __future__ import annotations

import hashlib
from functools import partial

from adjourn.errors import AdjournError, ConflictError, InvalidError, StoreError
from adjourn.store.base import EMPTY, Append, Head, Store, Swap
from adjourn.store.conformance.entries import check_chain, entry, linked
from adjourn.store.conformance.suite import Suite, refused


class ManyAppends(Suite):
    """Each append of several is all or nothing by itself."""

    def test_appends_to_many_streams_are_made_together(self) -> None:
        store = self._new()
        assert store.append_many([]) == []
        made = {f"s{number}": entry(b"%d" % number) for number in range(70)}
        blob = b"kept"
        appends = [
            Append(stream, [one, one], EMPTY, {f"r/{stream}": stream}, [blob]) for stream, one in made.items()
        ]
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
        assert [isinstance(one, ConflictError) for one in outcomes] == [False, True, True, False, True, True]
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
            outcomes = store.append_many(
                [Append("t", [entry(b"x")], EMPTY), Append("u", [entry(b"x")], EMPTY)]
            )
        except StoreError:
            return
        assert all(isinstance(one, StoreError) for one in outcomes)

    def test_racing_batches_lose_nothing(self) -> None:
        store = self._new()
        streams = ("a", "b", "c")

        def run(who: int) -> None:
            for number in range(self.appends):
                left = list(streams)
                while left:
                    heads = {stream: store.head(stream) for stream in left}
                    outcomes = store.append_many(
                        [
                            Append(stream, [linked(heads[stream], f"{who}-{number}")], heads[stream])
                            for stream in left
                        ],
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
