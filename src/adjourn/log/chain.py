"""Verification of a chain of stored events. It never decodes: it only compares stored bytes.

The rules, in the order they are tested, for the entry at position n:

1. `hash-mismatch`    the SHA-256 of the stored bytes is the stored hash;
2. `parent-mismatch`  the stored bytes start with `{"after":"` and the hash at n - 1 (64 zeros at position 0);
3. `head-mismatch`    the last hash is the expected one, where the caller knows one from outside.

Together they find every edited, inserted, dropped or reordered entry. They cannot find a truncated tail, or a chain
rewritten whole by someone who owns the store, unless the caller brings an outside anchor (`expect_head`) or checks
the signed heads (`adjourn.log.signing`).

Must never: decode, or trust a stored hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Literal, NamedTuple

from adjourn.log.event import GENESIS

_LINK = b'{"after":"%b"'

Reason = Literal["hash-mismatch", "parent-mismatch", "head-mismatch"]


class ChainResult(NamedTuple):
    """`checked` entries held; the last good one has hash `head`. `broken_at` is the position of the first bad one."""

    checked: int
    head: str
    broken_at: int | None = None
    reason: Reason | None = None

    @property
    def valid(self) -> bool:
        return self.broken_at is None


def verify_chain(
    entries: Iterable[tuple[str, bytes]], *, after: str = GENESIS, expect_head: str | None = None
) -> ChainResult:
    """Verify `(hash, bytes)` entries that follow the event with hash `after`."""
    previous = after
    link = _LINK % previous.encode()
    checked = 0
    try:
        for stored_hash, data in entries:
            if sha256(data).hexdigest() != stored_hash:
                return ChainResult(checked, previous, checked, "hash-mismatch")
            if not data.startswith(link):
                return ChainResult(checked, previous, checked, "parent-mismatch")
            previous = stored_hash
            link = _LINK % previous.encode()
            checked += 1
    except TypeError:  # not bytes: SQLite takes other types in any column
        return ChainResult(checked, previous, checked, "hash-mismatch")
    if expect_head is not None and previous != expect_head:
        return ChainResult(checked, previous, checked, "head-mismatch")
    return ChainResult(checked, previous)
