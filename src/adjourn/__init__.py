"""adjourn: an AI agent's work outlives the session that did it.

Owns: the public names, each loaded when it is first used (PEP 562). Must never: import anything, for hooks start with it.
"""

TYPE_CHECKING = False  # type checkers take it for true; to import it from typing would cost every start
if TYPE_CHECKING:
    from adjourn.adapters.anthropic import ResumableAnthropic
    from adjourn.adapters.openai import ResumableOpenAI
    from adjourn.errors import (
        AdjournError,
        ConflictError,
        IntegrityError,
        InvalidError,
        NotFoundError,
        RefusedError,
        StoreError,
        UsageError,
    )
    from adjourn.knowledge.brief import brief, format_state_for_prompt
    from adjourn.knowledge.cognition import CognitiveStore, SessionOptions
    from adjourn.knowledge.cognition.checkpoints import (
        RestoredSession,
        Validity,
        create_checkpoint,
        estimate_tokens,
        restore_checkpoint,
        validate_checkpoint,
    )
    from adjourn.knowledge.cognition.deltas import diff_checkpoints
    from adjourn.knowledge.cognition.middleware import Call, Dialect, Middleware, ModelReply
    from adjourn.knowledge.cognition.replies import parse_reply
    from adjourn.knowledge.cognition.triggers import Trigger
    from adjourn.knowledge.model.cognition import (
        Branch,
        CheckpointDiff,
        CognitiveCheckpoint,
        CognitiveNode,
        CognitiveSession,
        EpistemicState,
        IntentGraph,
        NodePhase,
        NodeStatus,
        NodeType,
        ToolBinding,
    )
    from adjourn.knowledge.model.record import (
        ContinuationRecord,
        CRAuthor,
        CRBlocker,
        CRDecision,
        CRDiff,
        CREvent,
        CRInvariant,
        CRLearning,
        CRMergeResult,
        CRQuestion,
        CRResumePoint,
        CRToolEffect,
        Strategy,
    )
    from adjourn.knowledge.records import CRStore
    from adjourn.store import MemoryStore, PostgresStore, SqliteStore, Store, open_store

__version__ = "0.2.0"

__all__ = [
    "AdjournError",
    "Branch",
    "CRAuthor",
    "CRBlocker",
    "CRDecision",
    "CRDiff",
    "CREvent",
    "CRInvariant",
    "CRLearning",
    "CRMergeResult",
    "CRQuestion",
    "CRResumePoint",
    "CRStore",
    "CRToolEffect",
    "Call",
    "CheckpointDiff",
    "CognitiveCheckpoint",
    "CognitiveNode",
    "CognitiveSession",
    "CognitiveStore",
    "ConflictError",
    "ContinuationRecord",
    "Dialect",
    "EpistemicState",
    "IntegrityError",
    "IntentGraph",
    "InvalidError",
    "MemoryStore",
    "Middleware",
    "ModelReply",
    "NodePhase",
    "NodeStatus",
    "NodeType",
    "NotFoundError",
    "PostgresStore",
    "RefusedError",
    "RestoredSession",
    "ResumableAnthropic",
    "ResumableOpenAI",
    "SessionOptions",
    "SqliteStore",
    "Store",
    "StoreError",
    "Strategy",
    "ToolBinding",
    "Trigger",
    "UsageError",
    "Validity",
    "brief",
    "create_checkpoint",
    "diff_checkpoints",
    "estimate_tokens",
    "format_state_for_prompt",
    "open_store",
    "parse_reply",
    "restore_checkpoint",
    "validate_checkpoint",
]

_HOMES = {
    "AdjournError": "errors",
    "Branch": "knowledge.model.cognition",
    "CRAuthor": "knowledge.model.record",
    "CRBlocker": "knowledge.model.record",
    "CRDecision": "knowledge.model.record",
    "CRDiff": "knowledge.model.record",
    "CREvent": "knowledge.model.record",
    "CRInvariant": "knowledge.model.record",
    "CRLearning": "knowledge.model.record",
    "CRMergeResult": "knowledge.model.record",
    "CRQuestion": "knowledge.model.record",
    "CRResumePoint": "knowledge.model.record",
    "CRStore": "knowledge.records",
    "CRToolEffect": "knowledge.model.record",
    "Call": "knowledge.cognition.middleware",
    "CheckpointDiff": "knowledge.model.cognition",
    "CognitiveCheckpoint": "knowledge.model.cognition",
    "CognitiveNode": "knowledge.model.cognition",
    "CognitiveSession": "knowledge.model.cognition",
    "CognitiveStore": "knowledge.cognition",
    "ConflictError": "errors",
    "ContinuationRecord": "knowledge.model.record",
    "Dialect": "knowledge.cognition.middleware",
    "EpistemicState": "knowledge.model.cognition",
    "IntegrityError": "errors",
    "IntentGraph": "knowledge.model.cognition",
    "InvalidError": "errors",
    "MemoryStore": "store",
    "Middleware": "knowledge.cognition.middleware",
    "ModelReply": "knowledge.cognition.middleware",
    "NodePhase": "knowledge.model.cognition",
    "NodeStatus": "knowledge.model.cognition",
    "NodeType": "knowledge.model.cognition",
    "NotFoundError": "errors",
    "PostgresStore": "store",
    "RefusedError": "errors",
    "RestoredSession": "knowledge.cognition.checkpoints",
    "ResumableAnthropic": "adapters.anthropic",
    "ResumableOpenAI": "adapters.openai",
    "SessionOptions": "knowledge.cognition",
    "SqliteStore": "store",
    "Store": "store",
    "StoreError": "errors",
    "Strategy": "knowledge.model.record",
    "ToolBinding": "knowledge.model.cognition",
    "Trigger": "knowledge.cognition.triggers",
    "UsageError": "errors",
    "Validity": "knowledge.cognition.checkpoints",
    "brief": "knowledge.brief",
    "create_checkpoint": "knowledge.cognition.checkpoints",
    "diff_checkpoints": "knowledge.cognition.deltas",
    "estimate_tokens": "knowledge.cognition.checkpoints",
    "format_state_for_prompt": "knowledge.brief",
    "open_store": "store",
    "parse_reply": "knowledge.cognition.replies",
    "restore_checkpoint": "knowledge.cognition.checkpoints",
    "validate_checkpoint": "knowledge.cognition.checkpoints",
}


if not TYPE_CHECKING:  # for type checkers, only the names above are there

    def __getattr__(name: str) -> object:
        from adjourn.front_door import load  # noqa: PLC0415  # only a name that is used pays for it

        return load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
