"""`adjourn watch`."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from adjourn.cli.shared.context import CommandContext, at_store, example
from adjourn.cli.shared.drawing import drawn_line, live
from adjourn.cli.shared.task_view import current_task, doubts, holders
from adjourn.cli.shared.terminal import height, width
from adjourn.cli.shared.timeline_view import entry_line, layout
from adjourn.cli.working.status_view import StatusView
from adjourn.handover import Timeline
from adjourn.log import decode, timestamp
from adjourn.store import Head
from adjourn.tasks import checked

if TYPE_CHECKING:
    from rich.console import RenderableType

    from adjourn.tasks import Task

WATCH_SECONDS = 1.0
"""How long to wait for an event before times are drawn again."""
REST_SECONDS = 0.2
"""How long a drawing stays, at the least."""
EVENTS = 400
"""Events that the last calls are taken from."""
PANEL_LINES = 18
MIN_LINES = 5


@click.command(epilog=example("adjourn watch", "adjourn watch 20261121"))
@click.argument("task", default="")
@at_store
def watch(context: CommandContext, task: str) -> None:
    """Watch a task live: its status and its last calls, until Ctrl-C. Needs a terminal.

    Without TASK, the same task as `adjourn status`.
    """
    found = current_task(context, task)
    with suppress(KeyboardInterrupt), live() as draw:
        while True:
            head = Head(found.ledger.seq, found.ledger.hash)
            context.now = context.clock()
            draw(drawing(context, found))
            time.sleep(REST_SECONDS)
            context.store.watch(found.id, head, WATCH_SECONDS)
            found.refresh()


def drawing(context: CommandContext, task: Task) -> list[RenderableType]:
    """The panel of the status, and below it the last calls that there is room for."""
    ledger = task.ledger
    head = Head(ledger.seq, ledger.hash)
    timeline = Timeline()
    for entry in checked(context.store, task.id, max(0, head.seq + 1 - EVENTS), head):
        timeline.feed(decode(entry.data))
    timeline.expire(timestamp(context.now))
    timeline.mark_doubts([call.call for call in doubts(ledger, holders(context, ledger))])
    entries = deque(timeline.entries(), max(MIN_LINES, height() - PANEL_LINES))
    shape = layout(entries, width() - 1)
    return [
        StatusView(context, ledger).panel(),
        *(drawn_line(entry_line(entry, context.now, shape)) for entry in entries),
    ]
