"""`adjourn keys`."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import click

from adjourn.cli.shared.context import CommandContext, example, for_machines, speak
from adjourn.cli.shared.output import safe, say, say_json, say_prose, say_table
from adjourn.cli.shared.usage import SuggestingGroup
from adjourn.errors import AdjournError, InvalidError, NotFoundError
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
    from adjourn.clients import person  # noqa: PLC0415  # not for the help

    state = person.account_pin().active
    if as_json:
        say_json(folder=keys.folder(), keys=rows, pin=state is not None)
        return
    if not any(row["own"] for row in rows):
        say("you have no key yet; create it: adjourn keys show")
    if rows:
        say_table(
            ("NAME", "FINGERPRINT", "WHOSE"),
            [(r["name"], r["key"], "yours" if r["own"] else "trusted") for r in rows],
        )
    if state is not None:
        say(person.warning_of(state) or "a PIN is set, and no wrong one was given since the last right one")
    else:
        say("no PIN is set; an agent with a shell may answer for you: adjourn keys pin")


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
    speak()
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


@keys_.command(epilog=example("adjourn keys pin", "adjourn keys pin --remove"))
@click.option("--remove", is_flag=True, help="Remove the PIN: no command asks for it any more.")
def pin(*, remove: bool) -> None:
    """Set or change your PIN: every answer and command that speaks for you then asks for it.

    It is asked for at the terminal or on the page of `adjourn ui`, and never taken from an option, a variable or a pipe. The account has one PIN; to
    change or remove it, give the old one. `adjourn help pin` says what it protects from.
    """
    from adjourn.cli.shared.pin_setting import set_pin  # noqa: PLC0415  # not for the help
    from adjourn.clients import person  # noqa: PLC0415

    setting = person.account_pin()
    before = setting.state()
    if remove:
        if before is None or not before.is_active:
            raise NotFoundError("no PIN is set", "set one: adjourn keys pin")
        setting.remove(before)
    else:
        set_pin(setting, before)
        with suppress(AdjournError):  # a store that cannot be written notes it with the first answer
            if (store := CommandContext().store_or_none()) and (state := setting.active):
                person.note_pin(store, state)
    if remove:
        say("no PIN is asked for any more")
    else:
        say(f"PIN {'changed' if before and before.is_active else 'set'}: {safe(setting.path)}", "green")
        say_prose("Every answer and every command that speaks for you now asks for it. adjourn help pin")


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
