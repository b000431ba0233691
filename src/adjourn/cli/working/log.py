"""`adjourn log`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from adjourn.cli.shared.context import CommandContext, at_store, example
from adjourn.cli.shared.output import complain, cut, print_spans, safe, say
from adjourn.cli.shared.pager import paged
from adjourn.cli.shared.task_view import current_task, doubts, holders
from adjourn.cli.shared.terminal import Spinner, width
from adjourn.cli.shared.timeline_view import TimelinePrinter, layout
from adjourn.cli.working.log_graph import graph_lines
from adjourn.errors import InvalidError, UsageError
from adjourn.handover import Timeline, event_details
from adjourn.log import decode, timestamp
from adjourn.store import Head
from adjourn.tasks import checked
from adjourn.text import local, visible_json

if TYPE_CHECKING:
    from adjourn.handover import TimelineEntry
    from adjourn.log import Event
    from adjourn.store import Entry
    from adjourn.tasks import Task

WATCH_SECONDS = 1.0


@click.command(epilog=example("adjourn log --tail 20", "adjourn log 20261121 --json | jq .event"))
@click.argument("task", default="")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Show only the last N lines.")
@click.option("--follow", is_flag=True, help="Follow new events until Ctrl-C.")
@click.option("--full", is_flag=True, help="Do not cut long lines.")
@click.option("--graph", is_flag=True, help="Draw sessions as branches, with their calls and checkpoints.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show each event: position, local time, who, event, details."
)
@click.option("--json", "as_json", is_flag=True, help="Print the stored events unchanged, one per line.")
@at_store
def log(context: CommandContext, task: str, *, tail: int | None, as_json: bool, **shown: bool) -> None:
    """Show the history of a task: one line per call with its outcome, under the days.

    Without TASK, the same task as `adjourn status`. On a terminal, what is longer than the screen is shown in $PAGER. With --json each
    line is an event's stored bytes: the SHA-256 of the line is its hash.
    """
    found = current_task(context, task)
    if shown["graph"] and (shown["follow"] or shown["verbose"] or as_json):
        raise UsageError(
            "--graph shows neither events nor what follows", "leave out --follow, --verbose and --json"
        )
    columns = 0 if shown["full"] else width()
    lines = _Lines(context, found, columns)
    view = _Events(context, found, as_json, columns) if as_json or shown["verbose"] else lines
    with nullcontext() if shown["follow"] or as_json else paged():
        if shown["graph"]:
            lines.graph(tail)
        else:
            view.begin(tail)
    while shown["follow"]:
        sys.stdout.flush()
        head = view.head
        context.store.watch(found.id, head, WATCH_SECONDS)
        view.head = Head(found.refresh().seq, found.ledger.hash)
        if view.head != head:
            view.more(head.seq + 1)


class _Lines:
    """One line for a call and for each other thing that happened."""

    def __init__(self, context: CommandContext, task: Task, columns: int) -> None:
        self._context, self._task, self._columns = context, task, columns
        self.head = Head(task.ledger.seq, task.ledger.hash)
        self._timeline = Timeline()
        self._print: TimelinePrinter

    def begin(self, tail: int | None) -> None:
        """Print the last `tail` lines, or all."""
        entries = self._read(tail)
        self._print = TimelinePrinter(layout(entries, self._columns), self._context.now)
        self._print(entries)

    def graph(self, tail: int | None) -> None:
        """Print the graph, or the last `tail` lines of it."""
        unicode = (sys.stdout.encoding or "").lower().startswith("utf")
        lines = list(graph_lines(self._read(None), self._context.now, self._columns, unicode=unicode))
        for line in lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]:
            print_spans(line)

    def more(self, start: int) -> None:
        """Print what the events from `start` on are, or change."""
        changed: dict[int, TimelineEntry] = {}
        for event in self._events(start):
            changed |= {entry.seq: entry for entry in self._timeline.feed(event)}
        self._print(list(changed.values()), self._context.clock())

    def _read(self, tail: int | None) -> list[TimelineEntry]:
        """The last `tail` entries, or all. What is far back is not read for a few of them."""
        if tail == 0:
            return []
        size = self.head.seq + 1 if tail is None else 4 * tail + 40
        with Spinner("reading the history"):
            while True:
                start = max(0, self.head.seq + 1 - size)
                self._timeline = Timeline()
                for event in self._events(start):
                    self._timeline.feed(event)
                entries = self._timeline.entries()
                if start == 0 or len(entries) >= (tail or 0):
                    break
                size *= 4
        self._timeline.expire(timestamp(self._context.now))
        ledger = self._task.ledger
        self._timeline.mark_doubts([call.call for call in doubts(ledger, holders(self._context, ledger))])
        return entries if tail is None else entries[-tail:]

    def _events(self, start: int) -> Iterator[Event]:
        for entry in checked(self._context.store, self._task.id, start, self.head):
            try:
                yield decode(entry.data)
            except InvalidError:
                complain("an event cannot be read", "run `adjourn verify`")


class _Events:
    """Each event as it is: for people, or its stored bytes."""

    def __init__(self, context: CommandContext, task: Task, as_json: bool, columns: int) -> None:
        self._context, self._task, self._as_json, self._columns = context, task, as_json, columns
        self.head = Head(task.ledger.seq, task.ledger.hash)

    def begin(self, tail: int | None) -> None:
        """Print the last `tail` events, or all."""
        self.more(0 if tail is None else max(0, self.head.seq + 1 - tail))

    def more(self, start: int) -> None:
        """Print the events from `start` on."""
        entries = checked(self._context.store, self._task.id, start, self.head)
        _show(entries, start, self._columns, as_json=self._as_json)


def _show(entries: Iterable[Entry], start: int, room: int, *, as_json: bool) -> None:
    for seq, entry in enumerate(entries, start):
        if as_json:
            _raw(entry.data)
            continue
        try:
            line = _line(decode(entry.data))
        except InvalidError:
            line = f"{seq:>5}  cannot be read as an event; run `adjourn verify`"
        say(cut(line, room) if room else line)


def _raw(data: bytes) -> None:
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(data + b"\n")
        return
    text = data.decode(errors="replace")  # the same JSON, with what a terminal would obey escaped
    print(visible_json(text))


def _line(event: Event) -> str:
    who = safe(event.by.id)[:12]
    return f"{event.seq:>5}  {local(event.timestamp)[:19]}  {who:<12} {safe(event.event):<18} {event_details(event)}".rstrip()
