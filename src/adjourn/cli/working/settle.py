"""`adjourn settle`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from adjourn.checkpoints import refresh_page
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines, user
from adjourn.cli.shared.output import safe, say, say_facts, say_json
from adjourn.cli.shared.task_view import doubts, each_task, holders
from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.log import tool_name
from adjourn.tasks import expire_dead_sessions, settle_doubt
from adjourn.text import ago, did_you_mean

if TYPE_CHECKING:
    from adjourn.tasks import OpenCall


@click.command(
    epilog=example("adjourn settle", 'adjourn settle 7k3f9q2m.4 --done --note "the file is there"')
)
@click.argument("call", default="")
@click.option("--done", is_flag=True, help="Record that its effect happened.")
@click.option("--not-done", "not_done", is_flag=True, help="Record that its effect did not happen.")
@click.option("--note", default="", metavar="TEXT", help="Record how you know.")
@at_store
@for_machines
def settle(
    context: CommandContext, call: str, *, done: bool, not_done: bool, note: str, as_json: bool
) -> None:
    """Record whether a call in doubt took effect; without CALL, list the calls in doubt.

    A call is in doubt when it was sent and its session ended before an answer came. Check what it would have changed, then record
    the result. CALL is its id or a beginning of it.
    """
    known = _in_doubt(context)
    if not call:
        if done or not_done or note:
            raise UsageError("no call is named", "list the calls in doubt: adjourn settle")
        _list(known, context.now, as_json=as_json)
        return
    if done == not_done:
        raise UsageError("no result is given", "give --done or --not-done")
    task, found = _one(known, call)
    writable = context.writable(task)
    expire_dead_sessions(writable)
    settle_doubt(writable, found.call, happened=done, by=user(), note=note)
    refresh_page(writable, context.root, context.tree)
    outcome = "done" if done else "not-done"
    if as_json:
        say_json(call=found.call, task=task, tool=found.tool, server=found.server, outcome=outcome)
    else:
        say(f"settled as {outcome}: {found.call} {safe(tool_name(found))} {safe(found.arguments)}".rstrip())


def _in_doubt(context: CommandContext) -> list[tuple[str, OpenCall]]:
    found = []
    for name, task in each_task(context):
        if not isinstance(task, AdjournError):
            found += [(name, one) for one in doubts(task.ledger, holders(context, task.ledger))]
    return found


def _one(known: list[tuple[str, OpenCall]], start: str) -> tuple[str, OpenCall]:
    found = [pair for pair in known if pair[1].call == start] or [
        pair for pair in known if pair[1].call.startswith(start)
    ]
    if len(found) != 1:
        count = (
            f"{len(found)} calls in doubt begin with {start!r}" if found else f"no call {start!r} is in doubt"
        )
        near = "" if found else did_you_mean(start, [call.call for _, call in known])
        raise NotFoundError(count, near or "list the calls in doubt: adjourn settle")
    return found[0]


def _list(known: list[tuple[str, OpenCall]], now: int, *, as_json: bool) -> None:
    if as_json:
        say_json(inDoubt=[msgspec.to_builtins(one) | {"task": task} for task, one in known])
        return
    if not known:
        say("no call is in doubt")
        return
    say(f"{len(known)} in doubt: `adjourn settle CALL --done`, or `--not-done`")
    for task, one in known:
        say(f"\n{safe(one.call)}  {safe(tool_name(one))}")
        say_facts(("  arguments", one.arguments), ("  sent", ago(one.since, now)), ("  task", task))
