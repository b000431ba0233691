"""The protocol as a test suite, for our backends and for yours.

Owns: `StoreConformance`, which pytest collects from a subclass, and `state_machine`, which keeps a store equal to
`MemoryStore` under random histories (needs hypothesis). Must never: import pytest, or test what the protocol does
not promise. In particular a store does not recompute the hash of an entry: whoever made the entry did, and
verifying does again.

    class TestMyStore(StoreConformance):
        def make_store(self) -> Store:
            return MyStore(...)          # new and empty at each call
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, ClassVar

from adjourn.errors import AdjournError, ConflictError, InvalidError, StoreError
from adjourn.store import checks
from adjourn.store.base import EMPTY, ZERO_HASH, Entry, Head, Store
from adjourn.store.memory import MemoryStore

Opener = Callable[[], Store]

_NAMES = ("a", "A", "a ", "task/1", "ünïcode", "u\u0308n", "日本語", "🧵", "50%", "a_b", "'; --")
_BAD_NAMES = ("", "nul\0", "line\n", "del\x7f", "c1\x85", "lone\ud800", "x" * 513, "é" * 257)


def entry(data: bytes) -> Entry:
    return Entry(hashlib.sha256(data).hexdigest(), data)


def linked(previous: Head, text: str) -> Entry:
    """An entry that names its predecessor, so that a chain can be checked for lost and doubled ones."""
    return entry(f"{previous.hash} {text}".encode())


def check_chain(entries: Sequence[Entry]) -> None:
    """Each entry is unchanged and names the one before it."""
    previous = ZERO_HASH
    for position, (digest, data) in enumerate(entries):
        assert hashlib.sha256(data).hexdigest() == digest, f"entry {position} changed"
        assert data[:64].decode() == previous, f"entry {position} does not follow entry {position - 1}"
        previous = digest


def append_racing(store: Store, stream: str, text: str) -> Head:
    """Append one entry to whatever the head is, as often as it takes."""
    while True:
        head = store.head(stream)
        try:
            return store.append(stream, [linked(head, text)], expect=head, durable=False)
        except ConflictError:
            continue


def _append_several(opener: Opener, stream: str, who: str, count: int) -> None:
    store = opener()
    try:
        for number in range(count):
            append_racing(store, stream, f"{who}-{number}")
    finally:
        store.close()


def _skip(reason: str) -> None:
    from unittest import SkipTest  # noqa: PLC0415  # pytest takes it for its own, without our importing pytest

    raise SkipTest(reason)


@contextmanager
def refused(kind: type[AdjournError]) -> Iterator[None]:
    """The body raises exactly this branch of the error tree, and says what to do."""
    try:
        yield
    except kind as error:
        assert error.remedy, f"no remedy: {error}"  # noqa: PT017  # pytest is not imported here
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


class StoreConformance:
    """Subclass it under a name that begins with `Test`, override `make_store`, and `opener` if there can be two."""

    racers: ClassVar[int] = 3
    appends: ClassVar[int] = 20
    """Each of the racers makes so many."""
    examples: ClassVar[int] = 20
    """Random histories that are compared with `MemoryStore`."""

    def make_store(self) -> Store:
        """A new, empty store. The suite closes it."""
        raise NotImplementedError

    def opener(self, store: Store) -> Opener | None:
        """A picklable function that opens the same store once more, in any process; None if that cannot be."""
        del store
        return None

    def setup_method(self) -> None:
        self._opened: list[Store] = []

    def teardown_method(self) -> None:
        for store in self._opened:
            store.close()

    def _new(self) -> Store:
        store = self.make_store()
        self._opened.append(store)
        return store

    def _again(self, store: Store) -> tuple[Store, Opener]:
        opener = self.opener(store)
        if opener is None:
            _skip("this store cannot be opened twice")
            raise AssertionError
        again = opener()
        self._opened.append(again)
        return again, opener

    # --- streams

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

    def test_streams_do_not_touch_each_other(self) -> None:
        store = self._new()
        heads = {}
        for number, name in enumerate(_NAMES):
            heads[name] = store.append(name, [entry(name.encode())] * (number + 1), expect=EMPTY)
        assert store.streams() == heads
        assert list(store.streams()) == sorted(_NAMES)
        for number, name in enumerate(_NAMES):
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

    # --- refs

    def test_a_ref_is_changed_by_compare_and_swap(self) -> None:
        store = self._new()
        store.swap("r", None, expect=None)
        store.swap("r", "1", expect=None)
        for stale in (None, "", "0", "11"):
            for value in (None, "2"):
                with refused(ConflictError):
                    store.swap("r", value, expect=stale)
        assert store.ref("r") == "1"
        store.swap("r", "1", expect="1")
        store.swap("r", "", expect="1")
        assert store.ref("r") == ""
        store.swap("r", None, expect="")
        assert store.ref("r") is None
        with refused(ConflictError):
            store.swap("r", "2", expect="")
        assert store.refs() == {}

    def test_refs_are_listed_by_prefix(self) -> None:
        store = self._new()
        for name in _NAMES:
            store.swap(name, f"of {name}", expect=None)
        assert store.refs() == {name: f"of {name}" for name in sorted(_NAMES)}
        assert list(store.refs()) == sorted(_NAMES)
        for prefix in ("a", "A", "a_", "5", "50%", "%", "_", "日", "🧵", "task/", "zzz"):
            assert store.refs(prefix) == {n: f"of {n}" for n in sorted(_NAMES) if n.startswith(prefix)}

    # --- blobs

    def test_a_blob_is_kept_by_its_digest(self) -> None:
        store = self._new()
        for data in (b"", b"document", bytes(range(256)) * 1000):
            digest = hashlib.sha256(data).hexdigest()
            assert store.get_blob(digest) is None
            assert store.put_blob(data) == digest
            assert store.put_blob(data) == digest
            assert store.get_blob(digest) == data

    def test_forgetting_a_blob_keeps_the_rest(self) -> None:
        store = self._new()
        gone, kept = b"gone", b"kept"
        digest = hashlib.sha256(gone).hexdigest()
        made = linked(EMPTY, digest)
        head = store.append("s", [made], expect=EMPTY, refs={"r": digest}, blobs=[gone, kept])
        store.forget(digest)
        store.forget(digest)
        assert store.get_blob(digest) is None
        assert store.get_blob(hashlib.sha256(kept).hexdigest()) == kept
        assert store.head("s") == head
        assert list(store.read("s")) == [made]
        assert store.ref("r") == digest

    def test_what_was_forgotten_stays_forgotten(self) -> None:
        store = self._new()
        digest = store.put_blob(b"gone")
        store.forget(digest)
        assert store.put_blob(b"gone") == digest
        head = store.append("s", [entry(b"1")], expect=EMPTY, blobs=[b"gone"])
        assert store.get_blob(digest) is None
        assert store.head("s") == head

    def test_blobs_are_listed_with_their_sizes(self) -> None:
        store = self._new()
        data = [bytes(size) for size in (0, 1, 700)] + [b"gone"]
        digests = [store.put_blob(one) for one in data]
        store.forget(digests[3])
        assert list(store.blobs()) == sorted((digests[n], len(data[n])) for n in range(3))

    def test_what_was_dropped_may_be_put_again(self) -> None:
        store = self._new()
        kept, dropped, gone = (store.put_blob(data) for data in (b"kept", b"dropped", b"gone"))
        store.forget(gone)
        store.drop([dropped, gone, hashlib.sha256(b"never").hexdigest()])
        store.drop([])
        assert (store.get_blob(dropped), store.get_blob(kept)) == (None, b"kept")
        for data in (b"dropped", b"gone"):
            store.put_blob(data)
        assert store.get_blob(dropped) == b"dropped"
        assert store.get_blob(gone) is None
        with refused(InvalidError):
            store.drop(["no digest"])

    def test_forgetting_what_never_was_changes_nothing(self) -> None:
        store = self._new()
        digest = hashlib.sha256(b"later").hexdigest()
        store.forget(digest)
        assert store.put_blob(b"later") == digest
        assert store.get_blob(digest) == b"later"

    # --- limits

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

    # --- several at once

    def test_racing_threads_make_one_unbroken_chain(self) -> None:
        store = self._new()
        self._race([partial(self._append_in_thread, store, str(who)) for who in range(self.racers)])
        self._check_race(store)

    def test_racing_processes_make_one_unbroken_chain(self) -> None:
        store = self._new()
        _, opener = self._again(store)
        from multiprocessing import get_context  # noqa: PLC0415  # only this test needs it

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

    def test_of_racing_appends_of_refs_the_loser_writes_nothing(self) -> None:
        store = self._new()
        won = []

        def run(who: int) -> None:
            expect = EMPTY
            for number in range(self.appends):
                made = linked(expect, f"{who}-{number}")
                try:
                    expect = store.append(
                        "s", [made, made], expect=expect, refs={"r": made.hash}, durable=False
                    )
                    won.append(made.hash)
                except ConflictError:
                    expect = store.head("s")

        self._race([partial(run, who) for who in range(self.racers)])
        assert store.head("s").seq == len(won) * 2 - 1
        assert store.ref("r") == store.head("s").hash

    def test_reading_goes_on_while_others_append(self) -> None:
        store = self._new()
        made = [entry(b"%d" % number) for number in range(checks.PAGE_ENTRIES * 2)]
        store.append("old", made, expect=EMPTY, durable=False)
        done = threading.Event()

        def write() -> None:
            while not done.is_set():
                append_racing(store, "s", "x")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                assert list(store.read("old")) == made
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

    # --- watch

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

    # --- closing

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

    # --- all together

    def test_any_history_leaves_it_equal_to_memory(self) -> None:
        try:
            from hypothesis import HealthCheck, Phase, settings  # noqa: PLC0415  # optional, for whoever runs this
            from hypothesis.stateful import run_state_machine_as_test  # noqa: PLC0415
        except ImportError:
            _skip("hypothesis is not installed")
        run_state_machine_as_test(
            state_machine(self.make_store, self.opener),
            settings=settings(
                max_examples=self.examples,
                stateful_step_count=30,
                deadline=None,
                database=None,
                phases=[Phase.explicit, Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )

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

    def _watch(self, watching: Store, appending: Store) -> None:
        head = watching.head("s")
        later = threading.Timer(0.1, append_racing, (appending, "s", "x"))
        later.start()
        try:
            seen = watching.watch("s", head, 30)
        finally:
            later.join()
        assert seen.seq == head.seq + 1

    @staticmethod
    def _race(works: Sequence[Callable[[], None]]) -> None:
        """Start all at once; whatever one of them raises is raised here."""
        barrier, raised = threading.Barrier(len(works)), list[BaseException]()

        def run(work: Callable[[], None]) -> None:
            try:
                barrier.wait()
                work()
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]


def state_machine(  # noqa: C901  # one class body; each rule is a line or two
    make_store: Opener, opener: Callable[[Store], Opener | None] = lambda _: None
) -> Any:
    """A hypothesis `RuleBasedStateMachine` that does the same to a new store and to memory, and compares.

    What is compared: every result, the kind of every error, and at the end all that can be read.
    """
    from hypothesis import strategies as st  # noqa: PLC0415  # optional, for whoever runs this
    from hypothesis.stateful import RuleBasedStateMachine, rule  # noqa: PLC0415

    names = st.sampled_from(("s", "t", "ü", "s/1", "bad\0"))
    values = st.sampled_from((None, "", "1", "2", "ü"))
    blobs = st.sampled_from((b"", b"a", b"bb", b"c" * 5000))
    data = st.binary(max_size=40) | st.just(b"x" * 9000)
    heads = st.sampled_from(("now", "now", "now", "now", "empty", "first", "next", "other"))

    class Machine(RuleBasedStateMachine):
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
            bodies=st.lists(data, max_size=3),
            which=heads,
            refs=st.dictionaries(names, values, max_size=2),
            puts=st.lists(blobs, max_size=2),
            durable=st.booleans(),
        )
        def append(
            self,
            *,
            stream: str,
            bodies: list[bytes],
            which: str,
            refs: dict[str, str | None],
            puts: list[bytes],
            durable: bool,
        ) -> None:
            expect = self.expected(stream, which)
            entries = [entry(body) for body in bodies]
            self.both(
                lambda s: s.append(stream, entries, expect=expect, refs=refs, blobs=puts, durable=durable)
            )

        @rule(stream=names, body=data, which=heads, durable=st.booleans())
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

        @rule(stream=names, start=st.integers(-2, 9), stop=st.none() | st.integers(-2, 9))
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
                self.both(
                    lambda s: [
                        s.streams(),
                        s.refs(),
                        list(s.blobs()),
                        *(list(s.read(n)) for n in s.streams()),
                    ]
                )
            finally:
                self.store.close()

    return Machine
