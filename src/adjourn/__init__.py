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
    from adjourn.knowledge.cognition import CognitiveStore
    from adjourn.knowledge.cognition.middleware import Dialect, Middleware
    from adjourn.knowledge.cognition.replies import parse_reply
    from adjourn.knowledge.model.cognition import (
        CognitiveCheckpoint,
        CognitiveNode,
        CognitiveSession,
        EpistemicState,
        IntentGraph,
    )
    from adjourn.knowledge.model.record import ContinuationRecord, CRAuthor, CRDiff, CREvent, CRMergeResult
    from adjourn.knowledge.records import CRStore
    from adjourn.store import MemoryStore, PostgresStore, SqliteStore, Store, open_store

__version__ = "0.1.0"

__all__ = [
    "AdjournError",
    "CRAuthor",
    "CRDiff",
    "CREvent",
    "CRMergeResult",
    "CRStore",
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
    "NotFoundError",
    "PostgresStore",
    "RefusedError",
    "ResumableAnthropic",
    "ResumableOpenAI",
    "SqliteStore",
    "Store",
    "StoreError",
    "UsageError",
    "brief",
    "format_state_for_prompt",
    "open_store",
    "parse_reply",
]

_HOMES = {
    "AdjournError": "errors",
    "CRAuthor": "knowledge.model.record",
    "CRDiff": "knowledge.model.record",
    "CREvent": "knowledge.model.record",
    "CRMergeResult": "knowledge.model.record",
    "CRStore": "knowledge.records",
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
    "NotFoundError": "errors",
    "PostgresStore": "store",
    "RefusedError": "errors",
    "ResumableAnthropic": "adapters.anthropic",
    "ResumableOpenAI": "adapters.openai",
    "SqliteStore": "store",
    "Store": "store",
    "StoreError": "errors",
    "UsageError": "errors",
    "brief": "knowledge.brief",
    "format_state_for_prompt": "knowledge.brief",
    "open_store": "store",
    "parse_reply": "knowledge.cognition.replies",
}


if not TYPE_CHECKING:  # for type checkers, only the names above are there

    def __getattr__(name: str) -> object:
        from adjourn.front_door import load  # noqa: PLC0415  # only a name that is used pays for it

        return load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
