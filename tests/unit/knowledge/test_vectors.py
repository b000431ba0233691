"""The golden vectors of records, checked twice: with hashlib and json alone, and by this package."""

from __future__ import annotations

import json
from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import make_record_vectors
from adjourn.knowledge.cognition.deltas import apply
from adjourn.knowledge.model.documents import accept, same, tree_of
from adjourn.knowledge.model.record import ContinuationRecord
from adjourn.knowledge.records.merge import merge
from adjourn.knowledge.records.versions import unsealed, verify_sealed
from adjourn.log import merkle

VECTORS: dict[str, Any] = json.loads(make_record_vectors.VECTORS.read_text("utf-8"))
VERSIONS = VECTORS["versions"]
HASHES = [bytes.fromhex(version["record"]["contentHash"]) for version in VERSIONS]

KNOWN_HASHES = [
    "2054074d7ce6b3d0dee07a4f22099ddacaf1570a99561e2496f867f80e0199d9",
    "02cdaf698a7028e6cfb5874a73d4b432f7e9afc27cce6d7f25f7cb6ed8c8f376",
    "ec32479d1302c79dc6a8a075a71dc23fb743cd51984936863aebc2912c0079e3",
    "04b270611f93be4aa5379e138e86c73ff0fb780414ecbd2f7ce25800f6443acf",
    "f140320c48b0e612330a6e9caa22728b62e981498887be810500534652931bc5",
]
KNOWN_ROOTS = [
    "cc6c9c5fd2e9c4a4dc68d86b8eaf493d2450c3b6b9197076f60039bf04533942",
    "0041c3a263ba677cad58cb79ba4a70ac81c233cbd858c8437edf69ddfcafcd2f",
    "85b0bd33cd388d55e1c7d94c4de102bbb6a942ceabb88095acfadcfc00d9c444",
    "e888ea3937f1ca82b81e680002127384dc0cac453df4f4dd0965f1f3c2b6acc5",
    "3a0a87332b234a0250766673dd9504af27f8daad3d7e21d97a499c4b9b65168e",
]
KNOWN_INCLUSION = [
    "cc6c9c5fd2e9c4a4dc68d86b8eaf493d2450c3b6b9197076f60039bf04533942",
    "600b9428ed048c8ffce2d728b3b4f18ef35d16a106b868066acd3c7c16b895a7",
    "222a0d5d51cd6db69b58f23b9de0e9425a0f6adf3b9a77871972298a8e3acd92",
]
KNOWN_CONSISTENCY = [
    "06f149641e80aff600c027d37fc1da27c5cdae0cda357607f65bef185740ae90",
    "84e598a6014a0a47103b2cb24b5722e8bf79462584572ec44b67d70d2980929c",
    "0041c3a263ba677cad58cb79ba4a70ac81c233cbd858c8437edf69ddfcafcd2f",
    "222a0d5d51cd6db69b58f23b9de0e9425a0f6adf3b9a77871972298a8e3acd92",
]


def tree_hash(leaves: list[bytes]) -> bytes:
    """RFC 6962's definition."""
    if len(leaves) < 2:
        return sha256(b"\x00" + leaves[0]).digest() if leaves else sha256().digest()
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha256(b"\x01" + tree_hash(leaves[:half]) + tree_hash(leaves[half:])).digest()


def test_hashes_roots_and_proofs_were_known_before_this_code() -> None:
    """The first five versions have the hashes, roots and proofs that another implementation has computed."""
    assert [version["record"]["contentHash"] for version in VERSIONS[:5]] == KNOWN_HASHES
    assert [version["record"]["merkleRoot"] for version in VERSIONS[:5]] == KNOWN_ROOTS
    assert VECTORS["inclusion"]["path"] == KNOWN_INCLUSION
    assert VECTORS["consistency"]["path"] == KNOWN_CONSISTENCY


def test_the_line_follows_from_sha256_alone() -> None:
    """Content, hash, parent, sequence and root of each version fit one another, by hashlib and json."""
    before = None
    for number, version in enumerate(VERSIONS):
        record, content = version["record"], version["content"].encode()
        assert sha256(content).hexdigest() == record["contentHash"]
        assert json.loads(content) == {k: v for k, v in record.items() if k not in ("contentHash", "merkleRoot")}
        assert (record["sequence"], record.get("parentCRHash")) == (number, before)
        assert tree_hash(HASHES[: number + 1]).hex() == record["merkleRoot"]
        before = record["contentHash"]


def test_todays_code_makes_the_very_vectors() -> None:
    """The vectors can be made again, byte for byte."""
    assert make_record_vectors.vectors() == VECTORS


def test_our_verifier_takes_the_line() -> None:
    """The records as they are exported are of the right type and verify."""
    line = [unsealed(accept(version["record"], ContinuationRecord)) for version in VERSIONS]
    assert verify_sealed(line, expected_root=VERSIONS[-1]["record"]["merkleRoot"]).checked == len(VERSIONS)


def test_the_proofs_convince() -> None:
    """A version is in the line, and a line begins with another, without the records."""
    inclusion, consistency = VECTORS["inclusion"], VECTORS["consistency"]
    path = [bytes.fromhex(node) for node in inclusion["path"]]
    assert merkle.verify_inclusion(HASHES[1], 1, 5, path, bytes.fromhex(KNOWN_ROOTS[4]))
    assert not merkle.verify_inclusion(HASHES[2], 1, 5, path, bytes.fromhex(KNOWN_ROOTS[4]))
    path = [bytes.fromhex(node) for node in consistency["path"]]
    assert merkle.verify_consistency(3, 5, bytes.fromhex(KNOWN_ROOTS[2]), bytes.fromhex(KNOWN_ROOTS[4]), path)


def test_the_head_is_signed() -> None:
    """The signature holds over the canonical JSON of the four members."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signed, head = VECTORS["signed_head"], VERSIONS[-1]["record"]
    assert json.loads(signed["message"]) == {n: head[n] for n in ("id", "sequence", "contentHash", "merkleRoot")}
    key = Ed25519PublicKey.from_public_bytes(b64decode(signed["public_key"]))
    key.verify(b64decode(signed["signature"]), signed["message"].encode())


def test_the_merge_and_the_difference_are_the_vectors() -> None:
    """The merge says what it should, with its conflicts, and the difference gives the checkpoint."""
    given = VECTORS["merge"]
    merged = merge(given["a"], given["b"], given["base"], given["strategy"])
    assert [tree_of(conflict) for conflict in merged.conflicts] == given["conflicts"]
    assert all(same(merged.record[name], value) for name, value in given["says"].items())
    checkpoints = VECTORS["checkpoints"]
    assert same(apply(checkpoints["base"], checkpoints["diff"]), checkpoints["current"])


def test_vectors_are_added_to_and_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script refuses to change a version."""
    monkeypatch.setattr(make_record_vectors, "VECTORS", tmp_path / "records.json")
    monkeypatch.setattr(make_record_vectors, "SCHEMAS", tmp_path / "schemas")
    monkeypatch.setattr(make_record_vectors, "TEXT", tmp_path / "record.md")
    text = make_record_vectors.TEXT
    text.write_text(f"before\n{make_record_vectors.BEGIN}stale\n{make_record_vectors.END}after\n")
    assert make_record_vectors.main() == 0
    assert make_record_vectors.main() == 0
    monkeypatch.setattr(make_record_vectors, "START", 1)
    assert make_record_vectors.main() == 1
    written = text.read_text("utf-8")
    assert "stale" not in written
    assert (written[:7], written[-6:]) == ("before\n", "after\n")


def test_the_table_of_statuses_is_that_of_the_machines() -> None:
    """spec/record.md is not stale; `python tests/make_record_vectors.py` renews its table."""
    text = make_record_vectors.TEXT.read_text("utf-8")
    assert make_record_vectors.with_edges(text) == text
    assert "| resume point | `approved` | nothing |" in text
