"""Calls over time, with the budget and its warning lines, and where checkpoints were made: numbers for an SVG.

Owns: the scale and the points. Must never: draw text of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adjourn.log import Event, kinds, milliseconds
from adjourn.tasks import Ledger

WIDTH, HEIGHT = 800, 160
"""Units of the drawing; it scales with the page."""
_TOP = 8
_LINES = (100, 90, 75)


class PlotLine(NamedTuple):
    """A share of the budget, in percent, and its height in the drawing."""

    percent: int
    y: float


class PlotPoint(NamedTuple):
    """A checkpoint: its place, name and time."""

    x: float
    y: float
    name: str
    timestamp: str


class BudgetPlot(NamedTuple):
    """`steps` are the points of a stepped line as SVG takes them. Empty where there is nothing to draw."""

    steps: str = ""
    lines: tuple[PlotLine, ...] = ()
    points: tuple[PlotPoint, ...] = ()
    first: str = ""
    last: str = ""
    highest: int = 0


def plot_of(events: Sequence[Event], ledger: Ledger) -> BudgetPlot:
    """The calls of the last events of a task: how many were used is known at the end, so it is counted backwards."""
    if len(events) < 2:
        return BudgetPlot()
    made = [_counts(event) for event in events]
    used = ledger.calls_used - sum(made)
    highest = max(ledger.calls_used, ledger.budget or 0, 1)
    begin, end = (_milliseconds(event) for event in (events[0], events[-1]))

    def x(event: Event) -> float:
        share = (_milliseconds(event) - begin) / (end - begin) if end > begin else 1.0
        return round(share * WIDTH, 1)

    def y(calls: float) -> float:
        return round(HEIGHT - (HEIGHT - _TOP) * max(0.0, min(calls / highest, 1.0)), 1)

    steps = [f"0,{y(used)}"]
    points = []
    for event, is_call in zip(events, made, strict=True):
        if is_call:
            steps.append(f"{x(event)},{y(used)}")
            used += 1
            steps.append(f"{x(event)},{y(used)}")
        data = kinds.data_of(event) if event.event == kinds.CheckpointCreated.KIND else None
        if isinstance(data, kinds.CheckpointCreated):
            points.append(PlotPoint(x(event), y(used), data.name, event.timestamp))
    steps.append(f"{WIDTH},{y(used)}")
    lines = (
        [PlotLine(percent, y(ledger.budget * percent / 100)) for percent in _LINES] if ledger.budget else []
    )
    return BudgetPlot(
        " ".join(steps), tuple(lines), tuple(points), events[0].timestamp, events[-1].timestamp, highest
    )


def _counts(event: Event) -> bool:
    if event.event != kinds.ToolAllowed.KIND:
        return False
    data = kinds.data_of(event)
    return isinstance(data, kinds.ToolAllowed) and not data.uncounted


def _milliseconds(event: Event) -> int:
    return milliseconds(event.timestamp)
