"""Cognitive sessions: what an agent knows, asks and intends, while it works and after a resume.

`store` is the session as a program uses it, `repository` stores it and its checkpoints in a `Store`.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.knowledge.cognition.invariants import check_record, require
    from adjourn.knowledge.cognition.middleware import (
        INTERVAL,
        Middleware,
        ModelReply,
        join_prompts,
        map_response,
    )
    from adjourn.knowledge.cognition.replies import Collection, Tag, TaggedStatement, apply_reply, normalised
    from adjourn.knowledge.cognition.repository import SessionRepository, head_of
    from adjourn.knowledge.cognition.store import CognitiveStore, SessionOptions
    from adjourn.knowledge.cognition.transitions import (
        COLLECTION,
        RecordChange,
        Transition,
        derived_id,
        path_of,
        put,
    )

__all__ = [
    "COLLECTION",
    "INTERVAL",
    "CognitiveStore",
    "Collection",
    "Middleware",
    "ModelReply",
    "RecordChange",
    "SessionOptions",
    "SessionRepository",
    "Tag",
    "TaggedStatement",
    "Transition",
    "apply_reply",
    "check_record",
    "derived_id",
    "head_of",
    "join_prompts",
    "map_response",
    "normalised",
    "path_of",
    "put",
    "require",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "invariants": ("check_record", "require"),
            "middleware": ("INTERVAL", "Middleware", "ModelReply", "join_prompts", "map_response"),
            "replies": ("Collection", "Tag", "TaggedStatement", "apply_reply", "normalised"),
            "repository": ("SessionRepository", "head_of"),
            "store": ("CognitiveStore", "SessionOptions"),
            "transitions": ("COLLECTION", "RecordChange", "Transition", "derived_id", "path_of", "put"),
        },
    )
