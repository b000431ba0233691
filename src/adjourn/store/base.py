"""The seam between meaning and persistence: what every backend promises.

Owns: the `Store` protocol, `Entry`, `Head`. Must never: know an event kind, decode an entry, import a driver.

A store holds three tables. *event*: streams, each an unbroken line of `(seq, hash, data)`. *ref*: small named
texts, changed by compare-and-swap. *blob*: documents by the SHA-256 of their bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from os import urandom
from time import sleep
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from adjourn.errors import ConflictError, IntegrityError, InvalidError, SchemaError, StoreError

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

    def streams(self, prefix: str = "") -> dict[str, Head]:
        """Every stream whose name starts with `prefix`, with its head, sorted by name; at no cost for the others."""

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


# --- what a caller may hand to a store: the same bounds in every backend

MAX_NAME: Final = 512
"""Bytes (UTF-8) of a stream's or a ref's name."""
MAX_REF: Final = 1024 * 1024
"""Bytes (UTF-8) of a ref's value."""
MAX_ENTRY: Final = 16 * 1024 * 1024
"""Bytes of one entry."""
MAX_BLOB: Final = 64 * 1024 * 1024
"""Bytes of one blob."""

PAGE_ENTRIES: Final = 512
PAGE_BYTES: Final = 4 * 1024 * 1024
"""A lazy read holds at most this many entries, or this many bytes and one entry more, in memory."""

_CONTROL = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
_MAX_KNOWN = 4096
known: set[str] = set()
"""Names that passed `check_name` lately; a hot path may look here before it calls."""


def check_name(name: str) -> None:
    """Refuse a stream or ref name that some backend could not hold: 1 to 512 bytes, no control character."""
    if name in known:
        return
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidError(f"the name {name[:40]!r} is not Unicode text", "use a name that UTF-8 can hold") from None
    if not 0 < size <= MAX_NAME:
        raise InvalidError(f"the name {name[:40]!r} has {size} bytes", f"use 1 to {MAX_NAME} bytes of UTF-8")
    if not name.isprintable() and not _CONTROL.isdisjoint(name):
        raise InvalidError(f"the name {name[:40]!r} holds a control character", "use printable characters")
    if len(known) >= _MAX_KNOWN:
        known.clear()
    known.add(name)


match_digest = re.compile("[0-9a-f]{64}").fullmatch
"""Matches a SHA-256 as the stores spell it: 64 lower-case hex digits."""


def is_digest(digest: object) -> bool:
    """Whether this is a SHA-256 as the stores spell it."""
    return isinstance(digest, str) and match_digest(digest) is not None


def check_digest(digest: str) -> None:
    """Refuse what is not a SHA-256 in 64 lower-case hex digits."""
    if not is_digest(digest):
        raise InvalidError(f"{digest!r:.80} is not a digest", "a digest is 64 lower-case hex digits")


def check_entry(entry: Entry) -> None:
    """Refuse an entry without a well-formed hash or with too many bytes. Whether they agree is its maker's duty."""
    digest, data = entry
    if not is_digest(digest):
        raise InvalidError(f"{digest!r:.80} is not an entry's hash", "a hash is 64 lower-case hex digits")
    _check_bytes("entry", data, MAX_ENTRY)


def check_blob(data: bytes) -> None:
    """Refuse a blob that is not bytes, or has more than `MAX_BLOB` bytes."""
    _check_bytes("blob", data, MAX_BLOB)


def check_value(value: str | None) -> None:
    """Refuse a ref's value that is too long, or that a text column cannot hold."""
    if value is None:
        return
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidError("a ref's value is not Unicode text", "use text that UTF-8 can hold") from None
    if size > MAX_REF:
        raise InvalidError(f"a ref's value has {size} bytes", f"keep it within {MAX_REF}, or store it as a blob")
    if "\0" in value:
        raise InvalidError("a ref's value holds a NUL character", "store such bytes as a blob")


def check_swap(name: str, value: str | None, expect: str | None) -> None:
    """Everything one swap is made of, before it is examined."""
    check_name(name)
    check_value(value)
    check_value(expect)


def check_append(
    stream: str,
    entries: Sequence[Entry],
    refs: Mapping[str, str | None],
    blobs: Sequence[bytes],
    swaps: Mapping[str, Swap] = NO_SWAPS,
) -> None:
    """Everything one append is made of, before any of it is written."""
    check_name(stream)
    for entry in entries:
        check_entry(entry)
    for name, value in refs.items():
        check_name(name)
        check_value(value)
    for name, (before, after) in swaps.items():
        check_swap(name, after, before)
    for data in blobs:
        check_blob(data)


def check_appends(appends: Sequence[Append]) -> None:
    """Everything that several appends are made of, before any of it is written."""
    for append in appends:
        check_append(append.stream, append.entries, append.refs, append.blobs, append.swaps)


def head_of(outcome: Appended) -> Head:
    """The head after an append, whose outcome is raised where it is none."""
    if isinstance(outcome, Head):
        return outcome
    raise outcome


def one_by_one(store: Store, appends: Sequence[Append], *, durable: bool) -> list[Appended]:
    """What `Store.append_many` promises, for a store to which a commit costs nothing."""
    check_appends(appends)
    outcomes: list[Appended] = []
    for stream, entries, expect, refs, blobs, swaps in appends:
        try:
            head = store.append(stream, entries, expect=expect, refs=refs, blobs=blobs, durable=durable, swaps=swaps)
        except ConflictError as error:
            outcomes.append(error)
        else:
            outcomes.append(head)
    return outcomes


def verified_blob(digest: str, data: bytes, where: str) -> bytes:
    """The bytes of a blob that a store has read, as it put them. Raises `IntegrityError` if they changed."""
    if not isinstance(data, bytes) or sha256(data).hexdigest() != digest:
        raise IntegrityError(
            f"the bytes of blob {digest} in {where} have changed", "restore them from a backup or a checkpoint"
        )
    return data


def head_moved(stream: str, expect: Head, head: Head) -> ConflictError:
    """The error for an append whose expected head is not the head."""
    return ConflictError(
        f"the head of stream {stream!r} is {head.seq} ({head.hash[:12]}), not {expect.seq} ({expect.hash[:12]})",
        "another process appended first: read the new head and retry",
    )


def ref_moved(name: str, expect: str | None, value: str | None) -> ConflictError:
    """The error for a swap whose expected value is not the value."""
    return ConflictError(
        f"the ref {name!r} is {_short(value)}, not {_short(expect)}",
        "another process changed the ref first: read it again and retry",
    )


def _check_bytes(kind: str, data: bytes, limit: int) -> None:
    if not isinstance(data, bytes):
        raise InvalidError(f"{kind} data is {type(data).__name__}, not bytes", "pass bytes")
    if len(data) > limit:
        raise InvalidError(f"the {kind} has {len(data)} bytes", f"keep it within {limit} bytes")


def _short(value: str | None) -> str:
    if value is None:
        return "absent"
    return repr(value if len(value) <= 60 else value[:57] + "...")


# --- numbered schema files, and the one rule about versions: older is brought up to date, newer is refused

Dialect = Literal["sqlite", "postgres"]
LATEST: Final[dict[Dialect, int]] = {"sqlite": 2, "postgres": 2}
"""The schema this adjourn writes; equal to the highest number in `schema/`."""


def is_current(dialect: Dialect, version: int, where: str) -> bool:
    """Whether a store has the schema of this adjourn; False: bring it up to date. Refuses a newer one."""
    latest = LATEST[dialect]
    if version > latest:
        raise SchemaError(
            f"{where} has schema {version}; this adjourn supports schemas up to {latest}",
            "upgrade adjourn (pip install -U adjourn); the store was left as it is",
        )
    return version == latest


def scripts(dialect: Dialect, version: int) -> list[str]:
    """The texts that lead from schema `version` (0: nothing there) to `LATEST`, in order."""
    return [_read(f"{dialect}_{number:04}.sql") for number in range(version + 1, LATEST[dialect] + 1)]


def partition_scripts() -> list[str]:
    """The two texts that put the events of a PostgreSQL store into partitions. Entries are copied between them."""
    return [_read(f"partitions_{half}.sql") for half in ("copy", "switch")]


def _read(name: str) -> str:
    # importlib.resources costs 25 ms, on the start path of the first session of a workspace
    with open(os.path.join(os.path.dirname(__file__), "schema", name), encoding="utf-8") as file:
        return file.read()
