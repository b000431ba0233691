"""The inner layer: what an agent knows, assumes, asks and intends, its snapshots, and the statements of a reply.

The names on the wire are the published ones. Rules between fields are in `cognition.invariants`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, cast

from msgspec import UNSET, Meta, UnsetType

from adjourn.knowledge.model.documents import MAX_ITEMS, Confidence, Count, Id, Ids, Sha256, Text, Texts, Time, Tree
from adjourn.knowledge.model.part import DocumentPart
from adjourn.log.canonical_json import digest
from adjourn.text.quoting import clean

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


class NotedFile(DocumentPart, frozen=True, kw_only=True):
    """The size of a file in bytes, and the SHA-256 of its content."""

    size: Count
    sha256: Sha256


class FactBasis(DocumentPart, frozen=True, kw_only=True):
    """What a fact depends on, as it was `at` a time: files of the workspace by their paths, keyed digests of environment variables by
    their names, and versions by the names of what has them.
    """

    at: Time
    files: dict[str, NotedFile]
    env: dict[str, Sha256]
    versions: dict[str, str]


class Fact(DocumentPart, frozen=True, kw_only=True):
    """Something verified, and where it comes from: a tool's output, the user, an inference."""

    id: Id
    content: Text
    source: Text
    confidence: Confidence
    depends_on: FactBasis | UnsetType = UNSET


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


# --- statements of a reply: lines that start with FACT, ASSUMPTION, QUESTION or INTENT
#
# A line counts outside code fences, with or without a list mark and emphasis; indented lines below it continue it. A claim of a model is an inference, never more.

Tag = Literal["FACT", "ASSUMPTION", "QUESTION", "INTENT"]

MAX_STATEMENTS = 200
"""Statements that are read of one reply."""
MAX_STATEMENT = 2_000
"""Characters of one statement. The rest is cut."""
SOURCE, CONFIDENCE = "inference", 0.7
"""The source and the confidence of a fact that a model stated."""

_EMPHASIS = r"(?:\*\*|__)?"
_LINE = re.compile(
    rf" {{0,8}}(?:(?:[-*+•]|\d{{1,4}}[.)])[ \t]+)?{_EMPHASIS}"
    rf"(FACT|ASSUMPTION|QUESTION|INTENT){_EMPHASIS}[ \t]?:{_EMPHASIS}[ \t]*(\S.*)"
)
_CONTINUED = re.compile(r"[ \t]{2,}(?![-*+•#>|]|\d{1,4}[.)])\S.*")
"""Matches a line that continues the statement above it: indented, and no item of a list."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class TaggedStatement(NamedTuple):
    """A statement of a reply, and its tag."""

    tag: Tag
    text: str


def parse_reply(text: str) -> list[TaggedStatement]:
    """The statements of a reply, in order. Never raises.

    >>> parse_reply("FACT: the port is 8080")
    [TaggedStatement(tag='FACT', text='the port is 8080')]
    """
    statements: list[TaggedStatement] = []
    fence, goes_on = "", False
    for line in clean(text).split("\n"):
        fence, is_fence = _fence_after(fence, line)
        match = None if fence or is_fence else _LINE.fullmatch(line)
        if match is None:
            goes_on = goes_on and not is_fence and _CONTINUED.fullmatch(line) is not None
            if goes_on:
                last = statements[-1]
                statements[-1] = last._replace(text=f"{last.text} {line.strip()}"[:MAX_STATEMENT])
            continue
        statement = match[2].strip().removesuffix("**").removesuffix("__").strip()[:MAX_STATEMENT]
        if statement:
            statements.append(TaggedStatement(cast("Tag", match[1]), statement))
        goes_on = bool(statement)
        if len(statements) == MAX_STATEMENTS:
            break
    return statements


def _fence_after(fence: str, line: str) -> tuple[str, bool]:
    """The code fence that is open after a line (empty: none), and whether the line is one."""
    match = _FENCE.fullmatch(line)
    if match is None:
        return fence, False
    mark, rest = match[1], match[2]
    if fence:
        closes = mark[0] == fence[0] and len(mark) >= len(fence) and not rest.strip()
        return ("", True) if closes else (fence, False)
    if mark[0] == "`" and "`" in rest:
        return "", False  # a code span
    return mark, True


def apply_reply(state: Tree, statements: Iterable[TaggedStatement], now: int) -> Tree:
    """Add a reply's statements to a working state; the same tree if none is new.

    A FACT in the words of an assumption validates it. A statement in words that the state has already is skipped.
    """
    knowledge, graph = state["epistemicState"], state["intentGraph"]
    facts = Collection(knowledge["facts"], "content", "fact")
    assumptions = Collection(knowledge["assumptions"], "content", "assumption")
    questions = Collection(knowledge["openQuestions"], "question", "question")
    goals = Collection(graph["goals"], "description", "goal")
    for tag, text in statements:
        if tag == "FACT":
            facts.add(text, source=SOURCE, confidence=CONFIDENCE)
            assumptions.change(text, "validatedAt", now)
        elif tag == "ASSUMPTION" and not facts.has(text):
            assumptions.add(text)
        elif tag == "QUESTION":
            questions.add(text, priority="medium", blocksNodes=[])
        elif tag == "INTENT":
            _add_goal(goals, text, graph["rootIntentId"])
    if not any(part.changed for part in (facts, assumptions, questions, goals)):
        return state
    return {
        **state,
        "epistemicState": {
            **knowledge, "facts": facts.items, "assumptions": assumptions.items, "openQuestions": questions.items,
        },
        "intentGraph": {**graph, "goals": goals.items},
    }  # fmt: skip


class Collection:
    """A copy of a list of items with a text, to which items with new texts can be added."""

    def __init__(self, items: Iterable[Tree], name: str, kind: str) -> None:
        self.items = list(items)
        self.changed = False
        self._name = name
        self._kind = kind
        self._places = {normalised(item[name]): place for place, item in reversed(list(enumerate(self.items)))}
        self._ids = {item["id"] for item in self.items}

    def has(self, text: str) -> bool:
        return normalised(text) in self._places

    def add(self, text: str, **members: object) -> str:
        """Add an item. Returns its id; "" if an item has that text already."""
        key = normalised(text)
        if key in self._places:
            return ""
        name = self._new_id(key)
        self._places[key] = len(self.items)
        self._ids.add(name)
        self.items.append({"id": name, self._name: text, **members})
        self.changed = True
        return name

    def change(self, text: str, member: str, value: object) -> None:
        """Set a member of the item with that text, unless it has that member."""
        place = self._places.get(normalised(text))
        if place is not None and member not in self.items[place]:
            self.items[place] = {**self.items[place], member: value}
            self.changed = True

    def _new_id(self, key: str) -> str:
        """An id derived from the text, so that the same reply gives the same state."""
        key_digest = digest(key.encode())
        name = f"{self._kind}-{key_digest[:12]}"
        return name if name not in self._ids else f"{self._kind}-{key_digest}"


def _add_goal(goals: Collection, text: str, root: str) -> None:
    place = next((place for place, goal in enumerate(goals.items) if goal["id"] == root), None)
    under = {} if place is None else {"parentGoalId": root}
    name = goals.add(text, status="active", subGoalIds=[], priority=1, **under)
    if name and place is not None:
        parent = goals.items[place]
        goals.items[place] = {**parent, "subGoalIds": [*parent["subGoalIds"], name]}


def normalised(text: str) -> str:
    """A text to compare with others: without case, extra blanks, a final full stop, and differences of composed letters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(" .")
