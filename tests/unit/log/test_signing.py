"""A signed head holds for exactly what was signed, by exactly the key that signed it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import IntegrityError, InvalidError
from adjourn.log.canonical_json import canonical
from adjourn.log.signing import SignedHead, check, decode_bytes, encode_bytes, fingerprint, public_key, sign
from support.cases import for_each

PRIVATE = bytes(range(32))
PUBLIC = public_key(PRIVATE)
HEAD = SignedHead(
    after="a" * 64,
    document="d" * 64,
    name="fix-auth",
    root="e" * 64,
    seq=12,
    task="20260502-7k3f9q2m",
    timestamp="2026-05-02T15:30:12.345Z",
)
SIGNATURE = sign(PRIVATE, HEAD)
FIELDS = [field.name for field in msgspec.structs.fields(SignedHead)]


def test_a_signature_holds_for_what_was_signed() -> None:
    """Checking what was signed raises nothing, and signing it again gives the same signature."""
    check(PUBLIC, SIGNATURE, HEAD)
    assert sign(PRIVATE, HEAD) == SIGNATURE


@for_each("field", FIELDS)
def test_every_field_is_signed(field: str) -> None:
    """A change of any one field makes the signature fail."""
    value = getattr(HEAD, field)
    changed = msgspec.structs.replace(HEAD, **{field: value + 1 if isinstance(value, int) else value + "x"})
    with pytest.raises(IntegrityError, match=r"is not what ed25519:[0-9a-f]{32} signed"):
        check(PUBLIC, SIGNATURE, changed)


def test_the_message_is_canonical_and_says_what_it_is() -> None:
    """The signed bytes are canonical JSON of all fields, and cannot be taken for another kind of statement."""
    message = json.loads(HEAD.message())
    assert list(message) == sorted(message) == sorted(FIELDS)
    assert message["statement"] == "adjourn/head/1"
    assert HEAD.message() == json.dumps(message, separators=(",", ":"), sort_keys=True).encode()
    odd = msgspec.structs.replace(HEAD, name='\u00e9 "\\\n\U00010000', task="\x7f")
    assert odd.message() == canonical(msgspec.to_builtins(odd))


def test_fields_cannot_be_shifted_into_each_other() -> None:
    """Heads that differ in where a text ends have different messages."""
    one = msgspec.structs.replace(HEAD, name="a", task="bc")
    other = msgspec.structs.replace(HEAD, name="ab", task="c")
    assert one.message() != other.message()


def test_another_key_did_not_sign() -> None:
    """The signature fails under any other key."""
    with pytest.raises(IntegrityError, match="do not resume from it"):
        check(public_key(bytes(32)), SIGNATURE, HEAD)


@pytest.mark.parametrize("public", [b"", b"short", bytes(31), bytes(33), bytes(32), b"\xff" * 32])
def test_a_key_that_is_none_did_not_sign(public: bytes) -> None:
    """Bytes that are no public key raise IntegrityError, not something else."""
    with pytest.raises(IntegrityError):
        check(public, SIGNATURE, HEAD)


@for_each(
    "signature",
    [
        "",
        "AAAA",
        "not base64!",
        "é" * 88,
        "\ud800",
        SIGNATURE[:-4],
        SIGNATURE + "AAAA",
        SIGNATURE + "\n",
        " " + SIGNATURE,
        SIGNATURE.replace("=", ""),
        encode_bytes(bytes(64)),
        encode_bytes(b"\xff" * 64),
    ],
)
def test_garbage_is_no_signature(signature: str) -> None:
    """A signature that is malformed, too short or too long raises IntegrityError."""
    with pytest.raises(IntegrityError):
        check(PUBLIC, signature, HEAD)


@given(st.integers(0, 511))
def test_a_signature_with_any_bit_changed_fails(bit: int) -> None:
    """No bit of the signature is idle."""
    raw = bytearray(decode_bytes(SIGNATURE, 64))
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(IntegrityError):
        check(PUBLIC, encode_bytes(bytes(raw)), HEAD)


def test_a_head_that_cannot_be_written_was_not_signed() -> None:
    """A head with a lone surrogate in its name raises IntegrityError."""
    with pytest.raises(IntegrityError):
        check(PUBLIC, SIGNATURE, msgspec.structs.replace(HEAD, name="\ud800"))


def test_a_fingerprint_is_short_and_names_its_algorithm() -> None:
    """A fingerprint is `ed25519:` and 32 hexadecimal digits, another for each key."""
    assert fingerprint(PUBLIC) == "ed25519:56475aa75463474c0285df5dbf2bcab7"
    assert fingerprint(PUBLIC) != fingerprint(public_key(bytes(32)))


@given(st.binary(max_size=80))
def test_bytes_come_back_from_base64(data: bytes) -> None:
    """Bytes survive base64 in one line, if their number is the one that is due."""
    text = encode_bytes(data)
    assert "\n" not in text
    assert decode_bytes(text, len(data)) == data
    with pytest.raises(InvalidError, match=r"expected \d+ bytes"):
        decode_bytes(text, len(data) + 1)
