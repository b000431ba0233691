"""Transfer a record between stores as lines of JSON: its versions, the records it was forked from, and a signed head.

Each line is one sealed version in canonical JSON. Versions are in order, and a record comes before its forks. The last line is the signed
head. An import verifies all versions before it writes any.

Must never: import a version that fails verification, or change one in the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from adjourn.errors import ConflictError, IntegrityError, InvalidError, NotFoundError
from adjourn.knowledge.cognition.invariants import check_record, require
from adjourn.knowledge.model.documents import MAX_DOCUMENT_BYTES, Tree, tree_of
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.ancestry import Ancestry
from adjourn.knowledge.records.proofs import SignedRecordHead, read_proof, sign_head
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.version_log import VersionStore, copy_frontier
from adjourn.knowledge.records.versions import (
    Stored,
    ancestors,
    first_version,
    link_of,
    read_record,
    sealed,
    store_form,
    unsealed,
    verify_sealed,
)
from adjourn.log.canonical_json import canonical
from adjourn.log.merkle import Frontier
from adjourn.log.signing import fingerprint
from adjourn.store.base import EMPTY, Head

MAX_VERSIONS = 1_000_000
MAX_BYTES = 1024 * 1024 * 1024


class Fork(NamedTuple):
    """The fork that an import creates if the record has diverged: its id, its author, and the time in milliseconds."""

    id: str
    author: CRAuthor
    now: int


class ImportResult(NamedTuple):
    """The imported record at its head, how many versions are new in this store, and the fingerprint of the signer."""

    record: Tree
    added: int
    signer: str


def export_record(store: RecordTrees, cr_id: str, private: bytes) -> Iterator[bytes]:
    """The lines of a record's file, signed with the `private` key. Raises `UnknownRecordError`, `IntegrityError`."""
    head = store.resolve(cr_id)
    hashes = [head["contentHash"], *ancestors(head["contentHash"], Ancestry(store.versions).parents)]
    wanted: dict[str, int] = {}
    for content_hash in hashes:
        place = store.versions.find(content_hash)
        if place is not None:
            wanted[place.record] = max(wanted.get(place.record, 0), place.position + 1)
    done: set[str] = set()
    for record, stop in wanted.items():
        for name, _ in store.versions.segments(record, stop):
            if name not in done:
                done.add(name)
                yield from (
                    canonical(sealed(version)) + b"\n"
                    for version in store.versions.verified_versions(name, wanted[name])
                )
    yield canonical(tree_of(sign_head(head, private))) + b"\n"


def import_record(
    store: RecordTrees,
    lines: Iterable[bytes],
    trusted: Iterable[bytes],
    fork: Fork | None = None,
    *,
    before_writing: Callable[[], None] = lambda: None,
) -> ImportResult:
    """Import the lines of a file. `trusted` are public keys: the signature is checked if one of them signed it. All of the file is
    verified before `before_writing` is called, and anything written.

    If the record has diverged, the file's newest version becomes the `fork`, to be merged. Raises `InvalidError`, `IntegrityError`, and
    without a `fork`, `ConflictError`.
    """
    groups, signed = _read(lines)
    if signed is None or signed.id not in groups or groups[signed.id][-1].hash != signed.content_hash:
        raise InvalidError("the last line is not the signed head of the record in this file", "export the record again")
    keys = {fingerprint(public): public for public in trusted}
    if signed.key in keys:
        signed.check(keys[signed.key])
    plans = [_plan(store.versions, groups, record, fork if record == signed.id else None) for record in groups]
    before_writing()
    added = sum(_write(store.versions, plan, fork) for plan in plans)
    forked = any(plan.forks for plan in plans)
    return ImportResult(store.resolve(fork.id if fork and forked else signed.id), added, signed.key)


class _Plan(NamedTuple):
    """What to import of a record: its versions from `common` on, after those whose frontier is `tree`."""

    record: str
    versions: list[Stored]
    common: int
    tree: Frontier
    forks: bool


def _read(lines: Iterable[bytes]) -> tuple[dict[str, list[Stored]], SignedRecordHead | None]:
    groups: dict[str, list[Stored]] = {}
    signed: SignedRecordHead | None = None
    size = count = 0
    for line in lines:
        size, count = size + len(line), count + 1
        if size > MAX_BYTES or count > MAX_VERSIONS or len(line) > MAX_DOCUMENT_BYTES:
            raise InvalidError(
                f"the file is too large at line {count} (limit {MAX_VERSIONS:,} versions and {MAX_BYTES:,} bytes)",
                "export a fork of the newest version instead",
            )
        if signed is not None:
            raise InvalidError(f"line {count} follows the signed head", "make the signed head the last line")
        if b'"signature"' in line and b'"task"' not in line:
            signed = _signed(line)
            continue
        record = read_record(line)
        groups.setdefault(record["id"], []).append(unsealed(record))
    return groups, signed


def _signed(line: bytes) -> SignedRecordHead:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"the last line is not JSON: {error}", "export the record again") from error
    proof = read_proof(value) if isinstance(value, dict) else None
    if not isinstance(proof, SignedRecordHead):
        raise InvalidError("the last line is not a signed head", "export the record again")
    return proof


def _plan(store: VersionStore, groups: dict[str, list[Stored]], record: str, fork: Fork | None) -> _Plan:
    """Verify a record of the file, and find which of its versions are new. Writes nothing."""
    versions = groups[record]
    tree = _before(store, groups, record)
    after = link_of(versions[0].content).parent_cr_hash
    verification = verify_sealed(versions, tree=copy_frontier(tree), after=after)
    if not verification.valid:
        raise IntegrityError(
            f"version {verification.broken_at} of record {record} fails verification: {verification.reason}",
            "do not use this file; export the record again",
        )
    require(check_record(sealed(versions[-1])))
    here = [entry.hash for entry in store.entries(record)]
    pairs = zip(here, versions, strict=False)
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1].hash, pairs))
    forks = common < min(len(here), len(versions))
    if forks and (fork is None or not common):
        raise ConflictError(
            f"record {record} has diverged: this store and the file differ from version {common} on",
            "import the file's versions as a fork (--as ID), then merge the fork",
        )
    for version in versions[:common]:
        tree.append(bytes.fromhex(version.hash))
    return _Plan(record, versions, common, tree, forks)


def _before(store: VersionStore, groups: dict[str, list[Stored]], record: str) -> Frontier:
    """The frontier before the first version of a record of the file: that of the version it was forked from, if it was."""
    after = link_of(groups[record][0].content).parent_cr_hash
    if not after:
        return Frontier()
    for name, versions in takewhile(lambda group: group[0] != record, groups.items()):
        for number, stored in enumerate(versions, 1):
            if stored.hash == after:
                tree = _before(store, groups, name)
                for version in versions[:number]:
                    tree.append(bytes.fromhex(version.hash))
                return tree
    place = store.find(after)
    if place is None:
        raise NotFoundError(
            f"record {record} was forked from version {after[:12]}, which this store does not have",
            "import that record first",
        )
    return store.frontier(place)


def _write(store: VersionStore, plan: _Plan, fork: Fork | None) -> int:
    """Append the new versions. Returns how many there were."""
    record, versions, common, tree, forks = plan
    if forks and fork is not None:
        parent, fields = sealed(versions[common - 1]), sealed(versions[-1])
        first = first_version(fields, fork.author, fork.now, new_id=fork.id, parent=parent)
        store.append(None, fork.id, Stored(*store_form(first)), tree)
        return 1
    new = versions[common:]
    if new:
        store.copy(record, new, Head(common - 1, versions[common - 1].hash) if common else EMPTY, tree)
    return len(new)
