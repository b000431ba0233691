"""`adjourn done` and `adjourn reopen`."""

from __future__ import annotations

import click

from adjourn.checkpoints import finish, reopen
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines, user
from adjourn.cli.shared.output import complain, safe, say, say_json
from adjourn.errors import NotFoundError
from adjourn.tasks import expire_dead_sessions


@click.command(epilog=example("adjourn done 20261121", 'adjourn done 20261121-f63q5bvf --note "shipped"'))
@click.argument("task")
@click.option("--note", default="", metavar="TEXT", help="Record the outcome.")
@at_store
@for_machines
def done(context: CommandContext, task: str, *, note: str, as_json: bool) -> None:
    """Finish TASK: save its last checkpoint, archive its page, and offer it to no new session.

    TASK is an id or a beginning of one. Its history and its checkpoints stay. A session that still works on it can make calls, which
    count in the same budget.
    """
    writable = context.writable(task)
    expire_dead_sessions(writable)
    result = finish(writable, context.root, note=note, by=user(), tree=context.tree)
    if as_json:
        say_json(
            task=writable.id,
            state="finished",
            checkpoint=result.checkpoint,
            since=writable.ledger.finished,
            notes=result.notes,
        )
        return
    say(
        f"{'still ' * bool(result.was)}finished: task {safe(writable.id)} (checkpoint {safe(result.checkpoint)})"
    )
    for text in result.notes:
        complain(text, "")


@click.command(name="reopen", epilog=example("adjourn reopen 20261121"))
@click.argument("task")
@click.option("--note", default="", metavar="TEXT", help="Record why.")
@at_store
@for_machines
def reopen_(context: CommandContext, task: str, *, note: str, as_json: bool) -> None:
    """Make the finished TASK active again: new sessions are offered it.

    TASK is an id or a beginning of one. Its last archived page becomes the active one.
    """
    writable = context.writable(task)
    if not reopen(writable, context.tree, note=note, by=user()):
        raise NotFoundError(f"task {writable.id} is not finished", "list the finished tasks: adjourn tasks")
    if as_json:
        say_json(task=writable.id, state="active")
    else:
        say(f"active: task {safe(writable.id)}")
