"""`adjourn store show`, `prune`, `gc` and `migrate`: the upkeep of a store."""

from __future__ import annotations

import os
import re
from collections import deque
from contextlib import suppress

import click

from adjourn.cli.context import CommandContext, at_store, example, flag, for_machines, speak, text_option
from adjourn.cli.output import counted, safe, say, say_json, say_table, shown_bytes
from adjourn.cli.terminal import Spinner
from adjourn.errors import AdjournError
from adjourn.host import clock, keys
from adjourn.host.workspace import CHECKPOINTS

_UNITS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000, "": 86_400_000}
_BYTES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}


def _age(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    if not value:
        return None
    match = re.fullmatch(r"(\d{1,6})([hdw]?)", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not an age: write 12h, 30d or 8w", ctx, param)
    return int(match[1]) * _UNITS[match[2]]


def _size(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    if not value:
        return None
    match = re.fullmatch(r"(\d{1,12})([kmg]?i?)b?", value.lower())
    if match is None or match[2] == "i":
        raise click.BadParameter(f"{value!r} is not a size: write 500MB or 2GiB", ctx, param)
    return int(match[1]) * _BYTES[match[2]]


@click.command(epilog=example("adjourn store show", "adjourn store show --json"))
@at_store
@for_machines
def show(context: CommandContext, *, as_json: bool) -> None:
    """Show what the store holds, and how much room each part takes.

    Sizes are those of the content. The store's file also has indexes, and free pages that are used again.
    """
    store, parts = context.store, dict[str, list[int]]()

    def add(what: str, number: int, size: int) -> None:
        part = parts.setdefault(what, [0, 0])
        part[0] += number
        part[1] += size

    with Spinner("reading the store"):
        for stream in store.streams():
            what = "versions of records" if stream.startswith("record/") else "events of tasks"
            for entry in store.read(stream):
                add(what, 1, len(entry.data))
        for name, value in store.refs().items():
            add("cached ledgers" if name.startswith("fold/") else "names and indexes", 1, len(name) + len(value))
        for _, size in store.blobs():
            add("documents and kept answers", 1, size)
        for folder, _, files in os.walk(os.path.join(context.root, CHECKPOINTS)):
            for file in files:
                with suppress(OSError):
                    add("files of checkpoints", 1, os.lstat(os.path.join(folder, file)).st_size)
    rows = sorted(parts.items(), key=lambda part: -part[1][1])
    if as_json:
        say_json(
            parts=[{"what": what, "number": number, "size": size} for what, (number, size) in rows],
            size=sum(size for _, (_, size) in rows),
        )
        return
    say_table(("WHAT", "NUMBER", "SIZE"), [(what, f"{number:,}", shown_bytes(size)) for what, (number, size) in rows])
    say("make room: adjourn store prune, then adjourn store gc")


# --- `adjourn store prune`


@click.command(
    "prune",
    epilog=example(
        "adjourn store prune",
        "adjourn store prune --keep-last 3 --daily 7 --yes",
        "adjourn store prune --max-size 500MB",
    ),
)
@click.option(
    "--keep-last", type=click.IntRange(min=1), metavar="N", default=10, help="Keep the last N of each task (10)."
)
@click.option(
    "--daily",
    type=click.IntRange(min=0),
    metavar="D",
    default=0,
    help="Also keep the last one of each of the last D days.",
)
@text_option("--older-than AGE", "Delete only those older than AGE: 30d, 12h or 8w.", callback=_age)
@text_option("--max-size SIZE", "Delete the oldest until all fit in SIZE: 500MB or 2GiB.", callback=_size)
@flag("-y, --yes", "Delete them. Without this option, preview only.")
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
    from adjourn.checkpoints.git_snapshot import KeptFiles, kept_files
    from adjourn.checkpoints.pruning import RetentionRules, plan, prune

    rules = RetentionRules(keep_last=keep_last, daily=daily, older_than=older_than, max_bytes=max_size)
    with Spinner("looking"):
        pruning = plan(context.store, context.root, rules, context.now)
    if yes:
        speak()
        with Spinner("pruning"):
            prune(context.store, context.root, pruning)
    files = KeptFiles()
    with suppress(AdjournError):  # git is not there, or does not answer
        files = kept_files(context.root)
    if as_json:
        points = [
            {"task": point.task, "name": point.name, "hash": point.hash, "size": point.size, "named": point.named}
            for point in pruning.points
        ]
        say_json(done=yes, kept=pruning.kept, size=pruning.size, pruned=points, files=files._asdict())
        return
    what = f"{counted(len(pruning.points), 'checkpoint')} ({shown_bytes(pruning.size)}); {pruning.kept} stay"
    say(f"pruned {what}" if yes else f"would prune {what}" + ("; add --yes to do it" if pruning.points else ""))
    if pruning.points and not yes:
        rows = [(safe(point.name), point.task, shown_bytes(point.size)) for point in pruning.points[:50]]
        say_table(("NAME", "TASK", "SIZE"), rows)
        if len(pruning.points) > 50:
            say(f"  and {len(pruning.points) - 50} more")
    if files.snapshots:
        size = "" if files.size < 0 else f", {shown_bytes(files.size)} in .git"
        say(f"files are kept in {counted(files.snapshots, 'snapshot')}{size}")


# --- `adjourn store gc`


@click.command(epilog=example("adjourn store gc", "adjourn store gc --json"))
@at_store
@for_machines
def gc(context: CommandContext, *, as_json: bool) -> None:
    """Delete data that nothing refers to, and report the space freed.

    Deletes partly written files of killed processes, expired leases, caches of inactive tasks, and documents that no event or
    name refers to (not while a session is open). When the histories in the folders of one task take more than 64 MiB, they
    are replaced by one that the folders share. The store's file does not shrink; it reuses the space.
    """
    from adjourn.checkpoints.pruning import collect

    with Spinner("looking"):
        freed = collect(context.store_or_none(), context.root, context.now)
    if as_json:
        say_json(freed=[kind._asdict() for kind in freed], size=sum(kind.size for kind in freed))
        return
    say(f"freed {shown_bytes(sum(kind.size for kind in freed))}")
    for kind in freed:
        if kind.number or "(" in kind.what:
            say(f"  {kind.number} {kind.what}, {shown_bytes(kind.size)}")


# --- `adjourn store migrate`


@click.command(epilog=example("adjourn store migrate", "adjourn store migrate --partitions 8"))
@at_store
@click.option(
    "--partitions",
    type=click.IntRange(2, 64),
    metavar="N",
    help="Move events into N partitions by stream (2-64; PostgreSQL).",
)
@for_machines
def migrate_(context: CommandContext, *, partitions: int | None, as_json: bool) -> None:
    """Bring a store to the newest schema, and index its tasks, while others use it.

    A SQLite store is brought there whenever it is opened. A PostgreSQL store is used as it is until this command runs. Update
    adjourn everywhere first: versions that do not know the new schema cannot append to it. With --partitions, events are copied in
    small batches. Sessions continue, with pauses of at most two seconds. After an interruption, run the same command again: it continues.
    """
    from adjourn.handover.pending import add_earlier_tasks
    from adjourn.host.workspace_store import migrate_at, shown_store
    from adjourn.store.base import LATEST

    where = shown_store(context.url)
    _ = context.store  # it is there
    with Spinner("migrating"):
        copied = max(migrate_at(context.root, context.url, partitions or 0), default=0)
        deque(add_earlier_tasks(context.store, clock.now, keys.secret()), maxlen=0)
    schema = LATEST["postgres" if where.startswith("postgresql:") else "sqlite"]
    if as_json:
        say_json(store=where, schema=schema, copied=copied)
        return
    say(f"{where} has schema {schema}" + (f"; {counted(copied, 'event')} copied" if copied else ""))
