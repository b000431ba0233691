"""The seam between meaning and persistence: what every backend promises.

Owns: the `Store` protocol, `Entry`, `Head`. Must never: know an event kind, decode an entry, import a driver.

A store holds three tables. *event*: streams, each an unbroken line of `(seq, hash, data)`. *ref*: small named
texts, changed by compare-and-swap. *blob*: documents by the SHA-256 of their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count
from os import urandom
from time import sleep
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from adjourn.errors import ConflictError, StoreError

ZERO_HASH = "0" * 64
NO_REFS: Mapping[str, str | None] = MappingProxyType({})


class Entry(NamedTuple):
    """One stored event: `hash` is the lower-case hex SHA-256 of `data`."""

    hash: str
    data: bytes


class Head(NamedTuple):
    """Position of the last entry of a stream: 0-based `seq` and its hash. `EMPTY` for a stream without entries."""

    seq: int
    hash: str


EMPTY = Head(-1, ZERO_HASH)


class Swap(NamedTuple):
    """A change of a ref that is made only while its value is `before`. None: the ref is absent."""

    before: str | None
    after: str | None


NO_SWAPS: Mapping[str, Swap] = MappingProxyType({})


class Append(NamedTuple):
    """One append of several that are made together. The members are the arguments of `Store.append`."""

    stream: str
    entries: Sequence[Entry]
    expect: Head
    refs: Mapping[str, str | None] = NO_REFS
    blobs: Sequence[bytes] = ()
    swaps: Mapping[str, Swap] = NO_SWAPS


Appended = Head | ConflictError | StoreError
"""The outcome of one append of several: the new head, or why nothing of it was written."""


class Store(Protocol):
    """Persistence of facts. Safe to use from several threads; several processes may open one store.

    Every method raises `StoreError` (with a remedy) when the backend fails; nothing is half written then.
    """

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
        """Append to a stream whose head is `expect`, set (or with None delete) refs, swap refs and store blobs: all or nothing.

        Returns the new head. Raises `ConflictError` and writes nothing when the head is another, or a ref to be swapped has
        another value. When it returns, the write survives a kill of the process; with `durable` also a loss of power.
        """

    def append_many(self, appends: Sequence[Append], *, durable: bool = True) -> list[Appended]:
        """Make appends to many streams with as few commits as the backend can. Returns the outcome of each.

        Each is all or nothing by itself, as if it were made alone; those to one stream, or that swap one ref, in their order. Raises
        `StoreError` where none was made.
        """

    def head(self, stream: str) -> Head:
        """The stream's last position, `EMPTY` if there is none."""

    def read(self, stream: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Entries `start <= seq < stop` in order. Lazy, bounded memory; unaffected by appends made meanwhile."""

    def streams(self) -> dict[str, Head]:
        """Every stream with its head."""

    def ref(self, name: str) -> str | None:
        """The value of one ref."""

    def refs(self, prefix: str = "", *, start: str = "", limit: int = 0) -> dict[str, str]:
        """Refs whose name starts with `prefix` and is not before `start`, sorted by name; with a `limit`, the first ones, at no cost
        for the others.
        """

    def swap(self, name: str, value: str | None, *, expect: str | None, durable: bool = True) -> None:
        """Set a ref (None deletes it) whose value is `expect` (None: absent), else raise `ConflictError`.

        `durable` as in `append`.
        """

    def put_blob(self, data: bytes) -> str:
        """Keep a document, durably; returns its SHA-256 (hex). Putting it again changes nothing."""

    def get_blob(self, digest: str) -> bytes | None:
        """A document's bytes; None if it was never put, or was forgotten. Raises `IntegrityError` if they changed."""

    def forget(self, digest: str) -> None:
        """Erase a document's bytes permanently. Chains that name its digest keep verifying."""

    def blobs(self) -> Iterator[tuple[str, int]]:
        """The digest and the bytes' number of every document that is kept, in the digests' order. Lazy, bounded memory."""

    def drop(self, digests: Collection[str]) -> None:
        """Delete documents that nothing needs. Unlike a forgotten one, one that is dropped may be put again.

        May be made in several steps: after an error some are deleted, and calling it again deletes the rest.
        """

    def watch(self, stream: str, after: Head, timeout: float) -> Head:
        """Wait until the stream's head is not `after`, at most `timeout` seconds; returns the head seen last."""

    def close(self) -> None:
        """Release the backend. Closing twice is harmless; using a closed store raises `StoreError`."""


# --- appending to a stream that other processes append to as well

MAX_ATTEMPTS = 200
MAX_WAIT_S = 0.05

_T = TypeVar("_T")


class PermanentConflictError(ConflictError):
    """A conflict that another attempt cannot resolve, so that it is raised at once."""


def append_with_retry(attempt: Callable[[], _T], stream: str) -> _T:
    """Return what `attempt()` returns. It reads a head, decides, and appends to that head; a failed attempt leaves nothing behind.

    Calls `attempt` again while it raises `ConflictError`: another process appended first. `stream` names what is written, for the
    error. Raises what `wait_for_turn` raises, and at once whatever else `attempt` raises.
    """
    for number in count():
        try:
            return attempt()
        except ConflictError as error:
            wait_for_turn(error, number, stream)
    raise AssertionError("unreachable: attempts are unlimited")


def wait_for_turn(error: ConflictError, attempt: int, stream: str) -> None:
    """Make ready for another attempt after attempt number `attempt` (from 0) was lost. From the fourth lost one on, sleep a random
    time of up to `MAX_WAIT_S`, so that other writers get their turn.

    Raises the `error` if it is a `PermanentConflictError`, and `ConflictError` when `MAX_ATTEMPTS` were lost.
    """
    if isinstance(error, PermanentConflictError):
        raise error
    if attempt + 1 >= MAX_ATTEMPTS:
        raise ConflictError(f"too many concurrent writers on {stream}", "retry")
    if attempt > 2:
        sleep(urandom(1)[0] / 255 * min(MAX_WAIT_S, 0.001 * 2**attempt))
