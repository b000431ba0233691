"""What is drawn for a terminal, by rich: panels, tables that wrap, bars, a screen that is replaced.

Every text is shown as it is: no markup, no emoji codes, nothing that a terminal would obey.

This is not imported for a pipe: rich takes 50 ms.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from adjourn.cli.terminal import Spans, can_be_redrawn, cells, shown_amount, width
from adjourn.errors import UsageError
from adjourn.text.redact import visible_lines

PANEL_WIDTH: Final = 100
"""Columns of a panel, at the most: longer lines are hard to read."""
_BAR = 24
_LAST_COLUMN = 24
"""Columns that the last column of a table needs, if its cells are that long."""


def console() -> Console:
    """A console on stdout, which is `fancy`: it takes texts as they are."""
    return Console(
        file=sys.stdout,
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
    if not can_be_redrawn():
        raise UsageError("watching needs a terminal", "use `adjourn log --follow`")
    out = console()
    with Live(console=out, screen=True, auto_refresh=False, vertical_overflow="crop") as screen:

        def draw(parts: Sequence[RenderableType]) -> None:
            out.width = width()
            screen.update(Group(*parts), refresh=True)

        yield draw


def draw_line(line: Spans) -> None:
    """Print one line with its styles."""
    console().print(_text(line), soft_wrap=True)


class Bar(NamedTuple):
    """How much of a budget is spent: a line of a panel. `rest` says what is left."""

    name: str
    used: float
    limit: float
    rest: str


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[bool]) -> None:
    """Print a table. `right` says which columns are aligned to the right. For a `fancy` stdout.

    The last column wraps. Where it has no room it goes below the others, indented; where the others have none, they go below the first.
    """
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
    for first, *cells_between, last in rows:
        named = [f"{name.lower()} {cell}" for name, cell in zip(head[1:-1], cells_between, strict=True) if cell]
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


def _said(bar: Bar) -> tuple[str, str]:
    return f"  {shown_amount(bar.used)} of {shown_amount(bar.limit)}", f"  {bar.rest}"


def _bar(bar: Bar, length: int) -> Text:
    share = min(1.0, max(0.0, bar.used / bar.limit if bar.limit else 1.0))
    colour = "red" if share >= 0.9 else "yellow" if share >= 0.75 else "green"
    full = round(share * length)
    amount, remaining = _said(bar)
    return _text([("━" * full, colour), ("━" * (length - full), "bright_black"), (amount, ""), (remaining, "dim")])


def drawn_line(line: Spans) -> Text:
    """One line that is cut, and never wraps."""
    text = _text(line)
    text.no_wrap, text.overflow = True, "crop"
    return text


def _text(spans: Spans) -> Text:

    return Text.assemble(*((visible_lines(text), style) for text, style in spans), overflow="fold")
