"""`adjourn record`: showing, comparing, merging, verifying and transferring Continuation Records."""

from __future__ import annotations

from typing import Any

import click

from adjourn.cli.records.close import check, complete, resolve
from adjourn.cli.records.merge import diff_, merge
from adjourn.cli.records.select import find_id, find_version, newest, readable, records_at, short_names, stamp
from adjourn.cli.records.transfer import export, import_, prove, verify
from adjourn.cli.records.view import say_record, summary
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import complain, safe, say, say_json, say_table
from adjourn.cli.shared.usage import SuggestingGroup
from adjourn.knowledge.records import current
from adjourn.knowledge.records.diff import diff
from adjourn.text import ago


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

    found, broken = readable(records_at(context))
    found.sort(key=lambda one: one["lastModifiedAt"], reverse=True)
    if as_json:
        unreadable = [{"record": name, "reason": str(error)} for name, error in broken.items()]
        say_json(records=[_to_json(one) for one in found], unreadable=unreadable)
    elif found:
        names = short_names([one["id"] for one in found])
        rows = [_row(one, name, context.now) for one, name in zip(found, names, strict=True)]
        say_table(("RECORD", "TASK", "VERSION", "WHEN", "STATUS", "GOAL"), rows)
    elif not broken:
        say("no records yet")
    for error in broken.values():
        complain(error.message, error.remedy)
    ctx.exit(1 if broken else 0)


@click.command(
    epilog=example("adjourn record show", "adjourn record show 4f1c --json", "adjourn record show 4f1c@12")
)
@click.argument("name", metavar="[RECORD]", default="")
@at_store
@for_machines
def show(context: CommandContext, name: str, *, as_json: bool) -> None:
    """Show a record: where the task stands, what is decided, asked and known, and what its calls have done.

    Effects recorded after the newest version are shown too. In the JSON they are in `effectsSince`, beside the version, and are not
    part of its hash.
    """
    store = records_at(context)
    found = find_version(store, name)
    is_head = store.versions.head_position(found["id"]).hash == found["contentHash"]
    now = current(context.store, found) if is_head else found
    if as_json:
        since = [effect for effect in now["toolEffects"] if effect not in found["toolEffects"]]
        say_json(found | ({"effectsSince": since} if since else {}))
    else:
        say_record(now, context.now)


@click.command(epilog=example("adjourn record history", "adjourn record history 4f1c --tail 5"))
@click.argument("name", metavar="[RECORD]", default="")
@click.option(
    "--tail", type=click.IntRange(min=1), metavar="N", default=20, help="Show only the last N versions (20)."
)
@at_store
@for_machines
def history(context: CommandContext, name: str, *, tail: int, as_json: bool) -> None:
    """List the versions of a record, the newest last: who wrote each, and what it changed."""
    store = records_at(context)
    versions = newest(store, find_id(store, name), tail + 1)
    told: list[dict[str, Any]] = []
    for number, version in enumerate(versions):
        if number == 0 and len(versions) > tail:
            continue
        changed = summary(diff(versions[number - 1], version)) if number else "created"
        told.append(
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
        say_json(record=versions[-1]["id"], versions=told)
    else:
        say_table(
            ("VERSION", "WHEN", "BY", "HASH", "CHANGED"), [_version_row(one, context.now) for one in told]
        )


def _version_row(one: dict[str, Any], now: int) -> tuple[str, ...]:
    changed = one["changed"] + (" (merged)" if one["merged"] else "")
    return str(one["sequence"]), ago(stamp(one["at"]), now), one["by"]["id"], one["contentHash"][:12], changed


def _to_json(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "record": one["id"],
        "task": one["task"]["id"],
        "goal": one["task"]["goal"],
        "status": one["task"]["status"],
        "sequence": one["sequence"],
        "contentHash": one["contentHash"],
        "lastModifiedAt": one["lastModifiedAt"],
        "lastModifiedBy": one["lastModifiedBy"],
        "openQuestions": [item["id"] for item in one["questionsForUser"] if item["status"] == "open"],
        "contested": [item["id"] for item in one["decisions"] if item["status"] == "contested"],
        "conflicts": [item["path"] for item in one.get("conflicts", ())],
    }


def _row(one: dict[str, Any], name: str, now: int) -> tuple[str, ...]:
    task = one["task"]
    when = ago(stamp(one["lastModifiedAt"]), now)
    return name, task["id"], str(one["sequence"]), when, task["status"], safe(task["goal"])


for _command in (show, history, resolve, check, complete, diff_, merge, verify, prove, export, import_):
    record.add_command(_command)
