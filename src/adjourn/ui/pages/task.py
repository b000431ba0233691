"""One task: what it is for, what its budget went into, what happened, and what the next session will receive.

A window of the events is read at a time, so that no page waits for a long history. Every event that it shows is of a chain that
verifies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover.compared import ComparedSection, SessionStart, compare, handover_at, session_starts
from adjourn.handover.rendering import ROOM, Handover, to_json
from adjourn.handover.resumption import Preview, resume
from adjourn.handover.spending import plot_of
from adjourn.handover.task_view import MAX_SCANNED, TaskReader, view_of
from adjourn.log.event import Event, decode, timestamp
from adjourn.store.base import Head, Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task
from adjourn.ui.site import EventAddresses, Form, Site, WebPage

WINDOW = 200
"""Events that are read for one page."""
DRAWN: Mapping[str, int] = {"400": 400, "5000": 5_000, "100000": 100_000}
"""How many of the last events the picture of the sessions may have, by the name in the address."""
MAX_QUERY = 200
_MINUTE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}")


class Told(NamedTuple):
    """The hand-over by section, as prose, and as the text that `aex.resume` answers; or what is wrong with it."""

    sections: Sequence[ComparedSection] = ()
    answer: str = ""
    problem: str = ""


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The task, the events before `before` (default: the last ones) or those with the text `q`, and its hand-over."""
    store = site.find_store()
    name = fields.get("id", "")
    if store is None or not name:
        raise _no_task(name)
    task = site.task(store, name)
    ledger = task.ledger
    before = fields.get("before", "")[:12]
    end = min(int(before), ledger.seq + 1) if before.isdecimal() else ledger.seq + 1
    q, since, until = fields.get("q", "")[:MAX_QUERY], _minute(fields, "since"), _minute(fields, "until")
    is_filtered = bool(q or since or until)
    start = max(0, end - (MAX_SCANNED if is_filtered else WINDOW))
    events = _events(store, ledger, start, end)
    is_last = end == ledger.seq + 1
    reader = TaskReader(timestamp(site.clock()), "" if site.home else site.tree)
    view = view_of(store, ledger, events, reader, is_last=is_last)
    moments = view["moments"]
    drawn = fields.get("drawn", "")
    drawn = drawn if drawn in DRAWN else "5000"
    shown = range(0) if is_filtered else range(start, end)
    if is_filtered:
        moments = [moment for moment in moments if moment.has(q.casefold()) and moment.is_within(since, until)][:WINDOW]
    return view | {
        "moments": moments,
        "q": q,
        "since": since,
        "until": until,
        "is_filtered": is_filtered,
        "scanned": end - start,
        "plot": plot_of(list(events.values()), ledger) if is_last else "",
        "sessions": site.overview.lanes.lanes(
            store, ledger, DRAWN[drawn], EventAddresses(name, DRAWN[drawn], shown, WINDOW)
        ),
        "drawn": drawn,
        "spans": {name: limit for name, limit in DRAWN.items() if limit < 2 * ledger.seq or name == drawn},
        "older": start,
        "is_last": is_last,
        "handover": _handover(site, task) if is_last else Told(),
    }


def _no_task(name: str) -> NotFoundError:
    what = f"no task has the id {name[:100]!r}" if name else "no task is named"
    return NotFoundError(what, "choose one from the list of tasks")


def _minute(fields: Form, name: str) -> str:
    """A minute of the reader's clock in the address; "" for none."""
    text = fields.get(name, "")
    return text if _MINUTE.fullmatch(text) else ""


def _events(store: Store, ledger: Ledger, start: int, end: int) -> Mapping[str, Event]:
    """A window of events by their hashes. The last ones are verified up to the head of the chain, older ones among themselves."""
    head = Head(ledger.seq, ledger.hash)
    if end <= ledger.seq:
        last = next(iter(store.read(ledger.task, end - 1, end)), None)
        if last is None:
            raise NotFoundError(f"event {end - 1} of {ledger.task} is missing", "run `adjourn verify`")
        head = Head(end - 1, last.hash)
    return {entry.hash: decode(entry.data) for entry in verified_entries_from(store, ledger.task, start, head)}


def _handover(site: Site, task: Task) -> Told:
    """What a session receives that resumes the last checkpoint; nothing without one."""
    try:
        handover = next_handover(site, task)
        if handover is None:
            return Told()
        answer = json.dumps(to_json(handover, ROOM), ensure_ascii=False, separators=(",", ":"))
        return Told(compare(None, handover), answer)
    except AdjournError as error:
        return Told(problem=site.words(f"{error.message} ({error.remedy})"))


PAGE = WebPage("/task", "Task", "task.html", query, is_listed=False, is_of_task=True)


# --- hand-overs of a task compared: what a session received as it began, beside what the one before it received

NEXT = "next"
"""The name of the session that does not exist yet, in the address."""


def compare_sessions(site: Site, fields: Form) -> Mapping[str, Any]:
    """What session `session` of the task `id` received (default: the next one receives), and what the one before it did."""
    store, name = site.find_store(), fields.get("id", "")
    if store is None or not name:
        raise _no_task(name)
    task = site.task(store, name)
    starts = session_starts(store, task.ledger)
    by_number = {str(start.number): start for start in starts}
    chosen = by_number.get(fields.get("session", ""))
    before = max((start for start in starts if chosen is None or start.number < chosen.number), default=None)
    values = {"task": task.ledger, "starts": starts, "chosen": chosen, "before": before, "problem": "", "sections": []}
    try:
        return values | {"sections": _compared(site, store, task, before, chosen)}
    except AdjournError as error:
        return values | {"problem": site.words(f"{error.message} ({error.remedy})")}


def _compared(
    site: Site, store: Store, task: Task, before: SessionStart | None, chosen: SessionStart | None
) -> Sequence[ComparedSection]:
    reader = preview_of(site, store)
    earlier = handover_at(reader, task.id, before) if before is not None else None
    later = handover_at(reader, task.id, chosen) if chosen is not None else next_handover(site, task)
    return compare(earlier, later) if later is not None else []


def preview_of(site: Site, store: Store) -> Preview:
    """The reader of a hand-over that joins no task."""
    from adjourn.host.keys import reading_secret

    root, tree = (site.home, site.home) if site.home else (site.root, site.tree)
    contract = site.contract() if site.contract is not None else None
    return Preview(lambda: store, root, site.clock, reading_secret(), tree, contract)


def next_handover(site: Site, task: Task) -> Handover | None:
    """What a session receives that resumes the last checkpoint now; None without one. Raises `AdjournError`."""
    if not task.ledger.checkpoint:
        return None
    return resume(preview_of(site, task.store), task.ledger.checkpoint).handover()


HANDOVERS = WebPage("/handover", "Hand-over", "handover.html", compare_sessions, is_listed=False)
