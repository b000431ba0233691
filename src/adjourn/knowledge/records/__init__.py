"""Continuation Records, kept: made, changed, decided on, compared, merged, proved and carried.

`store` has the operations (those of people in `deciding`), `version_log` keeps versions in a `Store`, `ancestry` goes over many of
them, `subscribers` tells of events, `effects` claims and settles what tools do (`effect_lookup` looks for it in the task's chain,
`effect_projection` shows it in records), `proofs` speaks to those who do not have the store, `transfer` takes records from one
store to another, `agent_notes` writes down what an agent notes.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.knowledge.records.effect_lookup import Call, current
    from adjourn.knowledge.records.effects import Claim, Effects
    from adjourn.knowledge.records.effects_model import OPERATION, THROUGH, omitted
    from adjourn.knowledge.records.expiry import tick
    from adjourn.knowledge.records.proofs import (
        ConsistencyProof,
        InclusionProof,
        SignedRecordHead,
        read_proof,
    )
    from adjourn.knowledge.records.store import CRStore
    from adjourn.knowledge.records.task_record import record_of
    from adjourn.knowledge.records.transfer import MAX_BYTES, Fork, exported, imported
    from adjourn.knowledge.records.version_log import checked
    from adjourn.knowledge.records.versions import sealed

__all__ = [
    "MAX_BYTES",
    "OPERATION",
    "THROUGH",
    "CRStore",
    "Call",
    "Claim",
    "ConsistencyProof",
    "Effects",
    "Fork",
    "InclusionProof",
    "SignedRecordHead",
    "checked",
    "current",
    "exported",
    "imported",
    "omitted",
    "read_proof",
    "record_of",
    "sealed",
    "tick",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "CRStore": "store",
            "Call": "effect_lookup",
            "Claim": "effects",
            "ConsistencyProof": "proofs",
            "Effects": "effects",
            "Fork": "transfer",
            "InclusionProof": "proofs",
            "MAX_BYTES": "transfer",
            "OPERATION": "effects_model",
            "SignedRecordHead": "proofs",
            "THROUGH": "effects_model",
            "checked": "version_log",
            "current": "effect_lookup",
            "exported": "transfer",
            "imported": "transfer",
            "omitted": "effects_model",
            "read_proof": "proofs",
            "record_of": "task_record",
            "sealed": "versions",
            "tick": "expiry",
        },
    )
