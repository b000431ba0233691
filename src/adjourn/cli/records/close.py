"""`adjourn record resolve`, `check` and `complete`: what a person says about blockers, invariants and the task of a record."""

from __future__ import annotations

import click

from adjourn.cli.records.select import author, find_id, items, one_item, records_at, written
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import safe, say, say_facts, say_json
from adjourn.errors import UsageError

_RECORD = click.option(
    "--record", metavar="RECORD", default="", help="Record to look in, if several have that id."
)


@click.command(
    epilog=example("adjourn record resolve", 'adjourn record resolve blocker-3f "the token is in CI now"')
)
@click.argument("blocker", default="")
@click.argument("resolution", default="")
@_RECORD
@at_store
@for_machines
def resolve(context: CommandContext, blocker: str, resolution: str, *, record: str, as_json: bool) -> None:
    """Mark a blocker as resolved; without BLOCKER, list the active ones.

    BLOCKER is its id or a beginning of it; RESOLUTION says how it was removed.
    """
    store = records_at(context)
    active = [one for one in items(store, "blocker") if one.item["status"] == "active"]
    if not blocker:
        if as_json:
            say_json(blockers=[one.item | {"record": one.cr_id} for one in active])
            return
        say(
            f"{len(active)} active: `adjourn record resolve ID RESOLUTION`"
            if active
            else "no active blockers"
        )
        for one in active:
            say(f"\n{safe(one.id)}  {safe(one.item['description'])}")
            say_facts(
                ("  type", one.item["type"]),
                ("  blocks", ", ".join(one.item["blocksResumePoints"])),
                ("  record", one.cr_id),
            )
        return
    if not resolution:
        raise UsageError("no resolution is given", "say how the blocker was removed")
    found = one_item(active, blocker, "active blocker", "list them: adjourn record resolve", record)
    after = store.resolve_blocker(found.cr_id, found.id, resolution, author())
    if as_json:
        say_json(written(after, blocker=next(one for one in after["blockers"] if one["id"] == found.id)))
        return
    say(f"resolved: {safe(found.item['description'])}", "green")
    if freed := [one["label"] for one in store.usable_resume_points(found.cr_id)]:
        say(f"  can start now: {safe(', '.join(freed))}")


@click.command(
    epilog=example(
        "adjourn record check", 'adjourn record check invariant-9a --holding --evidence "make lint passes"'
    )
)
@click.argument("invariant", default="")
@click.option("--holding", is_flag=True, help="Record that it is true now.")
@click.option("--violated", is_flag=True, help="Record that it is not true now.")
@click.option("--evidence", metavar="TEXT", default="", help="Record how you know.")
@_RECORD
@at_store
@for_machines
def check(
    context: CommandContext,
    invariant: str,
    *,
    holding: bool,
    violated: bool,
    evidence: str,
    record: str,
    as_json: bool,
) -> None:
    """Record the result of checking an invariant; without INVARIANT, list all of them.

    INVARIANT is its id or a beginning of it. A violated hard invariant blocks resume points, and the end of the task.
    """
    store = records_at(context)
    known = items(store, "invariant")
    if not invariant:
        if as_json:
            say_json(invariants=[one.item | {"record": one.cr_id} for one in known])
            return
        say(
            f"{len(known)} known: `adjourn record check ID --holding`, or --violated"
            if known
            else "no invariants"
        )
        for one in known:
            say(f"\n{safe(one.id)}  {safe(one.item['description'])} ({one.item['status']})")
            say_facts(("  severity", one.item["severity"]), ("  record", one.cr_id))
        return
    if holding == violated:
        raise UsageError("no result is given", "give --holding or --violated")
    found = one_item(known, invariant, "invariant", "list them: adjourn record check", record)
    status = "holding" if holding else "violated"
    after = store.check_invariant(found.cr_id, found.id, status, author(), evidence=evidence)
    if as_json:
        say_json(written(after, invariant=next(one for one in after["invariants"] if one["id"] == found.id)))
        return
    say(f"{status}: {safe(found.item['description'])}", "green" if holding else "red")


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
