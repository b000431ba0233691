"""Signature files: who vouches for the text of a contract, and since when (spec/signature.md).

    aex/signature@v1  the published form, only read: an HMAC of the text's hash; signer and time are not covered
    aex/signature@v2  Ed25519 or HMAC over the canonical JSON of every member but the signature itself

Must never: find a key or a file (`adjourn.policy.signatures` does), look at a clock, show a secret.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Final

import msgspec

from adjourn.aex.diagnostics import finding, printable, quoted
from adjourn.errors import AdjournError, IntegrityError, InvalidError
from adjourn.findings import Finding
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.signing import encode_bytes, fingerprint, holds, public_key, sign_bytes

MAX_SEAL_BYTES: Final = 16 * 1024
"""Largest signature file, in bytes. A real one has less than a tenth of that."""
MAX_SIGNER: Final = 200
SHARED: Final = "hmac-sha256:"
"""Prefix of the name of a shared secret; that of a key is `ed25519:`."""
_HINT_DIGITS = 12

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
_Signer = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SIGNER)]
_Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Key = Annotated[str, msgspec.Meta(pattern=r"^(ed25519:[0-9a-f]{32}|hmac-sha256:[0-9a-f]{12})\Z")]
_Time = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z\Z")]


class Seal(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    tag_field="schema",
    tag="aex/signature@v2",
):
    """A signature file. `file` is the name that the text had, `hash` the SHA-256 of its bytes, `key` names what signed.

    `signer` is who the signer says to be; who it is, is said by the key.
    """

    file: _Text
    hash: _Hash
    key: _Key
    signed_at: _Time
    signer: _Signer
    signature: str = ""

    @property
    def shared(self) -> bool:
        """Whether a shared secret signed: whoever can check it could have made it."""
        return self.key.startswith(SHARED)

    def message(self) -> bytes:
        """What is signed: the canonical JSON of all members but the signature. `schema` keeps it apart from other statements."""
        members: dict[str, Any] = msgspec.to_builtins(self)
        del members["signature"]
        return canonical(members)


class PublishedSeal(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="schema", tag="aex/signature@v1"
):
    """A signature file of the published form. Only `hash` is covered; members that are not known mean nothing."""

    file: str = ""
    hash: _Hash
    signed_at: str = ""
    signer: str = ""
    signature: _Hash

    shared: ClassVar[bool] = True


def read(data: bytes) -> Seal | PublishedSeal:
    """The signature file that the bytes are. Raises `InvalidError`."""
    if len(data) > MAX_SEAL_BYTES:
        raise InvalidError(f"the signature file has more than {MAX_SEAL_BYTES:,} bytes", "sign the contract again")
    try:
        return msgspec.json.decode(data, type=Seal | PublishedSeal)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"not a signature file: {error}", "sign the contract again") from error


def sign(text: bytes, private: bytes, *, file: str, signer: str, signed_at: str) -> Seal:
    """A seal over a contract's bytes by an Ed25519 key. Raises `InvalidError` for members that a seal cannot have."""
    unsigned = _unsigned(text, fingerprint(public_key(private)), file, signer, signed_at)
    return msgspec.structs.replace(unsigned, signature=sign_bytes(private, unsigned.message()))


def sign_shared(text: bytes, secret: bytes, *, file: str, signer: str, signed_at: str) -> Seal:
    """A seal by a secret that signer and checker share."""
    unsigned = _unsigned(text, secret_name(secret), file, signer, signed_at)
    return msgspec.structs.replace(unsigned, signature=encode_bytes(_hmac(secret, unsigned.message())))


def written(seal: Seal) -> bytes:
    """The bytes of the signature file."""
    return msgspec.json.format(msgspec.json.encode(seal), indent=2) + b"\n"


def secret_name(secret: bytes) -> str:
    """A name that distinguishes a shared secret from others."""
    return SHARED + sha256(b"aex/signature@v2 key\0" + secret).hexdigest()[:_HINT_DIGITS]


def check(text: bytes, seal: Seal, public: bytes) -> None:
    """Raise `IntegrityError` unless the Ed25519 key signed this very text, name and time."""
    _check_text(text, seal)
    if fingerprint(public) != seal.key or not holds(public, seal.signature, seal.message()):
        raise _altered(seal)


def check_shared(text: bytes, seal: Seal | PublishedSeal, secret: bytes) -> None:
    """Raise `IntegrityError` unless the holder of the shared secret signed this text (and, but for v1, name and time)."""
    _check_text(text, seal)
    if isinstance(seal, PublishedSeal):
        right, signature = _hmac(secret, seal.hash.encode()).hex(), seal.signature
    else:
        if seal.key != secret_name(secret):
            raise IntegrityError("it was signed with a different secret", "check --key or --key-file")
        right, signature = encode_bytes(_hmac(secret, seal.message())), seal.signature
    if not hmac.compare_digest(right.encode(), signature.encode()):
        raise _altered(seal)


def check_sealed(
    text: bytes, signature: bytes | None, signers: Sequence[str], trusted: Mapping[str, bytes], *, source: str = ""
) -> Finding | None:
    """Why a contract does not count as signed by one of `signers`; None if it does.

    `signature` are the bytes of its signature file, None when there is none; `trusted` the public keys by the names that this
    user gave them. Only these names count, not what the file says of its signer.
    """
    wanted = " or ".join(quoted(name) for name in signers)
    if signature is None:
        return finding("AEX150", f"the contract is not signed; the policy requires {wanted}", source=source)
    keys = {fingerprint(trusted[name]): trusted[name] for name in signers if name in trusted}
    if not keys:
        remedy = "add it: adjourn keys trust NAME KEY"
        return finding("AEX150", f"no trusted key is named {wanted}", source=source, help=remedy)
    try:
        seal = read(signature)
        if isinstance(seal, PublishedSeal) or seal.shared:
            return finding("AEX150", f"a shared secret signed the contract, not the key of {wanted}", source=source)
        if seal.key not in keys:
            message = f"the contract is signed by {seal.key}, which is not the key of {wanted}"
            return finding("AEX150", message, source=source)
        check(text, seal, keys[seal.key])
    except InvalidError as error:
        return unreadable(error, source)
    return None


def unreadable(error: AdjournError, source: str) -> Finding:
    """The finding for an error while a required signature was checked."""
    return finding("AEX150", error.message, source=source, help=error.remedy)


def _unsigned(text: bytes, key: str, file: str, signer: str, signed_at: str) -> Seal:
    if signer != printable(signer).strip():
        raise InvalidError(
            f"not a valid name for a signer: {signer!r}", "use printable characters, without leading or trailing spaces"
        )
    seal = Seal(file=file, hash=digest(text), key=key, signed_at=signed_at, signer=signer)
    try:
        return msgspec.convert(msgspec.to_builtins(seal), Seal)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidError(f"cannot sign: {error}", f"a signer has 1 to {MAX_SIGNER} characters") from error


def _check_text(text: bytes, seal: Seal | PublishedSeal) -> None:
    if not hmac.compare_digest(digest(text), seal.hash):
        raise IntegrityError(
            "the text is not the one that was signed",
            "review what changed, then ask for a new signature: adjourn policy sign FILE",
        )


def _altered(seal: Seal | PublishedSeal) -> IntegrityError:
    covered = "" if isinstance(seal, PublishedSeal) else ", or its signer, time or file name was changed"
    return IntegrityError(
        f"the signature does not match the key it names{covered}", "ask for a new signature: adjourn policy sign FILE"
    )


def _hmac(secret: bytes, message: bytes) -> bytes:
    return hmac.digest(secret, message, "sha256")
