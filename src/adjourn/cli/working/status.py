"""`adjourn status`."""

from __future__ import annotations

import click

from adjourn.cli.shared import task_view
from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import facts, safe, say, say_json
from adjourn.cli.shared.times import ago, left, span


@click.command(epilog=example("adjourn status", "adjourn status 20261121"))
@click.argument("task", default="")
@at_store
@for_machines
def status(context: CommandContext, task: str, *, as_json: bool) -> None:
    """Show the status of a task: budget, holder, calls in doubt, questions to a person, and the next step.

    TASK is an id or a beginning of one. Without it: $ADJOURN_TASK, else the task of the client that this runs in, else
    the task touched last.
    """
    ledger = task_view.current_task(context, task).ledger
    sitting = task_view.holders(context, ledger)
    if as_json:
        say_json(task_view.as_told(context, ledger) | {"next": task_view.next_step(context, ledger, sitting)})
        return
    unsure, waiting = task_view.doubts(ledger, sitting), task_view.questions(ledger, context.now)
    rest = "" if ledger.budget is None else f", {ledger.remaining(ledger.budget)} left"
    state = [f"{len(waiting)} waiting"] * bool(waiting) + [f"{len(unsure)} in doubt"] * bool(unsure)
    say(
        f"{safe(ledger.task)}: {task_view.budget(ledger)} calls used{rest}; {', '.join(state) or 'nothing in doubt'}"
    )
    held = [
        f"{task_view.who(one.session)}, since {ago(one.session.since, context.now)}"
        + (f" ({how})" if (how := task_view.state(one)) else "")
        for one in sitting
    ]
    since = ledger.calls_used - ledger.calls_at_checkpoint
    point = f"{ledger.checkpoint}, {since} call{'s' * (since != 1)} ago" if ledger.checkpoint else "none"
    rows = [("goal", ledger.goal), ("touched", ago(ledger.touched, context.now))]
    rows += [("held by", text) for text in held] or [("held by", "nobody")]
    spent = task_view.budgets(context.store, ledger)
    rows += [("spent", f"{one.used:,.10g} of {one.limit:,.10g} {one.what}") for one in spent]
    if ledger.tokens and not any(one.what == "tokens" for one in spent):
        rows.append(("spent", f"{ledger.tokens:,} tokens"))
    rows += [
        ("rate", f"{one.what}: {one.used} of {one.limit:.0f} calls in the last {span(one.seconds)}")
        for one in task_view.rates(ledger, context.now)
    ]
    rows += [("refused", str(ledger.calls_refused or "")), ("checkpoint", point)]
    rows += [("in doubt", f"{one.call} {one.tool} {one.arguments}"[:300]) for one in unsure]
    rows += [
        ("waiting", f"{one.id} {one.tool} {one.arguments}"[:300] + f", {left(one.expires, context.now)}")
        for one in waiting
    ]
    say(facts([*rows, ("next", task_view.next_step(context, ledger, sitting))]))
