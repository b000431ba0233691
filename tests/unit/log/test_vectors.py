"""The golden vectors of spec/vectors, checked twice: by an implementation that has only hashlib and json, and by ours.

The first half is what another implementation would do, and shares no code with the package.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

import make_vectors
from adjourn.errors import IntegrityError, InvalidError
from adjourn.log import kinds, merkle, signing
from adjourn.log.canonical_json import canonical
from adjourn.log.chain import verify_chain
from adjourn.log.event import decode, encode
from support.cases import for_each

FOLDER = Path(__file__).parents[3] / "spec" / "vectors"
EVENTS: dict[str, Any] = json.loads((FOLDER / "events.json").read_text("utf-8"))
MERKLE: dict[str, Any] = json.loads((FOLDER / "merkle.json").read_text("utf-8"))
JCS: dict[str, Any] = json.loads((FOLDER / "jcs.json").read_text("utf-8"))
HASHES = [event["hash"] for event in EVENTS["events"]]
MERKLE_LEAVES = [bytes.fromhex(leaf) for leaf in MERKLE["leaves"]]


# --- another implementation


def number_text(number: float) -> str:
    """ECMAScript's text of a number: its shortest digits, placed by the rules of Number::toString."""
    if number == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    text = "".join(map(str, digits))
    assert isinstance(exponent, int)
    point = exponent + len(text)
    text = text.rstrip("0")
    if len(text) <= point <= 21:
        body = text + "0" * (point - len(text))
    elif 0 < point <= 21:
        body = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + text
    else:
        fraction = "." + text[1:] if text[1:] else ""
        body = f"{text[0]}{fraction}e{point - 1:+d}"
    return "-" * sign + body


def canonical_text(value: Any) -> str:
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, list):
        return "[" + ",".join(canonical_text(item) for item in value) + "]"
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{canonical_text(name)}:{canonical_text(value[name])}" for name in names) + "}"
    return json.dumps(value, ensure_ascii=False)


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    if len(leaves) < 2:
        return sha256(b"\0" + leaves[0] if leaves else b"").digest()
    split = largest_power_below(len(leaves))
    return sha256(b"\1" + tree_hash(leaves[:split]) + tree_hash(leaves[split:])).digest()


def largest_power_below(size: int) -> int:
    split = 1
    while split * 2 < size:
        split *= 2
    return split


def inclusion_path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    split = largest_power_below(len(leaves))
    if index < split:
        return [*inclusion_path(index, leaves[:split]), tree_hash(leaves[split:])]
    return [*inclusion_path(index - split, leaves[split:]), tree_hash(leaves[:split])]


def consistency_path(old: int, leaves: Sequence[bytes], *, whole: bool = True) -> list[bytes]:
    if old == len(leaves):
        return [] if whole else [tree_hash(leaves)]
    split = largest_power_below(len(leaves))
    if old <= split:
        return [*consistency_path(old, leaves[:split], whole=whole), tree_hash(leaves[split:])]
    return [*consistency_path(old - split, leaves[split:], whole=False), tree_hash(leaves[:split])]


def hexes(path: Sequence[bytes]) -> list[str]:
    return [node.hex() for node in path]


# --- the vectors hold by themselves


def test_the_chain_holds_by_the_spec_alone() -> None:
    """Each event's hash is that of its bytes, which begin with the hash before, and are canonical JSON (rules 1-3)."""
    before = "0" * 64
    for seq, event in enumerate(EVENTS["events"]):
        stored = event["bytes"].encode()
        assert sha256(stored).hexdigest() == event["hash"]
        assert stored.startswith(b'{"after":"' + before.encode() + b'"')
        envelope = json.loads(stored)
        assert canonical_text(envelope).encode() == stored
        assert set(envelope) == {"after", "by", "data", "event", "seq", "session", "task", "timestamp", "v"}
        assert (envelope["seq"], envelope["v"]) == (seq, 2 if envelope["event"] == "tool.readings" else 1)
        before = event["hash"]


def test_the_roots_and_proofs_follow_from_the_spec_alone() -> None:
    """Merkle roots and proofs over the event hashes are those of the RFC's definitions (rule 3.4)."""
    leaves = [bytes.fromhex(text) for text in HASHES]
    assert EVENTS["roots"] == [tree_hash(leaves[:size]).hex() for size in range(len(leaves) + 1)]
    proof = EVENTS["inclusion"]
    assert proof["path"] == hexes(inclusion_path(proof["index"], leaves[: proof["size"]]))
    proof = EVENTS["consistency"]
    assert proof["path"] == hexes(consistency_path(proof["old"], leaves[: proof["new"]]))


def test_the_signed_head_is_built_from_the_chain_alone() -> None:
    """The signed message is made of the checkpoint's event and the chain before it (rules 5.1 and 5.2)."""
    signed = EVENTS["signed_head"]
    seq = signed["head"]["seq"]
    event = json.loads(EVENTS["events"][seq]["bytes"])
    data = event["data"]
    message = {
        "after": event["after"],
        "document": data["document"],
        "name": data["name"],
        "root": tree_hash([bytes.fromhex(text) for text in HASHES[:seq]]).hex(),
        "seq": seq,
        "statement": "adjourn/head/1",
        "task": event["task"],
        "timestamp": event["timestamp"],
    }
    assert event["event"] == "checkpoint.created"
    assert canonical_text(message) == signed["message"]
    assert message == signed["head"]
    assert data["root"] == message["root"]
    assert data["signature"] == signed["signature"]
    assert len(b64decode(signed["signature"])) == 64
    public = b64decode(signed["public_key"])
    assert data["key"] == signed["fingerprint"] == "ed25519:" + sha256(public).hexdigest()[:32]


def test_the_rfc_vectors_follow_from_the_rfc_alone() -> None:
    """merkle.json has the roots and proofs that RFC 6962's recursive definitions give."""
    assert MERKLE["roots"] == [tree_hash(MERKLE_LEAVES[:size]).hex() for size in range(9)]
    for proof in MERKLE["inclusion"]:
        assert proof["path"] == hexes(inclusion_path(proof["index"], MERKLE_LEAVES[: proof["size"]]))
    for proof in MERKLE["consistency"]:
        assert proof["path"] == hexes(consistency_path(proof["old"], MERKLE_LEAVES[: proof["new"]]))


def test_the_roots_are_those_that_certificate_transparency_publishes() -> None:
    """The roots over the common test leaves are the published ones."""
    assert [root[:16] for root in MERKLE["roots"]] == [
        "e3b0c44298fc1c14",
        "6e340b9cffb37a98",
        "fac54203e7cc696c",
        "aeb6bcfe274b70a1",
        "d37ee418976dd957",
        "4e3bbb1f7b478dcf",
        "76e67dadbcdf1e10",
        "ddb89be403809e32",
        "5dc9da79a70659a9",
    ]


@for_each("vector", JCS["canonical"], ids=lambda vector: vector["json"][:20])
def test_the_canonical_texts_follow_from_the_rfc_alone(vector: dict[str, str]) -> None:
    """jcs.json has the texts that RFC 8785 gives, numbers by ECMAScript's rules."""
    assert canonical_text(json.loads(vector["json"])) == vector["canonical"]


# --- and this package agrees with them


def test_todays_code_writes_the_very_bytes() -> None:
    """The vectors can be made again, byte for byte: digests are for ever."""
    assert make_vectors.events_vectors() == EVENTS
    assert make_vectors.merkle_vectors() == MERKLE
    assert make_vectors.jcs_vectors() == JCS


def test_every_kind_has_vectors() -> None:
    """Each kind of event is in the chain."""
    assert {json.loads(event["bytes"])["event"] for event in EVENTS["events"]} == set(kinds.REGISTRY)


@for_each("event", EVENTS["events"], ids=lambda event: json.loads(event["bytes"])["event"])
def test_decoding_and_encoding_changes_no_byte(event: dict[str, str]) -> None:
    """An event of the vectors, decoded to its types and encoded again, has the same bytes and hash."""
    decoded = decode(event["bytes"].encode())
    data = kinds.data_of(decoded)
    assert data is not None
    assert msgspec.json.encode(data) == bytes(decoded.data)
    assert encode(decoded) == (event["hash"], event["bytes"].encode())


def test_our_verifier_takes_the_vectors() -> None:
    """The chain, its root at each size and its proofs hold for this package too."""
    entries = [(event["hash"], event["bytes"].encode()) for event in EVENTS["events"]]
    assert verify_chain(entries, expect_head=HASHES[-1]).checked == len(entries)
    frontier = merkle.Frontier()
    for size, text in enumerate(HASHES):
        assert frontier.root().hex() == EVENTS["roots"][size]
        frontier.append(bytes.fromhex(text))
    assert frontier.root().hex() == EVENTS["roots"][-1]
    check_proofs(
        [bytes.fromhex(text) for text in HASHES],
        [bytes.fromhex(text) for text in EVENTS["roots"]],
        [EVENTS["inclusion"]],
        [EVENTS["consistency"]],
    )


def test_our_proofs_are_those_of_the_rfc_vectors() -> None:
    """Every proof of merkle.json convinces, and is the one that this package makes."""
    roots = [bytes.fromhex(text) for text in MERKLE["roots"]]
    check_proofs(MERKLE_LEAVES, roots, MERKLE["inclusion"], MERKLE["consistency"])


def check_proofs(
    leaves: Sequence[bytes],
    roots: Sequence[bytes],
    inclusion: Sequence[dict[str, Any]],
    consistency: Sequence[dict[str, Any]],
) -> None:
    for proof in inclusion:
        index, size = proof["index"], proof["size"]
        path = [bytes.fromhex(node) for node in proof["path"]]
        assert merkle.verify_inclusion(leaves[index], index, size, path, roots[size])
        assert merkle.inclusion_proof(leaves[:size], index) == path
    for proof in consistency:
        old, new = proof["old"], proof["new"]
        path = [bytes.fromhex(node) for node in proof["path"]]
        assert merkle.verify_consistency(old, new, roots[old], roots[new], path)
        assert merkle.consistency_proof(leaves[:new], old) == path


def test_the_signature_of_the_vectors_holds() -> None:
    """The head is signed by the test key, signing it again gives the same text, and a changed head fails."""
    signed = EVENTS["signed_head"]
    head = signing.SignedHead(**signed["head"])
    private = bytes.fromhex(signed["private_key"])
    public = signing.decode_bytes(signed["public_key"], 32)
    assert signing.public_key(private) == public
    assert signing.fingerprint(public) == signed["fingerprint"]
    assert head.message().decode() == signed["message"]
    assert signing.sign(private, head) == signed["signature"]
    signing.check(public, signed["signature"], head)
    with pytest.raises(IntegrityError):
        signing.check(public, signed["signature"], signing.SignedHead(**(signed["head"] | {"seq": 0})))


@for_each("vector", JCS["canonical"], ids=lambda vector: vector["json"][:20])
def test_our_canonical_texts_are_those_of_the_vectors(vector: dict[str, str]) -> None:
    """Each JSON text of jcs.json has the canonical bytes it should have, and they are their own canonical form."""
    assert canonical(json.loads(vector["json"])).decode() == vector["canonical"]


@for_each("text", JCS["refused"], ids=lambda text: text[:20])
def test_what_the_vectors_refuse_is_refused(text: str) -> None:
    """The JSON texts that have no canonical form raise InvalidError."""
    value = json.loads(text)
    with pytest.raises(InvalidError):
        canonical(value)


def test_the_vectors_are_added_to_and_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script that writes the vectors refuses to change an event, and adds events at the end."""
    monkeypatch.setattr(make_vectors, "FOLDER", tmp_path)
    monkeypatch.setattr(make_vectors, "SPEC", tmp_path / "events.md")
    (tmp_path / "events.md").write_text(f"before\n{make_vectors.BEGIN}stale\n{make_vectors.END}after\n")
    assert make_vectors.main() == 0
    assert json.loads((tmp_path / "events.json").read_text("utf-8")) == EVENTS
    monkeypatch.setattr(make_vectors, "SAMPLES", [*make_vectors.SAMPLES, make_vectors.SAMPLES[-1]])
    assert make_vectors.main() == 0
    monkeypatch.setattr(make_vectors, "SAMPLES", make_vectors.SAMPLES[1:])
    assert make_vectors.main() == 1
    assert len(json.loads((tmp_path / "events.json").read_text("utf-8"))["events"]) == len(HASHES) + 1
    spec = (tmp_path / "events.md").read_text("utf-8")
    assert spec.startswith(f"before\n{make_vectors.BEGIN}#### `task.opened`")
    assert spec.endswith(f"{make_vectors.END}after\n")
