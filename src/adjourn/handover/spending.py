"""What a task's budgets went into, and how long the rest lasts at the present pace: calls are paced by the last half hour of work,
tokens and money by all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from adjourn.errors import AdjournError
from adjourn.log import kinds
from adjourn.log.event import Event, milliseconds
from adjourn.store.base import Store
from adjourn.tasks.budgets import last_policy
from adjourn.tasks.ledger import Ledger
from adjourn.text.plot import BudgetPoint, budget_plot
from adjourn.text.redact import without_secrets
from adjourn.text.times import span

PACE_MS = 30 * 60_000
"""The last milliseconds before the last call that tell the pace."""
MIN_CALLS = 3
"""Calls that tell a pace."""


class BudgetSpending(NamedTuple):
    """One budget: `limit` is "" without one, `share` the spent percent, `left` what is left and for how long."""

    name: str
    used: str
    limit: str = ""
    share: int = 0
    left: str = ""


def spending_of(store: Store, ledger: Ledger, times: Sequence[int]) -> list[BudgetSpending]:
    """Calls, minutes, tokens and money of a task, with the limits that its last session had. `times` are those of its last calls."""
    limits: dict[str, float] = {} if ledger.budget is None else {"calls": ledger.budget}
    try:
        policy = last_policy(store, ledger)
    except AdjournError:
        policy = None
    if policy is not None:
        limits |= {key: limit for key, _, limit in ledger.budgets_used(policy) if key in ("minutes", "tokens", "usd")}
    worked = ledger.worked
    spent = {
        "calls": (ledger.calls_used, calls_last(limits.get("calls", 0) - ledger.calls_used, times)),
        "minutes": (worked / 60_000, limits.get("minutes", 0) * 60_000 - worked),
        "tokens": (ledger.tokens, _lasts(limits.get("tokens", 0) - ledger.tokens, ledger.tokens, worked)),
        "usd": (
            ledger.micro_usd / 1e6,
            _lasts(limits.get("usd", 0) * 1e6 - ledger.micro_usd, ledger.micro_usd, worked),
        ),
    }
    return [
        _shown(name, used, limits.get(name), 0 if ledger.finished or name == "minutes" else lasts)
        for name, (used, lasts) in spent.items()
        if used or name in limits
    ]


def call_times(events: Iterable[Event]) -> list[int]:
    """When the calls among the events were made that count."""
    return [milliseconds(event.timestamp) for event in events for _ in range(_counts(event))]


def calls_last(left: float, times: Sequence[int]) -> float:
    """For how many milliseconds of work so many calls last; 0 where the calls before tell no pace."""
    recent = [at for at in times if at >= times[-1] - PACE_MS]
    if left <= 0 or len(recent) < MIN_CALLS:
        return 0
    return left * max(1_000, recent[-1] - recent[0]) / (len(recent) - 1)


def left_in_words(left: float, lasts: float, unit: str = "") -> str:
    """`12 left, about 20 min`."""
    text = f"{max(0.0, left):,.4g}{unit} left" if left < 10_000 else f"{left:,.0f}{unit} left"
    return f"{text}, about {span(int(lasts) // 1000)} of work" if lasts >= 1_000 else text


def _lasts(left: float, used: float, worked: float) -> float:
    return left * worked / used if left > 0 and used else 0


def _shown(name: str, used: float, limit: float | None, lasts: float) -> BudgetSpending:
    title, unit = {"usd": ("money", " USD"), "minutes": ("time", " min")}.get(name, (name, ""))
    text = f"{used:,.2f}{unit}" if name == "usd" else f"{used:,.0f}{unit}"
    if limit is None:
        return BudgetSpending(title, text)
    share = min(100, round(100 * used / limit)) if limit else 100
    return BudgetSpending(
        title, text, f"{limit:,.10g}{unit}", share, left_in_words(round(limit - used, 2), lasts, unit)
    )


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
    title = f"Calls over time: {ledger.calls_used}" + ("" if ledger.budget is None else f" of {ledger.budget}")
    return Markup(budget_plot(title, points, ledger.budget, marks))  # noqa: S704  # it escapes every text


def _counts(event: Event) -> int:
    """How many calls of an event count."""
    if event.event == kinds.ToolReadings.KIND:
        data = kinds.data_of(event)
        return len(data.allowed) if isinstance(data, kinds.ToolReadings) else 0
    if event.event != kinds.ToolAllowed.KIND:
        return 0
    data = kinds.data_of(event)
    return int(isinstance(data, kinds.ToolAllowed) and not data.uncounted)
