"""`adjourn resume`."""

from __future__ import annotations

from typing import Any

import click

from adjourn import handover
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.lookup import only_checkpoint
from adjourn.cli.shared.output import (
    complain,
    counted,
    cut,
    described,
    facts,
    imported_line,
    safe,
    say,
    say_facts,
    say_json,
    say_prose,
)
from adjourn.cli.shared.task_view import who
from adjourn.cli.shared.terminal import width
from adjourn.host import reading_secret
from adjourn.text import ago, fit_text

LINES_BESIDE = 200
"""Bytes of the first line and the last one, at the most."""


@click.command(epilog=example("adjourn resume fix-auth", "adjourn resume fix-auth --json"))
@click.argument("name", default="")
@click.option(
    "--more", default="", metavar="CURSOR", help="Show older history: N is the `more` of an earlier answer."
)
@click.option(
    "--brief-bytes",
    type=click.IntRange(handover.MIN_ROOM, handover.MAX_ROOM),
    default=handover.ROOM,
    metavar="BYTES",
    help=f"Limit the answer to this size (default: {handover.ROOM}).",
)
@at_store
@for_machines
def resume(context: CommandContext, name: str, *, more: str, brief_bytes: int, as_json: bool) -> None:
    """Show what a session that resumes the checkpoint NAME will receive. Starts no session and writes nothing.

    NAME may be left out where only one unfinished task has a checkpoint.

    To resume, start any MCP client behind `adjourn proxy` and let it call the tool `aex.resume`. Exit code 3 when that would be
    refused for an untrusted signer.
    """
    reader = handover.Preview(
        lambda: context.store, context.root, context.clock, reading_secret(), context.tree
    )
    resumed = handover.resume(reader, name or only_checkpoint(context))
    if as_json:
        say_json(resumed.to_json(more, brief_bytes))
    elif more:
        _print_history(resumed.to_json(more, brief_bytes))
    else:
        _print(resumed.handover(), context.now, brief_bytes)

    sessions = resumed.task.ledger.sessions
    if holders := list(dict.fromkeys(who(sessions[holder]) for holder in resumed.holders())):
        complain(
            f"task {resumed.task.id} is held by {safe(' and by '.join(holders))}",
            f"another client's resume is refused until {'those sessions end' if holders[1:] else 'that session ends'}, "
            "or it starts with --take-over",
        )


def _print(told: handover.Handover, now: int, room: int) -> None:
    rest = "" if told.calls_left is None else f", {told.calls_left} left"
    unsure = f"; {told.doubts} in doubt" if told.doubts else ""
    say_prose(
        f"{told.name}: task {safe(told.task)}, {counted(told.calls_used, 'call')} used{rest}{unsure}", "bold"
    )
    key = told.untrusted_signer
    rows = (
        ("state", told.state),
        ("goal", told.goal),
        ("mission", told.mission),
        ("description", described(fit_text(told.description, room // 10), "" if key else "trusted", key)),
        ("made", ago(told.made, now)),
        ("imported", imported_line(dict(told.imported) if told.imported else None)),
    )
    for note in told.notes:
        complain(safe(note))
    say_facts(*rows)
    left = room - len(facts(rows).encode()) - LINES_BESIDE
    for line in handover.to_lines(told, left, lambda text: facts([("-", text)])):
        title = line.removeprefix("## ")
        if title != line:
            say("")
        say_prose(title, "bold") if title != line else say(line)
    say("")
    say(f"history: adjourn resume {told.name} --more {told.events}")


def _print_history(told: dict[str, Any]) -> None:
    say("what happened")
    for entry in told["auditSummary"]:
        about = " ".join(f"{value}" for value in entry["data"].values())
        say(cut(f"  {safe(entry['event']):<18} {safe(about)}", width()))
    if "more" in told:
        say(f"  older: adjourn resume {told['name']} --more {told['more']}")
