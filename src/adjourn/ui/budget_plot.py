"""The plot of a task's page: the calls of the events that the page shows, and the checkpoints among them.

Owns: these points. Must never: draw (`text.plot` does), or pass on a text that it did not escape.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from adjourn.log import Event, kinds, milliseconds
from adjourn.tasks import Ledger
from adjourn.text import BudgetPoint, budget_plot, without_secrets


def plot_of(events: Sequence[Event], ledger: Ledger) -> Markup:
    """The picture of a task's last events: how many calls were used is known at the end, so it is counted backwards."""
    if len(events) < 2:
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
