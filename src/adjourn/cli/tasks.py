"""`adjourn status`, and `adjourn tasks` with what it lists, finishes and reopens: the tasks of a store."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
import msgspec

from adjourn.cli import status_view
from adjourn.cli.context import (
    TASK_NAME,
    CommandContext,
    at_store,
    example,
    flag,
    for_machines,
    text_option,
    time_of,
    user,
)
from adjourn.cli.output import complain, safe, say, say_json, say_table
from adjourn.cli.status_view import StatusView
from adjourn.cli.task_view import current_task, doubts, each_task, holders, task_json
from adjourn.cli.terminal import ProgressLine, height, width
from adjourn.errors import AdjournError, NotFoundError, UsageError
from adjourn.log.event import decode, timestamp
from adjourn.store.base import Head
from adjourn.tasks.owners import Owner, tasks_of_person
from adjourn.tasks.task import tasks_of
from adjourn.text.times import ago

if TYPE_CHECKING:
    from rich.console import RenderableType

    from adjourn.tasks.owners import SpentCalls
    from adjourn.tasks.task import Task


@click.command(epilog=example("adjourn tasks", "adjourn tasks list --json", "adjourn tasks list --person ann"))
@text_option(
    "--person NAME", "Only tasks of this person or service: an id or a name; group:NAME: those that a group shares."
)
@at_store
@for_machines
def tasks(context: CommandContext, *, person: str, as_json: bool) -> int:
    """List the tasks in the store: those that wait for a person first, then the most recently used.

    Exit code 1 when a task cannot be read.
    """
    rows: list[dict[str, Any]] = []
    broken: list[tuple[str, AdjournError]] = []
    with ProgressLine("reading tasks") as progress:
        names = tasks_of_person(context.store, person) if person else list(tasks_of(context.store))
        for number, (name, task) in enumerate(each_task(context, names)):
            if isinstance(task, AdjournError):
                broken.append((name, task))
            else:
                rows.append(task_json(context, task.ledger))
            progress(number + 1, len(names))
    rows.sort(key=lambda row: (_waits(row) > 0, row["touched"]), reverse=True)
    if as_json:
        unreadable = [{"task": name, "reason": str(error)} for name, error in broken]
        say_json(tasks=rows, unreadable=unreadable)
    elif rows:
        has_owners = any(row["ownerName"] for row in rows)
        head = ("TASK", "USED", "SESSIONS", "TOUCHED", "WAITS", "CLIENT", *("OWNER",) * has_owners, "GOAL")
        say_table(head, [_row(row, context.now, has_owners=has_owners) for row in rows])
    elif not broken:
        say(f"{safe(person)} has no task" if person else "no tasks yet")
    for name, error in broken:
        complain(f"task {name} cannot be read: {error.message}", "run `adjourn verify`")
    return 1 if broken else 0


def _waits(row: dict[str, Any]) -> int:
    """How much of a task waits for a person: questions, and calls in doubt."""
    return len(row["questions"]) + len(row["inDoubt"])


def _row(row: dict[str, Any], now: int, *, has_owners: bool) -> tuple[str, ...]:
    used = str(row["callsUsed"]) + ("" if row["budget"] is None else f"/{row['budget']}")
    seen = [session["alive"] for session in row["sessions"]]
    counts = [(seen.count(True), "open"), (seen.count(None), "idle"), (seen.count(False), "dead")]
    named = [f"{count} {word}" for count, word in counts if count]
    sessions = ", ".join(["finished"] * (row["state"] == "finished") + named)
    return (
        row["task"],
        used,
        sessions,
        ago(row["touched"], now),
        str(_waits(row) or ""),
        row["client"],
        *(row["ownerName"],) * has_owners,
        row["goal"],
    )


# --- `adjourn tasks spend`


@click.command(epilog=example("adjourn tasks spend", "adjourn tasks spend --since 2026-11-01 --json"))
@text_option("--person NAME", "Only this person or service: an id or a name.")
@text_option("--since TIME", "Count from this time on (2026-11-28T02:00Z).", callback=time_of)
@text_option("--until TIME", "Count until this time.", callback=time_of)
@at_store
@for_machines
def spend_(context: CommandContext, *, person: str, since: int | None, until: int | None, as_json: bool) -> None:
    """Show what each person and service has spent: calls that count for budgets, effects, refused calls, tasks.

    Counted from the events of all tasks, each verified. Who is not known has no name.
    """
    from adjourn.tasks.owners import Period, spent_by_person

    with ProgressLine("reading tasks") as progress:
        everybody = spent_by_person(context.store, tasks_of(context.store), Period(since, until), progress)
    spent = [one for one in everybody if not person or Owner(one.principal, one.principal_name).is_called(person)]
    if as_json:
        say_json(people=msgspec.to_builtins(spent))
    elif spent:
        head = ("CALLS", "EFFECTS", "REFUSED", "TASKS", "TOKENS", "USD", "LAST", "PERSON", "ID")
        say_table(head, [_spent_row(one, context.now) for one in spent])
    else:
        say("nothing was spent")


def _spent_row(spent: SpentCalls, now: int) -> tuple[str, ...]:
    counts = (spent.calls, spent.effects, spent.refused, spent.tasks, spent.tokens)
    usd = f"{spent.micro_usd / 1_000_000:.2f}" if spent.micro_usd else ""
    return (
        *(f"{count:,}" if count else "" for count in counts),
        usd,
        ago(spent.latest, now),
        spent.principal_name,
        spent.principal,
    )


# --- `adjourn tasks finish` and `adjourn tasks reopen`


@click.command(epilog=example("adjourn tasks finish 20261121", 'adjourn tasks finish 20261121 --note "shipped"'))
@click.argument("task", type=TASK_NAME)
@text_option("--note TEXT", "Record the outcome.")
@at_store
@for_machines
def finish_(context: CommandContext, task: str, *, note: str, as_json: bool) -> None:
    """Finish TASK: save its last checkpoint, archive its page, and offer it to no new session.

    TASK is an id or a prefix of one. Its history and its checkpoints stay. A session that is still open may keep calling; its
    calls still count.
    """
    from adjourn.checkpoints.save import finish
    from adjourn.tasks.lease import expire_dead_sessions

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
    say(f"{'still ' * bool(result.was)}finished: task {safe(writable.id)} (checkpoint {safe(result.checkpoint)})")
    for text in result.notes:
        complain(text, "")


@click.command(epilog=example("adjourn tasks reopen 20261121"))
@click.argument("task", type=TASK_NAME)
@text_option("--because TEXT", "Give the reason.")
@at_store
@for_machines
def reopen_(context: CommandContext, task: str, *, because: str, as_json: bool) -> None:
    """Make the finished TASK active again: new sessions are offered it.

    TASK is an id or a prefix of one. Its last archived page becomes the active one.
    """
    from adjourn.checkpoints.save import reopen

    writable = context.writable(task)
    if not reopen(writable, context.tree, note=because, by=user()):
        raise NotFoundError(f"task {writable.id} is not finished", "list the finished tasks: adjourn tasks")
    if as_json:
        say_json(task=writable.id, state="active")
    else:
        say(f"active: task {safe(writable.id)}")


# --- `adjourn status --watch`

WATCH_SECONDS = 1.0
"""How long to wait for an event before times are drawn again."""
REST_SECONDS = 0.2
"""How long a drawing stays, at the least."""
EVENTS = 400
"""Events that the last calls are taken from."""
PANEL_LINES = 18
MIN_LINES = 5


def watch_task(context: CommandContext, task: str) -> None:
    """Draw the status and the last calls of a task until Ctrl-C."""
    from adjourn.cli.drawing import live

    watched = current_task(context, task)
    with suppress(KeyboardInterrupt), live() as draw:
        while True:
            head = Head(watched.ledger.seq, watched.ledger.hash)
            context.now = context.clock()
            draw(drawing(context, watched))
            time.sleep(REST_SECONDS)
            context.store.watch(watched.id, head, WATCH_SECONDS)
            watched.refresh()


def drawing(context: CommandContext, task: Task) -> list[RenderableType]:
    """The panel of the status, and below it the last calls that there is room for."""
    from adjourn.cli.drawing import drawn_line
    from adjourn.cli.log import TimelineLines, layout
    from adjourn.handover.timeline import Timeline
    from adjourn.tasks.heads import checked

    ledger = task.ledger
    head = Head(ledger.seq, ledger.hash)
    timeline = Timeline()
    for entry in checked(context.store, task.id, max(0, head.seq + 1 - EVENTS), head):
        timeline.feed(decode(entry.data))
    timeline.expire(timestamp(context.now))
    timeline.mark_doubts([call.call for call in doubts(ledger, holders(context, ledger))])
    room = max(MIN_LINES, height() - PANEL_LINES)
    entries = deque(timeline.entries(), room)
    lines = TimelineLines(layout(entries, width() - 1))(entries, context.now)
    return [StatusView(context, ledger).panel(), *map(drawn_line, deque(lines, room))]


# --- `adjourn status`


@click.command(epilog=example("adjourn status", "adjourn status 20261121", "adjourn status --watch"))
@click.argument("task", default="", type=TASK_NAME)
@flag("-w, --watch", "Draw it again at each change, with the last calls, until Ctrl-C. Needs a terminal.")
@at_store
@for_machines
def status(context: CommandContext, task: str, *, watch: bool, as_json: bool) -> None:
    """Show the status of a task: budget, holder, calls in doubt, questions to a person, and the next step.

    TASK is an id or a prefix of one. Without it: $ADJOURN_TASK, else the task of the client that this runs in, else
    the task touched last.
    """
    if watch and as_json:
        raise UsageError(
            "--watch draws on a terminal", "leave out --json, or follow events: adjourn log --follow --json"
        )
    if watch:
        watch_task(context, task)
    else:
        status_view.show(context, task, as_json=as_json)
