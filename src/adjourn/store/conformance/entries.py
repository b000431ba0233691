"""Entries that the suite appends, and what must be so of those that it reads.

Owns: making and checking them. Must never: import pytest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from adjourn.errors import ConflictError
from adjourn.store.base import ZERO_HASH, Entry, Head, Store


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
