"""`adjourn keys`."""

from __future__ import annotations

import os
from typing import Any

import click

from adjourn.cli.shared.context import example, for_machines
from adjourn.cli.shared.output import safe, say, say_json, say_table
from adjourn.cli.shared.usage import SuggestingGroup
from adjourn.errors import InvalidError
from adjourn.host import KEY_BYTES, keys, read_file, workspace_of
from adjourn.log import decode_bytes, encode_bytes, fingerprint

_PUBLIC = 44
_MAX_PUBLIC = 10_000
"""Most bytes of a file with a public key."""
"""Characters of a public key in base64."""


@click.group(
    "keys",
    cls=SuggestingGroup,
    invoke_without_command=True,
    epilog=example("adjourn keys", "adjourn keys show", 'adjourn keys trust ann "7sB1...="'),
)
@for_machines
@click.pass_context
def keys_(ctx: click.Context, *, as_json: bool) -> None:
    """Show your signing key, and manage the keys of others whose checkpoints may be resumed here.

    Keys are in $ADJOURN_CONFIG/keys, else $XDG_CONFIG_HOME/adjourn/keys, else ~/.config/adjourn/keys: never in a workspace. Without
    a subcommand, list the keys.
    """
    if ctx.invoked_subcommand is not None:
        return

    rows = [_to_json(name, public) for name, public in keys.trusted().items()]
    if as_json:
        say_json(folder=keys.folder(), keys=rows)
        return
    if not any(row["own"] for row in rows):
        say("you have no key yet; create it: adjourn keys show")
    if rows:
        say_table(
            ("NAME", "FINGERPRINT", "WHOSE"),
            [(r["name"], r["key"], "yours" if r["own"] else "trusted") for r in rows],
        )


@keys_.command(epilog=example("adjourn keys show"))
@for_machines
def show(*, as_json: bool) -> None:
    """Print your public key, to give to others. Create the key if there is none."""
    told = _to_json("default", keys.own_public_key())
    if as_json:
        say_json(told)
    else:
        say(told["public"])


@keys_.command(epilog=example('adjourn keys trust ann "7sB1...="', "adjourn keys trust ann ann.pub"))
@click.argument("name")
@click.argument("key", metavar="KEY|FILE")
@for_machines
def trust(name: str, key: str, *, as_json: bool) -> None:
    """Trust a public key under NAME.

    Checkpoints that it signed may be resumed here. KEY is what `adjourn keys show` prints for its owner, or a file that contains it.
    """
    public = _public(key)
    keys.trust(name, public)
    told = _to_json(name, public)
    if as_json:
        say_json(told)
    else:
        say(f"trusted as {name}: {told['key']}")


@keys_.command(epilog=example("adjourn keys distrust ann"))
@click.argument("name")
@for_machines
def distrust(name: str, *, as_json: bool) -> None:
    """Stop trusting the key of that name. What was resumed stays as it is."""
    keys.distrust(name)
    if as_json:
        say_json(name=name, trusted=False)
    else:
        say(f"no longer trusted: {safe(name)}")


def _to_json(name: str, public: bytes) -> dict[str, Any]:
    return {
        "name": name,
        "key": fingerprint(public),
        "public": encode_bytes(public),
        "own": name == "default",
    }


def _public(text: str) -> bytes:
    key = text
    if os.path.isfile(text):
        key = read_file(text, _MAX_PUBLIC, workspace_of().root).decode("ascii", "replace").strip()
    try:
        return decode_bytes(key, KEY_BYTES)
    except InvalidError as error:
        raise InvalidError(
            f"{safe(text[:60])!r} is neither a public key nor a file that contains one",
            f"give the {_PUBLIC} characters that `adjourn keys show` prints",
        ) from error
