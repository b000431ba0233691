"""The tasks: what each is for, who works on it, how much of its budget is spent, and whether something waits.

Owns: the rows of the list, their order and filters. Must never: take longer than a moment; what is not read yet comes with the next look.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from adjourn import host
from adjourn.errors import AdjournError
from adjourn.handover import last_client
from adjourn.log import timestamp
from adjourn.store import Head, Store
from adjourn.tasks import Ledger, OpenSession, Task, is_alive, tasks_of
from adjourn.ui.page import Form, WebPage
from adjourn.ui.site import Site

MAX_ROWS = 50
"""Tasks on one page."""
READ_SECONDS = 0.1
"""How long one look may read tasks that it does not know yet."""
SHOWN = {"all": "All", "waiting": "Waiting", "working": "Working", "open": "Open", "finished": "Finished"}


class TaskRow(NamedTuple):
    """A task in the list, as of its `head`. `asked` are the times until which its questions wait."""

    head: Head
    id: str
    goal: str
    client: str
    used: int
    budget: int | None
    touched: str
    is_finished: bool
    doubts: int
    asked: tuple[str, ...]
    sessions: tuple[OpenSession, ...]
    problem: str = ""

    @property
    def share(self) -> int:
        """How much of the budget is spent, in percent."""
        return min(100, round(100 * self.used / self.budget)) if self.budget else 0


class ShownTask(NamedTuple):
    """A row as it is now: what waits, and whether a session works."""

    row: TaskRow
    waiting: int
    is_working: bool


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The tasks that were asked for, the ones used last first."""
    store = site.find_store()
    shown = fields.get("show", "all") if fields.get("show") in SHOWN else "all"
    words = fields.get("q", "")[:200]
    given = {"show": shown, "words": words, "kinds": SHOWN, "has_store": store is not None}
    if store is None:
        return {
            **given,
            "tasks": [],
            "count": 0,
            "total": 0,
            "left": 0,
            "first": 0,
            "page_count": 1,
            "number": 1,
        }
    left = _read(site, store)
    stamp = timestamp(site.clock())
    rows = sorted(site.rows.values(), key=lambda row: (row.touched, row.id), reverse=True)
    found = [row for row in rows if words.casefold() in f"{row.id} {row.goal} {row.client}".casefold()]
    if shown == "working":
        tasks = [one for row in found if row.sessions and (one := _now(store, row, stamp, site)).is_working]
    else:
        tasks = [_unseen(row, stamp) for row in found if _fits(row, shown, stamp)]
    pages = max(1, -(-len(tasks) // MAX_ROWS))
    number = min(int(page), pages) if (page := fields.get("page", "1")[:9]).isdecimal() and int(page) else 1
    part = tasks[(number - 1) * MAX_ROWS : number * MAX_ROWS]
    return {
        **given,
        "tasks": [_now(store, one.row, stamp, site) for one in part],
        "count": len(tasks),
        "total": len(rows),
        "left": left,
        "page_count": pages,
        "number": number,
    }


def _read(site: Site, store: Store) -> int:
    """Bring the rows up to date. Returns how many tasks are left to read."""
    heads = store.streams()
    names = tasks_of(store)
    for gone in site.rows.keys() - set(names):
        del site.rows[gone]
    due = [name for name in names if name not in site.rows or site.rows[name].head != heads.get(name)]
    ends_at = time.monotonic() + READ_SECONDS
    for number, name in enumerate(reversed(due)):
        if time.monotonic() > ends_at:
            return len(due) - number
        site.rows[name] = _row(site, store, name, heads.get(name) or store.head(name))
    return 0


def _row(site: Site, store: Store, name: str, head: Head) -> TaskRow:
    try:
        task = Task(store, name, clock=site.clock, secret=host.reading_secret())
    except AdjournError as error:
        return TaskRow(head, name, "", "", 0, None, "", False, 0, (), (), error.message)
    task.fold_for_readers()
    ledger = task.ledger
    return TaskRow(
        Head(ledger.seq, ledger.hash),
        name,
        ledger.goal,
        last_client(store, ledger),
        ledger.calls_used,
        ledger.budget,
        ledger.touched,
        bool(ledger.finished),
        len(ledger.doubts),
        _asked(ledger),
        tuple(ledger.sessions.values()),
    )


def _asked(ledger: Ledger) -> tuple[str, ...]:
    return tuple(one.expires for one in ledger.approvals.values() if not (one.approved or one.refused))


def _fits(row: TaskRow, shown: str, stamp: str) -> bool:
    if shown == "waiting":
        return bool(row.doubts or any(until > stamp for until in row.asked))
    return shown == "all" or row.is_finished is (shown == "finished")


def _unseen(row: TaskRow, stamp: str) -> ShownTask:
    return ShownTask(row, sum(until > stamp for until in row.asked), False)


def _now(store: Store, row: TaskRow, stamp: str, site: Site) -> ShownTask:
    working = any(is_alive(store, row.id, session, site.clock()) for session in row.sessions)
    return _unseen(row, stamp)._replace(is_working=working)


PAGE = WebPage("/tasks", "Tasks", "tasks.html", query)
