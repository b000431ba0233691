"""What every part of the suite builds on: stores that it opens and closes, entries, and expected refusals."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from adjourn.errors import AdjournError, ConflictError
from adjourn.store.base import ZERO_HASH, Entry, Head, Store

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
