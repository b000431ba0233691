"""The store of Continuation Records: create, read, update, decide, compare, merge (spec/record.md).

Every change adds a version and leaves the older ones as they are. Records go in and come out as JSON trees with the published names; what
is handed out is the caller's own.

Owns: how an operation of `adjourn.state` becomes a version that is written, and told. Must never: hold a rule of a record itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any
from uuid import uuid4

from adjourn.errors import AdjournError, ConflictError, RefusedError, UnknownRecordError
from adjourn.host import now
from adjourn.knowledge.cognition import RecordChange, Transition
from adjourn.knowledge.model import CRAuthor, CRDiff, CRMergeResult, Strategy, Tree, same, view, without
from adjourn.knowledge.records import diff, merge, updating
from adjourn.knowledge.records.ancestry import Ancestry, verify_log
from adjourn.knowledge.records.deciding import Deciding, Operation
from adjourn.knowledge.records.effects import Effects
from adjourn.knowledge.records.interventions import SYSTEM
from adjourn.knowledge.records.proofs import (
    ConsistencyProof,
    InclusionProof,
    SignedRecordHead,
    prove_consistency,
    prove_inclusion,
    sign_head,
)
from adjourn.knowledge.records.subscribers import Subscriber, Subscribers, events_of
from adjourn.knowledge.records.version_log import VersionLog, VersionStore, head_moved
from adjourn.knowledge.records.versions import (
    ENVELOPE,
    ChainVerification,
    Stored,
    ancestors,
    common_ancestor,
    empty_record,
    first_version,
    following,
    next_version,
    sealed,
    store_form,
)
from adjourn.store import EMPTY, Store
from adjourn.tasks import wait_turn

MAX_ATTEMPTS = 50
_LogOperation = Callable[[VersionLog, int], Transition]
"""What becomes of the head of a line at a time."""


class CRStore(Deciding):
    """Continuation Records over a `Store`. Safe to use from several threads; several processes may use one store.

    `id` names a record, `contentHash` a version of it. Methods raise `UnknownRecordError` (a `KeyError`) for a record that is not there,
    `InvalidError` for what is no record, `RefusedError` where a rule or a missing authority says no, `ConflictError` when another
    writer was faster. Nothing is written then. What is returned is durable.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], int] = now,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self.store = store
        self.versions = VersionStore(store)
        self._clock = clock
        self._new_id = new_id
        self._lock = RLock()
        self._subscribers = Subscribers()
        self._effects = Effects(self, clock)

    # --- reading

    def ids(self) -> list[str]:
        """The ids of all records."""
        return self.versions.ids()

    def get(self, cr_id: str) -> Tree | None:
        """The newest version of a record."""
        with self._lock:
            log = self.versions.head(cr_id)
        return log.record if log else None

    def get_by_hash(self, content_hash: str) -> Tree | None:
        """A version by its `contentHash`."""
        found = self.versions.read(content_hash)
        if found is None:
            return None
        place, stored = found
        head = self.get(place.record)
        if head and head["contentHash"] == content_hash:
            return head
        root = self.versions.frontier(place).root().hex()
        return sealed(stored._replace(root=root))

    def resolve(self, name: str) -> Tree:
        """A version by the id of its record (the newest one) or by its hash."""
        found = self.get(name) or self.get_by_hash(name)
        if found is None:
            raise _unknown(name)
        return found

    def of_task(self, task_id: str) -> Tree | None:
        """The newest version of a task's record: the one under the task's own id, else the one of that task written last.

        Other records that cannot be read are passed over. Raises `IntegrityError` for one under the task's own id.
        """
        own = self.get(task_id)
        if own is not None and own["task"]["id"] == task_id:
            return own
        found = []
        for name in self.ids():
            with suppress(AdjournError):
                record = self.get(name)
                if record is not None and record["task"]["id"] == task_id:
                    found.append(record)
        return max(found, key=lambda record: (record["lastModifiedAt"], record["id"]), default=None)

    def get_history(self, cr_id: str) -> list[Tree]:
        """All versions of a record, oldest first, without those of a line it was forked from."""
        return [
            sealed(stored) for stored in self.versions.verified_versions(cr_id, self._log(cr_id).at.seq + 1)
        ]

    def get_ancestors(self, content_hash: str) -> list[Tree]:
        """All versions that one came from, nearest first, each once, without itself."""
        if self.versions.find(content_hash) is None:
            raise _unknown(content_hash)
        ancestry = Ancestry(self.versions)
        found = ancestors(content_hash, ancestry.parents)
        return self.versions.sealed_versions([name for name in found if ancestry.sequence(name) >= 0])

    def verify_chain(
        self, cr_id: str, *, expected_head: str | None = None, expected_root: str | None = None
    ) -> ChainVerification:
        """Check a record's log, oldest first; `broken_at` is the stored hash of the first version that does not hold.

        A missing end, and a line written anew, are found only with a head or a root that was kept elsewhere.
        """
        if self.versions.head_position(cr_id) == EMPTY:
            raise _unknown(cr_id)
        return verify_log(self.versions, cr_id, expected_head=expected_head, expected_root=expected_root)

    # --- writing

    def create(self, cr: Mapping[str, Any], *, author: CRAuthor | None = None, cr_id: str = "") -> Tree:
        """A new record. What `cr` does not give is empty; `task` needs an id and a goal.

        With `parentCRHash` it is a fork: it says what that version says, with the members of `cr` in their place. `author` is
        `cr["createdBy"]` where it is not given.
        """
        by = author or (view(cr["createdBy"], CRAuthor) if "createdBy" in cr else SYSTEM)
        new_id, at = cr_id or self._new_id(), self._clock()
        parent, tree = None, None
        if "parentCRHash" in cr:
            found = self.versions.read(str(cr["parentCRHash"]))
            if found is None:
                raise _unknown(str(cr["parentCRHash"]))
            parent, tree = sealed(found[1]), self.versions.frontier(found[0])
        given = without(cr, *(name for name in ENVELOPE if name != "version"))
        if parent is None:
            task = cr.get("task")
            known = task if isinstance(task, Mapping) else {}
            base = first_version(empty_record(without(known, "status")), by, at, new_id=new_id)
            given["task"] = {**base["task"], **known}
        else:
            base = first_version(parent, by, at, new_id=new_id, parent=parent)
        step = updating.update_record(base, given, by, at)
        stored = Stored(*store_form(step.record))
        with self._lock:
            try:
                log = self.versions.append(None, new_id, stored, tree)
            except ConflictError as error:
                raise ConflictError(
                    f"there is a record {new_id} already", "update it, or take another id"
                ) from error
            made = log.record
            happened = [RecordChange("created"), *(one for one in step.events if one.type != "updated")]
            self._subscribers.queue(events_of(made, happened, by, made.get("parentCRHash", "")))
        self._subscribers.tell()
        return made

    def fork(
        self, content_hash: str, updates: Mapping[str, Any], author: CRAuthor, *, cr_id: str = ""
    ) -> Tree:
        """A new record that goes on from a version of another: to hand work over, or to keep a change that came too late."""
        return self.create({**updates, "parentCRHash": content_hash}, author=author, cr_id=cr_id)

    def update(
        self, cr_id: str, updates: Mapping[str, Any], author: CRAuthor, *, expected_head: str | None = None
    ) -> Tree:
        """The record with members replaced (None takes one out). With `expected_head`, only if that is the newest version."""

        def change(log: VersionLog, at: int) -> Transition:
            return updating.update_record(log.head, log.encoded.shared(updates), author, at)

        return self._write(cr_id, change, author, expected_head=expected_head, again=False)

    def act(self, cr_id: str, operation: Operation, author: CRAuthor) -> Tree:
        """Make a version by an operation of `adjourn.state`. It is asked again when another writer was faster."""
        return self._write(cr_id, lambda log, at: operation(log.head, at), author)

    # --- comparing and merging

    def diff(self, cr_id_a: str, cr_id_b: str) -> CRDiff:
        """How B differs from A. Each is a record (its newest version) or the hash of a version."""
        a, b = self.resolve(cr_id_a), self.resolve(cr_id_b)
        base = "" if a["id"] == b["id"] else self._base(a, b)
        return diff.diff(a, b, base_hash=base or "")

    def merge(
        self, cr_id_a: str, cr_id_b: str, strategy: Strategy, *, author: CRAuthor = SYSTEM
    ) -> CRMergeResult:
        """Merge B (a record or the hash of a version) into record A, as a new version of A.

        Conflicts that are unresolved are kept in that version, for `resolve_conflict`. Nothing is written where B has nothing to add.
        """
        for attempt in range(MAX_ATTEMPTS):
            log, b = self._log(cr_id_a), self.resolve(cr_id_b)
            a = log.record
            base_hash = self._base(a, b)
            if base_hash == b["contentHash"]:
                return _result(merge.Merged(a, (), (), fast_forward=True), a, strategy, base_hash)
            base = self.versions.read(base_hash) if base_hash else None
            merged = merge.merge(a, b, sealed(base[1]) if base else None, strategy)
            if merged.record["task"]["id"] != a["task"]["id"]:  # what was used up is known by it
                raise RefusedError(
                    f"{cr_id_a} and {cr_id_b} are records of different tasks", "merge with prefer-a"
                )
            said = without(merged.record, *ENVELOPE)
            if same(said, without(a, *ENVELOPE)) and not merged.conflicts:
                return _result(merged, a, strategy, base_hash)
            version = next_version(a, said, author, self._clock(), merged=[b["contentHash"]])
            assert version is not None  # it has parents to merge
            told = RecordChange("merged", "", {"from": b["id"], "hash": b["contentHash"]})
            with suppress(ConflictError):
                made = self._commit(log, log.encoded.shared(version), (told,), author)
                return _result(merged, made, strategy, base_hash)
            wait_turn(attempt)
        raise _too_many(cr_id_a)

    # --- proving

    def inclusion_proof(self, content_hash: str, *, cr_id: str = "") -> InclusionProof:
        """That a version is in the line of a record (by default its own), for those who know only a root."""
        place = self.versions.find(content_hash)
        if place is None:
            raise _unknown(content_hash)
        log = self._log(cr_id or place.record)
        return prove_inclusion(log.record, self.versions.leaves(log.place), content_hash)

    def consistency_proof(self, cr_id: str, old_size: int) -> ConsistencyProof:
        """That a record has only grown since its line had `old_size` versions (the sequence of the last one, plus 1)."""
        log = self._log(cr_id)
        return prove_consistency(log.record, self.versions.leaves(log.place), old_size)

    def signed_head(self, cr_id: str, private: bytes) -> SignedRecordHead:
        """A detached signature of the newest version: an anchor to keep outside of the store."""
        return sign_head(self._log(cr_id).record, private)

    # --- telling

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Have `callback` told of every version that this object writes, after it is written; returns what ends that.

        In the order of the writes, each event once. What a callback raises is kept in `failed_callbacks`.
        """
        return self._subscribers.add(callback)

    @property
    def failed_callbacks(self) -> Sequence[Exception]:
        """What callbacks have raised, the last hundred."""
        return self._subscribers.failed

    @property
    def effects(self) -> Effects:
        """Tool effects: claimed before they are run, settled after."""
        return self._effects

    # --- the parts

    def _log(self, cr_id: str) -> VersionLog:
        with self._lock:
            log = self.versions.head(cr_id)
        if log is None:
            raise _unknown(cr_id)
        return log

    def _base(self, a: Tree, b: Tree) -> str | None:
        ancestry = Ancestry(self.versions)
        return common_ancestor(a["contentHash"], b["contentHash"], ancestry.parents, ancestry.sequence)

    def _write(
        self,
        cr_id: str,
        operation: _LogOperation,
        author: CRAuthor,
        *,
        expected_head: str | None = None,
        again: bool = True,
    ) -> Tree:
        """Make a version of what an operation makes of the newest one; nothing when it says the same."""
        known = self.versions.cached(cr_id)
        if known is not None and expected_head in (None, known.at.hash):
            # An append finds out whether its head is the newest one, so the head need not be read before it.
            with suppress(AdjournError):
                made = self._follow(known, operation, author)
                if made is not None:
                    return made
        for attempt in range(MAX_ATTEMPTS):
            log = self._log(cr_id)
            if expected_head not in (None, log.at.hash):
                raise head_moved(cr_id, str(expected_head), log.at.hash)
            try:
                return self._follow(log, operation, author) or log.record
            except ConflictError:
                if not again:
                    raise head_moved(cr_id, log.at.hash, self._log(cr_id).at.hash) from None
                wait_turn(attempt)
        raise _too_many(cr_id)

    def _follow(self, log: VersionLog, operation: _LogOperation, author: CRAuthor) -> Tree | None:
        """The version that an operation makes of a line's head, written; None when it says the same."""
        at = self._clock()
        step = operation(log, at)
        version = next_version(log.head, step.record, author, at)
        return None if version is None else self._commit(log, version, step.events, author)

    def _commit(
        self, log: VersionLog, version: Tree, happened: Sequence[RecordChange], author: CRAuthor
    ) -> Tree:
        stored, written = following(log.encoded, version)
        with self._lock:
            made = self.versions.append(log, log.id, stored, encoded=written)
            self._subscribers.queue(events_of(made.head, happened, author, log.at.hash))
        self._subscribers.tell()
        return made.record


def _result(merged: merge.Merged, made: Tree, strategy: Strategy, base: str | None) -> CRMergeResult:
    return CRMergeResult(
        success=merged.success,
        merged=made,
        **({"base_hash": base} if base else {}),
        strategy=strategy,
        fast_forward=merged.fast_forward,
        conflicts=merged.conflicts,
        warnings=merged.warnings,
    )


def _unknown(name: str) -> UnknownRecordError:
    return UnknownRecordError(
        f"no record has the id or hash {name[:80]!r}", "`adjourn record` lists the records of the store"
    )


def _too_many(cr_id: str) -> ConflictError:
    return ConflictError(f"record {cr_id} is written to by too many at once", "try again")
