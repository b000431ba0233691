"""`adjourn keys`: your key, those that you trust, and your PIN.

A PIN is taken from the terminal alone.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from adjourn.cli.context import CommandContext, check_person, example, flag, for_machines, speak
from adjourn.cli.output import complain, safe, say, say_json, say_prose, say_table
from adjourn.cli.usage import SuggestingGroup
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.host import keys
from adjourn.host.finding import workspace_of
from adjourn.host.keys import KEY_BYTES
from adjourn.host.workspace import read_file
from adjourn.log.signing import decode_bytes, encode_bytes, fingerprint

if TYPE_CHECKING:
    from adjourn.aex.policy import Policy
    from adjourn.host import pin


_PUBLIC = 44
"""Characters of a public key in base64."""
_MAX_PUBLIC = 10_000
"""Most bytes of a file with a public key."""


@click.group(
    "keys",
    cls=SuggestingGroup,
    invoke_without_command=True,
    epilog=example("adjourn keys", "adjourn keys show", 'adjourn keys trust ann "7sB1...="'),
)
@for_machines
@click.pass_context
def keys_(ctx: click.Context, *, as_json: bool) -> None:
    """Show your signing key, and manage whose checkpoints may be resumed here.

    Keys are in $ADJOURN_CONFIG/keys, else $XDG_CONFIG_HOME/adjourn/keys, else ~/.config/adjourn/keys: never in a workspace. Without
    a subcommand, list the keys.
    """
    if ctx.invoked_subcommand is not None:
        return

    rows = [_to_json(name, public) for name, public in keys.trusted().items()]
    from adjourn.clients import person  # not for the help

    state = person.account_pin().active
    if as_json:
        say_json(folder=keys.folder(), keys=rows, pin=state is not None)
        return
    if not any(row["own"] for row in rows):
        say("you have no key yet; create it: adjourn keys show")
    if rows:
        say_table(
            ("NAME", "FINGERPRINT", "WHOSE"), [(r["name"], r["key"], "yours" if r["own"] else "trusted") for r in rows]
        )
    if state is not None:
        say(person.warning_of(state) or "a PIN is set, and no wrong one was given since the last right one")
    else:
        say("no PIN is set; an agent with a shell may answer for you: adjourn keys pin")


@keys_.command(epilog=example("adjourn keys show"))
@for_machines
def show(*, as_json: bool) -> None:
    """Print your public key, to give to others. Create the key if there is none."""
    key_json = _to_json("default", keys.own_public_key())
    if as_json:
        say_json(key_json)
    else:
        say(key_json["public"])


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
    key_json = _to_json(name, public)
    if as_json:
        say_json(key_json)
    else:
        say(f"trusted as {name}: {key_json['key']}")


@keys_.command(epilog=example("adjourn keys distrust ann"))
@click.argument("name")
@for_machines
def distrust(name: str, *, as_json: bool) -> None:
    """Stop trusting the key of that name. What was resumed stays as it is."""
    keys.trusted_path(name)
    speak()
    keys.distrust(name)
    if as_json:
        say_json(name=name, trusted=False)
    else:
        say(f"no longer trusted: {safe(name)}")


@keys_.command("pin", epilog=example("adjourn keys pin", "adjourn keys pin --remove"))
@flag("--remove", "Remove the PIN: no command asks for it any more.")
def pin_(*, remove: bool) -> None:
    """Set or change your PIN: every answer and command that speaks for you then asks for it.

    It is asked for at the terminal or on the page of `adjourn ui`, and never taken from an option, a variable or a pipe. The account has one PIN; to
    change or remove it, give the old one. `adjourn help pin` says what it protects from.
    """
    from adjourn.clients import person

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
    return {"name": name, "key": fingerprint(public), "public": encode_bytes(public), "own": name == "default"}


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


# --- the PIN: its dialog, and proposing it where it matters

_TRIES = 3
_SHELL = "shell.exec"


def set_pin(setting: pin.AccountPin, before: pin.PinState | None) -> None:
    """Ask for a new PIN twice, and set it in place of `before`. Raises `InvalidError` when no usable one is typed."""
    from adjourn.clients import person
    from adjourn.host import pin

    for number in range(_TRIES):
        fresh = pin.ask_secret(f"New PIN (at least {pin.MIN_CHARACTERS} characters): ")
        try:
            if pin.ask_secret("The same again: ") != fresh:
                raise InvalidError("the two are not the same", "type the new PIN twice")  # noqa: TRY301  # as for a PIN that is too short
            person.given_pin().remember(setting.set(fresh, expect=before))
        except InvalidError as error:
            if number == _TRIES - 1:
                raise
            pin.tell(safe(f"{error.message}; {error.remedy}"))
        else:
            return


def propose_pin(root: str, *, may_ask: bool) -> None:
    """Propose a PIN where the policy of a workspace lets a shell run unasked, and the account has none. Asks on a terminal, if it may."""
    from adjourn.clients import person
    from adjourn.policy.contract import read_contract

    try:
        policy = read_contract(root).policy
    except AdjournError:  # what is wrong with it is said elsewhere
        return
    try:
        setting = person.account_pin()
        if setting.active is not None or not lets_shell_run(policy):
            return
        say_prose(
            "This policy lets agents run a shell unasked. Such an agent can open a terminal and answer for you. A PIN that only you know prevents that."
        )
        if not (may_ask and sys.stdin.isatty() and click.confirm("Set a PIN now?", default=False)):
            say("  set one later: adjourn keys pin")
            return
        check_person("keys pin", None, attended=True)
        set_pin(setting, setting.state())
        say("  PIN set; every answer that speaks for you now asks for it")
    except AdjournError as error:
        complain(safe(f"no PIN was set: {error.message}"), safe(error.remedy))


def lets_shell_run(policy: Policy) -> bool:
    """Whether some shell command runs without anybody being asked."""
    rules = policy.rules_of(_SHELL)
    is_stopped = any(guard is None for _, guard in (*rules.denied, *rules.asked))
    return policy.observe or (bool(rules.allowed) and not is_stopped)
