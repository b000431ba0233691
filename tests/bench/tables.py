"""What a benchmark hands back, and how it is printed: on a terminal, as Markdown, as JSON."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Cell = str | int | float | None
"""Text, a measured value, or nothing to tell."""


@dataclass
class Table:
    """One table. `note` says in prose what was measured and how; the first column names the row."""

    title: str
    columns: list[str]
    note: str = ""
    rows: list[list[Cell]] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        assert len(cells) == len(self.columns), (self.title, cells)
        self.rows.append(list(cells))

    def text(self) -> str:
        """For a terminal."""
        rows = [self.columns, *([shown(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.columns))]
        left = [self._is_text(i) for i in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.ljust(width) if to_left else cell.rjust(width)
                for cell, width, to_left in zip(row, widths, left, strict=True)
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.title, "-" * len(self.title), *lines, *textwrap.wrap(self.note, 118)]) + "\n"

    def markdown(self) -> str:
        """The table alone."""
        ruler = ["---" if self._is_text(i) else "---:" for i in range(len(self.columns))]
        body = [self.columns, ruler, *([shown(cell) for cell in row] for row in self.rows)]
        return "".join("| " + " | ".join(row) + " |\n" for row in body)

    def as_json(self) -> dict[str, Any]:
        """The values as measured, unrounded."""
        return asdict(self)

    def _is_text(self, column: int) -> bool:
        return all(isinstance(row[column], str) or row[column] is None for row in self.rows)


def shown(cell: Cell) -> str:
    """A value with about three digits that mean something."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    size = abs(cell)
    if isinstance(cell, int) or size >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.0f}" if size >= 100 else f"{cell:.1f}" if size >= 10 else f"{cell:.2f}"


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which `part` (0 to 1) of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def ratio(value: float, floor: float) -> float | None:
    """How many times the floor; nothing where noise has made the floor meaningless."""
    return value / floor if floor > 0 else None
