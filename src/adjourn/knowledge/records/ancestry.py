"""Read many versions: verify the chain of a record, and find the ancestors of a version.

Must never: trust a stored hash or fold while verifying, or write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain

from adjourn.errors import IntegrityError
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.records.version_log import VersionStore
from adjourn.knowledge.records.versions import (
    ChainVerification,
    Link,
    ancestors,
    common_ancestor,
    link_of,
    verify_versions,
)
from adjourn.store.base import Entry

_NOT_THIS = "the fold is of another version"
_AFTER_A_GAP = 512
"""How many positions to try, one by one, for a version after a gap."""


def verify_log(
    versions: VersionStore, record: str, *, expected_head: str | None = None, expected_root: str | None = None
) -> ChainVerification:
    """Verify a record and those it was forked from, oldest first, by the rules of `versions.verify_versions`.

    `expected_head` and `expected_root` are a hash and a Merkle root (hex) that were kept outside the store.
    """
    at = versions.head_position(record)
    parts = versions.segments(record, at.seq + 1)
    try:
        entries = chain.from_iterable(versions.entries(name, 0, stop) for name, stop in parts)
        verification = verify_versions(
            entries, roots=_roots(versions, parts), expected_head=expected_head, expected_root=expected_root
        )
    except (IntegrityError, TypeError, UnicodeDecodeError):  # something cannot be read, or has another type
        verification = verify_versions(_present(versions, parts))
    if not verification.valid:
        return verification
    if verification.checked < sum(stop for _, stop in parts):
        return ChainVerification(verification.checked, verification.head, at.hash, "sequence-gap")
    fold = versions.fold(record)
    if fold is None and versions.has_fold(record):
        return ChainVerification(verification.checked, verification.head, verification.head, "merkle-mismatch")
    if fold is not None and fold.position > versions.head_position(record).seq:
        return ChainVerification(verification.checked, verification.head, verification.head, "head-mismatch")
    return verification


def _roots(versions: VersionStore, parts: Sequence[tuple[str, int]]) -> dict[int, str]:
    """The root of each log's fold, by the sequence of its version."""
    roots = {}
    before = 0
    for record, stop in parts:
        fold = versions.fold(record)
        if fold is not None and fold.position < stop:
            for entry in versions.entries(record, fold.position, fold.position + 1):
                root = fold.frontier().root().hex()
                roots[before + fold.position] = root if fold.hash == entry.hash else _NOT_THIS
        before += stop
    return roots


def _present(versions: VersionStore, parts: Sequence[tuple[str, int]]) -> Iterator[Entry]:
    """The versions that can be read, and the first one after a gap, which makes verification report the gap."""
    for record, stop in parts:
        position = 0
        try:
            for entry in versions.entries(record, 0, stop):
                # SQLite accepts any type in any column: data of another type was changed after it was hashed.
                yield entry if type(entry.data) is bytes else Entry(str(entry.hash), b"")
                position += 1
        except (IntegrityError, TypeError, UnicodeDecodeError):
            for at in dict.fromkeys([*range(position, min(position + _AFTER_A_GAP, stop)), stop - 1]):
                with suppress(IntegrityError, TypeError, UnicodeDecodeError):
                    yield from versions.entries(record, at, at + 1)


class Ancestry:
    """The parents of versions. Reads a whole log at a time, for walks over many versions."""

    def __init__(self, versions: VersionStore) -> None:
        self._versions = versions
        self._links: dict[str, Link] = {}

    def parents(self, content_hash: str) -> tuple[str, ...]:
        """The first parent, then merged ones; none for a version that is not in the store."""
        link = self._link(content_hash)
        if link is None:
            return ()
        first = (link.parent_cr_hash,) if link.parent_cr_hash else ()
        return (*first, *link.merge_parent_hashes)

    def sequence(self, content_hash: str) -> int:
        """The sequence of a version; -1 if it is not in the store."""
        link = self._link(content_hash)
        return link.sequence if link else -1

    def known_ancestors(self, content_hash: str) -> list[str]:
        """The ancestors of a version that are in the store, nearest first, each once."""
        return [name for name in ancestors(content_hash, self.parents) if self.sequence(name) >= 0]

    def base(self, a: Tree, b: Tree) -> str | None:
        """The hash of the nearest common ancestor of two sealed records, for a three-way merge; None without one."""
        return common_ancestor(a["contentHash"], b["contentHash"], self.parents, self.sequence)

    def _link(self, content_hash: str) -> Link | None:
        if content_hash not in self._links:
            place = self._versions.find(content_hash)
            if place is None:
                return None
            for entry in self._versions.entries(place.record, 0, place.position + 1):
                self._links[entry.hash] = link_of(entry.data)
        return self._links[content_hash]
