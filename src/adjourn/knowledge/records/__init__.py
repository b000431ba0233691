"""Continuation Records, kept: made, changed, decided on, compared, merged, proved and carried.

`store` has the operations (those of people in `deciding`), `version_log` keeps versions in a `Store`, `ancestry` goes over many of
them, `subscribers` tells of events, `effects` claims and settles what tools do (`effect_lookup` looks for it in the task's chain,
`effect_projection` shows it in records), `proofs` speaks to those who do not have the store, `transfer` takes records from one
store to another, `agent_notes` writes down what an agent notes.
"""

from typing import TYPE_CHECKING

from adjourn.front_door import lazily

if TYPE_CHECKING:
    from adjourn.knowledge.records.effect_lookup import Call, current
    from adjourn.knowledge.records.effects import Claim, Effects
    from adjourn.knowledge.records.proofs import ConsistencyProof, InclusionProof, SignedRecordHead
    from adjourn.knowledge.records.store import CRStore
    from adjourn.knowledge.records.task_record import record_of

__all__ = [
    "CRStore",
    "Call",
    "Claim",
    "ConsistencyProof",
    "Effects",
    "InclusionProof",
    "SignedRecordHead",
    "current",
    "record_of",
]

if not TYPE_CHECKING:
    __getattr__ = lazily(
        __name__,
        {
            "CRStore": "store",
            "Call": "effect_lookup",
            "Claim": "effects",
            "ConsistencyProof": "proofs",
            "Effects": "effects",
            "InclusionProof": "proofs",
            "SignedRecordHead": "proofs",
            "current": "effect_lookup",
            "record_of": "task_record",
        },
    )
