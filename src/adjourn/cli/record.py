"""`adjourn record`: showing, comparing, merging, verifying and transferring Continuation Records."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import click

from adjourn.cli.context import CommandContext, at_store, example, flag, for_machines, speak, text_option
from adjourn.cli.output import complain, safe, say, say_json, say_table
from adjourn.cli.record_transfer import export, import_, prove, verify
from adjourn.cli.record_view import (
    RECORD_OPTION,
    author,
    brief,
    find_id,
    find_version,
    items,
    list_items,
    newest,
    one_item,
    readable,
    records_at,
    say_conflicts,
    say_diff,
    say_freed,
    say_record,
    short_names,
    stamp,
    summary,
    written,
)
from adjourn.cli.usage import SuggestingGroup
from adjourn.errors import UsageError
from adjourn.knowledge.model.documents import by_id, tree_of
from adjourn.knowledge.records.effect_lookup import current
from adjourn.knowledge.records.merge import diff
from adjourn.text.times import ago

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adjourn.knowledge.model.documents import Tree
    from adjourn.knowledge.model.record import CRConflict, Strategy
    from adjourn.knowledge.records.store import RecordTrees

    Side = Literal["a", "b", "base"]


_SIDES = ("a", "b", "base")


class MergeOptions(NamedTuple):
    """The options of `adjourn record merge`, by their names."""

    strategy: Strategy
    take: tuple[str, ...]
    values: tuple[str, ...]
    interactive: bool

    def resolutions(self) -> list[tuple[str, dict[str, Any]]]:
        """The conflicts to resolve by their paths, each with its side or value. Raises `UsageError`."""
        return [*map(_taken, self.take), *map(_given, self.values)]


@click.command(
    "diff",
    epilog=example("adjourn record diff", "adjourn record diff 4f1c@3 4f1c", "adjourn record diff 4f1c 9ab0 --json"),
)
@click.argument("a", metavar="[RECORD]", default="")
@click.argument("b", metavar="[RECORD]", default="")
@at_store
@for_machines
def diff_(context: CommandContext, a: str, b: str, *, as_json: bool) -> None:
    """Show how the second record differs from the first; with one RECORD, show what its newest version changed."""
    store = records_at(context)
    base = find_version(store, a)
    other = find_version(store, b) if b else base
    if not b:
        if "parentCRHash" not in base:
            say(f"version 0 of record {base['id']} is its first") if not as_json else say_json(identical=True)
            return
        base = store.resolve(base["parentCRHash"])
    difference = store.diff(base["contentHash"], other["contentHash"])
    if as_json:
        say_json(tree_of(difference))
        return
    say(f"{_name(base)} → {_name(other)}: {'identical' if difference.identical else summary(difference)}")
    say_diff(difference)


@click.command(
    epilog=example(
        "adjourn record merge 4f1c 9ab0",
        "adjourn record merge 4f1c 9ab0 --take /task/goal=b",
        "adjourn record merge 4f1c --set '/task/goal=\"Ship it\"'",
    )
)
@click.argument("a", metavar="RECORD")
@click.argument("b", metavar="[RECORD]", default="")
@click.option(
    "--strategy",
    type=click.Choice(["manual", "prefer-a", "prefer-b"]),
    default="manual",
    help="Choose the side that wins a conflict: neither (the default), or one of them.",
)
@text_option("--take PATH=SIDE", "Resolve a conflict: a, b or base.", multiple=True)
@text_option("--set PATH=JSON", "Resolve a conflict with another value.", dest="values", multiple=True)
@flag("--interactive", "Ask about each unresolved conflict; not with --json.")
@at_store
@for_machines
def merge(context: CommandContext, a: str, b: str, *, as_json: bool, **options: Any) -> int:
    """Merge the second record into the first, as its next version; with one RECORD, resolve its conflicts.

    A change of only one side is taken, and additions of both sides are kept. What both sides changed differently is a conflict: it stays in
    the record until it is resolved with --take, --set or --interactive. Exit code 1 while conflicts are unresolved.
    """
    settings = MergeOptions(**options)
    resolutions = settings.resolutions()
    store = records_at(context)
    name = find_id(store, a)
    before = store.resolve(name)
    other = find_version(store, b) if b else None
    speak()
    conflicts: Sequence[CRConflict] = ()
    warnings: Sequence[str] = ()
    sides = ""
    if other is not None:
        result = store.merge(name, other["contentHash"], settings.strategy, author=author())
        conflicts, warnings = result.conflicts, result.warnings
        sides = f"a is {_name(before)}, b is {_name(other)}"
    for path, how in resolutions:
        store.resolve_conflict(name, path, author(), **how)
    if settings.interactive and not as_json:
        _ask(store, name, sides)
    after = store.resolve(name)
    left = [conflict["path"] for conflict in after.get("conflicts", ())]
    if as_json:
        all_ = [tree_of(conflict) for conflict in conflicts]
        say_json(written(after, success=not left, unresolved=left, conflicts=all_, warnings=list(warnings)))
        return 1 if left else 0
    if after["contentHash"] == before["contentHash"] and not left:
        say(f"nothing to merge: {_name(after)} already contains it")
    else:
        done = f"{'merged into' if b else 'resolved in'} {_name(after)}"
        say(f"{done}; {len(left)} unresolved" if left else done, "yellow" if left else "green")
    for warning in warnings:
        say(f"  warning: {warning}", "yellow")
    listed = [each for each in conflicts if each.resolution != "unresolved" or each.path in left]
    if listed:
        say(f"  {sides}")
    say_conflicts(listed)
    if left:
        say(f"\nresolve: adjourn record merge {name[:8]} --take {left[0]}=a   (or b, base)")
    return 1 if left else 0


def _ask(store: RecordTrees, name: str, sides: str) -> None:
    """Ask at the terminal for what is unresolved, until the answers end: what is left then stays in the record."""
    conflicts = store.resolve(name).get("conflicts", ())
    if conflicts and sides:
        say(sides)
    for conflict in conflicts:
        say(f"\n{brief(conflict['path'])}")
        for side in _SIDES:
            say(f"  {side:<4}  {brief(conflict[side]) if side in conflict else 'absent'}")
        try:
            answer = click.prompt("take", type=click.Choice([*_SIDES, "later"]), default="later", err=True)
        except click.Abort:
            say("\nthe unresolved conflicts stay in the record")
            break
        if answer != "later":
            store.resolve_conflict(name, conflict["path"], author(), take=cast("Side", answer))
    sys.stdout.flush()


def _taken(text: str) -> tuple[str, dict[str, Any]]:
    path, _, side = text.rpartition("=")
    if not path or side not in _SIDES:
        raise UsageError(f"--take {text!r} names no side", "give PATH=a, PATH=b or PATH=base")
    return path, {"take": side}


def _given(text: str) -> tuple[str, dict[str, Any]]:
    path, _, value = text.partition("=")
    try:
        return path, {"value": json.loads(value)}
    except (ValueError, RecursionError):
        raise UsageError(f"--set {text!r} gives no JSON", "quote a text: --set '/task/goal=\"Ship it\"'") from None


def _name(record: Tree) -> str:
    return f"{str(record['id'])[:8]}@{record['sequence']}"


@click.command(epilog=example("adjourn record resolve", 'adjourn record resolve blocker-3f "the token is in CI now"'))
@click.argument("blocker", default="")
@click.argument("resolution", default="")
@RECORD_OPTION
@at_store
@for_machines
def resolve(context: CommandContext, blocker: str, resolution: str, *, record: str, as_json: bool) -> None:
    """Mark a blocker as resolved; without BLOCKER, list the active ones.

    BLOCKER is its id or a beginning of it; RESOLUTION says how it was removed.
    """
    store = records_at(context)
    active = [entry for entry in items(store, "blocker") if entry.item["status"] == "active"]
    if not blocker:
        heading = "active: `adjourn record resolve ID RESOLUTION`"
        list_items(active, "blockers", "no active blockers", heading, _blocker, as_json=as_json)
        return
    if not resolution:
        raise UsageError("no resolution is given", "say how the blocker was removed")
    target = one_item(active, blocker, "active blocker", "list them: adjourn record resolve", record)
    after = store.resolve_blocker(target.cr_id, target.id, resolution, author())
    if as_json:
        say_json(written(after, blocker=by_id(after["blockers"])[target.id]))
        return
    say(f"resolved: {safe(target.item['description'])}", "green")
    say_freed(store, target.cr_id)


def _blocker(item: Tree) -> tuple[str, Sequence[tuple[str, str]]]:
    blocks = ", ".join(item["blocksResumePoints"])
    return safe(item["description"]), [("  type", item["type"]), ("  blocks", blocks)]


@click.command(
    epilog=example("adjourn record check", 'adjourn record check invariant-9a --holding --note "make lint passes"')
)
@click.argument("invariant", default="")
@flag("--holding", "Record that it is true now.")
@flag("--violated", "Record that it is not true now.")
@text_option("--note TEXT", "Record how you know.")
@RECORD_OPTION
@at_store
@for_machines
def check(
    context: CommandContext, invariant: str, *, holding: bool, violated: bool, note: str, record: str, as_json: bool
) -> None:
    """Record the result of checking an invariant; without INVARIANT, list all of them.

    INVARIANT is its id or a beginning of it. A violated hard invariant blocks resume points, and the end of the task.
    """
    store = records_at(context)
    invariants = items(store, "invariant")
    if not invariant:
        heading = "known: `adjourn record check ID --holding`, or --violated"
        list_items(invariants, "invariants", "no invariants", heading, _invariant, as_json=as_json)
        return
    if holding == violated:
        raise UsageError("no result is given", "give --holding or --violated")
    target = one_item(invariants, invariant, "invariant", "list them: adjourn record check", record)
    status = "holding" if holding else "violated"
    after = store.check_invariant(target.cr_id, target.id, status, author(), evidence=note)
    if as_json:
        say_json(written(after, invariant=by_id(after["invariants"])[target.id]))
        return
    say(f"{status}: {safe(target.item['description'])}", "green" if holding else "red")


def _invariant(item: Tree) -> tuple[str, Sequence[tuple[str, str]]]:
    return f"{safe(item['description'])} ({item['status']})", [("  severity", item["severity"])]


@click.command(epilog=example("adjourn record complete 4f1c"))
@click.argument("name", metavar="[RECORD]", default="")
@at_store
@for_machines
def complete(context: CommandContext, name: str, *, as_json: bool) -> None:
    """Mark the task of a record as completed. Its questions and resume points then need no answer.

    Refused while a blocking question is open or a hard invariant is violated.
    """
    store = records_at(context)
    cr_id = find_id(store, name)
    store.tick(cr_id)
    task = store.resolve(cr_id)["task"]
    after = store.update(cr_id, {"task": {**task, "status": "completed"}}, author())
    if as_json:
        say_json(written(after, task=after["task"]))
    else:
        say(f"completed: {safe(task['goal'])}", "green")


@click.group(
    cls=SuggestingGroup,
    invoke_without_command=True,
    epilog=example("adjourn record", "adjourn record show", "adjourn record diff"),
)
@at_store
@for_machines
@click.pass_context
def record(ctx: click.Context, context: CommandContext, *, as_json: bool) -> None:
    """Manage Continuation Records: mission, decisions, questions, learnings and effects that one agent hands to the next.

    Without a subcommand, list the records. RECORD is a record's id, a beginning of it, or the id of its task; it may be left out when
    the store has one record only. `RECORD@N` is the version of sequence N; a hash of 64 digits is the version with that hash.
    """
    if ctx.invoked_subcommand is not None:
        return

    versions, broken = readable(records_at(context))
    versions.sort(key=lambda version: version["lastModifiedAt"], reverse=True)
    if as_json:
        unreadable = [{"record": name, "reason": str(error)} for name, error in broken.items()]
        say_json(records=[_to_json(version) for version in versions], unreadable=unreadable)
    elif versions:
        names = short_names([version["id"] for version in versions])
        rows = [_row(version, name, context.now) for version, name in zip(versions, names, strict=True)]
        say_table(("RECORD", "TASK", "VERSION", "WHEN", "STATUS", "GOAL"), rows)
    elif not broken:
        say("no records yet")
    for error in broken.values():
        complain(error.message, error.remedy)
    ctx.exit(1 if broken else 0)


@click.command(epilog=example("adjourn record show", "adjourn record show 4f1c --json", "adjourn record show 4f1c@12"))
@click.argument("name", metavar="[RECORD]", default="")
@at_store
@for_machines
def show(context: CommandContext, name: str, *, as_json: bool) -> None:
    """Show a record: where the task stands, what is decided, asked and known, and what its calls have done.

    Effects recorded after the newest version are shown too. In the JSON they are in `effectsSince`, beside the version, and are not
    part of its hash.
    """
    store = records_at(context)
    version = find_version(store, name)
    is_head = store.versions.head_position(version["id"]).hash == version["contentHash"]
    now = current(context.store, version) if is_head else version
    if as_json:
        since = [effect for effect in now["toolEffects"] if effect not in version["toolEffects"]]
        say_json(version | ({"effectsSince": since} if since else {}))
    else:
        say_record(now, context.now)


@click.command(epilog=example("adjourn record history", "adjourn record history 4f1c --tail 5"))
@click.argument("name", metavar="[RECORD]", default="")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", default=20, help="Show only the last N versions (20).")
@at_store
@for_machines
def history(context: CommandContext, name: str, *, tail: int, as_json: bool) -> None:
    """List the versions of a record, the newest last: who wrote each, and what it changed."""
    store = records_at(context)
    versions = newest(store, find_id(store, name), tail + 1)
    rows: list[dict[str, Any]] = []
    for number, version in enumerate(versions):
        if number == 0 and len(versions) > tail:
            continue
        changed = summary(diff(versions[number - 1], version)) if number else "created"
        rows.append(
            {
                "sequence": version["sequence"],
                "contentHash": version["contentHash"],
                "at": version["lastModifiedAt"],
                "by": version["lastModifiedBy"],
                "changed": changed,
                "merged": version.get("mergeParentHashes", []),
            }
        )
    if as_json:
        say_json(record=versions[-1]["id"], versions=rows)
    else:
        say_table(("VERSION", "WHEN", "BY", "HASH", "CHANGED"), [_version_row(row, context.now) for row in rows])


def _version_row(row: dict[str, Any], now: int) -> tuple[str, ...]:
    changed = row["changed"] + (" (merged)" if row["merged"] else "")
    return str(row["sequence"]), ago(stamp(row["at"]), now), row["by"]["id"], row["contentHash"][:12], changed


def _to_json(version: dict[str, Any]) -> dict[str, Any]:
    return {
        "record": version["id"],
        "task": version["task"]["id"],
        "goal": version["task"]["goal"],
        "status": version["task"]["status"],
        "sequence": version["sequence"],
        "contentHash": version["contentHash"],
        "lastModifiedAt": version["lastModifiedAt"],
        "lastModifiedBy": version["lastModifiedBy"],
        "openQuestions": [item["id"] for item in version["questionsForUser"] if item["status"] == "open"],
        "contested": [item["id"] for item in version["decisions"] if item["status"] == "contested"],
        "conflicts": [item["path"] for item in version.get("conflicts", ())],
    }


def _row(version: dict[str, Any], name: str, now: int) -> tuple[str, ...]:
    task = version["task"]
    when = ago(stamp(version["lastModifiedAt"]), now)
    return name, task["id"], str(version["sequence"]), when, task["status"], safe(task["goal"])


for _command in (show, history, resolve, check, complete, diff_, merge, verify, prove, export, import_):
    record.add_command(_command)
