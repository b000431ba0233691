"""Who works now, in all workspaces of the person; and the tasks of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from adjourn.errors import AdjournError
from adjourn.handover.calls import CallReport
from adjourn.handover.spending import calls_last, left_in_words
from adjourn.log.event import milliseconds, timestamp
from adjourn.store.base import Store
from adjourn.tasks.lease import is_alive
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
