"""The outer layer: the Continuation Record, which carries work from one agent to the next, and its parts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from adjourn.knowledge.model.documents import MAX_ITEMS, Confidence, Count, Id, Ids, Sha256, Text, Texts, Time
from adjourn.knowledge.model.part import DocumentPart

Authority = Literal["human", "agent", "system"]
TaskStatus = Literal["not-started", "in-progress", "blocked", "completed", "failed"]
DecisionStatus = Literal["tentative", "accepted", "rejected", "contested"]
InterventionType = Literal["question", "approval", "override", "scope-change"]
QuestionStatus = Literal["open", "answered", "expired", "skipped"]
ApprovalStatus = Literal["pending", "approved", "denied", "auto-approved"]
EffectStatus = Literal["claimed", "completed", "failed", "unknown"]
InvariantStatus = Literal["holding", "violated", "unknown"]
Priority = Literal["critical", "high", "medium", "low"]
EventType = Literal[
    "created", "updated", "question-answered", "question-expired", "resume-point-approved", "resume-point-denied",
    "resume-point-timeout", "decision-overridden", "decision-contested", "effect-recorded", "invariant-violated",
    "merged",
]  # fmt: skip
Resolution = Literal["a", "b", "both", "contested", "unresolved"]
Strategy = Literal["prefer-a", "prefer-b", "manual"]

VERSION = "1.0"
"""The `version` of the records that this package writes. A reader refuses a higher major number and accepts a higher minor one."""
EFFECTS_THROUGH = "effectsThrough"
"""The member of a record that says up to which event of its task `toolEffects` is folded."""


class CRAuthor(DocumentPart, frozen=True, kw_only=True):
    """Who did something: a person, an agent or the system."""

    id: Id
    type: Authority
    name: Text | UnsetType = UNSET
    model: Text | UnsetType = UNSET
    session_id: Id | UnsetType = UNSET


class CRTask(DocumentPart, frozen=True, kw_only=True):
    """The goal of the work, and its status."""

    id: Id
    goal: Text
    success_criteria: Texts
    status: TaskStatus
    started_at: Time | UnsetType = UNSET
    completed_at: Time | UnsetType = UNSET


class CRAction(DocumentPart, frozen=True, kw_only=True):
    """An action that was taken."""

    description: Text
    timestamp: Time
    outcome: Literal["success", "failure", "partial"]


class CRExecutionSummary(DocumentPart, frozen=True, kw_only=True):
    """The work done and the resources spent so far."""

    steps_completed: Count
    steps_failed: Count
    tokens_consumed: Count
    elapsed_ms: Count
    actions: Annotated[tuple[CRAction, ...], Meta(max_length=MAX_ITEMS)]


class CRVariant(DocumentPart, frozen=True, kw_only=True):
    """One view of a decision that is or was contested, or an older text of it."""

    author: CRAuthor
    decision: Text
    rationale: Text
    made_at: Time | UnsetType = UNSET
    status: DecisionStatus | UnsetType = UNSET


class CRDecision(DocumentPart, frozen=True, kw_only=True):
    """A choice, its reason, and who may change it. A contested one is open, with its views as variants."""

    id: Id
    description: Text
    status: DecisionStatus
    rationale: Text
    made_by: CRAuthor
    made_at: Time
    variants: Annotated[tuple[CRVariant, ...], Meta(max_length=MAX_ITEMS)] | UnsetType = UNSET
    affects: Ids
    overridable_by: tuple[Authority, ...]


class CRLearning(DocumentPart, frozen=True, kw_only=True):
    """Something learned from the work."""

    id: Id
    type: Literal["insight", "constraint", "pattern", "warning"]
    source: Literal["observation", "failure", "success", "feedback"]
    content: Text
    confidence: Confidence | UnsetType = UNSET
    learned_by: CRAuthor
    learned_at: Time
    affects: Ids


class CRQuestion(DocumentPart, frozen=True, kw_only=True):
    """A question for a person, and the resume points that it blocks."""

    id: Id
    type: InterventionType
    question: Text
    context: Text
    options: Texts | UnsetType = UNSET
    status: QuestionStatus
    answer: Text | UnsetType = UNSET
    answered_by: CRAuthor | UnsetType = UNSET
    answered_at: Time | UnsetType = UNSET
    blocks_resume_points: Ids
    priority: Literal["blocking", "high", "medium", "low"]
    expires_at: Time | UnsetType = UNSET
    asked_at: Time | UnsetType = UNSET
    skipped_reason: Text | UnsetType = UNSET


class CRBlocker(DocumentPart, frozen=True, kw_only=True):
    """An obstacle, and the resume points that it blocks."""

    id: Id
    type: Literal["missing-info", "permission", "dependency", "error", "human-required"]
    description: Text
    status: Literal["active", "resolved"]
    severity: Priority
    created_by: CRAuthor
    created_at: Time
    blocks_resume_points: Ids
    question_id: Id | UnsetType = UNSET
    resolved_by: CRAuthor | UnsetType = UNSET
    resolved_at: Time | UnsetType = UNSET
    resolution: Text | UnsetType = UNSET


class CRAlternative(DocumentPart, frozen=True, kw_only=True):
    """What to do instead, and when."""

    condition: Text
    steps: Texts


class CRResumePoint(DocumentPart, frozen=True, kw_only=True):
    """A gate: when work may continue, on whose authority, and with which steps. An approval is used once (`consumedAt`)."""

    id: Id
    label: Text
    description: Text
    when: Text
    preconditions: Texts
    required_authority: Literal["agent", "human", "system", "any"]
    safe_to_auto_execute: bool
    on_timeout: Literal["abort", "escalate", "continue", "retry"]
    timeout_ms: Count | UnsetType = UNSET
    approval_status: ApprovalStatus
    approved_by: CRAuthor | UnsetType = UNSET
    approved_at: Time | UnsetType = UNSET
    next_steps: Texts
    alternative_paths: Annotated[tuple[CRAlternative, ...], Meta(max_length=MAX_ITEMS)] | UnsetType = UNSET
    created_at: Time | UnsetType = UNSET
    denied_by: CRAuthor | UnsetType = UNSET
    denied_at: Time | UnsetType = UNSET
    denied_reason: Text | UnsetType = UNSET
    attempts: Count | UnsetType = UNSET
    consumed_at: Time | UnsetType = UNSET


class CRToolEffect(DocumentPart, frozen=True, kw_only=True):
    """A side effect of a tool. It is claimed before the tool runs; without `status` it is completed."""

    id: Id
    tool_name: Text
    operation: Text
    inputs: dict[str, Any]
    outputs: dict[str, Any] | UnsetType = UNSET
    idempotency_key: Id | UnsetType = UNSET
    is_replayable: bool
    side_effects: Texts
    reversible: bool
    executed_at: Time
    duration_ms: Count
    status: EffectStatus | UnsetType = UNSET
    error: Text | UnsetType = UNSET


class CREffectsThrough(DocumentPart, frozen=True, kw_only=True):
    """The events that `toolEffects` covers: those up to position `seq`, with `count` effects, of which old ones may be left out."""

    seq: Count
    count: Count


class CRCheck(DocumentPart, frozen=True, kw_only=True):
    """How an invariant can be checked. A command is never run unless the caller brings a runner."""

    kind: Literal["command", "expression", "manual"]
    value: Text


class CRInvariant(DocumentPart, frozen=True, kw_only=True):
    """Something that must remain true."""

    id: Id
    description: Text
    scope: Texts
    severity: Literal["hard", "soft"]
    check: CRCheck | UnsetType = UNSET
    status: InvariantStatus
    established_by: CRAuthor
    established_at: Time
    last_checked_at: Time | UnsetType = UNSET
    evidence: Text | UnsetType = UNSET


class CRMetadata(DocumentPart, frozen=True, kw_only=True):
    """For sorting and planning."""

    tags: Texts
    priority: Priority
    estimated_remaining_work: Text | UnsetType = UNSET


class CRConflict(DocumentPart, frozen=True, kw_only=True):
    """A conflict of a merge: the values of the base and of both sides, and the resolution.

    A value that is absent on a side is left out.
    """

    path: Text
    base: Any = UNSET
    a: Any = UNSET
    b: Any = UNSET
    resolution: Resolution


class RecordContent(DocumentPart, frozen=True, kw_only=True):
    """The part of a record that its hash covers: all but `contentHash` and `merkleRoot`. All versions of a record have its `id`."""

    id: Id
    version: Annotated[str, Meta(pattern=r"^[0-9]{1,6}\.[0-9]{1,6}$")]
    sequence: Count
    parent_cr_hash: Sha256 | UnsetType = field(name="parentCRHash", default=UNSET)
    merge_parent_hashes: tuple[Sha256, ...] | UnsetType = UNSET
    checkpoint_id: Id | UnsetType = UNSET
    task: CRTask
    created_by: CRAuthor
    created_at: Time
    last_modified_by: CRAuthor
    last_modified_at: Time
    execution_summary: CRExecutionSummary
    decisions: Annotated[tuple[CRDecision, ...], Meta(max_length=MAX_ITEMS)]
    learnings: Annotated[tuple[CRLearning, ...], Meta(max_length=MAX_ITEMS)]
    questions_for_user: Annotated[tuple[CRQuestion, ...], Meta(max_length=MAX_ITEMS)]
    blockers: Annotated[tuple[CRBlocker, ...], Meta(max_length=MAX_ITEMS)]
    resume_points: Annotated[tuple[CRResumePoint, ...], Meta(max_length=MAX_ITEMS)]
    tool_effects: Annotated[tuple[CRToolEffect, ...], Meta(max_length=MAX_ITEMS)]
    effects_through: CREffectsThrough | UnsetType = UNSET
    invariants: Annotated[tuple[CRInvariant, ...], Meta(max_length=MAX_ITEMS)]
    metadata: CRMetadata
    conflicts: Annotated[tuple[CRConflict, ...], Meta(max_length=MAX_ITEMS)] | UnsetType = UNSET


class ContinuationRecord(RecordContent, frozen=True, kw_only=True):
    """One version of a record, sealed: with its own hash, and the Merkle root over the versions up to it."""

    content_hash: Sha256
    merkle_root: Sha256 | UnsetType = UNSET


COLLECTIONS = (
    "decisions", "learnings", "questionsForUser", "blockers", "resumePoints", "toolEffects", "invariants",
)  # fmt: skip
"""The parts of a record that are lists of items with an id."""


class CREvent(DocumentPart, frozen=True, kw_only=True):
    """An event of a written version, for subscribers."""

    type: EventType
    cr_id: Id
    content_hash: Sha256
    previous_hash: Sha256 | UnsetType = UNSET
    author: CRAuthor
    timestamp: Time
    path: Text | UnsetType = UNSET
    detail: Any = UNSET


class CRChange(DocumentPart, frozen=True, kw_only=True):
    """One difference. The path names an item of a collection by its id."""

    path: Text
    kind: Literal["added", "removed", "modified"]
    before: Any = UNSET
    after: Any = UNSET


class CRCounts(DocumentPart, frozen=True, kw_only=True):
    """How many items of a collection differ."""

    added: Count = 0
    removed: Count = 0
    modified: Count = 0


class CRDiff(DocumentPart, frozen=True, kw_only=True):
    """The differences of record B from record A."""

    cr_id_a: Id
    cr_id_b: Id
    hash_a: Sha256
    hash_b: Sha256
    base_hash: Sha256 | UnsetType = UNSET
    identical: bool
    changes: tuple[CRChange, ...]
    summary: dict[str, CRCounts]


class CRMergeResult(DocumentPart, frozen=True, kw_only=True):
    """The result of a merge. `success` is false while a conflict is unresolved; `merged` then has the base's value there."""

    success: bool
    merged: ContinuationRecord | UnsetType = UNSET
    base_hash: Sha256 | UnsetType = UNSET
    strategy: Strategy
    fast_forward: bool
    conflicts: tuple[CRConflict, ...]
    warnings: tuple[str, ...]
