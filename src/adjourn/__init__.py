"""adjourn: an AI agent's work outlives the session that did it.

Owns: the public names, each loaded when it is first used (PEP 562). Must never: import anything, for hooks start with it.
"""

TYPE_CHECKING = False  # type checkers take it for true; to import it from typing would cost every start
if TYPE_CHECKING:
    from adjourn.adapters.anthropic import ResumableAnthropic
    from adjourn.adapters.openai import ResumableOpenAI
    from adjourn.engine.cognition import CognitiveStore
    from adjourn.engine.middleware import Dialect, Middleware
    from adjourn.engine.records import CRStore
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
    from adjourn.state.brief import brief, format_state_for_prompt
    from adjourn.state.cognition import (
        CognitiveCheckpoint,
        CognitiveNode,
        CognitiveSession,
        EpistemicState,
        IntentGraph,
    )
    from adjourn.state.record import ContinuationRecord, CRAuthor, CRDiff, CREvent, CRMergeResult
    from adjourn.state.replies import parse_reply
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
    "CRAuthor": "state.record",
    "CRDiff": "state.record",
    "CREvent": "state.record",
    "CRMergeResult": "state.record",
    "CRStore": "engine.records",
    "CognitiveCheckpoint": "state.cognition",
    "CognitiveNode": "state.cognition",
    "CognitiveSession": "state.cognition",
    "CognitiveStore": "engine.cognition",
    "ConflictError": "errors",
    "ContinuationRecord": "state.record",
    "Dialect": "engine.middleware",
    "EpistemicState": "state.cognition",
    "IntegrityError": "errors",
    "IntentGraph": "state.cognition",
    "InvalidError": "errors",
    "MemoryStore": "store",
    "Middleware": "engine.middleware",
    "NotFoundError": "errors",
    "PostgresStore": "store",
    "RefusedError": "errors",
    "ResumableAnthropic": "adapters.anthropic",
    "ResumableOpenAI": "adapters.openai",
    "SqliteStore": "store",
    "Store": "store",
    "StoreError": "errors",
    "UsageError": "errors",
    "brief": "state.brief",
    "format_state_for_prompt": "state.brief",
    "open_store": "store",
    "parse_reply": "state.replies",
}


if not TYPE_CHECKING:  # for type checkers, only the names above are there

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  # only the first use of a name pays for it

        value: object = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
