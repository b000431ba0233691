"""Who works now, in all workspaces of the person; the tasks of one; and what their budgets went into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from markupsafe import Markup

from adjourn.errors import AdjournError
from adjourn.handover.calls import CallReport
from adjourn.log import kinds
from adjourn.log.event import Event, milliseconds, timestamp
from adjourn.store.base import Store
from adjourn.tasks.budgets import last_policy
from adjourn.tasks.lease import is_alive
from adjourn.tasks.ledger import Ledger
from adjourn.text.plot import BudgetPoint, budget_plot
from adjourn.text.redact import without_secrets
from adjourn.text.times import span
from adjourn.ui.pages.inbox import count_waiting
from adjourn.ui.site import Form, Site, TaskRow, WebPage

MAX_SESSIONS = 24
"""Tasks at work that are shown."""
WITHIN = 1.0
"""Seconds: how old a look at another workspace may be."""


class WorkNow(NamedTuple):
    """A task that sessions work on: their clients, the last call, and what is left of its calls at the present pace. Its workspace has the pages
    at `base`.
    """

    root: str
    base: str
    row: TaskRow
    clients: Sequence[str]
    last: CallReport | None
    left: str
    asked: int


class WorkspaceNow(NamedTuple):
    """A workspace with the pages at `base`: tasks at work, calls in doubt, other things that wait for the person, and when it was used last.

    `unread` tasks are not counted yet. `problem` says why it cannot be read.
    """

    root: str
    base: str
    is_shown: bool
    working: int = 0
    waiting: int = 0
    doubts: int = 0
    tasks: int = 0
    unread: int = 0
    touched: str = ""
    problem: str = ""


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The tasks at work, those of this workspace first; and all workspaces, those that wait or work first."""
    del fields
    others = site.others()
    works, workspaces = list[WorkNow](), list[WorkspaceNow]()
    for each in (site, *others):
        store = each.find_store()
        if store is None:
            continue
        within, share = (site.within, 1.0) if each is site else (WITHIN, 1 / len(others))
        try:
            rows, unread = each.overview.look(store, within, share)
            at_work = list(islice(_at_work(each, store, rows), MAX_SESSIONS))
            doubts = sum(row.doubts for row in rows)
            waiting = max(0, count_waiting(each, store, within, share) - doubts)
        except AdjournError as error:  # a store that went away; the next look tries it again
            workspaces.append(WorkspaceNow(each.root, each.base, each is site, problem=error.message))
            continue
        works += at_work
        touched = rows[0].touched if rows else ""
        workspaces.append(
            WorkspaceNow(each.root, each.base, each is site, len(at_work), waiting, doubts, len(rows), unread, touched)
        )
    return {
        "works": works[:MAX_SESSIONS],
        "more": max(0, len(works) - MAX_SESSIONS),
        "workspaces": sorted(workspaces, key=lambda each: (not each.waiting, not each.working)),
    }


def _at_work(site: Site, store: Store, rows: Sequence[TaskRow]) -> Iterator[WorkNow]:
    """The tasks that living sessions work on, the ones used last first."""
    now = site.clock()
    for row in rows:
        alive = [session for session in row.sessions if is_alive(store, row.id, session, now)]
        if not alive:
            continue
        calls = site.overview.last_calls(row.id)
        times = sorted(milliseconds(call.at) for call in calls if call.at)
        left = row.budget - row.used if row.budget is not None else 0
        text = left_in_words(left, calls_last(left, times), " calls") if row.budget is not None else ""
        asked = sum(until > timestamp(now) for until in row.asked)
        clients = list(dict.fromkeys(session.client or "a client" for session in alive))
        yield WorkNow(site.root, site.base, row, clients, calls[-1] if calls else None, text, asked)


PAGE = WebPage("/now", "Now", "now.html", query)


# --- what a task's budgets went into, and how long the rest lasts at the present pace. Calls are paced by the last
# half hour of work, tokens and money by all of it

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


# --- the tasks: what each is for, who works on it, how much of its budget is spent, and whether something waits. The
# overview reads the tasks, not this page

MAX_ROWS = 50
"""Tasks on one page."""
SHOWN = {"all": "All", "waiting": "Waiting", "working": "Working", "open": "Open", "finished": "Finished"}


class ShownTask(NamedTuple):
    """A row as it is now: what waits, and whether a session works."""

    row: TaskRow
    waiting: int
    is_working: bool


def list_tasks(site: Site, fields: Form) -> Mapping[str, Any]:
    """The tasks that were asked for, the ones used last first."""
    store = site.find_store()
    filter_name = fields.get("show", "all") if fields.get("show") in SHOWN else "all"
    words = fields.get("q", "")[:200]
    values = {"show": filter_name, "words": words, "kinds": SHOWN, "has_store": store is not None}
    if store is None:
        return {**values, "tasks": [], "count": 0, "total": 0, "left": 0, "first": 0, "page_count": 1, "number": 1}
    rows, left = site.overview.look(store, site.within)
    stamp = timestamp(site.clock())
    matching = [row for row in rows if words.casefold() in row.words] if words else rows
    if filter_name == "working":
        matching = [row for row in matching if _is_working(store, row, site)]
    elif filter_name != "all":
        matching = [row for row in matching if _fits(row, filter_name, stamp)]
    pages = max(1, -(-len(matching) // MAX_ROWS))
    number = min(int(page), pages) if (page := fields.get("page", "1")[:9]).isdecimal() and int(page) else 1
    part = matching[(number - 1) * MAX_ROWS : number * MAX_ROWS]
    return {
        **values,
        "tasks": [_now(store, row, stamp, site) for row in part],
        "count": len(matching),
        "total": len(rows),
        "left": left,
        "page_count": pages,
        "number": number,
    }


def _fits(row: TaskRow, filter_name: str, stamp: str) -> bool:
    if filter_name == "waiting":
        return bool(row.doubts or any(until > stamp for until in row.asked))
    return row.is_finished is (filter_name == "finished")


def _now(store: Store, row: TaskRow, stamp: str, site: Site) -> ShownTask:
    return ShownTask(row, sum(until > stamp for until in row.asked), _is_working(store, row, site))


def _is_working(store: Store, row: TaskRow, site: Site) -> bool:
    return any(is_alive(store, row.id, session, site.clock()) for session in row.sessions)


TASKS = WebPage("/tasks", "Tasks", "tasks.html", list_tasks)
