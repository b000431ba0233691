"""The store of Continuation Records: create, read, update, decide, compare, merge (spec/record.md).

Every change adds a version and leaves older versions as they are. Programs use `CRStore` (`record`), which returns typed values; the
modules of this package use `RecordTrees`, which returns trees that the caller may change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from uuid import uuid4

from msgspec import UNSET

from adjourn.errors import AdjournError, RefusedError
from adjourn.host.clock import now
from adjourn.knowledge.cognition import transitions
from adjourn.knowledge.cognition.transitions import RecordChange, Transition
from adjourn.knowledge.model import drafts
from adjourn.knowledge.model.documents import EncodedDocument, Tree, from_published, plain, same, tree_of, view, without
from adjourn.knowledge.model.drafts import checked
from adjourn.knowledge.model.record import (
    ContinuationRecord,
    CRAuthor,
    CRDiff,
    CRMergeResult,
    CRResumePoint,
    RecordContent,
    Strategy,
)
from adjourn.knowledge.records import interventions, merge, updating
from adjourn.knowledge.records.ancestry import Ancestry, verify_log
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
from adjourn.knowledge.records.version_log import VersionStore, unknown_record
from adjourn.knowledge.records.versions import ENVELOPE, ChainVerification, Stored, next_version, sealed, store_form
from adjourn.knowledge.records.writer import Operation, Subscriber, UsedApprovals, VersionWriter
from adjourn.policy.principal import SpaceStore
from adjourn.store.base import EMPTY, Store, append_with_retry

R = TypeVar("R")
"""What a caller gets of a record."""


class RecordStore(Generic[R]):
    """Continuation Records over a `Store`. Safe to use from several threads; several processes may use one store.

    A subclass says what a caller gets of a record, with `_made`. `CRStore` tells the rest.
    """

    def _made(self, record: Tree) -> R:
        raise NotImplementedError

    def __init__(
        self, store: Store, *, clock: Callable[[], int] = now, new_id: Callable[[], str] = lambda: str(uuid4())
    ) -> None:
        drafts.require_store(store, type(self).__name__)
        self.store = store
        self.versions = VersionStore(store)
        self._writer = VersionWriter(self.versions, clock)
        self._new_id = new_id
        self._effects = Effects(store, _Trees(self.ids, self._resolve, self._act), clock)

    # --- reading

    def ids(self) -> list[str]:
        """The ids of all records."""
        return self.versions.ids()

    @checked
    def get(self, cr_id: str) -> R | None:
        """The newest version of a record, or None."""
        record = self._get(cr_id)
        return None if record is None else self._made(record)

    @checked
    def get_by_hash(self, content_hash: str) -> R | None:
        """The version with this `contentHash`, or None."""
        record = self._by_hash(content_hash)
        return None if record is None else self._made(record)

    @checked
    def resolve(self, name: str) -> R:
        """The newest version of the record with this id, or the version with this hash. Raises `UnknownRecordError`."""
        return self._made(self._resolve(name))

    @checked
    def of_task(self, task_id: str) -> R | None:
        """The newest version of a task's record, or None.

        A record whose id is the task's id comes first. Otherwise it is the record of that task with the latest `lastModifiedAt`;
        of several, the one with the highest id. Skips other records that cannot be read. Raises `IntegrityError` if the record
        under the task's own id cannot be read.
        """
        own = self._get(task_id)
        if own is not None and own["task"]["id"] == task_id:
            return self._made(own)
        if isinstance(self.store, SpaceStore):  # there, each record has the id of its task
            return None
        records = []
        for name in self.versions.ids_of(task_id):
            with suppress(AdjournError):
                record = self._get(name)
                if record is not None and record["task"]["id"] == task_id:
                    records.append(record)
        newest = max(records, key=lambda record: (record["lastModifiedAt"], record["id"]), default=None)
        return None if newest is None else self._made(newest)

    @checked
    def get_history(self, cr_id: str) -> list[R]:
        """All versions of a record, oldest first, without those of the record that it was forked from."""
        versions = self.versions.verified_versions(cr_id, self._writer.log(cr_id).at.seq + 1)
        return [self._made(sealed(stored)) for stored in versions]

    @checked
    def get_ancestors(self, content_hash: str) -> list[R]:
        """All ancestors of a version, nearest first, each once, without the version itself."""
        if self.versions.find(content_hash) is None:
            raise unknown_record(content_hash)
        return list(
            map(self._made, self.versions.sealed_versions(Ancestry(self.versions).known_ancestors(content_hash)))
        )

    @checked
    def verify_chain(
        self, cr_id: str, *, expected_head: str | None = None, expected_root: str | None = None
    ) -> ChainVerification:
        """Verify the versions of a record, oldest first; `broken_at` is the stored hash of the first one that fails.

        Detects a truncated or rewritten history only if you pass a head or a root that was kept outside the store.
        """
        if self.versions.head_position(cr_id) == EMPTY:
            raise unknown_record(cr_id)
        return verify_log(self.versions, cr_id, expected_head=expected_head, expected_root=expected_root)

    # --- writing

    @checked
    def create(
        self, cr: Mapping[str, Any] | ContinuationRecord, *, author: CRAuthor | None = None, cr_id: str = ""
    ) -> R:
        """Create a record and return it. Members that `cr` leaves out are empty; `task` needs an id and a goal.

        An item, such as a decision, may be a typed value or a dict; of a dict, its text is enough. Null is absent, and times may have
        fractions, as in the published shape. With `parentCRHash`, creates a fork: a copy of that version in which the members of `cr`
        replace its own. `author` defaults to `cr["createdBy"]`. Raises `ConflictError` if the id is taken.
        """
        given = from_published(plain(cr), RecordContent)
        by = author or (view(given["createdBy"], CRAuthor) if "createdBy" in given else SYSTEM)
        new_id, at = cr_id or self._new_id(), self._writer.clock()
        parent, tree = None, None
        if "parentCRHash" in given:
            origin = self.versions.read(str(given["parentCRHash"]))
            if origin is None:
                raise unknown_record(str(given["parentCRHash"]))
            parent, tree = sealed(origin[1]), self.versions.frontier(origin[0])
        given = drafts.completed(given, RecordContent, drafts.DraftContext(tree_of(by), at), parent)
        step = updating.create_record(given, by, at, new_id=new_id, parent=parent)
        return self._made(self._writer.create(new_id, Stored(*store_form(step.record)), tree, step.events, by))

    @checked
    def fork(self, content_hash: str, updates: Mapping[str, Any], author: CRAuthor, *, cr_id: str = "") -> R:
        """Create a record that continues from a version of another: to hand work over, or to keep a change that lost a conflict."""
        return self.create({**updates, "parentCRHash": content_hash}, author=author, cr_id=cr_id)

    @checked
    def update(
        self, cr_id: str, updates: Mapping[str, Any], author: CRAuthor, *, expected_head: str | None = None
    ) -> R:
        """Replace members of a record (None removes one) and return its new version; without a change, the newest version.

        Of `task`, `metadata` and `executionSummary` a part is enough; their other members stay. Items are completed as by `create`. Never
        retries. Raises `ConflictError` if another process wrote first, or if `expected_head` is not the newest version.
        """

        def change(encoded: EncodedDocument, head: Tree, at: int) -> Transition:
            given = encoded.shared(updates)  # before they are completed, so that only what is new has to be
            members = drafts.completed(given, RecordContent, drafts.DraftContext(by, at), head)
            return updating.update_record(head, members, author, at)

        by = tree_of(author)
        return self._made(self._writer.update(cr_id, change, author, expected_head=expected_head))

    def act(self, cr_id: str, operation: Operation, author: CRAuthor) -> R:
        """Write the version that `operation` makes of the newest one; without a change, return the newest version.

        Calls `operation` again on the new head if another process wrote first.
        """
        return self._made(self._act(cr_id, operation, author))

    # --- deciding

    @checked
    def tick(self, cr_id: str) -> R | None:
        """Expire questions and time out resume points that are due. Returns the new version, or None if nothing is due."""
        record = self._tick(cr_id)
        return None if record is None else self._made(record)

    @checked
    def answer_question(self, cr_id: str, question_id: str, answer: str, author: CRAuthor, *, learn: bool = False) -> R:
        """Answer an open question. `learn`: also add the answer to the learnings."""
        answered = interventions.answer_question
        self._tick(cr_id)
        record = self._act(cr_id, lambda cr, at: answered(cr, question_id, answer, author, at, learn=learn), author)
        return self._made(self.effects.answered(record, question_id))

    @checked
    def skip_question(self, cr_id: str, question_id: str, reason: str, author: CRAuthor) -> R:
        """Skip an open question."""
        skipped = interventions.skip_question
        return self._decide(cr_id, lambda cr, at: skipped(cr, question_id, reason, author, at), author)

    @checked
    def approve_resume_point(self, cr_id: str, resume_point_id: str, author: CRAuthor, *, note: str = "") -> R:
        """Approve a resume point. A `note` becomes a constraint of the record."""
        approved = interventions.approve_resume_point
        return self._decide(cr_id, lambda cr, at: approved(cr, resume_point_id, author, at, note=note), author)

    @checked
    def auto_approve_resume_point(self, cr_id: str, resume_point_id: str) -> R:
        """Approve a resume point that needs no person."""
        approved = interventions.auto_approve_resume_point
        return self._decide(cr_id, lambda cr, at: approved(cr, resume_point_id, at), SYSTEM)

    @checked
    def deny_resume_point(self, cr_id: str, resume_point_id: str, reason: str, author: CRAuthor) -> R:
        """Deny a resume point permanently."""
        denied = interventions.deny_resume_point
        return self._decide(cr_id, lambda cr, at: denied(cr, resume_point_id, reason, author, at), author)

    @checked
    def usable_resume_points(self, cr_id: str) -> list[CRResumePoint]:
        """The approved resume points whose steps may start now."""
        usable = interventions.usable_resume_points(self._resolve(cr_id), consumed=self.consumed)
        return [view(point, CRResumePoint) for point in usable]

    @property
    def consumed(self) -> UsedApprovals:
        """The keys of all approvals ever used."""
        return UsedApprovals(self.store)

    @checked
    def consume_resume_point(self, cr_id: str, resume_point_id: str, author: CRAuthor) -> R:
        """Use an approval: its steps start. No other version or fork of the record can use it again.

        Stores the use before the version: if this process dies between the two, the approval counts as used. Raises
        `RefusedError` if it was used already.
        """
        record = self._resolve(cr_id)
        used = interventions.consume_resume_point
        used(record, resume_point_id, self._writer.clock(), consumed=self.consumed)
        with self.consumed.add(record, resume_point_id, self._writer.clock()):
            return self._decide(cr_id, lambda cr, at: used(cr, resume_point_id, at), author)

    @checked
    def answer_contested(
        self, cr_id: str, decision_id: str, author: CRAuthor, *, text: str = "", variant: int | None = None
    ) -> R:
        """Settle a decision while it is contested: with `text` in its place, else accept it, or its variant. Raises `RefusedError` for
        one that is settled, also if that has just happened.
        """

        def settle(cr: Tree, at: int) -> Transition:
            updating.require_contested(cr, decision_id)
            if text:
                return updating.override_decision(cr, decision_id, text, author, at)
            return updating.settle_decision(cr, decision_id, "accepted", author, at, variant=variant)

        return self._decide(cr_id, settle, author)

    @checked
    def override_decision(
        self, cr_id: str, decision_id: str, new_decision: str, author: CRAuthor, *, rationale: str = ""
    ) -> R:
        """Replace a decision; the old text stays as a variant."""
        override = updating.override_decision
        return self._decide(
            cr_id, lambda cr, at: override(cr, decision_id, new_decision, author, at, rationale=rationale), author
        )

    @checked
    def contest_decision(self, cr_id: str, decision_id: str, decision: str, rationale: str, author: CRAuthor) -> R:
        """Contest a decision: add another view. The decision is then open until it is settled."""
        contest = updating.contest_decision
        return self._decide(
            cr_id, lambda cr, at: contest(cr, decision_id, decision, author, at, rationale=rationale), author
        )

    @checked
    def settle_decision(
        self,
        cr_id: str,
        decision_id: str,
        status: Literal["accepted", "rejected", "tentative"],
        author: CRAuthor,
        *,
        variant: int | None = None,
    ) -> R:
        """Set the status of a decision; `variant` is the position of the variant that a contested one takes its text from."""
        settle = updating.settle_decision
        return self._decide(cr_id, lambda cr, at: settle(cr, decision_id, status, author, at, variant=variant), author)

    @checked
    def resolve_blocker(self, cr_id: str, blocker_id: str, resolution: str, author: CRAuthor) -> R:
        """Mark a blocker as resolved."""
        resolved = transitions.resolve_blocker
        return self._decide(cr_id, lambda cr, at: resolved(cr, blocker_id, resolution, author, at), author)

    @checked
    def check_invariant(self, cr_id: str, invariant_id: str, status: str, author: CRAuthor, *, evidence: str = "") -> R:
        """Record the result of checking an invariant."""
        check = transitions.check_invariant
        return self._decide(cr_id, lambda cr, at: check(cr, invariant_id, status, at, evidence=evidence), author)

    @checked
    def resolve_conflict(
        self,
        cr_id: str,
        path: str,
        author: CRAuthor,
        *,
        take: Literal["a", "b", "base"] | None = None,
        value: Any = UNSET,
    ) -> R:
        """Resolve a conflict that a merge left in a record: take one side, or set `value`."""
        settle = merge.resolve_conflict
        return self._decide(cr_id, lambda cr, at: settle(cr, path, take, author, at, value=value), author)

    # --- comparing and merging

    @checked
    def diff(self, cr_id_a: str, cr_id_b: str) -> CRDiff:
        """How B differs from A. Each is a record id (its newest version) or the hash of a version."""
        a, b = self._resolve(cr_id_a), self._resolve(cr_id_b)
        base = None if a["id"] == b["id"] else Ancestry(self.versions).base(a, b)
        return merge.diff(a, b, base_hash=base or "")

    @checked
    def merge(self, cr_id_a: str, cr_id_b: str, strategy: Strategy, *, author: CRAuthor = SYSTEM) -> CRMergeResult:
        """Merge B (a record id or the hash of a version) into record A, as a new version of A.

        Unresolved conflicts are stored in that version, for `resolve_conflict`. Writes nothing if B adds nothing.
        """
        merge.require_strategy(strategy)

        def attempt() -> CRMergeResult:
            log, b = self._writer.log(cr_id_a), self._resolve(cr_id_b)
            a = log.record
            base_hash = Ancestry(self.versions).base(a, b)
            if base_hash == b["contentHash"]:
                return merge.Merged(a, (), (), fast_forward=True).result(a, strategy, base_hash)
            base = self.versions.read(base_hash) if base_hash else None
            merged = merge.merge(a, b, sealed(base[1]) if base else None, strategy)
            if merged.record["task"]["id"] != a["task"]["id"]:  # what was used up is known by it
                raise RefusedError(
                    f"{cr_id_a} and {cr_id_b} are records of different tasks", "merge with the strategy prefer-a"
                )
            content = without(merged.record, *ENVELOPE)
            if same(content, without(a, *ENVELOPE)) and not merged.conflicts:
                return merged.result(a, strategy, base_hash)
            version = next_version(a, content, author, self._writer.clock(), merged=[b["contentHash"]])
            assert version is not None  # it has parents to merge
            change = RecordChange("merged", "", {"from": b["id"], "hash": b["contentHash"]})
            record = self._writer.commit(log, log.encoded.shared(version), (change,), author)
            return merged.result(record, strategy, base_hash)

        return append_with_retry(attempt, f"record {cr_id_a}")

    # --- proving

    @checked
    def inclusion_proof(self, content_hash: str, *, cr_id: str = "") -> InclusionProof:
        """Prove to somebody who knows only a root that a version is in a record (by default its own)."""
        place = self.versions.find(content_hash)
        if place is None:
            raise unknown_record(content_hash)
        log = self._writer.log(cr_id or place.record)
        return prove_inclusion(log.record, self.versions.leaves(log.place), content_hash)

    @checked
    def consistency_proof(self, cr_id: str, old_size: int) -> ConsistencyProof:
        """Prove that a record only grew since it had `old_size` versions (the sequence of the last one, plus 1)."""
        log = self._writer.log(cr_id)
        return prove_consistency(log.record, self.versions.leaves(log.place), old_size)

    @checked
    def signed_head(self, cr_id: str, private: bytes) -> SignedRecordHead:
        """A detached signature of the newest version: an anchor to keep outside the store."""
        return sign_head(self._writer.log(cr_id).record, private)

    # --- events

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with each event of every version that this object writes. Returns a function that unsubscribes.

        Events arrive after the write, in the order of the writes, each once. Exceptions of callbacks are in `failed_callbacks`.
        """
        return self._writer.subscribers.add(callback)

    @property
    def failed_callbacks(self) -> Sequence[Exception]:
        """The last hundred exceptions that callbacks raised."""
        return self._writer.subscribers.failed

    @property
    def effects(self) -> Effects:
        """The effects of tools: claimed before a tool runs, settled after."""
        return self._effects

    # --- the parts

    def _decide(self, cr_id: str, operation: Operation, author: CRAuthor) -> R:
        """Expire what is due, then apply the operation."""
        self._tick(cr_id)
        return self.act(cr_id, operation, author)

    def _tick(self, cr_id: str) -> Tree | None:
        if interventions.expire_due(self._writer.log(cr_id).head, self._writer.clock()) is None:
            return None
        return self._act(
            cr_id, lambda record, at: interventions.expire_due(record, at) or Transition(record, ()), SYSTEM
        )

    def _act(self, cr_id: str, operation: Operation, author: CRAuthor) -> Tree:
        return self._writer.act(cr_id, operation, author)

    def _get(self, cr_id: str) -> Tree | None:
        with self._writer.lock:
            log = self.versions.head(cr_id)
        return log.record if log else None

    def _by_hash(self, content_hash: str) -> Tree | None:
        version = self.versions.read(content_hash)
        if version is None:
            return None
        place, stored = version
        head = self._get(place.record)
        if head and head["contentHash"] == content_hash:
            return head
        root = self.versions.frontier(place).root().hex()
        return sealed(stored._replace(root=root))

    def _resolve(self, name: str) -> Tree:
        record = self._get(name) or self._by_hash(name)
        if record is None:
            raise unknown_record(name)
        return record


class RecordTrees(RecordStore[Tree]):
    """The records as trees, which the caller may change: for modules that hash, compare or show documents."""

    def _made(self, record: Tree) -> Tree:
        return record


class _Trees(NamedTuple):
    """What `Effects` reads and writes records with."""

    ids: Callable[[], list[str]]
    resolve: Callable[[str], Tree]
    act: Callable[[str, Operation, CRAuthor], Tree]
