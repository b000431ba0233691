"""`adjourn gc`."""

from __future__ import annotations

import click

from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import say, say_json, shown_bytes
from adjourn.cli.shared.terminal import Spinner
from adjourn.retention import collect


@click.command(epilog=example("adjourn gc", "adjourn gc --json"))
@at_store
@for_machines
def gc(context: CommandContext, *, as_json: bool) -> None:
    """Delete data that nothing refers to, and report the space freed.

    Deletes partly written files of killed processes, expired leases, caches of inactive tasks, and documents that no event or
    name refers to (not while a session is open). When the histories in the folders of one task take more than 64 MiB, they
    are replaced by one that the folders share. The store's file does not shrink; it reuses the space.
    """
    with Spinner("looking"):
        freed = collect(context.store_or_none(), context.root, context.now)
    if as_json:
        say_json(freed=[one._asdict() for one in freed], size=sum(one.size for one in freed))
        return
    say(f"freed {shown_bytes(sum(one.size for one in freed))}")
    for one in freed:
        if one.number or "(" in one.what:
            say(f"  {one.number} {one.what}, {shown_bytes(one.size)}")
