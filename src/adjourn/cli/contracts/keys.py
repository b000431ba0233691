"""`adjourn keys` and `adjourn api-keys`: your key, those that you trust, your PIN, and the keys of clients of the gateway.

A PIN is taken from the terminal alone.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from adjourn.cli.shared.context import CommandContext, at_store, check_person, example, for_machines, speak
from adjourn.cli.shared.output import complain, safe, say, say_json, say_prose, say_table
from adjourn.cli.shared.usage import SuggestingGroup
from adjourn.errors import AdjournError, InvalidError, NotFoundError
from adjourn.host import keys
from adjourn.host.finding import workspace_of
from adjourn.host.keys import KEY_BYTES
from adjourn.host.workspace import read_file
from adjourn.log.event import timestamp
from adjourn.log.signing import decode_bytes, encode_bytes, fingerprint

if TYPE_CHECKING:
    from adjourn.aex.policy import Policy
    from adjourn.gateway.auth.authenticator import ApiKey
    from adjourn.host import pin


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
    from adjourn.clients import person  # not for the help

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


@keys_.command("pin", epilog=example("adjourn keys pin", "adjourn keys pin --remove"))
@click.option("--remove", is_flag=True, help="Remove the PIN: no command asks for it any more.")
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


# --- `adjourn api-keys`

MAX_DAYS = 3650


@click.group(
    "api-keys",
    cls=SuggestingGroup,
    invoke_without_command=True,
    epilog=example("adjourn api-keys", "adjourn api-keys add ci --group deploy --days 30"),
)
@at_store
@for_machines
@click.pass_context
def api_keys(ctx: click.Context, context: CommandContext, *, as_json: bool) -> None:
    """List the keys by which clients of `adjourn serve` authenticate, and make or revoke some.

    The store has digests of them only. Without a subcommand, list the keys.
    """
    from adjourn.gateway.auth.authenticator import keys_of

    if ctx.invoked_subcommand is not None:
        return
    store = context.store_or_none()
    found = keys_of(store, keys.secret()) if store is not None else []
    if as_json:
        say_json(keys=[_api_keys_to_json(key) for key in found])
    elif not found:
        say("there are no API keys")
    else:
        rows = [
            (key.id, safe(key.name), key.type, safe(", ".join(key.groups)), _ends(key, context.now))
            for key in found
        ]
        say_table(("ID", "NAME", "TYPE", "GROUPS", "ENDS"), rows)


@api_keys.command(epilog=example("adjourn api-keys add ci", "adjourn api-keys add ann --human --group ops"))
@click.argument("name")
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP", help="A group of its bearer; may be repeated."
)
@click.option(
    "--days",
    type=click.IntRange(1, MAX_DAYS),
    default=90,
    metavar="N",
    help="End after N days (default: 90).",
)
@click.option(
    "--human", is_flag=True, help="Its bearer is a person, who may answer questions; default: a service."
)
@at_store
@for_machines
def add(
    context: CommandContext, name: str, groups: tuple[str, ...], days: int, *, human: bool, as_json: bool
) -> None:
    """Make a key for NAME, and print it. It is shown this once.

    While another key of NAME is there, both have the same bearer: to replace a key, make a new one, then revoke the old one.
    """
    from adjourn.gateway.auth.authenticator import KeyWish, add_key

    wish = KeyWish(name, "human" if human else "service", groups, days)
    made = add_key(context.make_store(), keys.secret(), wish, context.now)
    if as_json:
        say_json(_api_keys_to_json(made.key) | {"key": made.text})
        return
    say(made.text)
    complain(
        f"key {made.key.id} of {name} ends {_ends(made.key, context.now)}", "keep it: it is not shown again"
    )


@api_keys.command(epilog=example("adjourn api-keys revoke 7k3f9q2m1x"))
@click.argument("key_id", metavar="ID")
@at_store
@for_machines
def revoke(context: CommandContext, key_id: str, *, as_json: bool) -> None:
    """Revoke a key by its ID. A gateway that serves refuses it within two seconds."""
    from adjourn.gateway.auth.authenticator import revoke_key

    key = revoke_key(context.store, keys.secret(), key_id)
    if as_json:
        say_json(_api_keys_to_json(key) | {"revoked": True})
    else:
        say(f"revoked: {key.id} of {safe(key.name)}")


def _api_keys_to_json(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "type": key.type,
        "groups": list(key.groups),
        "created": timestamp(key.created),
        "expires": timestamp(key.expires),
    }


def _ends(key: ApiKey, now: int) -> str:
    return "(ended)" if key.expires <= now else timestamp(key.expires)[:10]


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
            "This policy lets agents run a shell unasked. Such an agent can start a terminal of its own and answer for you. A PIN, which only you know, keeps it from that."
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
