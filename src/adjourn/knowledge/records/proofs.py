"""Proofs about a record for readers without its store: that a version is in it, that it only grew, and who signed its head.

Must never: read a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from adjourn.errors import IntegrityError, InvalidError
from adjourn.knowledge.model.documents import Count, Id, Sha256, Tree, view
from adjourn.knowledge.model.part import DocumentPart
from adjourn.knowledge.records.versions import head_message
from adjourn.log.merkle import consistency_proof, inclusion_proof, root, verify_consistency, verify_inclusion
from adjourn.log.signing import fingerprint, holds, public_key, sign_bytes

Hashes = Annotated[tuple[Sha256, ...], Meta(max_length=128)]


class InclusionProof(DocumentPart, frozen=True, kw_only=True):
    """Proves that version `contentHash` has this `sequence` in the record whose root over `size` versions is `merkleRoot`."""

    id: Id
    content_hash: Sha256
    sequence: Count
    size: Count
    merkle_root: Sha256
    path: Hashes

    def holds(self) -> bool:
        """Whether the proof is valid. Compare `merkle_root` with one that you trust."""
        leaf, root_ = bytes.fromhex(self.content_hash), bytes.fromhex(self.merkle_root)
        return verify_inclusion(leaf, self.sequence, self.size, _bytes(self.path), root_)


class ConsistencyProof(DocumentPart, frozen=True, kw_only=True):
    """Proves that the record of `newSize` versions with root `newRoot` starts with the `oldSize` versions of root `oldRoot`."""

    id: Id
    old_size: Count
    new_size: Count
    old_root: Sha256
    new_root: Sha256
    path: Hashes

    def holds(self) -> bool:
        """Whether the proof is valid. Compare `old_root` with the one that you kept."""
        roots = bytes.fromhex(self.old_root), bytes.fromhex(self.new_root)
        return verify_consistency(self.old_size, self.new_size, *roots, _bytes(self.path))


class SignedRecordHead(DocumentPart, frozen=True, kw_only=True):
    """The signed head of a record: its newest version for the signer, and the Merkle root over all versions up to it."""

    id: Id
    sequence: Count
    content_hash: Sha256
    merkle_root: Sha256
    key: Annotated[str, Meta(pattern="^ed25519:[0-9a-f]{32}$")]
    signature: Annotated[str, Meta(max_length=100)]

    def check(self, public: bytes) -> None:
        """Raise `IntegrityError` unless the key with these public bytes signed it."""
        if self.key != fingerprint(public) or not holds(public, self.signature, _message(self)):
            raise IntegrityError(
                f"the head of record {self.id} at version {self.sequence} fails verification: {fingerprint(public)} did not sign it",
                "do not use it; ask the signer for a new one",
            )


def prove_inclusion(record: Tree, leaves: Sequence[bytes], content_hash: str) -> InclusionProof:
    """Prove that a version is in the record whose head is the sealed `record` and whose hashes are `leaves`.

    Raises `InvalidError` if it is not.
    """
    try:
        position = leaves.index(bytes.fromhex(content_hash))
    except ValueError:
        raise InvalidError(
            f"{content_hash[:64]!r} is not a version of record {record['id']}",
            "list its versions: adjourn record history",
        ) from None
    return InclusionProof(
        id=record["id"],
        content_hash=content_hash,
        sequence=position,
        size=len(leaves),
        merkle_root=record["merkleRoot"],
        path=_texts(inclusion_proof(leaves, position)),
    )


def prove_consistency(record: Tree, leaves: Sequence[bytes], old_size: int) -> ConsistencyProof:
    """Prove that the record whose head is the sealed `record` has only grown since it had `old_size` versions."""
    return ConsistencyProof(
        id=record["id"],
        old_size=old_size,
        new_size=len(leaves),
        path=_texts(consistency_proof(leaves, old_size)),
        old_root=root(leaves[:old_size]).hex(),
        new_root=record["merkleRoot"],
    )


def sign_head(record: Tree, private: bytes) -> SignedRecordHead:
    """The detached signature of a sealed record."""
    return SignedRecordHead(
        id=record["id"],
        sequence=record["sequence"],
        content_hash=record["contentHash"],
        merkle_root=record["merkleRoot"],
        key=fingerprint(public_key(private)),
        signature=sign_bytes(private, head_message(record)),
    )


def read_proof(value: Mapping[str, Any]) -> InclusionProof | ConsistencyProof | SignedRecordHead:
    """Read a proof from outside; its members say which kind it is. Raises `InvalidError`."""
    if "signature" in value:
        return view(value, SignedRecordHead)
    return view(value, ConsistencyProof) if "oldSize" in value else view(value, InclusionProof)


def _message(head: SignedRecordHead) -> bytes:
    return head_message(
        {"id": head.id, "sequence": head.sequence, "contentHash": head.content_hash, "merkleRoot": head.merkle_root}
    )


def _bytes(hashes: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(digest) for digest in hashes]


def _texts(hashes: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(digest.hex() for digest in hashes)
