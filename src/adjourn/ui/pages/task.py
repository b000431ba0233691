"""One task: what it is for, what its budget went into, what happened, and what the next session will receive.

Owns: what is read of a task, a window of its events at a time. Must never: show an event of a chain that does not verify, or fold a long
history for a page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from adjourn import host
from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover import ROOM, Preview, Timeline, TimelineEntry, last_client, resume, to_lines
from adjourn.log import Event, decode, timestamp
from adjourn.store import Head, Store
from adjourn.tasks import Ledger, Task, following
from adjourn.ui.budget_plot import plot_of
from adjourn.ui.page import Form, WebPage
from adjourn.ui.site import Site

WINDOW = 400
"""Events that are read for one page."""
ODD = frozenset(("error", "refused", "not made", "in doubt", "no answer", "waits", "not done"))


class Moment(NamedTuple):
    """An entry of the timeline, with the tone of its label: `good`, `bad` or `plain`."""

    entry: TimelineEntry
    tone: str


class Told(NamedTuple):
    """The hand-over as lines, and as the text that `aex.resume` answers."""

    lines: Sequence[str] = ()
    answer: str = ""


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """The task, the events before `before` (default: the last ones), and its hand-over."""
    store = site.find_store()
    name = fields.get("id", "")
    if store is None or not name:
        raise NotFoundError("no task is named", "choose one from the list of tasks")
    task = site.task(store, name)
    ledger = task.ledger
    before = fields.get("before", "")[:12]
    end = min(int(before), ledger.seq + 1) if before.isdecimal() else ledger.seq + 1
    start = max(0, end - WINDOW)
    events = _events(store, ledger, start, end)
    is_last = end == ledger.seq + 1
    return {
        "task": ledger,
        "client": last_client(store, ledger),
        "moments": _moments(events, ledger, timestamp(site.clock()), is_last=is_last),
        "plot": plot_of(events, ledger) if is_last else "",
        "older": start,
        "is_last": is_last,
        "handover": _handover(site, task) if is_last else Told(),
        "checkpoint": ledger.checkpoint,
        "doubts": list(ledger.doubts.values()),
    }


def _events(store: Store, ledger: Ledger, start: int, end: int) -> Sequence[Event]:
    """A window of events. The last ones are verified up to the head of the chain, older ones among themselves."""
    head = Head(ledger.seq, ledger.hash)
    if end <= ledger.seq:
        last = next(iter(store.read(ledger.task, end - 1, end)), None)
        if last is None:
            raise NotFoundError(f"event {end - 1} of {ledger.task} is missing", "run `adjourn verify`")
        head = Head(end - 1, last.hash)
    return [decode(entry.data) for entry in following(store, ledger.task, start, head)]


def _moments(events: Sequence[Event], ledger: Ledger, stamp: str, *, is_last: bool) -> list[Moment]:
    """What happened, the newest first."""
    timeline = Timeline()
    for event in events:
        timeline.feed(event)
    if is_last:
        timeline.mark_doubts(list(ledger.doubts))
        timeline.expire(stamp)
    return [Moment(entry, _tone(entry.label)) for entry in reversed(timeline.entries())]


def _tone(label: str) -> str:
    return "bad" if label in ODD else "good" if label in ("ok", "done", "approved", "replayed") else "plain"


def _handover(site: Site, task: Task) -> Told:
    """What a session receives that resumes the last checkpoint; nothing without one."""
    if not task.ledger.checkpoint:
        return Told()
    reader = Preview(lambda: task.store, site.root, site.clock, host.reading_secret(), site.tree)
    try:
        resumed = resume(reader, task.ledger.checkpoint)
        lines = list(to_lines(resumed.handover(), ROOM, lambda text: f"- {text}"))
        return Told(lines, json.dumps(resumed.to_json("", ROOM), ensure_ascii=False, separators=(",", ":")))
    except AdjournError as error:
        return Told([f"{error.message} ({error.remedy})"])


PAGE = WebPage("/task", "Task", "task.html", query, is_listed=False)
