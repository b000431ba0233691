"""Continuation Records: create, update, decide on, compare, merge, prove and transfer them.

`store` has the operations. `writer` writes versions and delivers events, `version_log` keeps the versions in a `Store`, `ancestry`
reads many of them, `effects` claims and settles what tools do (`effect_lookup` finds it in the task's chain), `proofs` makes what
is checked without the store, `transfer` takes records from one store to another, `agent_notes` records what an agent notes.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.knowledge.records.effect_lookup import EffectCall, current
    from adjourn.knowledge.records.effects import EffectClaim, Effects, moot_questions
    from adjourn.knowledge.records.effects_model import OPERATION, THROUGH, omitted_count
    from adjourn.knowledge.records.interventions import expire_due, obstacles
    from adjourn.knowledge.records.proofs import (
        ConsistencyProof,
        InclusionProof,
        SignedRecordHead,
        read_proof,
    )
    from adjourn.knowledge.records.store import CRStore
    from adjourn.knowledge.records.task_record import read_record_of, record_of
    from adjourn.knowledge.records.transfer import MAX_BYTES, Fork, export_record, import_record
    from adjourn.knowledge.records.version_log import verified_version
    from adjourn.knowledge.records.versions import sealed

__all__ = [
    "MAX_BYTES",
    "OPERATION",
    "THROUGH",
    "CRStore",
    "ConsistencyProof",
    "EffectCall",
    "EffectClaim",
    "Effects",
    "Fork",
    "InclusionProof",
    "SignedRecordHead",
    "current",
    "expire_due",
    "export_record",
    "import_record",
    "moot_questions",
    "obstacles",
    "omitted_count",
    "read_proof",
    "read_record_of",
    "record_of",
    "sealed",
    "verified_version",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "effect_lookup": ("EffectCall", "current"),
            "effects": ("EffectClaim", "Effects", "moot_questions"),
            "effects_model": ("OPERATION", "THROUGH", "omitted_count"),
            "interventions": ("expire_due", "obstacles"),
            "proofs": ("ConsistencyProof", "InclusionProof", "SignedRecordHead", "read_proof"),
            "store": ("CRStore",),
            "task_record": ("read_record_of", "record_of"),
            "transfer": ("Fork", "MAX_BYTES", "export_record", "import_record"),
            "version_log": ("verified_version",),
            "versions": ("sealed",),
        },
    )
