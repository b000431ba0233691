"""Signatures of contracts on the command line: what `adjourn sign` and `adjourn verify` share.

Owns: the options for a secret, reading a contract, what is printed of a signature. Must never: show a secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
import msgspec

from adjourn.aex import MAX_SEAL_BYTES, Seal
from adjourn.cli.shared.documents import text_of
from adjourn.cli.shared.output import safe, say, say_json
from adjourn.errors import InvalidError, NotFoundError, UsageError
from adjourn.host import read_file, workspace_of
from adjourn.policy import read_secret, signatures

if TYPE_CHECKING:
    from adjourn.aex import PublishedSeal

_F = TypeVar("_F", bound=Callable[..., Any])
_COVERS = ("text", "signer", "time")


def with_secret(function: _F) -> _F:
    """Adds --key and --key-file."""
    key = click.option(
        "--key",
        metavar="SECRET",
        help="Shared secret. Other users of this machine can see it on the command line.",
    )
    key_file = click.option("--key-file", metavar="FILE", help="File that contains the shared secret.")
    return key(key_file(function))


def secret_of(key: str | None, key_file: str | None) -> bytes | None:
    """The shared secret that was given, if one was. An empty one, of a variable that is not set, must not pass for none."""
    if key is not None and key_file is not None:
        raise UsageError("--key and --key-file are both given", "give only one of them")
    if key == "" or key_file == "":
        raise UsageError("the secret is empty", "leave out --key and --key-file to sign with your own key")
    if key is not None:
        return key.encode(errors="surrogateescape")
    if key_file is None:
        return None

    return read_secret(key_file, workspace_of().root)


class SignatureQuery(NamedTuple):
    """What `adjourn verify FILE` was asked."""

    file: str
    signature: str
    signer: str
    secret: bytes | None


def verify_signature(asked: SignatureQuery, *, as_json: bool) -> int:
    """Check the signature of a contract, say what it is worth; returns the exit code."""
    text = text_of(asked.file).encode()
    path = asked.signature or signatures.place(asked.file)
    try:
        held = signatures.verify(
            text,
            read_file(path, MAX_SEAL_BYTES, workspace_of().root),
            secret=asked.secret,
            signer=asked.signer,
        )
    except (InvalidError, NotFoundError) as error:
        remedy = error.remedy or f"sign it: adjourn sign {asked.file}"
        if as_json:
            say_json(_to_json(asked.file, path, reason=error.message, help=remedy))
        else:
            say(f"INVALID: {safe(asked.file)}: {safe(error.message)}", "red")
            say(f"  help: {safe(remedy)}")
        return 1
    if as_json:
        covers = _COVERS[:1] if held.only_text else _COVERS
        told = _to_json(asked.file, path, covers=covers, trustedAs=held.names, signature=members(held.seal))
        say_json(told)
        return 0
    known = f", trusted as {safe(' and '.join(held.names))}" if held.names else ""
    said = f"{safe(held.seal.signer)} at {safe(held.seal.signed_at)}"
    say(f"valid: {safe(asked.file)}, signed by {said} with {what_signed(held.seal)}{known}", "green")
    if held.only_text:
        say("warning: this old form covers only the text; signer and time may have been changed")
        say("  sign it again: adjourn sign FILE")
    return 0


def _to_json(file: str, path: str, *, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"valid": not reason, "file": file, "path": path, "reason": reason, **more}


def members(made: Seal | PublishedSeal) -> dict[str, Any]:
    """Of a signature file, for machines."""
    told: dict[str, Any] = msgspec.to_builtins(made)
    return told


def what_signed(made: Seal | PublishedSeal) -> str:
    """What signed, for people."""
    return made.key if isinstance(made, Seal) and not made.shared else "a shared secret"
