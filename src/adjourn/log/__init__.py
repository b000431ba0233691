"""Facts: events in canonical bytes, their hash chain, Merkle trees over them, and signed heads.

Pure: no I/O but the key files of `signing`. The format is `spec/events.md`; digests are for ever.
"""

from adjourn.front_door import lazily

TYPE_CHECKING = False  # as in adjourn/__init__.py

if TYPE_CHECKING:
    from adjourn.log.canonical_json import MAX_DEPTH, MAX_SAFE_INTEGER, canonical, digest, is_plain_fraction
    from adjourn.log.chain import verify_chain
    from adjourn.log.event import (
        GENESIS,
        MAX_EVENT_BYTES,
        VERSION,
        Actor,
        Envelope,
        Event,
        decode,
        encode,
        milliseconds,
        timestamp,
    )
    from adjourn.log.kinds import CheckpointCreated, Data, HasTool, data_of, full_name, prose_of, tool_name
    from adjourn.log.merkle import (
        MAX_LATE,
        Frontier,
        consistency_proof,
        inclusion_proof,
        root,
        verify_consistency,
        verify_inclusion,
    )
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
    "GENESIS", "MAX_DEPTH", "MAX_EVENT_BYTES", "MAX_LATE", "MAX_SAFE_INTEGER", "VERSION", "Actor", "CheckpointCreated",
    "Data", "Envelope", "Event", "Frontier", "HasTool", "SignedHead", "canonical", "check", "consistency_proof",
    "data_of", "decode", "decode_bytes", "digest", "encode", "encode_bytes", "fingerprint", "full_name", "holds",
    "inclusion_proof", "is_plain_fraction", "milliseconds", "prose_of", "public_key", "root", "sign",
    "sign_bytes", "timestamp", "tool_name", "verify_chain", "verify_consistency", "verify_inclusion",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(__name__, {
        "canonical_json": ("MAX_DEPTH", "MAX_SAFE_INTEGER", "canonical", "digest", "is_plain_fraction"),
        "chain": ("verify_chain",),
        "event": (
            "Actor", "Envelope", "Event", "GENESIS", "MAX_EVENT_BYTES", "VERSION", "decode", "encode",
            "milliseconds", "timestamp",
        ),
        "kinds": ("CheckpointCreated", "Data", "HasTool", "data_of", "full_name", "prose_of", "tool_name"),
        "merkle": (
            "Frontier", "MAX_LATE", "consistency_proof", "inclusion_proof", "root", "verify_consistency",
            "verify_inclusion",
        ),
        "signing": (
            "SignedHead", "check", "decode_bytes", "encode_bytes", "fingerprint", "holds", "public_key",
            "sign", "sign_bytes",
        ),
    })  # fmt: skip
