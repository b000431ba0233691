"""The inner layer: what an agent knows, assumes, asks and intends while it works, and snapshots of it.

Owns: the types, with the published names on the wire. Must never: hold a rule between fields (`invariants` does).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from adjourn.knowledge.model.documents import (
    MAX_ITEMS,
    Confidence,
    Count,
    DocumentPart,
    Id,
    Ids,
    Text,
    Texts,
    Time,
)

NodeType = Literal["intent", "decision", "reasoning", "tool-call", "observation", "reflection", "checkpoint"]
NodePhase = Literal["setup", "exploration", "planning", "execution", "verification", "reflection"]
NodeStatus = Literal["pending", "active", "paused", "completed", "failed", "deferred"]
GoalStatus = Literal["active", "achieved", "abandoned", "deferred"]


class RejectedTool(DocumentPart, frozen=True, kw_only=True):
    """A tool that was considered and not taken."""

    tool_name: Text
    reason: Text


class ToolBinding(DocumentPart, frozen=True, kw_only=True):
    """A planned tool call: the tool, the known inputs, and the alternatives that were considered."""

    tool_name: Text
    inputs: dict[str, Any]
    inputs_complete: bool
    rejected_alternatives: Annotated[tuple[RejectedTool, ...], Meta(max_length=MAX_ITEMS)] | UnsetType = UNSET


class CognitiveNode(DocumentPart, frozen=True, kw_only=True):
    """One step of reasoning."""

    id: Id
    type: NodeType
    phase: NodePhase
    status: NodeStatus
    label: Text
    description: Text | UnsetType = UNSET
    assumptions: Texts
    open_questions: Texts
    confidence: Confidence
    tool_binding: ToolBinding | UnsetType = UNSET
    parent_id: Id | UnsetType = UNSET
    child_ids: Ids
    blocked_by: Ids | UnsetType = UNSET
    created_at: Time
    started_at: Time | UnsetType = UNSET
    completed_at: Time | UnsetType = UNSET
    checkpoint_id: Id | UnsetType = UNSET
    branch_id: Id


class Fact(DocumentPart, frozen=True, kw_only=True):
    """Something verified, and where it comes from: a tool's output, the user, an inference."""

    id: Id
    content: Text
    source: Text
    confidence: Confidence


class Assumption(DocumentPart, frozen=True, kw_only=True):
    """Something taken for true; `validatedAt` says when it was verified."""

    id: Id
    content: Text
    validated_at: Time | UnsetType = UNSET


class OpenQuestion(DocumentPart, frozen=True, kw_only=True):
    """Something unresolved, and the nodes that wait for the answer."""

    id: Id
    question: Text
    priority: Literal["high", "medium", "low"]
    blocks_nodes: Ids


class Belief(DocumentPart, frozen=True, kw_only=True):
    """A conclusion with the ids of the facts that support it."""

    id: Id
    statement: Text
    confidence: Confidence
    evidence: Ids


class EpistemicState(DocumentPart, frozen=True, kw_only=True):
    """What the agent knows and does not know."""

    facts: Annotated[tuple[Fact, ...], Meta(max_length=MAX_ITEMS)]
    assumptions: Annotated[tuple[Assumption, ...], Meta(max_length=MAX_ITEMS)]
    open_questions: Annotated[tuple[OpenQuestion, ...], Meta(max_length=MAX_ITEMS)]
    beliefs: Annotated[tuple[Belief, ...], Meta(max_length=MAX_ITEMS)]


class Goal(DocumentPart, frozen=True, kw_only=True):
    """A goal. A higher `priority` is more important."""

    id: Id
    description: Text
    status: GoalStatus
    sub_goal_ids: Ids
    parent_goal_id: Id | UnsetType = UNSET
    priority: float


class IntentGraph(DocumentPart, frozen=True, kw_only=True):
    """Goals and their parts; `rootIntentId` names the original request."""

    goals: Annotated[tuple[Goal, ...], Meta(max_length=MAX_ITEMS)]
    root_intent_id: Id


class WorkingState(DocumentPart, frozen=True, kw_only=True):
    """The present state of a session."""

    nodes: Annotated[tuple[CognitiveNode, ...], Meta(max_length=MAX_ITEMS)]
    epistemic_state: EpistemicState
    intent_graph: IntentGraph


WORKING_STATE = ("nodes", "epistemicState", "intentGraph")
"""The members of a checkpoint that are its working state."""


class CheckpointMetrics(DocumentPart, frozen=True, kw_only=True):
    """Figures at the time of the checkpoint."""

    total_nodes: Count
    completed_nodes: Count
    token_estimate: Count
    elapsed_ms: Count


class CognitiveCheckpoint(WorkingState, frozen=True, kw_only=True):
    """A complete snapshot of the cognitive state."""

    id: Id
    timestamp: Time
    label: Annotated[Text, Meta(min_length=1)]
    description: Text | UnsetType = UNSET
    branch_id: Id
    parent_checkpoint_id: Id | UnsetType = UNSET
    metrics: CheckpointMetrics


class Branch(DocumentPart, frozen=True, kw_only=True):
    """A branch of checkpoints. The next checkpoint gets `headCheckpointId` as its parent."""

    id: Id
    name: Text
    head_checkpoint_id: Id | UnsetType = UNSET
    parent_branch_id: Id | UnsetType = UNSET
    forked_from_checkpoint_id: Id | UnsetType = UNSET
    created_at: Time
    status: Literal["active", "merged", "abandoned"]


class TotalMetrics(DocumentPart, frozen=True, kw_only=True):
    """Figures of a whole session."""

    resume_count: Count = 0
    checkpoint_count: Count = 0
    request_count: Count = 0
    tokens_consumed: Count = 0
    elapsed_ms: Count = 0


class CognitiveSession(DocumentPart, frozen=True, kw_only=True):
    """A cognitive session: its branches, its checkpoints and its present state."""

    id: Id
    name: Text
    description: Text | UnsetType = UNSET
    created_at: Time
    last_modified_at: Time
    current_branch_id: Id
    active_node_id: Id | UnsetType = UNSET
    branches: dict[str, Branch]
    checkpoints: dict[str, CognitiveCheckpoint]
    working_state: WorkingState
    total_metrics: TotalMetrics


class NodeChange(DocumentPart, frozen=True, kw_only=True):
    """The members of a node that differ from the base; `unset` names the removed ones."""

    id: Id
    changes: dict[str, Any]
    unset: Ids | UnsetType = UNSET


class CheckpointDiff(DocumentPart, frozen=True, kw_only=True):
    """A checkpoint as a difference from its base (spec/record.md, section 8).

    `…Removed` names the items that are gone, `…Order` gives the order where it is not that of the base with the new
    items at the end, `…Unset` names other members that are gone, `meta` holds the checkpoint's remaining members.
    """

    base_checkpoint_id: Id
    timestamp: Time
    added_nodes: Annotated[tuple[CognitiveNode, ...], Meta(max_length=MAX_ITEMS)]
    modified_nodes: Annotated[tuple[NodeChange, ...], Meta(max_length=MAX_ITEMS)]
    removed_node_ids: Ids
    node_order: Ids | UnsetType = UNSET
    epistemic_changes: dict[str, Any]
    epistemic_removed: dict[str, Ids] | UnsetType = UNSET
    epistemic_order: dict[str, Ids] | UnsetType = UNSET
    epistemic_unset: Ids | UnsetType = UNSET
    root_intent_id: Id | UnsetType = UNSET
    intent_changes: dict[str, Any] | UnsetType = UNSET
    intent_removed: Ids | UnsetType = UNSET
    intent_order: Ids | UnsetType = UNSET
    intent_unset: Ids | UnsetType = UNSET
    meta: dict[str, Any]
    result_hash: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
