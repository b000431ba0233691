"""The entries of a timeline as lines: the time, its outcome, its subject, what it was about.

Owns: how an entry fits the width. Must never: read a store, or show more on a terminal than on a pipe.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from adjourn.cli.shared.output import cut, print_spans
from adjourn.cli.shared.terminal import WIDTH, Spans, cells
from adjourn.handover import LABEL, TimelineEntry
from adjourn.text import day, moment

NARROW = 72
"""Below so many columns times and subjects are given less room."""
_MIN_SUBJECT = 8
_SUBJECTS = ((NARROW, 16), (100, 20), (10_000, 28))
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
    """How entries are laid out: the columns there are (0: lines are not cut), and those of the time and of the subject."""

    columns: int
    time: int
    subject: int


def layout(entries: Collection[TimelineEntry], columns: int) -> Layout:
    """The layout that suits these entries."""
    narrow = 0 < columns < NARROW
    longest = max((cells(entry.what) for entry in entries), default=0)
    most = next(room for below, room in _SUBJECTS if (columns or WIDTH) < below)
    subject = min(max(longest, _MIN_SUBJECT), most)
    return Layout(columns, 6 if narrow else 10, subject)


def entry_line(entry: TimelineEntry, now: int, shape: Layout) -> Spans:
    """One line for an entry."""
    when = moment(entry.timestamp, now)
    if shape.columns and shape.time < len("59 min ago"):
        when = "now" if when == "just now" else when.removesuffix(" ago")
    what = f"{entry.what:<{shape.subject - cells(entry.what) + len(entry.what)}}"
    head = [
        (f"{when:>{shape.time}}  ", "dim"),
        (f"{entry.label:<{LABEL}}  ", STYLES.get(entry.label, "dim")),
    ]
    about, note = entry.about, entry.note
    if shape.columns:
        room = shape.columns - shape.time - LABEL - 4
        what = cut(what, max(room * 2 // 3, shape.subject)) if cells(what) > shape.subject else what
        about, note = _fit(about, note, room - cells(what) - 2)
    rest = [(f"  {text}", style) for text, style in ((about, ""), (note, "dim")) if text]
    return [*head, (what if rest else what.rstrip(), "bold"), *rest]


def _fit(about: str, note: str, room: int) -> tuple[str, str]:
    if room < 4:
        return "", ""
    gap = 2 if about and note else 0
    if cells(about) + cells(note) + gap <= room:
        return about, note
    if not gap:
        return cut(about, room), cut(note, room)
    kept = max(room - gap - cells(about), int(room * _NOTE_SHARE))
    if note.startswith(_COMMAND):  # what a person has to type is of no use in part
        kept = max(kept, min(cells(note), room - gap - 1))
    note = cut(note, kept)
    return cut(about, room - gap - cells(note)), note


class TimelinePrinter:
    """Prints entries under the headings of their days."""

    def __init__(self, shape: Layout, now: int) -> None:
        self._shape = shape
        self._now = now
        self._day = ""

    def __call__(self, entries: Sequence[TimelineEntry], now: int = 0) -> None:
        """Print entries as they look at the time `now`."""
        now = now or self._now
        for entry in entries:
            heading = day(entry.timestamp, now)
            if heading != self._day:
                print_spans([(heading, "bold underline")])
                self._day = heading
            print_spans(entry_line(entry, now, self._shape))
