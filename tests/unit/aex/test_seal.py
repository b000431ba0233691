"""Signature files: what is covered is covered, the published form still holds, and only the right key makes a signer."""

from __future__ import annotations

import hmac
import json
from base64 import b64decode
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_vectors
from adjourn.aex import seal
from adjourn.aex.seal import PublishedSeal, Seal
from adjourn.errors import IntegrityError, InvalidError
from adjourn.log.signing import public_key
from support.cases import for_each

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "spec" / "vectors" / "signature.json").read_text("utf-8")
)
TEXT = VECTORS["text"].encode()
PRIVATE = bytes.fromhex(VECTORS["private_key"])
PUBLIC = public_key(PRIVATE)
BOB = bytes(32)
SECRET = VECTORS["secret"].encode()
OWN, SHARED, PUBLISHED = (VECTORS[name]["file"].encode() for name in ("ed25519", "shared", "published"))
SAID = {"file": "look.aex", "signer": "ann", "signed_at": "2026-05-02T15:30:12.345Z"}


def changed(file: bytes, /, **members: object) -> bytes:
    return json.dumps(json.loads(file) | members).encode()


def own(file: bytes) -> Seal:
    found = seal.read(file)
    assert isinstance(found, Seal)
    return found


# --- the vectors


def test_the_vectors_can_be_made_again() -> None:
    """What is signed, and the file that says so, are the same bytes for ever."""
    assert make_vectors.signature_vectors() == VECTORS


@pytest.mark.parametrize("name", ["ed25519", "shared"])
def test_the_message_is_the_file_without_its_signature(name: str) -> None:
    """Another implementation needs JSON with sorted names, and nothing else."""
    members = json.loads(VECTORS[name]["file"])
    del members["signature"]
    plain = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert plain == VECTORS[name]["message"]
    assert members["hash"] == sha256(TEXT).hexdigest()


def test_shared_signatures_need_only_hmac() -> None:
    """Both forms are an HMAC-SHA256: of the message, or of the hash's text in the published form."""
    message = VECTORS["shared"]["message"].encode()
    assert b64decode(json.loads(SHARED)["signature"]) == hmac.digest(SECRET, message, "sha256")
    published = json.loads(PUBLISHED)
    assert published["signature"] == hmac.digest(SECRET, published["hash"].encode(), "sha256").hex()


# --- what holds, and what does not


def test_each_form_holds() -> None:
    """The vectors are valid: by the key, by the secret, and by the secret in the published form."""
    seal.check(TEXT, own(OWN), PUBLIC)
    seal.check_shared(TEXT, own(SHARED), SECRET)
    seal.check_shared(TEXT, seal.read(PUBLISHED), SECRET)


@given(st.binary(max_size=200).filter(lambda text: text != TEXT))
def test_another_text_is_not_signed(text: bytes) -> None:
    """A seal does not verify a text that differs by one byte, in any form."""
    with pytest.raises(IntegrityError, match="not the one that was signed"):
        seal.check(text, own(OWN), PUBLIC)
    for file in (SHARED, PUBLISHED):
        with pytest.raises(IntegrityError, match="not the one that was signed"):
            seal.check_shared(text, seal.read(file), SECRET)


CHANGES = [{"signer": "bob"}, {"signedAt": "2026-05-02T15:30:12.346Z"}, {"file": "other.aex"}]


@pytest.mark.parametrize("change", CHANGES)
def test_signer_and_time_are_covered(change: dict[str, str]) -> None:
    """A file that says another signer, time or name does not hold."""
    with pytest.raises(IntegrityError, match="signer, time or file name was changed"):
        seal.check(TEXT, own(changed(OWN, **change)), PUBLIC)
    with pytest.raises(IntegrityError, match="signer, time or file name was changed"):
        seal.check_shared(TEXT, own(changed(SHARED, **change)), SECRET)


def test_the_published_form_covers_the_text_alone() -> None:
    """That is why it gets a warning: whoever changes signer and time is not found."""
    forged = seal.read(changed(PUBLISHED, signer="bob", signedAt="1999"))
    assert isinstance(forged, PublishedSeal)
    seal.check_shared(TEXT, forged, SECRET)
    with pytest.raises(IntegrityError):
        seal.check_shared(TEXT, seal.read(changed(PUBLISHED, signature="0" * 64)), SECRET)


def test_a_signature_is_of_its_key() -> None:
    """Another key, another secret, a signature for another text, and one that is none are refused."""
    other = seal.sign(b"other", PRIVATE, **SAID).signature
    with pytest.raises(IntegrityError):
        seal.check(TEXT, own(OWN), public_key(BOB))
    for signature in (other, "", "AAAA", "\U0001f600", own(SHARED).signature):
        with pytest.raises(IntegrityError):
            seal.check(TEXT, own(changed(OWN, signature=signature)), PUBLIC)
        if signature != own(SHARED).signature:
            with pytest.raises(IntegrityError):
                seal.check_shared(TEXT, own(changed(SHARED, signature=signature)), SECRET)
    with pytest.raises(IntegrityError, match="different secret"):
        seal.check_shared(TEXT, own(SHARED), SECRET + b"!")
    with pytest.raises(IntegrityError):
        seal.check_shared(TEXT, seal.read(PUBLISHED), SECRET + b"!")


def test_a_shared_signature_is_none_of_a_key() -> None:
    """Whoever has the secret cannot make it pass for a key's by naming the key."""
    forged = own(changed(SHARED, key=own(OWN).key))
    with pytest.raises(IntegrityError):
        seal.check(TEXT, forged, PUBLIC)


# --- reading


@for_each(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"null",
        b"[" * 10_000,
        changed(OWN, schema="aex/signature@v3"),
        changed(OWN, schema="aex/signature@v1"),
        changed(OWN, more=1),
        changed(OWN, hash="A" * 64),
        changed(OWN, hash="0" * 64 + "\n"),
        changed(OWN, key="rsa:0"),
        changed(OWN, key="hmac-sha256:" + "0" * 32),
        changed(OWN, signedAt="yesterday"),
        changed(OWN, signer=""),
        changed(OWN, signer="x" * 201),
        changed(OWN, signature=5),
        b'{"schema":"aex/signature@v1"}',
        changed(PUBLISHED, signature="zz"),
        OWN + b" " * seal.MAX_SEAL_BYTES,
    ],
    ids=lambda data: data[-40:].decode(errors="replace"),
)
def test_what_is_no_signature_file_is_refused(data: bytes) -> None:
    """Any file that is no seal is refused with one kind of error."""
    with pytest.raises(InvalidError):
        seal.read(data)


@given(st.binary(max_size=300) | st.text().map(lambda text: changed(OWN, signer=text)))
def test_reading_never_crashes(data: bytes) -> None:
    """Any bytes are a signature file, or an `InvalidError`."""
    with suppress(InvalidError):
        seal.read(data)


def test_what_is_written_is_read() -> None:
    """A seal reads back from its file as it was."""
    for made in (seal.sign(TEXT, PRIVATE, **SAID), seal.sign_shared(TEXT, SECRET, **SAID)):
        assert seal.read(seal.written(made)) == made


@pytest.mark.parametrize("signer", ["", " ann", "ann\n", "a\x1b[0mb", "x" * 201, "\ud800"])
def test_a_signer_has_a_name(signer: str) -> None:
    """One that can be shown on a line; else nothing is signed."""
    with pytest.raises(InvalidError):
        seal.sign(TEXT, PRIVATE, **(SAID | {"signer": signer}))


def test_nothing_of_a_secret_is_in_the_file() -> None:
    """The file holds nothing of the secret but a short hash that tells secrets apart."""
    made = seal.sign_shared(TEXT, SECRET, **SAID)
    assert SECRET not in seal.written(made)
    assert made.key == seal.secret_name(SECRET) != seal.secret_name(SECRET + b" ")


# --- `require signed by`

TRUSTED = {"ann": PUBLIC, "bob": public_key(BOB)}


def refused(signature: bytes | None, *signers: str, text: bytes = TEXT, trusted: Any = None) -> str:
    found = seal.check_sealed(text, signature, signers, TRUSTED if trusted is None else trusted, source="look.aex")
    if found is None:
        return ""
    assert (found.code, found.severity, found.source) == ("AEX150", "error", "look.aex")
    assert found.help
    return found.message


def test_a_contract_that_is_signed_by_a_named_key_passes() -> None:
    """One of the names is enough; names that nobody has do not matter then."""
    assert refused(OWN, "ann") == ""
    assert refused(OWN, "nobody", "ann", "bob") == ""


def test_every_other_contract_is_refused_with_the_reason() -> None:
    """Unsigned, changed, signed by somebody else, by a shared secret, by a name without a key, or not readable."""
    assert "is not signed; the policy requires `ann`" in refused(None, "ann")
    assert "not the one that was signed" in refused(OWN, "ann", text=TEXT + b" ")
    assert "is not the key of `bob`" in refused(OWN, "bob")
    assert "no trusted key is named `carl` or `dora`" in refused(OWN, "carl", "dora")
    assert "no trusted key is named `ann`" in refused(OWN, "ann", trusted={})
    assert "a shared secret" in refused(SHARED, "ann")
    assert "a shared secret" in refused(PUBLISHED, "ann")
    assert "not a signature file" in refused(b"{}", "ann")
    assert "changed" in refused(changed(OWN, signer="bob"), "ann")


def test_what_a_file_says_of_its_signer_is_not_believed() -> None:
    """Bob signs as ann: his key is bob's all the same."""
    forged = seal.written(seal.sign(TEXT, BOB, **SAID))
    assert msgspec.json.decode(forged)["signer"] == "ann"
    assert "is not the key of `ann`" in refused(forged, "ann")
    assert refused(forged, "bob") == ""
