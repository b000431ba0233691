"""The plots of a reflection: histograms as SVG.

Owns: drawing them. Must never: need a library, or a script in the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 48, 48
BARS = 20


def histogram(
    title: str, unit: str, values: Sequence[float], *, top: float = 0.0, mark: tuple[float, str] | None = None
) -> str:
    """The SVG of a histogram from 0 to `top`, or to the largest value. `mark` is a value with a label: a dashed line there."""
    top = max(top, *values, 1e-9) if values else max(top, 1.0)
    counts = [0] * BARS
    for value in values:
        counts[min(BARS - 1, max(0, int(value / top * BARS)))] += 1
    most = max(*counts, 1)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    floor = TOP + high
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 26, f"{title} (n={len(values)})", size=16),
    ]
    step = wide / BARS
    for number, count in enumerate(counts):
        if count:
            tall = high * count / most
            parts.append(
                f'<rect x="{LEFT + number * step + 1:.1f}" y="{floor - tall:.1f}" width="{step - 2:.1f}" '
                f'height="{tall:.1f}" fill="#3b6ea5"><title>{count}</title></rect>'
            )
    parts.append(f'<path d="M{LEFT} {TOP}V{floor}H{LEFT + wide}" fill="none" stroke="#333333"/>')
    for number in range(5):
        at = LEFT + wide * number / 4
        parts.append(_text(at, floor + 18, _number(top * number / 4), anchor="middle"))
    parts += [
        _text(LEFT + wide / 2, HEIGHT - 8, unit, anchor="middle"),
        _text(LEFT - 6, TOP + 5, str(most), anchor="end"),
        _text(LEFT - 6, floor, "0", anchor="end"),
    ]
    if mark is not None and mark[0] <= top:
        at = LEFT + wide * mark[0] / top
        parts.append(
            f'<path d="M{at:.1f} {TOP}V{floor}" stroke="#a33b3b" stroke-dasharray="4 3"/>'
            + _text(at + 4, TOP + 12, mark[1])
        )
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#222222">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
