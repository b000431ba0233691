"""`adjourn status`."""

from __future__ import annotations

import click

from adjourn.cli.output import facts, safe, say, say_json
from adjourn.cli.place import Place, at_store, example, for_machines


@click.command(epilog=example("adjourn status", "adjourn status 20261121"))
@click.argument("task", default="")
@at_store
@for_machines
def status(place: Place, task: str, *, as_json: bool) -> None:
    """How a task stands: budget, who holds it, what is in doubt, what waits for a person, and the next step.

    TASK is an id or a beginning of one. Without it: $ADJOURN_TASK, else the task of the client that this runs in, else
    the task touched last.
    """
    from adjourn.cli import view  # noqa: PLC0415  # not for --help
    from adjourn.cli.when import ago, left, span  # noqa: PLC0415

    ledger = view.current_task(place, task).ledger
    sitting = view.holders(place, ledger)
    if as_json:
        say_json(view.as_told(place, ledger) | {"next": view.next_step(place, ledger, sitting)})
        return
    unsure, waiting = view.doubts(ledger, sitting), view.questions(ledger, place.now)
    rest = "" if ledger.budget is None else f", {ledger.remaining(ledger.budget)} left"
    state = [f"{len(waiting)} waiting"] * bool(waiting) + [f"{len(unsure)} in doubt"] * bool(unsure)
    say(
        f"{safe(ledger.task)}: {view.budget(ledger)} calls used{rest}; {', '.join(state) or 'nothing in doubt'}"
    )
    held = [
        f"{view.who(one.session)}, since {ago(one.session.since, place.now)}"
        + (f" ({how})" if (how := view.state(one)) else "")
        for one in sitting
    ]
    since = ledger.calls_used - ledger.calls_at_checkpoint
    point = f"{ledger.checkpoint}, {since} call{'s' * (since != 1)} ago" if ledger.checkpoint else "none"
    rows = [("goal", ledger.goal), ("touched", ago(ledger.touched, place.now))]
    rows += [("held by", text) for text in held] or [("held by", "nobody")]
    spent = view.budgets(place.store, ledger)
    rows += [("spent", f"{one.used:,.10g} of {one.limit:,.10g} {one.what}") for one in spent]
    if ledger.tokens and not any(one.what == "tokens" for one in spent):
        rows.append(("spent", f"{ledger.tokens:,} tokens"))
    rows += [
        ("rate", f"{one.what}: {one.used} of {one.limit:.0f} calls in the last {span(one.seconds)}")
        for one in view.rates(ledger, place.now)
    ]
    rows += [("refused", str(ledger.calls_refused or "")), ("checkpoint", point)]
    rows += [("in doubt", f"{one.call} {one.tool} {one.arguments}"[:300]) for one in unsure]
    rows += [
        ("waiting", f"{one.id} {one.tool} {one.arguments}"[:300] + f", {left(one.expires, place.now)}")
        for one in waiting
    ]
    say(facts([*rows, ("next", view.next_step(place, ledger, sitting))]))
