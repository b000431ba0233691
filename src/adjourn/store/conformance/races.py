"""Random histories, by which a store is kept equal to `MemoryStore` (needs hypothesis).

Owns: `state_machine`, and the test that runs it. Must never: import pytest, or hypothesis before it is used.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from typing import Any

from adjourn.errors import AdjournError, ConflictError
from adjourn.store import base
from adjourn.store.base import EMPTY, Head, Store, Swap
from adjourn.store.conformance.documents import Opener, Suite, append_racing, check_chain, entry, linked, refused, skip
from adjourn.store.memory import MemoryStore


class Histories(Suite):
    """Whatever is done to it, a store answers as memory does."""

    def test_any_history_leaves_it_equal_to_memory(self) -> None:
        try:
            import hypothesis.stateful  # optional, for whoever runs this
        except ImportError:
            skip("hypothesis is not installed")
        hypothesis.stateful.run_state_machine_as_test(
            state_machine(self.make_store, self.opener),
            settings=hypothesis.settings(
                max_examples=self.examples,
                stateful_step_count=30,
                deadline=None,
                database=None,
                phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate, hypothesis.Phase.shrink],
                suppress_health_check=list(hypothesis.HealthCheck),
            ),
        )


def state_machine(  # noqa: C901  # one class body; each rule is a line or two
    make_store: Opener, opener: Callable[[Store], Opener | None] = lambda _: None
) -> Any:
    """A hypothesis `RuleBasedStateMachine` that does the same to a new store and to memory, and compares.

    What is compared: every result, the kind of every error, and at the end all that can be read.
    """
    from hypothesis import stateful, strategies  # optional, for whoever runs this

    rule = stateful.rule

    names = strategies.sampled_from(("s", "t", "ü", "s/1", "bad\0"))
    values = strategies.sampled_from((None, "", "1", "2", "ü"))
    blobs = strategies.sampled_from((b"", b"a", b"bb", b"c" * 5000))
    data = strategies.binary(max_size=40) | strategies.just(b"x" * 9000)
    heads = strategies.sampled_from(("now", "now", "now", "now", "empty", "first", "next", "other"))

    class Machine(stateful.RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.memory: Store = MemoryStore()
            self.store = make_store()
            self.open_again = opener(self.store)

        def both(self, act: Callable[[Store], object]) -> None:
            results = []
            for store in (self.memory, self.store):
                try:
                    results.append(act(store))
                except AdjournError as error:
                    results.append(type(error))
            assert results[1] == results[0]

        def expected(self, stream: str, which: str) -> Head:
            head = EMPTY if "\0" in stream else self.memory.head(stream)
            return {
                "now": head,
                "empty": EMPTY,
                "first": Head(0, entry(b"").hash),
                "next": Head(head.seq + 1, head.hash),
                "other": Head(head.seq, "0" * 63 + "1"),
            }[which]

        @rule(
            stream=names,
            bodies=strategies.lists(data, max_size=3),
            which=heads,
            refs=strategies.dictionaries(names, values, max_size=2),
            puts=strategies.lists(blobs, max_size=2),
            swaps=strategies.dictionaries(names, strategies.builds(Swap, values, values), max_size=1),
            durable=strategies.booleans(),
        )
        def append(
            self,
            *,
            stream: str,
            bodies: list[bytes],
            which: str,
            refs: dict[str, str | None],
            puts: list[bytes],
            swaps: dict[str, Swap],
            durable: bool,
        ) -> None:
            expect = self.expected(stream, which)
            entries = [entry(body) for body in bodies]
            self.both(
                lambda s: s.append(stream, entries, expect=expect, refs=refs, blobs=puts, durable=durable, swaps=swaps)
            )

        @rule(stream=names, body=data, which=heads, durable=strategies.booleans())
        def append_one(self, stream: str, body: bytes, which: str, durable: bool) -> None:
            expect = self.expected(stream, which)
            self.both(lambda s: s.append(stream, [entry(body)], expect=expect, durable=durable))

        @rule(name=names, value=values, expect=values)
        def swap(self, name: str, value: str | None, expect: str | None) -> None:
            self.both(lambda s: s.swap(name, value, expect=expect))

        @rule(data=blobs)
        def put(self, data: bytes) -> None:
            self.both(lambda s: s.put_blob(data))

        @rule(data=blobs)
        def forget(self, data: bytes) -> None:
            self.both(lambda s: s.forget(hashlib.sha256(data).hexdigest()))

        @rule(data=blobs)
        def drop(self, data: bytes) -> None:
            self.both(lambda s: s.drop([hashlib.sha256(data).hexdigest()]))

        @rule(data=blobs)
        def get(self, data: bytes) -> None:
            self.both(lambda s: s.get_blob(hashlib.sha256(data).hexdigest()))

        @rule(stream=names, start=strategies.integers(-2, 9), stop=strategies.none() | strategies.integers(-2, 9))
        def read(self, stream: str, start: int, stop: int | None) -> None:
            self.both(lambda s: list(s.read(stream, start, stop)))

        @rule(name=names)
        def look(self, name: str) -> None:
            self.both(lambda s: (s.head(name), s.ref(name), s.refs(name)))

        @rule()
        def reopen(self) -> None:
            if self.open_again is not None:
                self.store.close()
                self.store = self.open_again()

        def teardown(self) -> None:
            try:
                self.both(lambda s: [s.streams(), s.refs(), list(s.blobs()), *(list(s.read(n)) for n in s.streams())])
            finally:
                self.store.close()

    return Machine


# --- what a store promises to several threads and processes at once


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
        entries = [entry(b"%d" % number) for number in range(base.PAGE_ENTRIES * 2)]
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
