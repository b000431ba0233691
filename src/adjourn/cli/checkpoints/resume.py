"""`adjourn resume`."""

from __future__ import annotations

from typing import Any

import click

from adjourn import handover
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import (
    complain,
    cut,
    described,
    imported_line,
    safe,
    safe_lines,
    say,
    say_facts,
    say_json,
    width,
)
from adjourn.cli.shared.task_view import who
from adjourn.cli.shared.times import ago
from adjourn.host import reading_secret


@click.command(epilog=example("adjourn resume fix-auth", "adjourn resume fix-auth --json"))
@click.argument("name")
@click.option(
    "--more", default="", metavar="CURSOR", help="Show older history: N is the `more` of an earlier answer."
)
@at_store
@for_machines
def resume(context: CommandContext, name: str, *, more: str, as_json: bool) -> None:
    """Show what a session that resumes the checkpoint NAME will receive. Starts no session and writes nothing.

    To resume, start any MCP client behind `adjourn proxy` and let it call the tool `aex.resume`. Exit code 3 when that would be
    refused for an untrusted signer.
    """
    reader = handover.Preview(lambda: context.store, context.root, context.clock, reading_secret())
    resumed = handover.resume(reader, name)
    told = resumed.to_json(more)
    if as_json:
        say_json(told)
    else:
        _print(told, context.now)

    sessions = resumed.task.ledger.sessions
    for holder in resumed.holders():
        complain(
            f"task {resumed.task.id} is held by {safe(who(sessions[holder]))}",
            "another client's resume is refused until that session ends, or it starts with --take-over",
        )


def _description(told: dict[str, Any]) -> str:
    key = told.get("untrustedSigner", "")
    return described(told.get("description", ""), "" if key else "trusted", key)


def _print(told: dict[str, Any], now: int) -> None:
    rest = f", {told['budgetRemaining']} left" if "budgetRemaining" in told else ""
    unsure = f"; {len(told['inDoubt'])} in doubt" if "inDoubt" in told else ""
    say(
        f"{told['name']}: task {safe(told['task'])}, {told['callsUsed']} call{'s' * (told['callsUsed'] != 1)} used{rest}{unsure}"
    )
    rows = [
        ("goal", told.get("goal", "")),
        ("description", _description(told)),
        ("made", ago(told["checkpointedAt"], now)),
        ("tools", ", ".join(told["toolsCalled"])),
        ("imported", imported_line(told.get("imported"))),
    ]
    rows += [
        ("in doubt", f"{call['call']} {call['tool']} {call.get('arguments', '')}")
        for call in told.get("inDoubt", [])
    ]
    say_facts(*rows)
    for note in told.get("pageNotes", []):
        complain(safe(note))
    for part, title in (("page", "what the page says"), ("brief", "what the record says")):
        if told.get(part):
            say(title)
            say("\n".join(f"  {line}" for line in safe_lines(told[part].rstrip("\n")).split("\n")))
    say("what happened")
    for entry in told["auditSummary"]:
        about = " ".join(f"{value}" for value in entry["data"].values())
        say(cut(f"  {safe(entry['event']):<18} {safe(about)}", width()))
    if "more" in told:
        say(f"  older: adjourn resume {told['name']} --more {told['more']}")
