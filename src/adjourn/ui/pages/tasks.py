"""The tasks: what each is for, who works on it, how much of its budget is spent, and whether something waits.

The overview reads the tasks, not this page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from adjourn.log.event import timestamp
from adjourn.store.base import Store
from adjourn.tasks.lease import is_alive
from adjourn.ui.site import Form, Site, TaskRow, WebPage

MAX_ROWS = 50
"""Tasks on one page."""
SHOWN = {"all": "All", "waiting": "Waiting", "working": "Working", "open": "Open", "finished": "Finished"}


class ShownTask(NamedTuple):
    """A row as it is now: what waits, and whether a session works."""

    row: TaskRow
    waiting: int
    is_working: bool


def query(site: Site, fields: Form) -> Mapping[str, Any]:
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


PAGE = WebPage("/tasks", "Tasks", "tasks.html", query)
