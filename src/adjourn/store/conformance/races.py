"""What a store promises to several threads and processes at once.

Owns: these tests. Must never: import pytest, or test what the protocol does not promise.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from functools import partial
from multiprocessing import get_context

from adjourn.errors import ConflictError
from adjourn.store import checks
from adjourn.store.base import EMPTY, Store, Swap
from adjourn.store.conformance.suite import Opener, Suite, append_racing, check_chain, entry, linked, refused


def _append_several(opener: Opener, stream: str, who: str, count: int) -> None:
    store = opener()
    try:
        for number in range(count):
            append_racing(store, stream, f"{who}-{number}")
    finally:
        store.close()


class Races(Suite):
    """Whoever races, the chain is unbroken and nothing is lost."""

    def test_racing_threads_make_one_unbroken_chain(self) -> None:
        store = self._new()
        self._race([partial(self._append_in_thread, store, str(who)) for who in range(self.racers)])
        self._check_race(store)

    def test_racing_processes_make_one_unbroken_chain(self) -> None:
        store = self._new()
        _, opener = self._again(store)

        # Spawned, not forked: no store promises to survive a fork.
        context = get_context("spawn")
        processes = [
            context.Process(target=_append_several, args=(opener, "s", str(who), self.appends))
            for who in range(self.racers)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0] * self.racers
        self._check_race(store)

    def test_racing_swaps_count_every_one(self) -> None:
        store = self._new()
        store.swap("n", "0", expect=None)
        self._race([partial(self._count_up, store)] * self.racers)
        assert store.ref("n") == str(self.racers * self.appends)

    def test_racing_appends_to_several_streams_count_every_one(self) -> None:
        store = self._new()

        def run(stream: str) -> None:
            head = EMPTY
            while head.seq < self.appends - 1:
                value = store.ref("n")
                counted = Swap(value, str(int(value or "0") + 1))
                with suppress(ConflictError):
                    head = store.append(
                        stream, [linked(head, stream)], expect=head, swaps={"n": counted}, durable=False
                    )

        self._race([partial(run, f"s{who}") for who in range(self.racers)])
        assert store.ref("n") == str(self.racers * self.appends)

    def test_of_racing_appends_of_refs_the_loser_writes_nothing(self) -> None:
        store = self._new()
        won = []

        def run(who: int) -> None:
            expect = EMPTY
            for number in range(self.appends):
                made = linked(expect, f"{who}-{number}")
                try:
                    expect = store.append("s", [made, made], expect=expect, refs={"r": made.hash}, durable=False)
                    won.append(made.hash)
                except ConflictError:
                    expect = store.head("s")

        self._race([partial(run, who) for who in range(self.racers)])
        assert store.head("s").seq == len(won) * 2 - 1
        assert store.ref("r") == store.head("s").hash

    def test_reading_goes_on_while_others_append(self) -> None:
        store = self._new()
        entries = [entry(b"%d" % number) for number in range(checks.PAGE_ENTRIES * 2)]
        store.append("old", entries, expect=EMPTY, durable=False)
        done = threading.Event()

        def write() -> None:
            while not done.is_set():
                append_racing(store, "s", "x")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                assert list(store.read("old")) == entries
        finally:
            done.set()
            writer.join()
        check_chain(list(store.read("s")))

    def test_a_second_opener_sees_what_was_acknowledged(self) -> None:
        store = self._new()
        again, _ = self._again(store)
        head, blob = EMPTY, b"document"
        for number, durable in enumerate((True, False, False, True)):
            head = store.append("s", [linked(head, str(number))], expect=head, durable=durable)
            assert again.head("s") == head
        head = again.append("s", [linked(head, "again")], expect=head, refs={"r": "v"}, blobs=[blob])
        assert store.head("s") == head
        assert store.ref("r") == "v"
        assert store.get_blob(hashlib.sha256(blob).hexdigest()) == blob
        with refused(ConflictError):
            store.append("s", [entry(b"x")], expect=EMPTY)
        store.close()
        check_chain(list(again.read("s")))

    def _append_in_thread(self, store: Store, who: str) -> None:
        for number in range(self.appends):
            append_racing(store, "s", f"{who}-{number}")

    def _count_up(self, store: Store) -> None:
        for _ in range(self.appends):
            while True:
                value = store.ref("n")
                assert value is not None
                try:
                    store.swap("n", str(int(value) + 1), expect=value)
                    break
                except ConflictError:
                    continue

    def _check_race(self, store: Store) -> None:
        entries = list(store.read("s"))
        check_chain(entries)
        texts = sorted(one.data[65:].decode() for one in entries)
        assert texts == sorted(f"{w}-{n}" for w in range(self.racers) for n in range(self.appends))
        assert store.head("s") == (len(entries) - 1, entries[-1].hash)
