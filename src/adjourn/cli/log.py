"""`adjourn log`: the history of a task as lines, as a graph, or as stored events."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec import structs

from adjourn.cli.context import TASK_NAME, CommandContext, at_store, example, flag
from adjourn.cli.output import complain, counted, cut, print_spans, safe, say, say_stored
from adjourn.cli.task_view import current_task, doubts, holders
from adjourn.cli.terminal import WIDTH, Spans, Spinner, cells, paged, width
from adjourn.errors import InvalidError, UsageError
from adjourn.handover.timeline import LABEL, Timeline, TimelineEntry, event_details
from adjourn.log import kinds
from adjourn.log.event import decode, timestamp
from adjourn.log.kinds import facts_of
from adjourn.store.base import Head
from adjourn.tasks.heads import checked
from adjourn.text.times import clock, day, local

if TYPE_CHECKING:
    from adjourn.log.event import Event
    from adjourn.store.base import Entry
    from adjourn.tasks.task import Task


WATCH_SECONDS = 1.0


@click.command(epilog=example("adjourn log --tail 20", "adjourn log 20261121 --json | jq .event"))
@click.argument("task", default="", type=TASK_NAME)
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Show only the last N lines.")
@flag("--follow", "Follow new events until Ctrl-C.")
@flag("--full", "Do not cut long lines.")
@flag("--graph", "Draw sessions as branches, with their calls and checkpoints.")
@flag("-v, --verbose", "Show each event: position, local time, who, event, details.")
@flag("--json", "Print the stored events unchanged, one per line.", dest="as_json")
@at_store
def log(context: CommandContext, task: str, *, tail: int | None, as_json: bool, **shown: bool) -> None:
    """Show the history of a task: one line per call with its outcome, under the days.

    Without TASK, the same task as `adjourn status`. On a terminal, what is longer than the screen is shown in $PAGER. With --json each
    line is an event's stored bytes: the SHA-256 of the line is its hash.
    """
    current = current_task(context, task)
    if shown["graph"] and (shown["follow"] or shown["verbose"] or as_json):
        raise UsageError("--graph shows neither events nor what follows", "leave out --follow, --verbose and --json")
    columns = 0 if shown["full"] else width()
    lines = _Lines(context, current, columns)
    view = _Events(context, current, as_json, columns) if as_json or shown["verbose"] else lines
    with nullcontext() if shown["follow"] or as_json else paged():
        if shown["graph"]:
            lines.graph(tail)
        else:
            view.begin(tail)
    while shown["follow"]:
        sys.stdout.flush()
        head = view.head
        context.store.watch(current.id, head, WATCH_SECONDS)
        view.head = Head(current.refresh().seq, current.ledger.hash)
        if view.head != head:
            view.more(head.seq + 1)


class _Lines:
    """One line for a call and for each other thing that happened."""

    def __init__(self, context: CommandContext, task: Task, columns: int) -> None:
        self._context, self._task, self._columns = context, task, columns
        self.head = Head(task.ledger.seq, task.ledger.hash)
        self._timeline = Timeline()
        self._lines: TimelineLines

    def begin(self, tail: int | None) -> None:
        """Print the last `tail` lines, or all."""
        entries = self._read(tail)
        self._lines = TimelineLines(layout(entries, self._columns))
        self._print(entries)

    def graph(self, tail: int | None) -> None:
        """Print the graph, or the last `tail` lines of it."""
        unicode = (sys.stdout.encoding or "").lower().startswith("utf")
        lines = list(graph_lines(self._read(None), self._context.now, self._columns, unicode=unicode))
        for line in lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]:
            print_spans(line)

    def more(self, start: int) -> None:
        """Print what the events from `start` on are, or change."""
        changed: dict[str, TimelineEntry] = {}
        for event in self._events(start):
            changed |= {entry.place: entry for entry in self._timeline.feed(event)}
        self._print(list(changed.values()))

    def _print(self, entries: Sequence[TimelineEntry]) -> None:
        for line in self._lines(entries, self._context.clock()):
            print_spans(line)

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
            say_stored(entry.data + b"\n")
            continue
        try:
            event = decode(entry.data)
            lines = [_line(fact) for fact in facts_of(event)]
            size = 0 if event.event in _OF_PERSONS else room  # a person's words are never cut
        except InvalidError:
            lines, size = [f"{seq:>5}  cannot be read as an event; run `adjourn verify`"], room
        for line in lines:
            say(cut(line, size) if size else line)


_OF_PERSONS = frozenset((kinds.ConfirmApproved.KIND, kinds.ConfirmDenied.KIND))


def _line(event: Event) -> str:
    who = safe(event.by.id)[:12]
    return f"{event.seq:>5}  {local(event.timestamp)[:19]}  {who:<12} {safe(event.event):<18} {event_details(event)}".rstrip()


# --- the history of a task as a graph

_POINTS = {kinds.CheckpointCreated.KIND: "◆", kinds.CheckpointResumed.KIND: "↻"}
_ENDS = frozenset((kinds.SessionClosed.KIND, kinds.SessionLost.KIND))
_CALLS = frozenset(("tool", "effect", "budget", "confirm", "entry"))
_PLAIN = str.maketrans("│├─╮╯●◆↻○", "||-\\/*#@o")
"""For an output that has no such characters."""
_STYLE = "bright_black"
_MIN_TEXT = 10


def graph_lines(entries: Sequence[TimelineEntry], now: int, columns: int, *, unicode: bool) -> Iterator[Spans]:
    """The lines of a graph: lanes, time, and what happened. Calls in a row of one session are one line."""
    lanes: list[str] = []
    drawn: list[tuple[str, str, str, str]] = []
    today = ""
    for (heading, session, kind), run in groupby(
        entries, key=lambda each: (day(each.timestamp, now), each.session, _kind(each))
    ):
        group = list(run)
        if heading != today:
            drawn.append((_at(lanes, "", "│") if drawn else "", "day", "", heading))
            today = heading
        if kind == "calls":
            drawn.append((_at(lanes, session, "●"), "", clock(group[-1].timestamp), _counts(group)))
            continue
        drawn += [(_node(lanes, entry), entry.label, clock(entry.timestamp), _said(entry)) for entry in group]
    size = max((len(prefix) for prefix, _, _, _ in drawn), default=0)
    before = ""
    for prefix, label, minute, text in drawn:
        lane = prefix if unicode else prefix.translate(_PLAIN)
        when = f"{minute if minute != before else '':<{_TIME}}  " if minute else ""
        before = minute
        room = columns - size - len(when) - 2
        line = cut(text, max(room, _MIN_TEXT)) if columns else text
        style = STYLES.get(label, {"session": "bold", "day": "bold underline"}.get(label, ""))
        yield [(f"{lane:<{size}}  ", _STYLE), (when, "dim"), (line, style)]


def _kind(entry: TimelineEntry) -> str:
    return "calls" if entry.event.partition(".")[0] in _CALLS and entry.event != "tool.changed" else entry.event


def _node(lanes: list[str], entry: TimelineEntry) -> str:
    """The lanes at an entry; a session takes its lane when it starts, and leaves it when it ends."""
    if entry.event == kinds.SessionOpened.KIND:
        lanes.append(entry.session)
        return "├─" + "│─" * (len(lanes) - 1) + "╮"
    ended = entry.closes or entry.session
    if entry.event in _ENDS and ended in lanes:
        at = lanes.index(ended)
        drawn = "├─" + "│─" * at + "╯" + " │" * (len(lanes) - at - 1)
        lanes.pop(at)
        return drawn
    return _at(lanes, entry.session, _POINTS.get(entry.event, "○"))


def _at(lanes: Sequence[str], session: str, mark: str) -> str:
    trunk = "│" if session in lanes else mark
    return trunk + "".join(f" {mark if lane == session else '│'}" for lane in lanes)


def _counts(group: Sequence[TimelineEntry]) -> str:
    """`12 calls: 10 ok, 1 error, 1 refused`; a single call is named."""
    if len(group) == 1:
        (entry,) = group
        return "  ".join(part for part in (entry.label, entry.what, entry.about) if part)
    labels = Counter(entry.label for entry in group)
    return f"{counted(len(group), 'call')}: {', '.join(f'{count} {label}' for label, count in labels.items())}"


def _said(entry: TimelineEntry) -> str:
    name = entry.what if entry.label == "session" else f"{entry.label} {entry.what}"
    return "  ".join(part for part in (name, entry.about, entry.note) if part)


# --- the entries of a timeline as lines

_TIME = len("17:30")
_MIN_SUBJECT = 8
_SUBJECTS = ((72, 16), (100, 24), (10_000, 28))
"""Below how many columns the subject has how many, at the most."""
_NOTE_SHARE = 0.6
_COMMAND = "adjourn "

STYLES = {
    "ok": "green", "done": "green", "replayed": "green", "error": "red", "refused": "red", "not made": "red", "not done": "yellow",
    "in doubt": "bold yellow", "no answer": "yellow", "running": "bold cyan", "waits": "bold yellow", "approved": "green",
    "saved": "cyan", "resumed": "cyan", "observed": "yellow", "server": "yellow", "client": "yellow",
}  # fmt: skip
"""How a label is painted on a terminal; one that is not here is dim."""


class Layout(NamedTuple):
    """How entries are laid out: the columns there are (0: lines are not cut), and those of the subject."""

    columns: int
    subject: int


def layout(entries: Collection[TimelineEntry], columns: int) -> Layout:
    """The layout that suits these entries."""
    longest = max((cells(entry.what) for entry in entries), default=0)
    most = next(room for below, room in _SUBJECTS if (columns or WIDTH) < below)
    subject = min(max(longest, _MIN_SUBJECT), most)
    return Layout(columns, subject)


def entry_line(entry: TimelineEntry, when: str, shape: Layout) -> Spans:
    """One line for an entry, with its time in five columns."""
    what = f"{entry.what:<{shape.subject - cells(entry.what) + len(entry.what)}}"
    head = [(f"{when:<{_TIME}}  ", "dim"), (f"{entry.label:<{LABEL}}  ", STYLES.get(entry.label, "dim"))]
    about, note = entry.about, entry.note
    if shape.columns:
        room = shape.columns - _TIME - LABEL - 4
        what = cut(what, max(room * 2 // 3, shape.subject)) if cells(what) > shape.subject else what
        about, note = _fit(about, note, room - cells(what) - 2)
    details = [(f"  {text}", style) for text, style in ((about, ""), (note, "dim")) if text]
    return [*head, (what if details else what.rstrip(), "bold"), *details]


def _fit(about: str, note: str, room: int) -> tuple[str, str]:
    if room < 4:
        return "", ""
    gap = 2 if about and note else 0
    if cells(about) + cells(note) + gap <= room:
        return about, note
    if not gap:
        return cut(about, room), cut(note, room)
    note_room = max(room - gap - cells(about), int(room * _NOTE_SHARE))
    if note.startswith(_COMMAND):  # what a person has to type is of no use in part
        note_room = max(note_room, min(cells(note), room - gap - 1))
    note = cut(note, note_room)
    return cut(about, room - gap - cells(note)), note


class TimelineLines:
    """The lines of entries under the headings of their days; a minute is named once."""

    def __init__(self, shape: Layout) -> None:
        self._shape = shape
        self._day = self._minute = ""

    def __call__(self, entries: Iterable[TimelineEntry], now: int) -> Iterator[Spans]:
        """The lines of entries that follow, at the time `now`."""
        for entry in entries:
            heading, minute = day(entry.timestamp, now), clock(entry.timestamp)
            if heading != self._day:
                yield [(heading, "bold underline")]
                self._day, self._minute = heading, ""
            line = entry_line(entry, minute if minute != self._minute else "", self._shape)
            self._minute = minute
            below = (
                [f'"{entry.words}"'] if entry.words else []
            )  # a person's words are never cut, nor what a person has to type
            if entry.note.startswith(_COMMAND) and line[-1][0].strip() != entry.note:
                line, below = (
                    entry_line(structs.replace(entry, note=""), line[0][0].rstrip(), self._shape),
                    [entry.note, *below],
                )
            yield line
            for text in below:
                yield [(" " * (_TIME + LABEL + 4) + text, "dim")]
