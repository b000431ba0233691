"""The tasks: what each is for, who works on it, how much of its budget is spent, and whether something waits.

The overview reads the tasks, not this page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from adjourn.errors import AdjournError
from adjourn.handover.calls import CallReport
from adjourn.log.event import milliseconds, timestamp
from adjourn.store.base import Store
from adjourn.tasks.lease import is_alive
from adjourn.ui.pages.budget import calls_last, left_in_words
from adjourn.ui.site import Form, Site, TaskRow, WebPage

MAX_ROWS = 50
"""Tasks on one page."""
MAX_NOW = 12
"""Tasks at work that are shown above the list."""
SHOWN = {"all": "All", "waiting": "Waiting", "working": "Working", "open": "Open", "finished": "Finished"}


class ShownTask(NamedTuple):
    """A row as it is now: what waits, and whether a session works."""

    row: TaskRow
    waiting: int
    is_working: bool


class WorkNow(NamedTuple):
    """A task that sessions work on: their clients, the last call, and what is left of its calls at the present pace. `root` is another
    workspace that has it; "" for this one.
    """

    row: TaskRow
    clients: Sequence[str]
    last: CallReport | None
    left: str
    waiting: int
    root: str = ""


class OtherWorkspace(NamedTuple):
    """Another workspace of the person: how many sessions' tasks are at work, how much waits, and when it was used last."""

    root: str
    working: int
    waiting: int
    tasks: int
    touched: str


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The tasks that were asked for, the ones used last first."""
    store = site.find_store()
    filter_name = fields.get("show", "all") if fields.get("show") in SHOWN else "all"
    words = fields.get("q", "")[:200]
    values = {"show": filter_name, "words": words, "kinds": SHOWN, "has_store": store is not None}
    if store is None:
        return {
            **values,
            "at_work": [],
            "others": _elsewhere(site)[0],
            "tasks": [],
            "count": 0,
            "total": 0,
            "left": 0,
            "first": 0,
            "page_count": 1,
            "number": 1,
        }
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
    is_plain = number == 1 and filter_name == "all" and not words
    at_work = list(islice(_at_work(store, rows, site), MAX_NOW)) if is_plain else []
    others, elsewhere = _elsewhere(site) if is_plain else ([], [])
    return {
        **values,
        "at_work": [*at_work, *elsewhere][:MAX_NOW],
        "others": others,
        "tasks": [_now(store, row, stamp, site) for row in part],
        "count": len(matching),
        "total": len(rows),
        "left": left,
        "page_count": pages,
        "number": number,
    }


def _at_work(store: Store, rows: Sequence[TaskRow], site: Site) -> Iterator[WorkNow]:
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
        waiting = sum(until > timestamp(now) for until in row.asked)
        clients = list(dict.fromkeys(session.client or "a client" for session in alive))
        yield WorkNow(row, clients, calls[-1] if calls else None, text, waiting)


def _elsewhere(site: Site) -> tuple[list[OtherWorkspace], list[WorkNow]]:
    """The other workspaces, those that wait or work first; and the tasks at work in them."""
    others, works = list[OtherWorkspace](), list[WorkNow]()
    for other in site.others():
        store = other.find_store()
        if store is None:
            continue
        with suppress(AdjournError):  # a store that went away; the next look tries it again
            rows = other.overview.look(store, site.within).rows
            stamp = timestamp(other.clock())
            at_work = [work._replace(root=other.root) for work in islice(_at_work(store, rows, other), MAX_NOW)]
            waiting = sum(sum(until > stamp for until in row.asked) + row.doubts for row in rows)
            touched = rows[0].touched if rows else ""
            others.append(OtherWorkspace(other.root, len(at_work), waiting, len(rows), touched))
            works += at_work
    return sorted(others, key=lambda other: (not other.waiting, not other.working)), works


def _fits(row: TaskRow, filter_name: str, stamp: str) -> bool:
    if filter_name == "waiting":
        return bool(row.doubts or any(until > stamp for until in row.asked))
    return row.is_finished is (filter_name == "finished")


def _now(store: Store, row: TaskRow, stamp: str, site: Site) -> ShownTask:
    return ShownTask(row, sum(until > stamp for until in row.asked), _is_working(store, row, site))


def _is_working(store: Store, row: TaskRow, site: Site) -> bool:
    return any(is_alive(store, row.id, session, site.clock()) for session in row.sessions)


PAGE = WebPage("/tasks", "Tasks", "tasks.html", query)
