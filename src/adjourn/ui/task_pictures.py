"""The pictures of a task's page: its calls over time with the checkpoints among them, and its checkpoints as branches (SVG).

Owns: the points of the plot, which `text.plot` draws; the lanes of the branches and their drawing. Must never: pass on a text that was
not escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from adjourn.log import Event, kinds, milliseconds
from adjourn.tasks import Ledger
from adjourn.text import BudgetPoint, budget_plot, without_secrets

ROW = 36
"""Height of a row of the list, in pixels; `static/task.css` has the same."""
LANE, RADIUS = 16, 5
MAX_LANES = 8


def plot_of(events: Sequence[Event], ledger: Ledger) -> Markup:
    """The picture of a task's last events: how many calls were used is known at the end, so it is counted backwards. Without a
    call there is none.
    """
    if len(events) < 2 or not ledger.calls_used:
        return Markup()
    used = ledger.calls_used - sum(map(_counts, events))
    points = [BudgetPoint(milliseconds(events[0].timestamp), used)]
    marks = []
    for event in events:
        used += _counts(event)
        at = BudgetPoint(milliseconds(event.timestamp), used)
        data = kinds.data_of(event) if event.event == kinds.CheckpointCreated.KIND else None
        if isinstance(data, kinds.CheckpointCreated):
            marks.append(at._replace(label=without_secrets(f"{data.name}, {event.timestamp}")))
        if used != points[-1].value or event is events[-1]:
            points.append(at)
    title = f"Calls over time: {ledger.calls_used}" + (
        "" if ledger.budget is None else f" of {ledger.budget}"
    )
    return Markup(budget_plot(title, points, ledger.budget, marks))  # noqa: S704  # it escapes every text


def _counts(event: Event) -> bool:
    if event.event != kinds.ToolAllowed.KIND:
        return False
    data = kinds.data_of(event)
    return isinstance(data, kinds.ToolAllowed) and not data.uncounted


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
