"""What every part of the suite builds on: stores that it opens and closes, entries, and expected refusals."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from adjourn.errors import AdjournError, ConflictError, InvalidError
from adjourn.store import base
from adjourn.store.base import EMPTY, ZERO_HASH, Entry, Head, Store

Opener = Callable[[], Store]

NAMES = ("a", "A", "a ", "task/1", "ünïcode", "u\u0308n", "日本語", "🧵", "50%", "a_b", "'; --")
"""Names that a store must distinguish."""


def skip(reason: str) -> None:
    """Skip the test that runs: pytest takes unittest's exception for its own."""
    from unittest import SkipTest  # importing the suite loads no test framework

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


class Suite:
    """What your subclass of a suite may override."""

    racers: ClassVar[int] = 3
    appends: ClassVar[int] = 20
    """Each of the racers makes so many."""
    examples: ClassVar[int] = 20
    """Random histories that are compared with `MemoryStore`."""

    def make_store(self) -> Store:
        """A new, empty store. The suite closes it."""
        raise NotImplementedError

    def opener(self, store: Store) -> Opener | None:
        """A picklable function that opens the same store again, in any process; None if that cannot be."""
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
            skip("this store cannot be opened twice")
            raise AssertionError
        again = opener()
        self._opened.append(again)
        return again, opener

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


# --- entries that the suite appends, and what must be so of those that it reads


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


# --- what a store promises of refs and of blobs


class DocumentCases(Suite):
    """Refs change by compare-and-swap; blobs are kept by their digest, and forgotten permanently."""

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
        for name in NAMES:
            store.swap(name, f"of {name}", expect=None)
        assert store.refs() == {name: f"of {name}" for name in sorted(NAMES)}
        assert list(store.refs()) == sorted(NAMES)
        for prefix in ("a", "A", "a_", "5", "50%", "%", "_", "日", "🧵", "task/", "zzz"):
            names = [n for n in sorted(NAMES) if n.startswith(prefix)]
            assert store.refs(prefix) == {n: f"of {n}" for n in names}
            for limit in (1, 2, len(NAMES)):
                assert list(store.refs(prefix, limit=limit)) == names[:limit]
        assert list(store.refs(limit=2)) == sorted(NAMES)[:2]
        for start in sorted(NAMES):
            assert list(store.refs(start=start, limit=3)) == [n for n in sorted(NAMES) if n >= start][:3]
        assert list(store.refs("task/", start="a")) == [n for n in sorted(NAMES) if n.startswith("task/")]

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
        gone, data = b"gone", b"kept"
        digest = hashlib.sha256(gone).hexdigest()
        made = linked(EMPTY, digest)
        head = store.append("s", [made], expect=EMPTY, refs={"r": digest}, blobs=[gone, data])
        store.forget(digest)
        store.forget(digest)
        assert store.get_blob(digest) is None
        assert store.get_blob(hashlib.sha256(data).hexdigest()) == data
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
        text, dropped, gone = (store.put_blob(data) for data in (b"kept", b"dropped", b"gone"))
        store.forget(gone)
        store.drop([dropped, gone, hashlib.sha256(b"never").hexdigest()])
        store.drop([])
        assert (store.get_blob(dropped), store.get_blob(text)) == (None, b"kept")
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


# --- what no store takes, and what every store does

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
        for bad in ("", good[:-1], good + "0", good.upper(), "g" * 64, " " + good[1:], good[:31] + "  " + good[33:]):
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
        long_value, long_data = "v" * (base.MAX_REF + 1), bytes(base.MAX_ENTRY + 1)
        for value in (long_value, "nul\0", "lone\ud800"):
            with refused(InvalidError):
                store.swap("r", value, expect=None)
            with refused(InvalidError):
                store.append("s", [entry(b"x")], expect=EMPTY, refs={"r": value})
        for entries in ([entry(long_data)], [entry(b"x"), entry(long_data)]):
            with refused(InvalidError):
                store.append("s", entries, expect=EMPTY)
        long_blob = bytes(base.MAX_BLOB + 1)
        with refused(InvalidError):
            store.put_blob(long_blob)
        with refused(InvalidError):
            store.append("s", [entry(b"x")], expect=EMPTY, blobs=[long_blob])
        assert store.streams() == {}
        assert store.refs() == {}

    def test_values_at_the_limits_are_kept(self) -> None:
        store = self._new()
        value, largest = "v" * base.MAX_REF, entry(bytes(base.MAX_ENTRY))
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
