"""Hand-overs of a task compared: what a session received as it began, beside what the one before it received."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover.compared import ComparedSection, SessionStart, compare, handover_at, session_starts
from adjourn.handover.rendering import Handover
from adjourn.handover.resumption import Preview, resume
from adjourn.store.base import Store
from adjourn.tasks.task import Task
from adjourn.ui.site import Form, Site, WebPage

NEXT = "next"
"""The name of the session that does not exist yet, in the address."""


def query(site: Site, fields: Form) -> Mapping[str, Any]:
    """What session `session` of the task `id` received (default: the next one receives), and what the one before it did."""
    store, name = site.find_store(), fields.get("id", "")
    if store is None or not name:
        raise NotFoundError("no task is named", "choose one from the list of tasks")
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


PAGE = WebPage("/handover", "Hand-over", "handover.html", query, is_listed=False)
