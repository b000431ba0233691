"""`adjourn tasks`."""

from __future__ import annotations

from typing import Any

import click

from adjourn.cli.shared.context import CommandContext, at_store, example, for_machines
from adjourn.cli.shared.output import complain, say, say_json, say_table
from adjourn.cli.shared.task_view import each_task, task_json
from adjourn.cli.shared.terminal import ProgressLine
from adjourn.errors import AdjournError
from adjourn.tasks import tasks_of
from adjourn.text import ago


@click.command(epilog=example("adjourn tasks", "adjourn tasks --json"))
@at_store
@for_machines
def tasks(context: CommandContext, *, as_json: bool) -> int:
    """List the tasks in the store, the most recently used first.

    Exit code 1 when a task cannot be read.
    """
    told: list[dict[str, Any]] = []
    broken: list[tuple[str, AdjournError]] = []
    with ProgressLine("reading tasks") as progress:
        total = len(tasks_of(context.store))
        for number, (name, task) in enumerate(each_task(context)):
            if isinstance(task, AdjournError):
                broken.append((name, task))
            else:
                told.append(task_json(context, task.ledger))
            progress(number + 1, total)
    told.sort(key=lambda one: one["touched"], reverse=True)
    if as_json:
        unreadable = [{"task": name, "reason": str(error)} for name, error in broken]
        say_json(tasks=told, unreadable=unreadable)
    elif told:
        say_table(
            ("TASK", "USED", "SESSIONS", "TOUCHED", "IN DOUBT", "CLIENT", "GOAL"),
            [_row(one, context.now) for one in told],
        )
    elif not broken:
        say("no tasks yet")
    for name, error in broken:
        complain(f"task {name} cannot be read: {error.message}", "run `adjourn verify`")
    return 1 if broken else 0


def _row(told: dict[str, Any], now: int) -> tuple[str, ...]:
    used = str(told["callsUsed"]) + ("" if told["budget"] is None else f"/{told['budget']}")
    seen = [session["alive"] for session in told["sessions"]]
    counts = [(seen.count(True), "open"), (seen.count(None), "idle"), (seen.count(False), "dead")]
    named = [f"{count} {word}" for count, word in counts if count]
    sessions = ", ".join(["finished"] * (told["state"] == "finished") + named)
    return (
        told["task"],
        used,
        sessions,
        ago(told["touched"], now),
        str(len(told["inDoubt"]) or ""),
        told["client"],
        told["goal"],
    )
