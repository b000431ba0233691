"""What a caller may hand to a store: the same bounds in every backend.

Owns: the limits, their checks, and the wording of a lost race. Must never: open anything, import a driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from adjourn.errors import ConflictError, IntegrityError, InvalidError
from adjourn.store.base import NO_SWAPS, Append, Appended, Entry, Head, Store, Swap

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
