"""JSON Schemas of the published documents, made from the types.

Owns: which documents have one. Must never: hold a rule that the types do not. `spec/schemas` has the written-down copies; a test finds a
stale one.
"""

from __future__ import annotations

import msgspec

from adjourn.state.cognition import CheckpointDiff, CognitiveCheckpoint, CognitiveSession
from adjourn.state.documents import Part
from adjourn.state.record import ContinuationRecord, CRDiff, CREvent, CRMergeResult

PUBLISHED: dict[str, type[Part]] = {
    "record": ContinuationRecord,
    "record-diff": CRDiff,
    "record-event": CREvent,
    "record-merge": CRMergeResult,
    "checkpoint": CognitiveCheckpoint,
    "checkpoint-diff": CheckpointDiff,
    "session": CognitiveSession,
}
"""Name of the file, without `.json` → type."""


def schema_text(name: str) -> str:
    """The schema of a published document, as its file has it."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **msgspec.json.schema(PUBLISHED[name]),
    }
    return msgspec.json.format(msgspec.json.encode(schema), indent=1).decode() + "\n"
