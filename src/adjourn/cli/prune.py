"""`adjourn prune`, `gc` and `migrate`: the upkeep of a store."""

from __future__ import annotations

import re

import click

from adjourn.cli.context import CommandContext, at_store, example, for_machines
from adjourn.cli.output import counted, safe, say, say_json, say_table, shown_bytes
from adjourn.cli.terminal import Spinner

_UNITS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000, "": 86_400_000}
_BYTES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}


def _age(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    if not value:
        return None
    found = re.fullmatch(r"(\d{1,6})([hdw]?)", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not an age: write 12h, 30d or 8w", ctx, param)
    return int(found[1]) * _UNITS[found[2]]


def _size(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    if not value:
        return None
    found = re.fullmatch(r"(\d{1,12})([kmg]?i?)b?", value.lower())
    if found is None or found[2] == "i":
        raise click.BadParameter(f"{value!r} is not a size: write 500MB or 2GiB", ctx, param)
    return int(found[1]) * _BYTES[found[2]]


@click.command(
    "prune",
    epilog=example(
        "adjourn prune", "adjourn prune --keep-last 3 --daily 7 --yes", "adjourn prune --max-size 500MB"
    ),
)
@click.option(
    "--keep-last",
    type=click.IntRange(min=1),
    metavar="N",
    default=10,
    help="Keep the last N of each task (10).",
)
@click.option(
    "--daily",
    type=click.IntRange(min=0),
    metavar="D",
    default=0,
    help="Also keep the last one of each of the last D days.",
)
@click.option(
    "--older-than",
    callback=_age,
    default="",
    metavar="AGE",
    help="Delete only those older than AGE: 30d, 12h or 8w.",
)
@click.option(
    "--max-size",
    callback=_size,
    default="",
    metavar="SIZE",
    help="Delete the oldest until all fit in SIZE: 500MB or 2GiB.",
)
@click.option("-y", "--yes", is_flag=True, help="Delete them. Without this option, preview only.")
@at_store
@for_machines
def prune_(
    context: CommandContext,
    *,
    keep_last: int,
    daily: int,
    older_than: int | None,
    max_size: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete old checkpoints: their pages, folders, documents, names and kept files. The history stays, and verifies as before.

    A task's newest checkpoint, active pages, pages that were edited, and archives stay. A deleted checkpoint cannot be resumed by its name.
    """
    from adjourn.retention.pruning import RetentionRules, plan, prune

    rules = RetentionRules(keep_last=keep_last, daily=daily, older_than=older_than, max_bytes=max_size)
    with Spinner("pruning" if yes else "looking"):
        found = plan(context.store, context.root, rules, context.now)
        if yes:
            prune(context.store, context.root, found)
    if as_json:
        points = [
            {"task": one.task, "name": one.name, "hash": one.hash, "size": one.size, "named": one.named}
            for one in found.points
        ]
        say_json(done=yes, kept=found.kept, size=found.size, pruned=points)
        return
    what = f"{counted(len(found.points), 'checkpoint')} ({shown_bytes(found.size)}); {found.kept} stay"
    say(f"pruned {what}" if yes else f"would prune {what}" + ("; add --yes to do it" if found.points else ""))
    if found.points and not yes:
        rows = [(safe(one.name), one.task, shown_bytes(one.size)) for one in found.points[:50]]
        say_table(("NAME", "TASK", "SIZE"), rows)
        if len(found.points) > 50:
            say(f"  and {len(found.points) - 50} more")


# --- `adjourn gc`


@click.command(epilog=example("adjourn gc", "adjourn gc --json"))
@at_store
@for_machines
def gc(context: CommandContext, *, as_json: bool) -> None:
    """Delete data that nothing refers to, and report the space freed.

    Deletes partly written files of killed processes, expired leases, caches of inactive tasks, and documents that no event or
    name refers to (not while a session is open). When the histories in the folders of one task take more than 64 MiB, they
    are replaced by one that the folders share. The store's file does not shrink; it reuses the space.
    """
    from adjourn.retention.pruning import collect

    with Spinner("looking"):
        freed = collect(context.store_or_none(), context.root, context.now)
    if as_json:
        say_json(freed=[one._asdict() for one in freed], size=sum(one.size for one in freed))
        return
    say(f"freed {shown_bytes(sum(one.size for one in freed))}")
    for one in freed:
        if one.number or "(" in one.what:
            say(f"  {one.number} {one.what}, {shown_bytes(one.size)}")


# --- `adjourn migrate`


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
    from adjourn.host.workspace_store import migrate_at, shown_store
    from adjourn.store.migrate import LATEST

    where = shown_store(context.url)
    _ = context.store  # it is there
    with Spinner("migrating"):
        copied = max(migrate_at(context.root, context.url, partitions or 0), default=0)
    schema = LATEST["postgres" if where.startswith("postgresql:") else "sqlite"]
    if as_json:
        say_json(store=where, schema=schema, copied=copied)
        return
    say(f"{where} has schema {schema}" + (f"; {counted(copied, 'event')} copied" if copied else ""))
