"""Versions of a record: their hashes, how one follows another, and how a chain of them is verified (spec/record.md, 4-6).

The hash of a version is the SHA-256 of its stored, canonical content. `merkleRoot` is the RFC 6962 root over the 32-byte hashes of
the first-parent chain up to and including this version. It is not part of the content.

`verify_versions` tests these rules for each version, oldest first, in this order:

1. `hash-mismatch`        the SHA-256 of the content is the stored hash;
2. `missing-parent`       only sequence 0 names no parent, and the oldest version given has the parent that the caller named;
3. `parent-mismatch`      the named parent is the version before;
4. `sequence-gap`         the sequence is the next one;
5. `cycle`                no hash occurs twice (follows from 1 and 4: the hash covers the sequence);
6. `merkle-mismatch`      the stored root is the one over the hashes up to here;
7. `version-unsupported`  it is a record of a major version known here;
8. `head-mismatch`        the last hash and root are the expected ones, if the caller gives them.

Without an expected head or root, a truncated chain or a rewritten one passes.

Must never: read a store, or trust a stored hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.cognition.invariants import check_record, require
from adjourn.knowledge.model.documents import (
    EncodedDocument,
    Id,
    Tree,
    accept,
    load,
    parse,
    same,
    tree_of,
    without,
    write,
)
from adjourn.knowledge.model.record import COLLECTIONS, VERSION, ContinuationRecord, CRAuthor, RecordContent
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.merkle import Frontier

SEAL = ("contentHash", "merkleRoot")
ENVELOPE = (
    "id", "version", "sequence", "parentCRHash", "mergeParentHashes", "createdBy", "createdAt", "lastModifiedBy",
    "lastModifiedAt", *SEAL,
)  # fmt: skip
"""The members that identify a version. The others are its content."""

Reason = Literal[
    "hash-mismatch", "missing-parent", "parent-mismatch", "sequence-gap", "cycle", "merkle-mismatch",
    "version-unsupported", "head-mismatch",
]  # fmt: skip


class Link(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The members of a version that verification reads."""

    id: Id
    version: str
    sequence: int
    parent_cr_hash: str = msgspec.field(name="parentCRHash", default="")
    merge_parent_hashes: tuple[str, ...] = ()


class Stored(NamedTuple):
    """A stored version: its hash, its canonical content, and the Merkle root up to it (empty: not known)."""

    hash: str
    content: bytes
    root: str = ""


NO_ROOTS: Mapping[int, str] = MappingProxyType({})


class ChainVerification(NamedTuple):
    """`checked` versions passed; `head` is the hash of the last one. `broken_at` is the stored hash of the first that failed."""

    checked: int
    head: str
    broken_at: str | None = None
    reason: Reason | None = None

    @property
    def valid(self) -> bool:
        return self.reason is None


# --- making versions


def empty_record(task: Mapping[str, Any]) -> Tree:
    """The content of a record of which only the task is known (`id` and `goal` at least)."""
    summary = {"stepsCompleted": 0, "stepsFailed": 0, "tokensConsumed": 0, "elapsedMs": 0, "actions": []}
    return {
        "task": {"successCriteria": [], "status": "not-started", **task},
        "executionSummary": summary,
        **{name: [] for name in COLLECTIONS},
        "metadata": {"tags": [], "priority": "medium"},
    }


def first_version(
    fields: Mapping[str, Any], author: CRAuthor, now: int, *, new_id: str, parent: Tree | None = None
) -> Tree:
    """The first version of a record: sequence 0, or with a sealed `parent` of another record, its fork, next in sequence."""
    if parent is not None and parent["id"] == new_id:
        raise InvalidError(
            f"record {new_id} cannot be a fork of itself", "choose another id for the fork, or update the record"
        )
    by = tree_of(author)
    return {
        "version": VERSION,
        **without(fields, *(name for name in ENVELOPE if name != "version")),
        "id": new_id,
        "sequence": 0 if parent is None else parent["sequence"] + 1,
        **({} if parent is None else {"parentCRHash": parent["contentHash"]}),
        "createdBy": by,
        "createdAt": now,
        "lastModifiedBy": by,
        "lastModifiedAt": now,
    }


def next_version(
    head: Tree, fields: Mapping[str, Any], author: CRAuthor, now: int, *, merged: Sequence[str] = ()
) -> Tree | None:
    """The version after a sealed `head` with the content of `fields`; None if the head has that content already.

    `merged` are the hashes of further parents. Ignores the envelope members of `fields`.
    """
    content = without(fields, *ENVELOPE)
    if not merged and same(content, without(head, *ENVELOPE)):
        return None
    return {
        **content,
        "id": head["id"],
        "version": _later(head["version"], fields.get("version", VERSION)),
        "sequence": head["sequence"] + 1,
        "parentCRHash": head["contentHash"],
        **({"mergeParentHashes": list(merged)} if merged else {}),
        "createdBy": head["createdBy"],
        "createdAt": head["createdAt"],
        "lastModifiedBy": tree_of(author),
        "lastModifiedAt": now,
    }


def updated(head: Tree, updates: Mapping[str, Any]) -> Tree:
    """`head` with the members of `updates`; None removes a member. Raises `RefusedError` for a member that only the store sets."""
    for name in ENVELOPE:
        if name in updates and name != "version" and not same(updates[name], head.get(name)):
            raise RefusedError(f"{name} of record {head['id']} cannot be set: the store sets it", "leave it out")
    if not same(updates.get("conflicts"), head.get("conflicts")) and "conflicts" in updates:
        raise RefusedError(f"conflicts of record {head['id']} cannot be set", "resolve them one by one")
    after = {**head, **updates}
    for name, value in updates.items():
        if value is None:
            del after[name]
    return after


def store_form(record: Tree) -> tuple[str, bytes]:
    """`(contentHash, canonical content)` of a version. Raises `InvalidError` if it is not a record or breaks a rule."""
    _check_version(record.get("version", ""))
    content = write(without(record, *SEAL), RecordContent)
    require(check_record(record))
    return digest(content), content


def following(head: EncodedDocument, record: Tree) -> tuple[Stored, EncodedDocument]:
    """`store_form` of a version without its seal. Faster if the version shares parts with the encoded `head`."""
    _check_version(record["version"])
    written = head.follow(record)
    require(check_record(written.tree))
    return Stored(digest(written.content), written.content), written


def sealed(stored: Stored) -> Tree:
    """The record of a stored version. The caller has verified its hash."""
    seal = {"contentHash": stored.hash, **({"merkleRoot": stored.root} if stored.root else {})}
    return {**load(stored.content), **seal}


def unsealed(record: Tree) -> Stored:
    """The stored form of a sealed record from outside. Its hash is the one that the record claims."""
    return Stored(record["contentHash"], canonical(without(record, *SEAL)), record.get("merkleRoot", ""))


def root_after(tree: Frontier, content_hash: str) -> str:
    """Append a version to the tree of its chain, and return the root (hex)."""
    tree.append(bytes.fromhex(content_hash))
    return tree.root().hex()


def head_message(record: Tree) -> bytes:
    """The bytes that a detached signature of a version signs."""
    return canonical({name: record[name] for name in ("id", "sequence", "contentHash", "merkleRoot")})


def read_record(data: bytes | str) -> Tree:
    """Read a sealed record from outside. Checks the format version and the types, not the hash. Raises `InvalidError`."""
    record = parse(data, ContinuationRecord)
    _check_version(str(record.get("version", "")))
    return accept(record, ContinuationRecord)


def _check_version(version: str) -> None:
    """Refuse a record of a newer major format version."""
    if _version_key(version)[0] > _version_key(VERSION)[0]:
        raise InvalidError(
            f"the record has format version {version}; this version of adjourn supports {VERSION}", "update adjourn"
        )


def _later(text: str, other: str) -> str:
    return text if text == other else max(text, other, key=_version_key)


@lru_cache(16)
def _version_key(version: str) -> tuple[int, ...]:
    """(major, minor). The type refuses what is not a version."""
    parts = version.split(".")
    return tuple(int(part) if part.isdecimal() and len(part) < 7 else 0 for part in parts)


# --- verifying and comparing chains of versions


def link_of(content: bytes) -> Link:
    """The links of a version to others. Raises `InvalidError` if it is not a record."""
    try:
        return _decode_link(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"not a record: {error}", "run: adjourn verify") from error


_decode_link = msgspec.json.Decoder(Link).decode


def verify_versions(
    versions: Iterable[tuple[str, bytes]],
    *,
    roots: Mapping[int, str] = NO_ROOTS,
    tree: Frontier | None = None,
    after: str = "",
    expected_head: str | None = None,
    expected_root: str | None = None,
) -> ChainVerification:
    """Verify a first-parent chain, oldest first: pairs of a stored hash and the content. It follows version `after`, whose Merkle
    frontier is `tree`, if given. `roots` are the stored Merkle roots, by sequence.
    """
    tree = tree or Frontier()
    append = tree.append
    previous, checked, sequence = after, 0, len(tree)
    for content_hash, content in versions:
        leaf = sha256(content).digest()
        if leaf.hex() != content_hash:
            return ChainVerification(checked, previous, content_hash, "hash-mismatch")
        reason = _wrong(content, previous, sequence)
        if reason is None or reason == "version-unsupported":
            append(leaf)
            # Computing a root is slow: only where one is stored.
            if sequence in roots and roots[sequence] != tree.root().hex():
                reason = "merkle-mismatch"
        if reason is not None:
            return ChainVerification(checked, previous, content_hash, reason)
        previous = content_hash
        sequence += 1
        checked += 1
    missed = (expected_head is not None and expected_head != previous) or (
        expected_root is not None and expected_root != tree.root().hex()
    )
    return (
        ChainVerification(checked, previous, previous, "head-mismatch")
        if missed
        else ChainVerification(checked, previous)
    )


def verify_sealed(versions: Sequence[Stored], *, tree: Frontier | None = None, **known: Any) -> ChainVerification:
    """`verify_versions` for versions that have their roots."""
    roots = {at: one.root for at, one in enumerate(versions, len(tree) if tree else 0) if one.root}
    return verify_versions(((version.hash, version.content) for version in versions), roots=roots, tree=tree, **known)


def _wrong(content: bytes, previous: str, sequence: int) -> Reason | None:
    """Rules 2 to 5 and 7 for one version."""
    try:
        link = _decode_link(content)
        version = link.version
        is_readable = version == VERSION or _version_key(version)[0] <= _version_key(VERSION)[0]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "version-unsupported"
    parent, number = link.parent_cr_hash, link.sequence
    if parent == previous and number == sequence and (not parent) == (not number):
        return None if is_readable else "version-unsupported"
    if (not parent) == (number > 0) or (parent and not previous):
        return "missing-parent"
    return "parent-mismatch" if parent != previous else "sequence-gap"


ParentsOf = Callable[[str], Sequence[str]]
"""The parents of a version by hash: the first parent, then merged ones. Empty for the first version, or an unknown one."""


def ancestors(start: str, parents_of: ParentsOf) -> list[str]:
    """All ancestors of `start`, nearest first, each once, without `start`."""
    seen: dict[str, None] = {}
    level = [start]
    while level:
        level = [parent for child in level for parent in parents_of(child)]
        level = [parent for parent in dict.fromkeys(level) if parent not in seen and parent != start]
        seen.update(dict.fromkeys(level))
    return list(seen)


def common_ancestor(a: str, b: str, parents_of: ParentsOf, sequence_of: Callable[[str], int]) -> str | None:
    """The nearest common ancestor of two versions (either may be it): of several, the highest sequence, then the highest hash."""
    common = {a, *ancestors(a, parents_of)} & {b, *ancestors(b, parents_of)}
    older = {parent for child in common for parent in parents_of(child)}
    # A common version that is no parent of another common one is a nearest one: ancestors of common ones are common.
    return max(common - older, key=lambda text: (sequence_of(text), text), default=None)
