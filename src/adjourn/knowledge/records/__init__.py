"""Continuation Records, kept: made, changed, decided on, compared, merged, proved and carried.

`store` has the operations (those of people in `deciding`), `lines` keeps versions in a `Store`, `walks` goes over many of them, `events` tells subscribers, `effects` claims and settles what
tools do (`claims` looks for it in the task's chain, `noting` shows it in records), `proofs` speaks to those who do not have the store, `carrying` takes records from one store to another.
"""

from adjourn.knowledge.records.effect_lookup import Call, current
from adjourn.knowledge.records.effects import Claim, Effects
from adjourn.knowledge.records.proofs import ConsistencyProof, InclusionProof, SignedRecordHead
from adjourn.knowledge.records.store import CRStore

__all__ = [
    "CRStore",
    "Call",
    "Claim",
    "ConsistencyProof",
    "Effects",
    "InclusionProof",
    "SignedRecordHead",
    "current",
]
