"""Lines over logarithmic or plain axes, as SVG that is readable on light and on dark ground.

Owns: `draw`. Must never: need a library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 800, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 40, 112
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#9a6700")
STYLE = """
  text { font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 12px; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; } .grid { stroke: #8c959f; stroke-opacity: .35; }
  .line { fill: none; stroke-width: 2; }
  @media (prefers-color-scheme: dark) { text { fill: #f0f6fc; } }
"""


class Axis(NamedTuple):
    """`ticks` are where lines are drawn, the first and the last at the edges."""

    name: str
    ticks: Sequence[float]
    logarithmic: bool = True

    def place(self, value: float) -> float:
        """0 to 1."""
        low, high = self.ticks[0], self.ticks[-1]
        value = min(max(value, low), high)
        if self.logarithmic:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)


def draw(title: str, across: Axis, up: Axis, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """One line for each name, with a legend below."""
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(value: float) -> float:
        return LEFT + across.place(value) * width

    def y(value: float) -> float:
        return TOP + (1 - up.place(value)) * height

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="22">{escape(title)}</text>',
    ]
    for tick in across.ticks:
        at = f"{x(tick):.1f}"
        parts.append(f'<path class="grid" d="M{at} {TOP}v{height}"/>')
        parts.append(f'<text x="{at}" y="{TOP + height + 16}" text-anchor="middle">{tick:,g}</text>')
    for tick in up.ticks:
        at = f"{y(tick):.1f}"
        parts.append(f'<path class="grid" d="M{LEFT} {at}h{width}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    parts.append(
        f'<text x="{LEFT + width / 2:.1f}" y="{TOP + height + 34}" text-anchor="middle">{escape(across.name)}</text>'
    )
    parts.append(f'<text x="{LEFT}" y="{TOP - 6}" text-anchor="start">{escape(up.name)}</text>')
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in points)
        column, row = number % 2, number // 2
        left, base = LEFT + column * 350, TOP + height + 56 + row * 18
        parts += [
            f'<path class="line" stroke="{colour}" d="M{path}"/>',
            f'<path class="line" stroke="{colour}" d="M{left} {base - 4}h24"/>',
            f'<text x="{left + 30}" y="{base}">{escape(name)}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
