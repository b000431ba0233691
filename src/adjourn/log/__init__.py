"""Facts: events in canonical bytes, their hash chain, Merkle trees over them, and signed heads.

Pure: no I/O but the key files of `signing`. The format is `spec/events.md`; digests are for ever.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.log.canonical_json import MAX_DEPTH, MAX_SAFE_INTEGER, canonical, digest
    from adjourn.log.chain import verify_chain
    from adjourn.log.event import (
        GENESIS,
        MAX_EVENT_BYTES,
        Actor,
        Envelope,
        Event,
        decode,
        encode,
        milliseconds,
        timestamp,
    )
    from adjourn.log.kinds import CheckpointCreated, Data, data_of, prose_of
    from adjourn.log.merkle import (
        Frontier,
        consistency_proof,
        inclusion_proof,
        root,
        verify_consistency,
        verify_inclusion,
    )
    from adjourn.log.outside import check_values
    from adjourn.log.signing import (
        SignedHead,
        check,
        decode_bytes,
        encode_bytes,
        fingerprint,
        holds,
        public_key,
        sign,
        sign_bytes,
    )

__all__ = [
    "GENESIS",
    "MAX_DEPTH",
    "MAX_EVENT_BYTES",
    "MAX_SAFE_INTEGER",
    "Actor",
    "CheckpointCreated",
    "Data",
    "Envelope",
    "Event",
    "Frontier",
    "SignedHead",
    "canonical",
    "check",
    "check_values",
    "consistency_proof",
    "data_of",
    "decode",
    "decode_bytes",
    "digest",
    "encode",
    "encode_bytes",
    "fingerprint",
    "holds",
    "inclusion_proof",
    "milliseconds",
    "prose_of",
    "public_key",
    "root",
    "sign",
    "sign_bytes",
    "timestamp",
    "verify_chain",
    "verify_consistency",
    "verify_inclusion",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "Actor": "event",
            "CheckpointCreated": "kinds",
            "Data": "kinds",
            "Envelope": "event",
            "Event": "event",
            "Frontier": "merkle",
            "GENESIS": "event",
            "MAX_DEPTH": "canonical_json",
            "MAX_EVENT_BYTES": "event",
            "MAX_SAFE_INTEGER": "canonical_json",
            "SignedHead": "signing",
            "canonical": "canonical_json",
            "check": "signing",
            "check_values": "outside",
            "consistency_proof": "merkle",
            "data_of": "kinds",
            "decode": "event",
            "decode_bytes": "signing",
            "digest": "canonical_json",
            "encode": "event",
            "encode_bytes": "signing",
            "fingerprint": "signing",
            "holds": "signing",
            "inclusion_proof": "merkle",
            "milliseconds": "event",
            "prose_of": "kinds",
            "public_key": "signing",
            "root": "merkle",
            "sign": "signing",
            "sign_bytes": "signing",
            "timestamp": "event",
            "verify_chain": "chain",
            "verify_consistency": "merkle",
            "verify_inclusion": "merkle",
        },
    )
