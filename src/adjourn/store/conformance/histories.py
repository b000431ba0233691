"""Random histories, by which a store is kept equal to `MemoryStore` (needs hypothesis).

Owns: `state_machine`, and the test that runs it. Must never: import pytest, or hypothesis before it is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from adjourn.errors import AdjournError
from adjourn.store.base import EMPTY, Head, Store, Swap
from adjourn.store.conformance.suite import Opener, Suite, entry, skip
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
