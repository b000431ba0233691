"""`adjourn resume`."""

from __future__ import annotations

from typing import Any

import click

from adjourn import handover
from adjourn.checkpoints import document, page_files, trusted_signer
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.lookup import as_resumed
from adjourn.cli.shared.output import complain, cut, described, facts, safe, safe_lines, say, say_json, width
from adjourn.cli.shared.task_view import Holder, doubts, who
from adjourn.cli.shared.times import ago
from adjourn.errors import AdjournError, RefusedError
from adjourn.policy import for_task, read_contract
from adjourn.tasks import is_alive


@click.command(epilog=example("adjourn resume fix-auth", "adjourn resume fix-auth --json"))
@click.argument("name")
@click.option(
    "--more", default="", metavar="CURSOR", help="The `more` of an earlier answer, for older history."
)
@at_store
@for_machines
def resume(context: CommandContext, name: str, *, more: str, as_json: bool) -> None:
    """Show what a session that resumes the checkpoint NAME will be told. Starts no session and writes nothing.

    To resume, start any MCP client behind `adjourn proxy` and let it call the tool `aex.resume`. Exit code 3 when that would be
    refused for an untrusted signer.
    """
    found = as_resumed(context, name)
    if not trusted_signer(found.checkpoint) and handover.vouched_for(found.store, found.checkpoint) is None:
        raise RefusedError(
            f'checkpoint "{name}" is signed by {found.checkpoint.data.key}, which is not trusted here',
            "if you know that key: `adjourn keys trust NAME KEY`, or `adjourn import` for this one",
        )
    document(found.store, found.checkpoint)
    ledger = found.task(context).ledger
    held = _held(context, found.store, ledger)
    for call in doubts(ledger, held):
        ledger.doubts[call.call] = call
    from adjourn.handover import record_sections  # noqa: PLC0415  # not for `--help`
    from adjourn.handover import resume as engine  # noqa: PLC0415  # not for `--help`

    told = engine.answer(
        found.store,
        ledger,
        found.checkpoint,
        budget=_budget(context, found.store, ledger),
        more=more,
        page=page_files.told(context.root, ledger.task, context.now),
        brief=record_sections.briefing(found.store, found.checkpoint, context.now),
    )
    if as_json:
        say_json(told)
    else:
        _print(told, context.now)

    for holder in held:
        if holder.alive:
            complain(
                f"task {ledger.task} is held by {safe(who(holder.session))}",
                "another client's resume is refused until that session ends, or it starts with --take-over",
            )


def _description(told: dict[str, Any]) -> str:
    key = told.get("untrustedSigner", "")
    return described(told.get("description", ""), "" if key else "trusted", key)


def _held(context: CommandContext, store: Any, ledger: Any) -> list[Any]:

    return [
        Holder(session, is_alive(store, ledger.task, session, context.now))
        for session in ledger.sessions.values()
    ]


def _budget(context: CommandContext, store: Any, ledger: Any) -> int | None:
    """The budget of a session here: of the workspace's policy and the task's contract; without a policy, the last one's."""
    try:
        return for_task(read_contract(context.root), store, ledger.contract).policy.budget
    except AdjournError:
        budget: int | None = ledger.budget
        return budget


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
    ]
    rows += [
        ("in doubt", f"{call['call']} {call['tool']} {call.get('arguments', '')}")
        for call in told.get("inDoubt", [])
    ]
    say(facts(rows))
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
