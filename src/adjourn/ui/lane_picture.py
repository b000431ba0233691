"""The branches of a history as a picture (SVG): a point for each row of a list beside it, the newest first, and lines to what it follows.

Owns: the lanes and their drawing. Must never: know what a row is.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

ROW = 36
"""Height of a row of the list, in pixels; `static/task.css` has the same."""
LANE, RADIUS = 16, 5
MAX_LANES = 8


def lanes_of(parents: Sequence[int]) -> list[int]:
    """The lane of each row. `parents`, oldest first, are the rows that rows follow; -1 for none.

    Whoever follows the newest row of a lane stays in it; else a branch begins in a new one.
    """
    ends: list[int] = []
    lanes: list[int] = []
    for row, parent in enumerate(parents):
        lane = ends.index(parent) if parent in ends else len(ends)
        if lane == len(ends):
            ends.append(row)
        ends[lane] = row
        lanes.append(min(lane, MAX_LANES - 1))
    return lanes


def lane_picture(parents: Sequence[int]) -> Markup:
    """The picture; "" without rows. `parents` as for `lanes_of`."""
    if not parents:
        return Markup()
    lanes = lanes_of(parents)
    wide, high = LANE * (max(lanes) + 1), ROW * len(parents)

    def at(row: int) -> tuple[int, int]:
        return lanes[row] * LANE + LANE // 2, (len(parents) - 1 - row) * ROW + ROW // 2

    drawn = []
    for row, parent in enumerate(parents):
        if parent < 0:
            continue
        (x, y), (to_x, to_y) = at(row), at(parent)
        bend = (
            f"V{to_y}"
            if x == to_x
            else f"V{to_y - ROW // 2}C{x} {to_y} {to_x} {to_y - ROW // 2} {to_x} {to_y}"
        )
        drawn.append(f'<path class="lane" d="M{x} {y}{bend}"/>')
    drawn += [
        f'<circle class="point" cx="{x}" cy="{y}" r="{RADIUS}"/>' for x, y in map(at, range(len(parents)))
    ]
    svg = f'<svg class="lanes" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" aria-hidden="true">'
    return Markup(f"{svg}{''.join(drawn)}</svg>")  # noqa: S704  # it has numbers only
