"""What a terminal is given, and no pipe: colour, panels, tables that wrap, bars.

Plain text is the same for a pipe, for `NO_COLOR` and for `TERM=dumb`; a terminal gets the same words in a better layout. rich draws it,
and is loaded only then. Every text is shown as it is: no markup, no emoji codes, nothing that a terminal would obey.

Owns: whether a stream is a terminal, its width, and everything that is drawn for it. Must never: print to a pipe what only a terminal
understands, or import rich for one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TextIO
from unicodedata import combining, east_asian_width

from adjourn.errors import UsageError
from adjourn.text import visible_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

WIDTH: Final = 80
HEIGHT: Final = 24
MIN_WIDTH: Final = 40
PANEL_WIDTH: Final = 100
"""Columns of a panel, at the most: longer lines are hard to read."""
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}
_DIFF = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))
_PROGRESS_AFTER = 1.0
_PROGRESS_EVERY = 0.1
_BAR = 24
_LAST_COLUMN = 24
"""Columns that the last column of a table needs, if its cells are that long."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

Spans = Sequence[tuple[str, str]]
"""One line: texts, each with its style (a colour of rich, or ""). As plain text the styles are left out."""


# --- what a stream is


def fancy(stream: TextIO | None = None) -> bool:
    """Whether a stream (stdout) is a terminal that shows colours and boxes, and its user wants them."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb" or not stream.isatty():
        return False
    return (stream.encoding or "utf-8").lower().replace("-", "") == "utf8"


def interactive() -> bool:
    """Whether a person can be shown a screen that is redrawn, and press keys."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def width() -> int:
    """Columns to write in: those of $COLUMNS or of the terminal, else 80."""
    if not sys.stdout.isatty():
        return WIDTH
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and int(named):
        return max(MIN_WIDTH, int(named))
    try:
        return max(MIN_WIDTH, os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH)
    except (OSError, ValueError):  # a stream of another kind
        return WIDTH


def cells(text: str) -> int:
    """Columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def paint(text: str, colour: str, stream: TextIO) -> str:
    """Coloured on a terminal, unless NO_COLOR is set."""
    if not colour or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def console(stream: TextIO | None = None) -> Console:
    """A console of rich on a stream (stdout) that is `fancy`: it takes texts as they are."""
    from rich.console import Console  # noqa: PLC0415  # 50 ms, only for a terminal

    return Console(
        file=stream or sys.stdout,
        width=width(),
        force_terminal=True,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        no_color=bool(os.environ.get("NO_COLOR")),
    )


@contextmanager
def live() -> Iterator[Callable[[Sequence[RenderableType]], None]]:
    """Give a function that replaces what the whole screen shows. Raises `UsageError` where the screen cannot be replaced."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        raise UsageError("the output is not a terminal that can be redrawn", "use `adjourn log --follow`")
    from rich.console import Group  # noqa: PLC0415  # as above
    from rich.live import Live  # noqa: PLC0415

    out = console()
    with Live(console=out, screen=True, auto_refresh=False, vertical_overflow="crop") as screen:

        def draw(parts: Sequence[RenderableType]) -> None:
            out.width = width()
            screen.update(Group(*parts), refresh=True)

        yield draw


def height() -> int:
    """Lines of the terminal, else 24."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or HEIGHT
    except (OSError, ValueError):
        return HEIGHT


# --- what is drawn


class Bar(NamedTuple):
    """How much of a budget is spent: a line of a panel. `rest` says what is left."""

    name: str
    used: float
    limit: float
    rest: str


def print_spans(line: Spans) -> None:
    """Print one line; a terminal gets the styles, too."""
    if not fancy():
        print("".join(visible_lines(text) for text, _ in line).rstrip())
        return
    console().print(_text(line), soft_wrap=True)


def print_diff(diff: str) -> None:
    """Print a difference in the unified format, coloured on a terminal."""
    for line in visible_lines(diff).split("\n"):
        colour = next((colour for mark, colour in _DIFF if line.startswith(mark)), "")
        print(paint(line, colour, sys.stdout))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[bool]) -> None:
    """Print a table. `right` says which columns are aligned to the right. For a `fancy` stdout.

    The last column wraps. Where it has no room it goes below the others, indented; where the others have none, they go below the first.
    """
    from rich.padding import Padding  # noqa: PLC0415  # as above
    from rich.table import Table  # noqa: PLC0415

    sizes = [max(map(cells, column)) for column in zip(head, *rows, strict=True)]
    room = width() - sum(sizes[:-1]) - 2 * (len(head) - 1)
    below = len(head) > 1 and room < min(sizes[-1], _LAST_COLUMN)
    out = console()
    if below and room < -2:
        _print_stacked(out, head, rows)
        return
    for number, row in enumerate([head, *rows]):
        grid = Table.grid(padding=(0, 2, 0, 0))
        for column, (size, side) in enumerate(zip(sizes[:-1] if below else sizes, right, strict=False)):
            last = column == len(head) - 1
            style = "dim" if not number else "cyan" if not column else ""
            grid.add_column(
                width=max(min(size, room), 1) if last else size,
                justify="right" if side else "left",
                overflow="fold",
                style=style,
            )
        grid.add_row(*(_text([(cell, "")]) for cell in (row[:-1] if below else row)))
        out.print(grid)
        if below and number and row[-1]:
            out.print(Padding(_text([(row[-1], "")]), (0, 0, 0, 2), expand=False))


def _print_stacked(out: Console, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table that has no room: below its first cell, each row names its others."""
    from rich.padding import Padding  # noqa: PLC0415  # as above

    for first, *cells_between, last in rows:
        named = [
            f"{name.lower()} {cell}" for name, cell in zip(head[1:-1], cells_between, strict=True) if cell
        ]
        out.print(_text([(first, "cyan")]))
        for text, style in ((" · ".join(named), "dim"), (last, "")):
            if text:
                out.print(Padding(_text([(text, style)]), (0, 0, 0, 2), expand=False))


def print_drawn(drawn: RenderableType) -> None:
    """Print what is drawn. For a `fancy` stdout."""
    console().print(drawn)


def panel(
    title: str, state: str, bars: Sequence[Bar], sections: Sequence[Sequence[tuple[str, str, str]]]
) -> RenderableType:
    """A panel: bars, then sections of names with their values and styles."""
    from rich.console import Group  # noqa: PLC0415  # as above
    from rich.panel import Panel  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    filled = [rows for rows in sections if rows]
    names = [bar.name for bar in bars] + [name for rows in filled for name, _, _ in rows]
    size = max(map(len, names), default=0)
    parts: list[RenderableType] = []
    outer = min(width(), PANEL_WIDTH)
    length = min([_BAR, *(outer - size - 6 - sum(map(cells, _said(bar))) for bar in bars)])
    blocks = [[(bar.name, _bar(bar, max(length, 1))) for bar in bars]] if bars else []
    blocks += [[(name, _text([(value, style)])) for name, value, style in rows] for rows in filled]
    for block in blocks:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=size, style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in block:
            grid.add_row(_text([(name, "")]), value)
        parts += [_text([]), grid] if parts else [grid]
    return Panel(
        Group(*parts),
        title=_text([(title, "bold")]),
        title_align="left",
        subtitle=_text([(state, "")]) if state else None,
        subtitle_align="right",
        border_style="dim",
        padding=(0, 1),
        width=outer,
    )


def shown_amount(amount: float) -> str:
    """`1,200`, `0.1`, `4.25`: rounded as far as a person wants to know."""
    return f"{round(amount, 2 if amount < 10 else 1):,.10g}"


def _said(bar: Bar) -> tuple[str, str]:
    return f"  {shown_amount(bar.used)} of {shown_amount(bar.limit)}", f"  {bar.rest}"


def _bar(bar: Bar, length: int) -> Text:
    share = min(1.0, max(0.0, bar.used / bar.limit if bar.limit else 1.0))
    colour = "red" if share >= 0.9 else "yellow" if share >= 0.75 else "green"
    full = round(share * length)
    said, rest = _said(bar)
    return _text([("━" * full, colour), ("━" * (length - full), "bright_black"), (said, ""), (rest, "dim")])


def drawn_line(line: Spans) -> Text:
    """One line that is cut, and never wraps."""
    text = _text(line)
    text.no_wrap, text.overflow = True, "crop"
    return text


def _text(spans: Spans) -> Text:
    from rich.text import Text  # noqa: PLC0415  # as above

    return Text.assemble(*((visible_lines(text), style) for text, style in spans), overflow="fold")


# --- what takes time


class ProgressLine:
    """A bar on stderr for what takes more than a second, on a terminal only. Call it with how much is done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _PROGRESS_AFTER
        self._shown = False
        self._on = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self._on and time.monotonic() >= self._next:
            share = f" {100 * done // total}%" if total else ""
            bar = _drawn(done / total) if total and fancy(sys.stderr) else ""
            sys.stderr.write(f"\r{self._what}:{bar} {done:,} of {total:,}{share} ")
            sys.stderr.flush()
            self._shown = True
            self._next = time.monotonic() + _PROGRESS_EVERY

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._shown:
            _clear()


def _drawn(share: float) -> str:
    full = round(min(1.0, share) * _BAR)
    return f" \x1b[32m{'━' * full}\x1b[90m{'━' * (_BAR - full)}\x1b[0m"


class Spinner:
    """The same for what cannot be counted: a line that says what is done, and for how long already.

    Inside of another one it shows nothing.
    """

    _one_spins = False

    def __init__(self, what: str) -> None:
        self._what = what
        self._over = threading.Event()
        self._shown = False
        self._thread: threading.Thread | None = None

    def _tell(self) -> None:
        began, pretty, frame = time.monotonic(), fancy(sys.stderr), 0
        wait = _PROGRESS_AFTER
        while not self._over.wait(wait):
            mark = f"\x1b[36m{_FRAMES[frame % len(_FRAMES)]}\x1b[0m " if pretty else ""
            sys.stderr.write(f"\r{mark}{self._what}: {time.monotonic() - began:.0f} s ")
            sys.stderr.flush()
            self._shown = True
            frame += 1
            wait = _PROGRESS_EVERY if pretty else _PROGRESS_AFTER

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not Spinner._one_spins:
            Spinner._one_spins = True
            self._thread = threading.Thread(target=self._tell, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()
            Spinner._one_spins = False
        if self._shown:
            _clear()


def _clear() -> None:
    sys.stderr.write("\r\x1b[K" if os.environ.get("TERM", "dumb") != "dumb" else "\n")
    sys.stderr.flush()
