"""`adjourn api-keys`."""

from __future__ import annotations

from typing import Any

import click

from adjourn import gateway
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import complain, safe, say, say_json, say_table
from adjourn.cli.shared.usage import SuggestingGroup
from adjourn.host import keys
from adjourn.log import timestamp

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
    if ctx.invoked_subcommand is not None:
        return
    store = context.store_or_none()
    found = gateway.keys_of(store, keys.secret()) if store is not None else []
    if as_json:
        say_json(keys=[_to_json(key) for key in found])
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
    wish = gateway.KeyWish(name, "human" if human else "service", groups, days)
    made = gateway.add_key(context.make_store(), keys.secret(), wish, context.now)
    if as_json:
        say_json(_to_json(made.key) | {"key": made.text})
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
    key = gateway.revoke_key(context.store, keys.secret(), key_id)
    if as_json:
        say_json(_to_json(key) | {"revoked": True})
    else:
        say(f"revoked: {key.id} of {safe(key.name)}")


def _to_json(key: gateway.ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "type": key.type,
        "groups": list(key.groups),
        "created": timestamp(key.created),
        "expires": timestamp(key.expires),
    }


def _ends(key: gateway.ApiKey, now: int) -> str:
    return "(ended)" if key.expires <= now else timestamp(key.expires)[:10]
