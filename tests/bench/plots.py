"""The plots of tests/bench/RESULTS.md: bars, as SVG that is readable on light and on dark ground.

Owns: what is drawn of which table, and how. Must never: need a library, or draw what no table says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

import relays
import starts
import stores
from tables import Table, shown

WIDTH, LABELS, VALUES = 800, 290, 90
"""The picture, what is left of the bars, and what is right of the longest."""
ROW, BAR, TOP = 26, 16, 44
STYLE = """
  text { font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 12px; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; }
  .label { text-anchor: end; }
  rect { fill: #0969da; } rect.second { fill: #bc4c00; } rect.floor { fill: #8c959f; }
  path { fill: none; stroke: #59636e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; } rect { fill: #4493f8; } rect.second { fill: #db6d28; } rect.floor { fill: #6e7681; }
    path { stroke: #9198a1; }
  }
"""


class Bar(NamedTuple):
    """One bar. `kind`: a class of the style. `spread`: drawn to both sides of its end."""

    label: str
    value: float
    kind: str = ""
    spread: float = 0


def draw(title: str, bars: Sequence[Bar]) -> str:
    """Horizontal bars from 0, with their values."""
    most = max(bar.value + bar.spread for bar in bars) or 1
    scale = (WIDTH - LABELS - VALUES) / most
    height = TOP + ROW * len(bars) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="22">{escape(title)}</text>',
    ]
    for number, bar in enumerate(bars):
        top = TOP + ROW * number
        base, end = top + BAR - 4, LABELS + bar.value * scale
        kind = f' class="{bar.kind}"' if bar.kind else ""
        parts += [
            f'<text class="label" x="{LABELS - 8}" y="{base}">{escape(bar.label)}</text>',
            f'<rect{kind} x="{LABELS}" y="{top}" width="{max(1.0, end - LABELS):.1f}" height="{BAR}" rx="2"/>',
            f'<text x="{end + bar.spread * scale + 6:.1f}" y="{base}">{shown(bar.value)}</text>',
        ]
        if bar.spread:
            low, high = end - bar.spread * scale, end + bar.spread * scale
            parts.append(
                f'<path d="M{low:.1f} {top + BAR / 2}H{high:.1f}M{low:.1f} {top + 4}v8M{high:.1f} {top + 4}v8"/>'
            )
    return "\n".join([*parts, "</svg>", ""])


def of(tables: Mapping[str, Table]) -> Iterator[tuple[str, str]]:
    """(file name, picture) for all plots of the tables that are there."""
    if set(relays.TITLES.values()) <= set(tables):
        found = {tool: tables[title] for tool, title in relays.TITLES.items()}
        for name, title, row in (
            ("python-calls", "Python calls per tool call", relays.CALLS),
            ("latency", "What a relay adds to a call: median, µs", relays.ADDED),
            ("throughput", "Calls per second, 64 in flight", relays.RATE),
        ):
            yield f"bench-{name}.svg", draw(title, list(_by_relay(found, row)))
    if stores.TITLE in tables:
        yield (
            "bench-stores.svg",
            draw("Times the floor: raw insert, or reading and hashing", _ratios(tables[stores.TITLE])),
        )
    if starts.TITLE in tables:
        yield "bench-starts.svg", draw("Starts: median, ms", _starts(tables[starts.TITLE]))


def _by_relay(tables: Mapping[str, Table], row: str) -> Iterator[Bar]:
    for tool, table in tables.items():
        cells = next(cells for cells in table.rows if cells[0] == row)
        for relay, value in zip(table.columns[1:], cells[1:], strict=True):
            if isinstance(value, int | float):
                what = "reading" if tool == relays.READING else "with effects"
                peers = (relays.DIRECT, relays.PASS_THROUGH, relays.FLOOR)
                kind = "floor" if relay in peers else "" if tool == relays.READING else "second"
                yield Bar(f"{relay}, {what}", value, kind)


def _ratios(table: Table) -> list[Bar]:
    ratio, spread = table.columns.index("floor = 1"), table.columns.index("±")
    return [
        Bar(_plain(cells[0]), value, "floor" if cells[1] is None else "", _number(cells[spread]))
        for cells in table.rows
        if (value := _number(cells[ratio]))
    ]


def _starts(table: Table) -> list[Bar]:
    column = table.columns.index("median ms")
    return [
        Bar(_plain(cells[0]), _number(cells[column]), "floor" if cells[0] == starts.FLOOR else "")
        for cells in table.rows
    ]


def _plain(label: object) -> str:
    return str(label).replace("`", "")


def _number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0
