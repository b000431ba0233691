"""Kills of a program before and after each of its writes to a store, without processes: the next one finds what was written by then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count

from adjourn.store.base import NO_REFS, NO_SWAPS, Append, Appended, Entry, Head, Store, Swap
from adjourn.store.memory import MemoryStore


class Killed(BaseException):
    """The program is dead: nothing that it still does reaches the store. No `except Exception` catches it."""


def kill_points(run: Callable[[Store], object]) -> Iterator[Store]:
    """Run a program on a new store again and again, killed before and after each of its writes in turn.

    Yields the store as the next process finds it. The last run is not killed; its store is yielded too.

    >>> from adjourn import TaskRecord
    >>> def pay(store):
    ...     with TaskRecord(store, "pay").effect("bank", "transfer", {}, key="42", probe=lambda _: bool(paid)) as transfer:
    ...         if transfer.run:
    ...             paid.append("42")
    >>> paid = []
    >>> for store in kill_points(pay):
    ...     pay(store)
    ...     assert paid == ["42"]
    ...     paid.clear()
    """
    for number in count():
        store = _MortalStore(number)
        with suppress(Killed):
            run(store)
        is_killed = store.left is not None and store.left < 0  # also where the program caught it
        store.left = None
        yield store
        if not is_killed:
            return


class _MortalStore(MemoryStore):
    """Kills who writes after a number of steps: each write is one before it, and one after it. None: it lets everybody live."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left: int | None = left

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._step()
        yield
        self._step()

    def _step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def append(
        self,
        stream: str,
        entries: Sequence[Entry],
        *,
        expect: Head,
        refs: Mapping[str, str | None] = NO_REFS,
        blobs: Sequence[bytes] = (),
        durable: bool = True,
        swaps: Mapping[str, Swap] = NO_SWAPS,
    ) -> Head:
        with self._writing():
            return super().append(stream, entries, expect=expect, refs=refs, blobs=blobs, durable=durable, swaps=swaps)

    def append_many(self, appends: Sequence[Append], *, durable: bool = True) -> list[Appended]:
        with self._writing():
            return super().append_many(appends, durable=durable)

    def swap(self, name: str, value: str | None, *, expect: str | None, durable: bool = True) -> None:
        with self._writing():
            super().swap(name, value, expect=expect, durable=durable)

    def put_blob(self, data: bytes) -> str:
        with self._writing():
            return super().put_blob(data)

    def forget(self, digest: str) -> None:
        with self._writing():
            super().forget(digest)

    def drop(self, digests: Collection[str]) -> None:
        with self._writing():
            super().drop(digests)
