"""The seam between meaning and persistence: what every backend promises.

Owns: the `Store` protocol, `Entry`, `Head`. Must never: know an event kind, decode an entry, import a driver.

A store holds three tables. *event*: streams, each an unbroken line of `(seq, hash, data)`. *ref*: small named
texts, changed by compare-and-swap. *blob*: documents by the SHA-256 of their bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

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

    def refs(self, prefix: str = "") -> dict[str, str]:
        """Refs whose name begins with `prefix`, sorted by name."""

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
