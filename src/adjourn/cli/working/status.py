"""`adjourn status`."""

from __future__ import annotations

import click

from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.working import status_view


@click.command(epilog=example("adjourn status", "adjourn status 20261121"))
@click.argument("task", default="")
@at_store
@for_machines
def status(context: CommandContext, task: str, *, as_json: bool) -> None:
    """Show the status of a task: budget, holder, calls in doubt, questions to a person, and the next step.

    TASK is an id or a beginning of one. Without it: $ADJOURN_TASK, else the task of the client that this runs in, else
    the task touched last.
    """
    status_view.show(context, task, as_json=as_json)
