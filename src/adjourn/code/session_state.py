"""The state of a coding session: the types of its checkpoint (format 1.12, under the published names), and its text form."""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from adjourn.errors import InvalidError
from adjourn.host.clock import now
from adjourn.log.event import timestamp
from adjourn.text.strict_json import check_values

VERSION = "1.12"
MAX_SUMMARY = 400

Strictness = Literal["lenient", "standard", "strict"]
GateLevel = Literal["auto", "full", "none"]
Intent = Literal["IMPLEMENT", "MODIFY", "INVESTIGATE", "QUESTION"]
Slot = Literal["target_feature", "trigger_condition", "observed_issue", "desired_action"]
SLOTS: tuple[Slot, ...] = get_args(Slot)
SlotSource = Literal["FACT", "HYPOTHESIS", "UNRESOLVED"]
CacheKey = tuple[str, str, str | None, bool]


class Phase(StrEnum):
    BRANCH_INTERVENTION = "BRANCH_INTERVENTION"
    DOCUMENT_RESEARCH = "DOCUMENT_RESEARCH"
    QUERY_FRAME = "QUERY_FRAME"
    EXPLORATION = "EXPLORATION"
    Q1 = "Q1"
    SEMANTIC = "SEMANTIC"
    Q2 = "Q2"
    VERIFICATION = "VERIFICATION"
    Q3 = "Q3"
    IMPACT_ANALYSIS = "IMPACT_ANALYSIS"
    READY = "READY"
    POST_IMPL_VERIFY = "POST_IMPL_VERIFY"
    VERIFY_INTERVENTION = "VERIFY_INTERVENTION"
    PRE_COMMIT = "PRE_COMMIT"
    QUALITY_REVIEW = "QUALITY_REVIEW"
    MERGE = "MERGE"


def stamp() -> str:
    """The current time in the text form of checkpoints."""
    return timestamp(now())


def risk_of(missing: int) -> str:
    """The risk of continuing with so many unknown slots."""
    return "HIGH" if missing >= 3 else "MEDIUM" if missing == 2 else "LOW"


class SlotEvidence(msgspec.Struct, omit_defaults=True):
    tool: str = ""
    params: dict[str, Any] = {}
    result_summary: str = ""
    timestamp: str = ""


class MappedSymbol(msgspec.Struct):
    name: str
    source: SlotSource = "HYPOTHESIS"
    confidence: float = 0.5
    evidence: SlotEvidence | None = None


class QueryFrame(msgspec.Struct):
    """The request, split into slots. `scope` and `constraints` are additions to the published fields."""

    raw_query: str = ""
    target_feature: str | None = None
    trigger_condition: str | None = None
    observed_issue: str | None = None
    desired_action: str | None = None
    mapped_symbols: list[MappedSymbol] = []
    slot_source: dict[str, SlotSource] = {}
    slot_evidence: dict[str, SlotEvidence] = {}
    slot_quotes: dict[str, str] = {}
    scope: str = ""
    constraints: str = ""

    @property
    def slots(self) -> dict[str, str | None]:
        return {slot: getattr(self, slot) for slot in SLOTS}

    @property
    def missing(self) -> list[str]:
        return [slot for slot, value in self.slots.items() if not value]

    @property
    def risk(self) -> str:
        return risk_of(len(self.missing))


class Exploration(msgspec.Struct):
    symbols_identified: list[str] = []
    entry_points: list[str] = []
    existing_patterns: list[str] = []
    files_analyzed: list[str] = []
    tools_used: list[str] = []
    notes: str = ""
    findings: list[str] = []
    evaluated_confidence: str = ""
    missing_requirements: list[str] = []


class Hypothesis(msgspec.Struct):
    text: str
    confidence: Literal["high", "medium", "low"] = "medium"


class Semantic(msgspec.Struct):
    hypotheses: list[Hypothesis] = []
    semantic_reason: str | None = None
    search_queries: list[str] = []
    search_results: list[str] = []


class VerificationEvidence(msgspec.Struct):
    tool: str = ""
    target: str = ""
    result: str = ""
    files: list[str] = []


class VerifiedHypothesis(msgspec.Struct):
    hypothesis: str
    status: str = "confirmed"
    evidence: VerificationEvidence = msgspec.field(default_factory=VerificationEvidence)


class VerificationResult(msgspec.Struct):
    verified: list[VerifiedHypothesis] = []
    all_confirmed: bool = False


class VerifiedFile(msgspec.Struct):
    file: str
    status: str = ""
    reason: str | None = None


class ImpactAnalysis(msgspec.Struct):
    target_files: list[str] = []
    must_verify: list[str] = []
    should_verify: list[str] = []
    verified_files: list[VerifiedFile] = []
    inferred_from_rules: list[str] = []
    mode: str = "standard"
    summary: dict[str, Any] = {}


class ReviewedFile(msgspec.Struct):
    path: str
    decision: Literal["keep", "discard"] = "keep"
    reason: str | None = None
    change_type: str = "modified"


class PreCommitReview(msgspec.Struct):
    total_changes: int = 0
    reviewed_files: list[ReviewedFile] = []
    kept_files: list[str] = []
    discarded_files: list[str] = []
    review_notes: str = ""


class PlanTask(msgspec.Struct, omit_defaults=True):
    """One task of the plan."""

    id: str
    description: str = msgspec.field(default_factory=str)  # as the status: always written
    status: Literal["pending", "completed"] = msgspec.field(default_factory=lambda: "pending")  # always written
    failure_count: int = 0
    revert_reason: str | None = None
    checklist: list[str] = []
    files: list[str] = []


class CheckRun(msgspec.Struct):
    """A command that a verdict rests on. `output_digest` is of the whole output, `output_end` its end. `proved`: the server ran it, or the
    journal of the client's calls has it with its success, after the last change.
    """

    command: str
    exit_code: int = 0
    output_digest: str = ""
    output_end: str = ""
    seconds: float = 0.0
    ran_by: Literal["server", "client"] = "client"
    at: str = ""
    proved: bool = False


class ToolCall(msgspec.Struct):
    """One call, as the record of the session shows it."""

    tool: str
    params: dict[str, Any] = {}
    phase: str = ""
    started_at: str = ""
    completed_at: str = ""
    duration_seconds: float = 0.0
    result_summary: str = ""
    result_detail: dict[str, Any] = {}


class PhaseVisit(msgspec.Struct, omit_defaults=True):
    """One stay in a phase."""

    phase: str
    from_phase: str | None = None
    reason: str = ""
    started_at: str = ""
    ended_at: str | None = None
    duration_seconds: float | None = None
    step: int = 0


class SessionState(msgspec.Struct, kw_only=True):
    """A session. Fields after `checkpoint_at` are not in the published form."""

    session_id: str = ""
    intent: Intent = "IMPLEMENT"
    query: str = ""
    created_at: str = ""
    repo_path: str = "."
    decision_log: dict[str, Any] | None = None
    current_phase: Phase = Phase.EXPLORATION
    ready_substep: Literal["plan", "implement", "complete"] = "plan"
    gate_level: GateLevel = "auto"
    risk_level: str = "LOW"
    query_frame: QueryFrame | None = None
    exploration: Exploration | None = None
    semantic: Semantic | None = None
    verification: VerificationResult | None = None
    impact_analysis: ImpactAnalysis | None = None
    pre_commit_review: PreCommitReview | None = None
    task_branch_name: str | None = None
    task_branch_enabled: bool = False
    branch_policy: str | None = None
    map_results: list[dict[str, Any]] = []
    forest_results: list[dict[str, Any]] = []
    map_hit: bool = False
    tool_calls: list[ToolCall] = []
    phase_history: list[PhaseVisit] = []
    verification_failure_count: int = 0
    intervention_count: int = 0
    failure_history: list[dict[str, Any]] = []
    quality_revert_count: int = 0
    quality_review_enabled: bool = True
    quality_review_max_revert: int = 3
    quality_review_completed: bool = False
    commit_prepared: bool = False
    prepared_commit_message: str | None = None
    prepared_kept_files: list[str] = []
    prepared_discarded_files: list[str] = []
    skip_implementation: bool = False
    phase_assessments: dict[str, dict[str, Any]] = {}
    tasks: list[PlanTask] = []
    phase_payloads: dict[str, dict[str, Any]] = {}
    no_verify: bool = False
    no_quality: bool = False
    fast_mode: bool = False
    quick_mode: bool = False
    no_doc: bool = False
    no_intervention: bool = False
    only_explore: bool = False
    only_verify: bool = False
    definitions_cache: dict[str, Any] = {}
    cache_stats: dict[str, int] = {}
    checkpoint_version: str = VERSION
    checkpoint_at: str = ""
    strictness: Strictness = "standard"
    escalated: bool = False
    base_branch: str = ""
    base_commit: str = ""
    commit_hash: str = ""
    dirty_before: dict[str, str] = {}
    added_files: list[str] = []
    tools_in_step: list[str] = []
    offered: str = ""
    refused_targets: list[str] = []
    check_runs: list[CheckRun] = []
    outcome: Literal["", "proved", "unproved", "failed", "nothing_changed"] = ""

    @property
    def finished(self) -> list[str]:
        return [task.id for task in self.tasks if task.status == "completed"]

    @property
    def pending(self) -> list[PlanTask]:
        return [task for task in self.tasks if task.status == "pending"]

    @property
    def implements(self) -> bool:
        """Whether the session will change files."""
        return self.intent in ("IMPLEMENT", "MODIFY") and not (self.skip_implementation or self.only_explore)

    @property
    def explored(self) -> list[str]:
        """The files and folders that were explored before changes."""
        files = [*self.exploration.files_analyzed] if self.exploration else []
        for verified in self.verification.verified if self.verification else []:
            files += verified.evidence.files
        return list(dict.fromkeys([*files, *self.added_files]))


# --- checkpoints of sessions as text

_LATER = "orchestrator_state"
_RENAMED = {"fast": "fast_mode", "quick": "quick_mode", "phase": "current_phase", "branch": "task_branch_name"}


def encode(state: SessionState) -> bytes:
    """The checkpoint's text."""
    return msgspec.json.format(msgspec.json.encode(state), indent=2)


def decode(data: bytes) -> SessionState:
    """The session in a checkpoint of the published or the later form. Raises `InvalidError` for any other."""
    check_values(data, "the checkpoint")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"not a checkpoint: {error}") from error
    if not isinstance(document, dict):
        raise InvalidError("not a checkpoint: not a JSON object")
    if isinstance(document.get(_LATER), dict):
        document = {**document, **_flat(document[_LATER])}
    state: SessionState = restore(SessionState, document)
    if not state.session_id:
        raise InvalidError("not a checkpoint: it has no session_id")
    usable = {key: value for key, value in state.definitions_cache.items() if from_cache_key(key) is not None}
    return msgspec.structs.replace(state, definitions_cache=usable)


def from_cache_key(text: str) -> CacheKey | None:
    """The definitions-cache key in a JSON array; None for any other text."""
    try:
        key: CacheKey = msgspec.json.decode(text, type=CacheKey)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return key


def _flat(later: Mapping[str, Any]) -> dict[str, Any]:
    """The later form groups its fields; they have the same names beyond that."""
    flat: dict[str, Any] = {}
    for name, value in later.items():
        if isinstance(value, dict) and name not in _FIELDS:
            flat |= _flat(value)
        else:
            flat[_RENAMED.get(name, name)] = value
    return flat


def restore(kind: Any, value: Any) -> Any:
    """Convert `value` to `kind`. Missing or invalid members take their default; invalid items are dropped.

    Raises `msgspec.ValidationError` if a member has no default.
    """
    struct = _struct_in(kind)
    if struct is not None and isinstance(value, dict):
        hints = get_type_hints(struct)
        members = {}
        for field in msgspec.structs.fields(struct):
            name = field.encode_name if field.encode_name in value else f"_{field.encode_name}"
            if name in value:
                try:
                    members[field.name] = restore(hints[field.name], value[name])
                except msgspec.ValidationError:
                    if field.required:
                        raise
        try:
            return struct(**members)
        except TypeError as error:
            raise msgspec.ValidationError(str(error)) from error
    if get_origin(kind) is list and isinstance(value, list):
        (item,) = get_args(kind)
        return [item_value for each in value if (item_value := _or_none(item, each)) is not None]
    if get_origin(kind) is dict and isinstance(value, dict):
        item = get_args(kind)[1]
        if item is Any:
            return value
        return {key: item_value for key, each in value.items() if (item_value := _or_none(item, each)) is not None}
    return msgspec.convert(value, kind)


def _or_none(kind: Any, value: Any) -> Any:
    try:
        return restore(kind, value)
    except msgspec.ValidationError:
        return None


def _struct_in(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if get_origin(kind) in (Union, types.UnionType):
        return next((struct for each in get_args(kind) if (struct := _struct_in(each))), None)
    return None


_FIELDS = {field.name for field in msgspec.structs.fields(SessionState)}
