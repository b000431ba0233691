"""`adjourn migrate`."""

from __future__ import annotations

import click

from adjourn import host, store
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import counted, say, say_json
from adjourn.cli.shared.terminal import Spinner


@click.command(epilog=example("adjourn migrate", "adjourn migrate --partitions 8"))
@at_store
@click.option(
    "--partitions",
    type=click.IntRange(2, 64),
    metavar="N",
    help="Move events into N partitions by stream (2-64; PostgreSQL).",
)
@for_machines
def migrate_(context: CommandContext, *, partitions: int | None, as_json: bool) -> None:
    """Bring a store to the newest schema while others use it.

    A SQLite store is brought there whenever it is opened. A PostgreSQL store is used as it is until this command runs. Update
    adjourn everywhere first: versions that do not know the new schema cannot append to it. With --partitions, events are copied in
    small batches. Sessions continue, with pauses of at most two seconds. After an interruption, run the same command again: it continues.
    """
    where = host.shown_store(context.url)
    _ = context.store  # it is there
    with Spinner("migrating"):
        copied = max(host.migrate_at(context.root, context.url, partitions or 0), default=0)
    schema = store.LATEST["postgres" if where.startswith("postgresql:") else "sqlite"]
    if as_json:
        say_json(store=where, schema=schema, copied=copied)
        return
    say(f"{where} has schema {schema}" + (f"; {counted(copied, 'event')} copied" if copied else ""))
