"""`adjourn record diff` and `adjourn record merge`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import click

from adjourn.cli.records.select import author, find_id, find_version, records_at, written
from adjourn.cli.records.view import brief, say_conflicts, say_diff, summary
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import say, say_json
from adjourn.errors import UsageError
from adjourn.knowledge.model import tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adjourn.knowledge.model import CRConflict, Strategy, Tree
    from adjourn.knowledge.records import CRStore

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
    epilog=example(
        "adjourn record diff", "adjourn record diff 4f1c@3 4f1c", "adjourn record diff 4f1c 9ab0 --json"
    ),
)
@click.argument("a", metavar="[RECORD]", default="")
@click.argument("b", metavar="[RECORD]", default="")
@at_store
@for_machines
def diff_(context: CommandContext, a: str, b: str, *, as_json: bool) -> None:
    """Show how the second record differs from the first; with one RECORD, show what its newest version changed."""
    store = records_at(context)
    one = find_version(store, a)
    other = find_version(store, b) if b else one
    if not b:
        if "parentCRHash" not in one:
            say(f"version 0 of record {one['id']} is its first") if not as_json else say_json(identical=True)
            return
        one = store.resolve(one["parentCRHash"])
    found = store.diff(one["contentHash"], other["contentHash"])
    if as_json:
        say_json(tree_of(found))
        return
    say(f"{_name(one)} → {_name(other)}: {'identical' if found.identical else summary(found)}")
    say_diff(found)


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
@click.option("--take", multiple=True, metavar="PATH=SIDE", help="Resolve a conflict: a, b or base.")
@click.option(
    "--set", "values", multiple=True, metavar="PATH=JSON", help="Resolve a conflict with another value."
)
@click.option("--interactive", is_flag=True, help="Ask about each unresolved conflict; not with --json.")
@at_store
@for_machines
def merge(context: CommandContext, a: str, b: str, *, as_json: bool, **options: Any) -> int:
    """Merge the second record into the first, as its next version; with one RECORD, resolve its conflicts.

    A change of only one side is taken, and additions of both sides are kept. What both sides changed differently is a conflict: it stays in
    the record until it is resolved with --take, --set or --interactive. Exit code 1 while conflicts are unresolved.
    """
    given = MergeOptions(**options)
    resolutions = given.resolutions()
    store = records_at(context)
    name = find_id(store, a)
    before = store.resolve(name)
    conflicts: Sequence[CRConflict] = ()
    warnings: Sequence[str] = ()
    sides = ""
    if b:
        other = find_version(store, b)
        result = store.merge(name, other["contentHash"], given.strategy, author=author())
        conflicts, warnings = result.conflicts, result.warnings
        sides = f"a is {_name(before)}, b is {_name(other)}"
    for path, how in resolutions:
        store.resolve_conflict(name, path, author(), **how)
    if given.interactive and not as_json:
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
    shown = [one for one in conflicts if one.resolution != "unresolved" or one.path in left]
    if shown:
        say(f"  {sides}")
    say_conflicts(shown)
    if left:
        say(f"\nresolve: adjourn record merge {name[:8]} --take {left[0]}=a   (or b, base)")
    return 1 if left else 0


def _ask(store: CRStore, name: str, sides: str) -> None:
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
        raise UsageError(
            f"--set {text!r} gives no JSON", "quote a text: --set '/task/goal=\"Ship it\"'"
        ) from None


def _name(record: Tree) -> str:
    return f"{str(record['id'])[:8]}@{record['sequence']}"
