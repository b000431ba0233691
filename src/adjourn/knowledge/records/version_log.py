"""Logs of versions in a store: the stream `record/ID` has the hash and the canonical content of each version of a record.

The compare-and-swap of the stream makes (id, sequence) unique. Every few versions, the append also writes two kinds of refs:
`record/ID`, a fold, is the Merkle frontier up to a version, so that opening a log takes the same time at any length; `version/HASH` is
where a version is. Both can be rebuilt from the stream, and neither is trusted without it. A record with another id than its task's is
listed by its task, in `record-of/TASK/ID` (digests, so that each is short), so that looking for one reads no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from adjourn.errors import ConflictError, IntegrityError, InvalidError, UnknownRecordError
from adjourn.knowledge.model.documents import EncodedDocument, Tree, load
from adjourn.knowledge.model.record import RecordContent
from adjourn.knowledge.records.versions import Stored, link_of, root_after, sealed
from adjourn.log.canonical_json import digest
from adjourn.log.event import timestamp
from adjourn.log.merkle import Frontier
from adjourn.store.base import EMPTY, Entry, Head, Store
from adjourn.tasks.work_index import NOTED, is_complete, notes_ref, waiting_ref

FOLD_VERSIONS = 32
FOLD_BYTES = 256 * 1024
"""A fold is due after this many versions, or bytes of versions: bounds what opening a log reads."""
MAX_CACHED = 256
"""Logs whose head is cached."""
MAX_FORKS = 10_000
_PREFIX = "record/"
_OF_TASK = "record-of/"
_HASH = re.compile(r"[0-9a-f]{64}")


class VersionLocation(NamedTuple):
    """Where a version is: the record's id, and the position in its stream (a fork's sequence is higher)."""

    record: str
    position: int


class Fold(msgspec.Struct, frozen=True):
    """The Merkle frontier of a log up to a version."""

    position: int
    hash: str
    size: int
    nodes: list[str]

    def frontier(self) -> Frontier:
        return Frontier(self.size, [bytes.fromhex(node) for node in self.nodes])


class UnfoldedTail(NamedTuple):
    """The known versions after the last fold: the fold's position, their hashes, and their size in bytes."""

    after: int
    hashes: tuple[str, ...]
    weight: int

    def followed_by(self, version: Entry) -> UnfoldedTail:
        return UnfoldedTail(self.after, (*self.hashes, version.hash), self.weight + len(version.data))


class VersionLog(NamedTuple):
    """A log of versions as it is at its head."""

    id: str
    at: Head
    root: str
    encoded: EncodedDocument
    """The version at the head. Versions that follow it share its parts."""
    tree: Frontier
    """With the version at the head. Copy it before you append."""
    tail: UnfoldedTail

    @property
    def place(self) -> VersionLocation:
        """Where the version at the head is."""
        return VersionLocation(self.id, self.at.seq)

    @property
    def record(self) -> Tree:
        """The sealed version at the head, a new tree each time: the caller may change it."""
        return self.seal(self.encoded.copy())

    @property
    def head(self) -> Tree:
        """The sealed version at the head, to read and to make others of. Do not change it or hand it out."""
        return self.seal(self.encoded.tree)

    def seal(self, content: Tree) -> Tree:
        """`content`, the version at the head, with its hash and its Merkle root."""
        return {**content, "contentHash": self.at.hash, "merkleRoot": self.root}


class VersionStore:
    """The version logs of one store. The head of each is cached, and compared with the store before it is used."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._cache: dict[str, VersionLog] = {}

    def ids(self) -> list[str]:
        """The ids of all records."""
        return [name.removeprefix(_PREFIX) for name in self.store.streams() if name.startswith(_PREFIX)]

    def ids_of(self, task: str) -> list[str]:
        """The ids of the records that may be of a task, apart from the one with the task's own id."""
        return list(self.store.refs(_refs_of(task)).values()) if is_complete(self.store) else self.ids()

    def head_position(self, record: str) -> Head:
        """Where the log of a record ends; `EMPTY` without such a record."""
        return self.store.head(_stream(record))

    def has_fold(self, record: str) -> bool:
        return self.store.ref(_stream(record)) is not None

    def cached(self, record: str) -> VersionLog | None:
        """The log at the head that was read last. Enough for writing: an append detects a newer head."""
        return self._cache.get(record)

    def head(self, record: str) -> VersionLog | None:
        """The log of a record at its head; None without such a record. Raises `IntegrityError`."""
        at = self.head_position(record)
        if at == EMPTY:
            return None
        log = self._cache.get(record)
        if log is None or log.at != at:
            log = self._load(record, at, log)
            self._keep(log)
        return log

    def append(
        self,
        log: VersionLog | None,
        record: str,
        stored: Stored,
        parent: Frontier | None = None,
        *,
        encoded: EncodedDocument | None = None,
    ) -> VersionLog:
        """Append a version to `log`, and return the new log. Without a `log`, the version is the first one of `record`, and `parent` is
        the frontier of the version that it is a fork of. Raises `ConflictError` if the head is another.
        """
        tree = copy_frontier(log.tree if log else parent or Frontier())
        root = root_after(tree, stored.hash)
        at = Head(log.at.seq + 1 if log else 0, stored.hash)
        entry = Entry(stored.hash, stored.content)
        tail = (log.tail if log else UnfoldedTail(-1, (), 0)).followed_by(entry)
        refs: dict[str, str | None] = {}
        if log is None or len(tail.hashes) >= FOLD_VERSIONS or tail.weight >= FOLD_BYTES:
            refs = {_index(name): f"{n} {record}" for n, name in enumerate(tail.hashes, tail.after + 1)}
            refs[_stream(record)] = _folded(at, tree)
            tail = UnfoldedTail(at.seq, (), 0)
        encoded = encoded or EncodedDocument(stored.content, RecordContent)
        refs |= self._moved(record, log.encoded.tree if log else None, encoded.tree)
        if log is None or log.encoded.tree["task"] != encoded.tree["task"]:
            refs |= task_ref(record, encoded.tree)
        self.store.append(_stream(record), [entry], expect=log.at if log else EMPTY, refs=refs)
        appended = VersionLog(record, at, root, encoded, tree, tail)
        self._keep(appended)
        return appended

    def _moved(self, record: str, before: Tree | None, after: Tree) -> dict[str, str | None]:
        """The refs that put a record, and the task of one, where they belong in the index of work."""
        refs: dict[str, str | None] = {}
        if (waits := may_wait(after)) != (before is not None and may_wait(before)):
            refs[waiting_ref(_stream(record))] = "" if waits else None
        old, new = place_of_notes(before) if before else "", place_of_notes(after)
        if record != after["task"]["id"] or old == new or self.store.head(record) == EMPTY:
            return refs
        if old:
            refs[old] = None
        return refs | {new: timestamp(after["lastModifiedAt"]), f"{NOTED}{record}": new}

    def copy(self, record: str, versions: Sequence[Stored], at: Head, tree: Frontier) -> Head:
        """Append verified versions of another store after the head `at`, whose frontier is `tree`. Raises `ConflictError`."""
        refs: dict[str, str | None] = {}
        for position, stored in enumerate(versions, at.seq + 1):
            tree.append(bytes.fromhex(stored.hash))
            refs[_index(stored.hash)] = f"{position} {record}"
        refs[_stream(record)] = _folded(Head(at.seq + len(versions), versions[-1].hash), tree)
        refs[waiting_ref(_stream(record))] = ""
        refs |= task_ref(record, load(versions[-1].content))
        entries = [Entry(stored.hash, stored.content) for stored in versions]
        return self.store.append(_stream(record), entries, expect=at, refs=refs)

    # --- finding and reading versions

    def find(self, content_hash: str) -> VersionLocation | None:
        """Where a version is; None if it is not in the store."""
        if not _HASH.fullmatch(content_hash):  # a changed version may name anything
            return None
        position, _, record = (self.store.ref(_index(content_hash)) or "").partition(" ")
        if position.isdecimal() and len(position) < 16:
            place = VersionLocation(record, int(position))
            if self._entry(place, content_hash) is not None:
                return place
        for log in list(self._cache.values()):
            if content_hash in log.tail.hashes:
                return VersionLocation(log.id, log.tail.after + 1 + log.tail.hashes.index(content_hash))
        return self._find_in_tails(content_hash)

    def read(self, content_hash: str) -> tuple[VersionLocation, Stored] | None:
        """A version with a verified hash, and where it is; None if it is not in the store. Raises `IntegrityError`."""
        place = self.find(content_hash)
        entry = self._entry(place, content_hash) if place else None
        if place is None or entry is None:
            return None
        return place, verified_version(entry, place.record)

    def entries(self, record: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """The stored versions of a record, oldest first. Does not compare their hashes."""
        return self.store.read(_stream(record), start, stop)

    def segments(self, record: str, stop: int) -> list[tuple[str, int]]:
        """A first-parent chain across forks: (record, number of its versions), the oldest record first."""
        parts = [(record, stop)]
        while len(parts) < MAX_FORKS:
            first = next(self.entries(parts[0][0], 0, 1), None)
            parent = _parent(first.data) if first else ""
            place = self.find(parent) if parent else None
            if place is None or place.record in {name for name, _ in parts}:
                break
            parts.insert(0, (place.record, place.position + 1))
        return parts

    def leaves(self, place: VersionLocation) -> list[bytes]:
        """The leaves of a version's Merkle tree: the hashes of its first-parent chain up to it."""
        parts = self.segments(place.record, place.position + 1)
        return [bytes.fromhex(entry.hash) for name, stop in parts for entry in self.entries(name, 0, stop)]

    def frontier(self, place: VersionLocation) -> Frontier:
        """The Merkle frontier up to a version."""
        tree = Frontier()
        for leaf in self.leaves(place):
            tree.append(leaf)
        return tree

    def verified_versions(self, record: str, stop: int) -> Iterator[Stored]:
        """The versions of a record before position `stop`, with verified hashes and their roots. Raises `IntegrityError`."""
        parts = self.segments(record, stop)
        tree = Frontier()
        for name, count in parts:
            for entry in self.entries(name, 0, count):
                if name != record:
                    tree.append(bytes.fromhex(entry.hash))
                else:
                    yield verified_version(entry, record)._replace(root=root_after(tree, entry.hash))

    def sealed_versions(self, hashes: Sequence[str]) -> list[Tree]:
        """Sealed versions, in the order of `hashes`. Reads each log once. Raises `IntegrityError`."""
        wanted: dict[str, int] = {}
        for content_hash in hashes:
            place = self.find(content_hash)
            if place is not None:
                wanted[place.record] = max(wanted.get(place.record, 0), place.position + 1)
        due = set(hashes)
        found = {
            stored.hash: sealed(stored)
            for record, stop in wanted.items()
            for stored in self.verified_versions(record, stop)
            if stored.hash in due
        }
        return [found[content_hash] for content_hash in hashes]

    # --- the parts

    def _load(self, record: str, at: Head, known: VersionLog | None) -> VersionLog:
        """The log at a head, read from the newest known point: a cached head, else the fold, else the beginning."""
        fold = self.fold(record)
        if known is not None and known.at.seq <= at.seq:
            since, tree, tail = known.at, copy_frontier(known.tree), known.tail
        elif fold is not None and fold.position <= at.seq:
            since, tree, tail = (Head(fold.position, fold.hash), fold.frontier(), UnfoldedTail(fold.position, (), 0))
        else:
            return self._rebuild(record, at)
        last: Entry | None = None
        for position, last in enumerate(self.entries(record, since.seq, at.seq + 1), since.seq):
            if position == since.seq and last.hash != since.hash:
                return self._rebuild(record, at)
            if position > since.seq:
                tree.append(bytes.fromhex(last.hash))
                tail = tail.followed_by(last)
        return self._log(record, at, last, tree, tail)

    def _rebuild(self, record: str, at: Head) -> VersionLog:
        """The log, read from its beginning: there is no fold, or one of another log. The next version writes a fold."""
        tree = self.frontier(VersionLocation(record, at.seq))
        last = next(self.entries(record, at.seq, at.seq + 1), None)
        return self._log(record, at, last, tree, UnfoldedTail(at.seq, (), FOLD_BYTES))

    def _log(self, record: str, at: Head, last: Entry | None, tree: Frontier, tail: UnfoldedTail) -> VersionLog:
        if last is None or last.hash != at.hash:
            raise IntegrityError(f"the head of record {record} cannot be read", f"run: adjourn record verify {record}")
        content = verified_version(last, record).content
        return VersionLog(record, at, tree.root().hex(), EncodedDocument(content, RecordContent), tree, tail)

    def _find_in_tails(self, content_hash: str) -> VersionLocation | None:
        """Find a version after the fold of its log."""
        for name, at in self.store.streams().items():
            if not name.startswith(_PREFIX):
                continue
            record = name.removeprefix(_PREFIX)
            if at.hash == content_hash:
                return VersionLocation(record, at.seq)
            fold = self.fold(record)
            start = fold.position + 1 if fold else 0
            for position, entry in enumerate(self.entries(record, start, at.seq), start):
                if entry.hash == content_hash:
                    return VersionLocation(record, position)
        return None

    def _entry(self, place: VersionLocation, content_hash: str) -> Entry | None:
        """The entry at a place, if it has that hash."""
        with suppress(IntegrityError, InvalidError):
            for entry in self.store.read(_stream(place.record), place.position, place.position + 1):
                return entry if entry.hash == content_hash else None
        return None

    def fold(self, record: str) -> Fold | None:
        """The stored frontier of a log; None without one, or if this package did not write it."""
        value = self.store.ref(_stream(record)) or ""
        with suppress(msgspec.DecodeError, InvalidError, ValueError):
            fold = msgspec.json.decode(value, type=Fold)
            return fold if _folded(Head(fold.position, fold.hash), fold.frontier()) == value else None
        return None

    def _keep(self, log: VersionLog) -> None:
        if len(self._cache) >= MAX_CACHED and log.id not in self._cache:
            self._cache.pop(next(iter(self._cache)))
        self._cache[log.id] = log


def verified_version(entry: Entry, record: str) -> Stored:
    """A stored version whose content has its hash, else `IntegrityError`."""
    if digest(entry.data) != entry.hash:
        raise IntegrityError(
            f"version {entry.hash[:12]} of record {record} fails verification: its content hash does not match",
            f"run: adjourn record verify {record}; then restore the record from an export or a backup",
        )
    return Stored(entry.hash, entry.data)


def unknown_record(name: str) -> UnknownRecordError:
    """The error for an id or hash that the store does not have."""
    return UnknownRecordError(
        f"no record has the id or hash {name[:80]!r}", "list the records of the store: adjourn record"
    )


def head_moved(record: str, expected: str, text: str) -> ConflictError:
    """The error of a writer whose expected head is no longer the newest version."""
    return ConflictError(
        f"record {record} changed since you read it: its head is {text}, not {expected}; nothing was written",
        f"read it again and retry; or keep your change: `fork` version {expected[:12]}, then `merge` the fork",
    )


def place_of_notes(record: Tree) -> str:
    """The ref that lists the task of a record among those with work."""
    waits = any(question["status"] == "open" for question in record["questionsForUser"])
    return notes_ref(record["task"]["id"], record["lastModifiedAt"], waits=waits)


def may_wait(record: Tree) -> bool:
    """Whether anything in a record may wait for a person: more than what does is no harm."""
    return record["task"]["status"] != "completed" and (
        any(question["status"] == "open" for question in record["questionsForUser"])
        or any(point["approvalStatus"] == "pending" for point in record["resumePoints"])
        or any(decision["status"] == "contested" for decision in record["decisions"])
        or any(blocker["status"] == "active" for blocker in record["blockers"])
    )


def task_ref(record: str, tree: Tree) -> dict[str, str]:
    """The ref by which a task lists a record that has another id."""
    task = tree["task"]["id"]
    return {} if task == record else {f"{_refs_of(task)}{digest(record.encode())[:32]}": record}


def _refs_of(task: str) -> str:
    return f"{_OF_TASK}{digest(task.encode())[:32]}/"


def _stream(record: str) -> str:
    return _PREFIX + record


def _index(content_hash: str) -> str:
    return f"version/{content_hash}"


def copy_frontier(tree: Frontier) -> Frontier:
    """A frontier to append to."""
    if tree.late:
        tree.settle()
    return Frontier(tree.size, list(tree.nodes))


def _folded(at: Head, tree: Frontier) -> str:
    tree.settle()
    fold = Fold(at.seq, at.hash, tree.size, [node.hex() for node in tree.nodes])
    return msgspec.json.encode(fold).decode()


def _parent(content: bytes) -> str:
    """The hash of the version before; empty where there is none, or this is no record."""
    with suppress(InvalidError):
        return link_of(content).parent_cr_hash
    return ""
