"""Signed heads: an Ed25519 signature (RFC 8032) over everything a chain says up to a point (spec/events.md, section 5).

Must never: find, make or store key files (`adjourn.host.keys` does), or import `cryptography` before it is asked to
sign or to check.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from adjourn.errors import IntegrityError, InvalidError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ed25519

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class SignedHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint's signature covers. Its canonical JSON, with `statement`, is the signed message.

    `after` is the hash of the event before the checkpoint, `seq` the checkpoint's own position, `root` the RFC 6962
    root over the 32-byte hashes of the events 0 … seq - 1, `document` the SHA-256 of the checkpointed document.
    """

    after: str
    document: str
    name: str
    root: str
    seq: int
    task: str
    timestamp: str
    statement: str = "adjourn/head/1"

    def message(self) -> bytes:
        """The signed bytes. Sorted JSON of texts and one position is canonical. Raises `InvalidError` for text that is not UTF-8."""
        try:
            return _encode_sorted(self)
        except UnicodeEncodeError as error:
            raise InvalidError(f"cannot be canonical JSON: {error}") from error


def _ed25519() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ed25519  # 30 ms

    return ed25519


@lru_cache(maxsize=4)  # making one takes as long as signing with it
def _key(private: bytes) -> ed25519.Ed25519PrivateKey:
    key: ed25519.Ed25519PrivateKey = _ed25519().Ed25519PrivateKey.from_private_bytes(private)
    return key


@lru_cache(maxsize=4)
def public_key(private: bytes) -> bytes:
    """The 32 public bytes of a 32-byte private key."""
    return _key(private).public_key().public_bytes_raw()


def fingerprint(public: bytes) -> str:
    """The short name of a key: `ed25519:` and 32 hex digits of the SHA-256 of its public bytes."""
    return "ed25519:" + sha256(public).hexdigest()[:32]


def sign(private: bytes, head: SignedHead) -> str:
    """A base64 signature of `head`."""
    return sign_bytes(private, head.message())


def check(public: bytes, signature: str, head: SignedHead) -> None:
    """Raise `IntegrityError` unless `signature` is that of `public` over `head`."""
    try:
        held = holds(public, signature, head.message())
    except InvalidError:  # what cannot be written was not signed
        held = False
    if not held:
        raise IntegrityError(
            f'checkpoint "{head.name}" at event {head.seq} of task {head.task} is not what {fingerprint(public)} signed',
            "the history was changed after it was signed; do not resume from it",
        )


def sign_bytes(private: bytes, message: bytes) -> str:
    """A base64 signature of a message, which must say itself what kind of statement it is."""
    return encode_bytes(_key(private).sign(message))


def holds(public: bytes, signature: str, message: bytes) -> bool:
    """Whether `signature` is that of `public` over `message`."""
    from cryptography.exceptions import InvalidSignature  # as above

    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(public).verify(decode_bytes(signature, 64), message)
    except (InvalidSignature, InvalidError, ValueError):
        return False
    return True


def encode_bytes(data: bytes) -> str:
    """Base64 in one line."""
    return b2a_base64(data, newline=False).decode()


def decode_bytes(text: str, size: int) -> bytes:
    """Exactly `size` bytes from strict base64, else `InvalidError`."""
    try:
        data = a2b_base64(text, strict_mode=True)
    except (Base64Error, ValueError) as error:
        raise InvalidError(f"not base64: {text[:20]!r}") from error
    if len(data) != size:
        raise InvalidError(f"expected {size} bytes, got {len(data)}")
    return data
