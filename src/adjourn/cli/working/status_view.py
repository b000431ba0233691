"""What `adjourn status` prints, and its start without the command-line framework.

Owns: the lines of a task's status, and the plain arguments that need no framework. Must never: import click.
"""

from __future__ import annotations

import os

import msgspec

from adjourn.cli.shared import task_view
from adjourn.cli.shared.failures import exit_code
from adjourn.cli.shared.output import safe, say, say_facts, say_json
from adjourn.cli.shared.store_context import StoreContext
from adjourn.cli.shared.times import ago, left, span
from adjourn.errors import AdjournError
from adjourn.handover import waiting_in_record
from adjourn.host.python import leave_working_folder
from adjourn.store.passwords import check_argument

MAX_NOTED = 10
"""Things of a record that are shown; `adjourn inbox` shows all."""


def run(arguments: list[str]) -> int | None:
    """Run `adjourn status` and return its exit code; None if only the framework can read the arguments."""
    values = _read(arguments)
    if values is None:
        return None
    folder, url, task, as_json = values

    def work() -> None:
        if folder:
            os.chdir(folder)
            leave_working_folder()
        context = StoreContext(check_argument(url))
        try:
            show(context, task, as_json=as_json)
        finally:
            context.close()

    return exit_code(work)


def _read(arguments: list[str]) -> tuple[str, str, str, bool] | None:
    """The folder, the store, the task, and whether to print JSON; None for anything unusual."""
    values = {"-C": "", "--store": "", "": ""}
    as_json = False
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--json":
            as_json = True
            continue
        if not word.startswith("-"):
            name, value = "", word
        elif (name == "-C" and not equals and rest) or (name == "--store" and (equals or rest)):
            value = value if equals else rest.pop(0)
        else:
            return None
        if not value or value.startswith("-") or values[name]:
            return None
        values[name] = value
    if values["-C"] and not (os.path.isdir(values["-C"]) and os.access(values["-C"], os.X_OK)):
        return None
    return values["-C"], values["--store"], values[""], as_json


def show(context: StoreContext, task: str, *, as_json: bool) -> None:
    """Print the status of a task, named by an id or a beginning of one, or else chosen as `current_task` does."""
    ledger = task_view.current_task(context, task).ledger
    sessions = task_view.holders(context, ledger)
    noted, unreadable = [], ""
    try:
        noted = waiting_in_record(context.store, ledger, context.now)
    except AdjournError as error:
        unreadable = error.message
    if as_json:
        say_json(
            task_view.task_json(context, ledger)
            | {
                "waitingInRecord": [msgspec.to_builtins(one) for one in noted],
                "next": task_view.next_step(context, ledger, sessions),
            }
            | ({"recordUnreadable": unreadable} if unreadable else {})
        )
        return
    unsure, waiting = task_view.doubts(ledger, sessions), task_view.questions(ledger, context.now)
    rest = "" if ledger.budget is None else f", {ledger.remaining(ledger.budget)} left"
    count = len(waiting) + len(noted)
    state = [f"{count} waiting"] * bool(count) + [f"{len(unsure)} in doubt"] * bool(unsure)
    if ledger.finished:
        later = ledger.calls_used - ledger.calls_at_finish
        state.insert(0, f"finished, {later} call{'s' * (later != 1)} since" if later else "finished")
    say(
        f"{safe(ledger.task)}: {task_view.budget(ledger)} calls used{rest}; {', '.join(state) or 'nothing in doubt'}"
    )
    held = [
        f"{task_view.who(one.session)}, since {ago(one.session.since, context.now)}"
        + (f" ({how})" if (how := task_view.state(one)) else "")
        for one in sessions
    ]
    since = ledger.calls_used - ledger.calls_at_checkpoint
    point = f"{ledger.checkpoint}, {since} call{'s' * (since != 1)} ago" if ledger.checkpoint else "none"
    rows = [("goal", ledger.goal)]
    if unreadable:
        rows.append(("record", f"cannot be read: {unreadable}; `adjourn verify` tells more"))
    if ledger.finished:
        rows.append(
            ("finished", f"{ago(ledger.finished, context.now)}: {ledger.finish_note}".removesuffix(": "))
        )
    rows.append(("touched", ago(ledger.touched, context.now)))
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
    rows += [("waiting", f"{one.kind} {one.id}: {one.title}"[:300]) for one in noted[:MAX_NOTED]]
    if len(noted) > MAX_NOTED:
        rows.append(("waiting", f"and {len(noted) - MAX_NOTED:,} more: adjourn inbox"))
    say_facts(*rows, ("next", task_view.next_step(context, ledger, sessions)))
