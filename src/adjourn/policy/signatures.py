"""Signature files beside contracts, and the keys and secrets that they are checked with (spec/signature.md).

Must never: take a key from a workspace, follow a link to a signature file.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Sequence

import msgspec

from adjourn.aex import seal
from adjourn.aex.expr import BLANK
from adjourn.aex.seal import PublishedSeal, Seal
from adjourn.errors import AdjournError, IntegrityError, InvalidError, NotFoundError, UsageError
from adjourn.findings import Finding
from adjourn.host import keys
from adjourn.host.workspace import open_plain, read_file, relative_inside, write_file
from adjourn.log.signing import fingerprint

SUFFIX = ".signature.json"
MAX_SECRET = 64 * 1024


class VerifiedSignature(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a valid signature. `names` are those that the user gave the key; none for a shared secret."""

    seal: Seal | PublishedSeal
    names: list[str]

    @property
    def only_text(self) -> bool:
        """Whether the signature covers the text alone: anybody could have changed signer and time."""
        return isinstance(self.seal, PublishedSeal)


def place(path: str) -> str:
    """The path of the signature file of the contract in the file `path`."""
    return path + SUFFIX


def sign(path: str, text: bytes, *, signer: str, signed_at: str, secret: bytes | None = None) -> Seal:
    """A seal over the text of the file `path`: with the shared secret if there is one, else with the user's key."""
    file = os.path.basename(path)
    if secret is not None:
        return seal.sign_shared(text, secret, file=file, signer=signer, signed_at=signed_at)
    return seal.sign(text, keys.private_key(), file=file, signer=signer, signed_at=signed_at)


def write(made: Seal, path: str) -> None:
    """Write a signature file, whole or not at all."""
    write_file(os.path.dirname(path) or ".", os.path.basename(path), seal.written(made))


def verify(text: bytes, signature: bytes, *, secret: bytes | None = None, signer: str = "") -> VerifiedSignature:
    """The content of the signature. Raises `IntegrityError` if it is not valid, or not by `signer` if one is named; `InvalidError`; `UsageError`."""
    sealed = seal.read(signature)
    names: list[str] = []
    if isinstance(sealed, PublishedSeal) or sealed.shared:
        if secret is None:
            raise UsageError("it was signed with a shared secret", "give the secret with --key-file FILE")
        seal.check_shared(text, sealed, secret)
        texts = [sealed.signer]
    else:
        if secret is not None:
            raise UsageError("it was signed with a key, not with a shared secret", "leave out --key and --key-file")
        trusted = keys.trusted()
        names = [name for name, public in trusted.items() if fingerprint(public) == sealed.key]
        if not names:
            raise IntegrityError(
                f"it was signed by {sealed.key}, which you do not trust",
                "get the public key from its owner: adjourn keys trust NAME KEY",
            )
        seal.check(text, sealed, trusted[names[0]])
        texts = [*names, sealed.signer] if "default" in names else names
    if signer and not any(hmac.compare_digest(signer.encode(), name.encode()) for name in texts):
        raise IntegrityError(
            f"it was signed by {texts[-1]!r}, not by {signer!r}",
            "ask the expected signer to sign it: adjourn policy sign FILE",
        )
    return VerifiedSignature(seal=sealed, names=names)


def required(root: str, path: str, text: bytes, signers: Sequence[str], source: str) -> Finding | None:
    """The reason that the contract in the file `path` does not count as signed by one of `signers`; None when it does.

    `root` is the workspace, of which a relative path is.
    """
    signature: bytes | None = None
    try:
        signature = read_file(place(os.path.join(root, path)), seal.MAX_SEAL_BYTES, root)
    except NotFoundError:
        pass
    except InvalidError as error:
        return seal.unreadable(error, source)
    try:
        keys.check_outside(root)
        return seal.check_sealed(text, signature, signers, keys.trusted(), source=source)
    except AdjournError as error:  # a key that cannot be read proves nothing
        return seal.unreadable(error, source)


def read_secret(path: str, root: str = "") -> bytes:
    """The shared secret in a file, without the blanks around it; of one in the workspace `root` through no link."""
    try:
        plain = open_plain(path, root) if root and relative_inside(path, root) else path
        with open(plain, "rb") as file:
            data = file.read(MAX_SECRET + 1)
    except OSError as error:
        raise InvalidError(f"cannot read {path}: {error.strerror}", "name the file that contains the secret") from error
    try:
        secret = data.decode().strip(BLANK).encode()
    except UnicodeDecodeError as error:
        raise InvalidError(f"{path} is not UTF-8 text", "give a file with text") from error
    if not secret or len(data) > MAX_SECRET:
        raise InvalidError(f"{path} does not contain a secret of 1 to {MAX_SECRET:,} bytes", "write the secret into it")
    return secret
