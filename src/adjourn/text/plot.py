"""How much of a budget was spent over time, as a picture (SVG) and as a line of text.

The picture has classes and no colours: the page that shows it has `PLOT_STYLE`, or rules of its own for these classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from adjourn.errors import InvalidError
from adjourn.log.event import timestamp
from adjourn.text.redact import visible_line

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 16, 32
MAX_POINTS = 2_000
MAX_MARKS = 100
SHARES: Final = (0.75, 0.9)
_LEVELS = "▁▂▃▄▅▆▇█"

PLOT_STYLE: Final = """\
.plot { width: 100%; height: auto; overflow: visible; font: 12px system-ui, sans-serif; }
.plot text { fill: var(--muted, #63666c); }
.plot .axis { stroke: var(--line, #d0d0ca); fill: none; }
.plot .spent { stroke: var(--accent, #3355d1); stroke-width: 2; fill: none; stroke-linejoin: round; }
.plot .area { fill: var(--accent, #3355d1); opacity: .12; }
.plot .limit { stroke: var(--bad, #b3261e); fill: none; }
.plot .share { stroke: var(--amber, #8a5a00); stroke-dasharray: 4 4; fill: none; }
.plot .made { fill: var(--good, #17713f); }
@media (max-width: 40rem) { .plot { font-size: 19px; } .plot .near { display: none; } }
"""
"""The rules for a page that has none of its own."""

LANES_STYLE: Final = """\
.tracks { display: block; width: 100%; min-width: 680px; font: 13px system-ui, sans-serif; }
.track path { fill: none; stroke: currentColor; stroke-width: 2; opacity: .55; }
.track text { fill: var(--text, #1c1d1f); font-weight: 550; }
.track-0 { color: var(--accent, #3355d1); }
.track-1 { color: var(--violet, #6a3fb5); }
.track-2 { color: var(--amber, #8a5a00); }
.track-3 { color: var(--good, #17713f); }
.track-4 { color: var(--gray, #4d5157); }
.fold rect { fill: var(--gray-back, #ececea); }
.idle, .clock { fill: var(--muted, #63666c); font-size: 11px; }
.mark path { fill: var(--card, #ffffff); stroke: currentColor; stroke-width: 2; vector-effect: non-scaling-stroke; }
.mark:hover path, .tracks a:focus-visible path { stroke-width: 4; }
.tracks a:focus-visible { outline: 2px solid var(--ring, #3355d1); outline-offset: 3px; }
.mark-ok { color: var(--good, #17713f); }
.mark-ok path { fill: currentColor; stroke: none; opacity: .75; }
.mark-many.mark-ok path { opacity: 1; }
.mark-error { color: var(--bad, #b3261e); }
.mark-refused { color: var(--bad, #b3261e); }
.mark-doubt { color: var(--amber, #8a5a00); }
.mark-doubt path { fill: currentColor; }
.mark-waits { color: var(--blue, #274bb5); }
.mark-running { color: var(--gray, #4d5157); }
.sign-flag { color: var(--accent, #3355d1); }
.sign-flag path, .sign-pin path { fill: currentColor; stroke-width: 1; }
.sign-pin { color: var(--violet, #6a3fb5); }
.sign-cut { color: var(--bad, #b3261e); }
.sign-cut path { stroke-width: 3; }
"""
"""The rules for the lanes of sessions (`handover.lanes`)."""


class BudgetPoint(NamedTuple):
    """`value` holds from the time `at` (milliseconds) on. `label` is that of a mark."""

    at: int
    value: float
    label: str = ""


def thinned(points: Sequence[BudgetPoint], most: int = MAX_POINTS) -> Sequence[BudgetPoint]:
    """At most so many of the points, the first and the last among them."""
    if len(points) <= most:
        return points
    step = (len(points) - 1) / (most - 1)
    return [points[round(number * step)] for number in range(most)]


def budget_plot(
    title: str, points: Sequence[BudgetPoint], limit: float | None, marks: Sequence[BudgetPoint] = ()
) -> str:
    """The SVG of what was spent over time, with the limit, its 75 % and 90 %, and marks on the line; "" without points."""
    if not points:
        return ""
    points = sorted(thinned(points))
    first, last = points[0].at, max(points[-1].at, points[0].at + 1)
    top = max(*(point.value for point in points), limit or 0, 1) * 1.08
    frame = _Frame(first, last, top)
    line = f"M{frame.x(first):.1f} {frame.y(points[0].value):.1f}" + "".join(
        f"H{frame.x(after.at):.1f}V{frame.y(after.value):.1f}" for _, after in pairwise(points)
    )
    floor = frame.y(0)
    name = escape(visible_line(title))
    parts = [
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_attribute(title)}">',
        f"<title>{name}</title>",
        f'<path class="area" d="{line}V{floor:.1f}H{frame.x(first):.1f}Z"/>',
        f'<path class="axis" d="M{LEFT} {TOP}V{floor:.1f}H{WIDTH - RIGHT}"/>',
        *_limits(frame, limit),
        f'<path class="spent" d="{line}"/>',
        _text(LEFT - 6, floor + 4, "0", "end"),
        _text(LEFT, HEIGHT - 8, _time(first), "start"),
        _text(WIDTH - RIGHT, HEIGHT - 8, _time(last), "end"),
        *([] if limit else [_text(LEFT - 6, frame.y(points[-1].value) + 4, f"{points[-1].value:,.10g}", "end")]),
    ]
    for mark in marks[-MAX_MARKS:]:
        label = escape(visible_line(mark.label))
        parts.append(
            f'<circle class="made" cx="{frame.x(mark.at):.1f}" cy="{frame.y(mark.value):.1f}" r="4.5"><title>{label}</title></circle>'
        )
    return "\n".join([*parts, "</svg>"])


class _Frame(NamedTuple):
    first: int
    last: int
    top: float

    def x(self, at: int) -> float:
        share = (min(max(at, self.first), self.last) - self.first) / (self.last - self.first)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)


def _limits(frame: _Frame, limit: float | None) -> list[str]:
    if not limit:
        return []
    parts = []
    for share, kind in ((1.0, "limit"), *((share, "share") for share in SHARES)):
        at = frame.y(limit * share)
        text = f"{limit:,.10g}" if share == 1 else f"{share * 100:.0f} %"
        near = " near" if share == SHARES[-1] else ""  # too near to the limit for a small screen
        parts += [
            f'<path class="{kind}" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>',
            _text(LEFT - 6, at + 4, text, "end", f"label{near}"),
        ]
    return parts


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _time(at: int) -> str:
    """`2026-05-02 17:30`, in UTC; "" for what no calendar has."""
    try:
        return timestamp(at)[:16].replace("T", " ")
    except InvalidError:
        return ""


def _attribute(text: str) -> str:
    return escape(visible_line(text), {'"': "&quot;"})


def sparkline(points: Sequence[BudgetPoint], limit: float | None, columns: int = 40) -> str:
    """The same as so many characters, each for an equal part of the time; "" without points."""
    if not points:
        return ""
    ordered = sorted(points)
    first, last = ordered[0].at, max(ordered[-1].at, ordered[0].at + 1)
    top = max(*(point.value for point in ordered), limit or 0, 1)
    levels, value, budget_points = [], ordered[0].value, iter(ordered)
    following = next(budget_points, None)
    for column in range(columns):
        end = first + (last - first) * (column + 1) / columns
        while following is not None and following.at <= end:
            value, following = following.value, next(budget_points, None)
        levels.append(_LEVELS[min(len(_LEVELS) - 1, int(value / top * len(_LEVELS)))])
    return "".join(levels)
