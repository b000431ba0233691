"""The plan of a task: what agents and people have stated of the work, kept in the store beside the page.

A page is a file that may be deleted, and stays behind when a task moves to another machine. So each checkpoint names a document with
all that was stated until then: a report, in canonical JSON. A page that is missing is made from it again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

import msgspec
from msgspec import UNSET

from adjourn.checkpoints.environment import missing_files, recent
from adjourn.checkpoints.page import (
    MAX_ITEMS,
    MAX_MISSION,
    NO_REPORT,
    PARTS,
    AgentReport,
    Page,
    ReportedArtifact,
    ReportedStep,
    edits_of,
    members_of,
    merge_reports,
    more_text,
    redacted_text,
)
from adjourn.checkpoints.page_files import FOLDER, PageSummary, find_active, names_in, page_summary, read
from adjourn.errors import AdjournError, InvalidError
from adjourn.log.canonical_json import canonical
from adjourn.store.base import Store
from adjourn.tasks.ledger import MAX_GONE, Ledger
from adjourn.tasks.task import Task
from adjourn.text.fitting import fit_text

MAX_REPORT_BYTES = 1024 * 1024
"""Beyond it, each list of a report keeps its first `MAX_ITEMS` items."""

RULES = "reflection/rules"
"""The ref that has the rules of reflection for hand-overs, as JSON."""
MAX_RULES = 2
MAX_SHOWN, MAX_UNCHANGED = 100, 10
MAX_ACTIVE = 256
"""Active pages that are looked at for results that are gone."""
_CHANGE = (
    r"(?i)\b(?:add|build|change|convert|create|delete|deploy|drop|edit|extract|fix|implement|install|migrate|move|port|publish|refactor"
    r"|release|remove|rename|replace|rewrite|split|update|upgrade|write)(?:e?[sd]|ing)?\b"
)
"""Matches a word of an item that cannot be done without a change; compiled for the few plans of which a step is done."""


def next_report(task: Task, report: AgentReport) -> bytes:
    """The document of all that was stated of a task, with the `report` of now; b"" if that is nothing."""
    if report == NO_REPORT:
        return b""
    merged = merge_reports(read_report(task.store, task.ledger.report), _redacted(report))
    data = canonical(msgspec.to_builtins(merged))
    return data if len(data) <= MAX_REPORT_BYTES else canonical(msgspec.to_builtins(_shortened(merged)))


def read_report(store: Store, report: str) -> AgentReport:
    """The report of a digest; an empty one if the store does not have it, or it cannot be read."""
    try:
        stored = store.get_blob(report) if report else None
        return msgspec.json.decode(stored, type=AgentReport) if stored else NO_REPORT
    except (InvalidError, msgspec.DecodeError, UnicodeDecodeError):  # no digest, or a later version's report
        return NO_REPORT


class DoneItems(msgspec.Struct, frozen=True):
    """Items of a plan that are called done: those that became so now, after something was changed, and those without a change."""

    proven: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()


def done_items(task: Task, report: bytes, *, by_person: bool = False) -> DoneItems:
    """What the document `report`, which is about to be kept, calls done. Only items that speak of a change need one, and only where
    the calls that make it are seen. What a person says needs no proof.
    """
    ledger = task.ledger
    if not report:
        return DoneItems()
    before = {step.text: step.status for step in read_report(task.store, ledger.report).progress or ()}
    steps = msgspec.json.decode(report, type=AgentReport).progress or ()
    done = [step.text for step in steps if step.status == "done"]
    fresh = [text for text in done if before.get(text) != "done"]
    if by_person or ledger.changes > ledger.changes_at_stated:
        return DoneItems(proven=tuple(fresh))
    if not ledger.sees_edits or ledger.imported or ledger.over:
        return DoneItems()
    # what was in hand at the last statement may have been changed before it
    begun = [text for text in fresh if before.get(text) != "in_progress" or not ledger.changes]
    shown = [_in_short(text) for text in begun if re.search(_CHANGE, text)]
    still = {_in_short(text) for text in done}
    kept = [text for text in ledger.unchanged if text in still]
    return DoneItems(unchanged=tuple(dict.fromkeys([*kept, *shown]))[:MAX_UNCHANGED])


def _in_short(text: str) -> str:
    return fit_text(" ".join(text.split()), MAX_SHOWN)


def page_of(task: Task, at: int) -> Page | None:
    """The page that a task's report would make at a time in milliseconds, where no page can be read; None without a report."""
    report = read_report(task.store, task.ledger.report)
    if report == NO_REPORT:
        return None
    from adjourn.checkpoints.builder import TaskFacts, compose  # seldom: a page can be read nearly always

    return compose(TaskFacts(ledger=task.ledger, at=at, trigger="report"), report)


def plan_summary(task: Task, root: str, now: int) -> PageSummary | None:
    """What the next session reads of a task's plan: its newest page, else the report that the store has; None without either.

    A note says which was taken if it is not the page of the last checkpoint. `now` is in milliseconds.
    """
    summary = page_summary(root, task.id, now)
    if summary is not None and summary.page is not None:
        due = task.ledger.checkpoint_seq
        if -1 < summary.seq < due:
            note = f"the page is of event {summary.seq}: the checkpoint of event {due} has no page that can be read"
            summary = msgspec.structs.replace(summary, notes=[*summary.notes, note])
        return summary
    page = page_of(task, now)
    if page is None:
        return summary
    notes = summary.notes if summary is not None else []
    note = "no page can be read; this is what was stated until the last checkpoint"
    return PageSummary(page, [*notes, note])


def gone_results(root: str, ledger: Ledger) -> list[str]:
    """The files that the newest page of a task names, that were there when it was written, and are not now. Without a page, as in a
    clone, those that the last checkpoint called gone, and that are not there.
    """
    if ledger.checkpoint_seq < 0:
        return []
    if (page := find_active(root, ledger.task)) is None:
        return missing_files(root, ledger.gone)
    seen = page.machine.get("artifacts")
    return missing_files(root, list(seen)[:MAX_ITEMS]) if isinstance(seen, dict) else []


def gone_at_checkpoint(task: Task, root: str) -> list[str]:
    """`gone_results` that no call named since the page before: what an agent removes is not gone. At most `MAX_GONE`."""
    if not (gone := gone_results(root, task.ledger)):
        return []
    page = find_active(root, task.id)
    work = recent(task, root, since=page.seq if page is not None else task.ledger.checkpoint_seq)
    return [path for path in gone if path not in work.named and not work.has_removed(root, path)][:MAX_GONE]


def gone_by_task(root: str, stated: Mapping[str, Sequence[str]] = {}) -> dict[str, list[str]]:
    """`gone_results` of tasks, where there are any: of those with an active page, and of others what their last checkpoints `stated`.

    Pages are read again only where their files changed.
    """
    folder = os.path.join(os.path.realpath(root), FOLDER)
    gone = {task: missing for task, paths in stated.items() if (missing := missing_files(root, paths))}
    for name in names_in(folder)[:MAX_ACTIVE]:
        if not name.startswith("checkpoint-active"):
            break  # active ones come first
        with suppress(AdjournError, OSError):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            task, named = _results_on(root, f"{FOLDER}/{name}", (status.st_ino, status.st_size, status.st_mtime_ns))
            gone.pop(task, None)
            if missing := missing_files(root, named):
                gone[task] = missing
    return gone


@lru_cache(maxsize=MAX_ACTIVE)
def _results_on(root: str, path: str, _version: tuple[int, int, int]) -> tuple[str, tuple[str, ...]]:
    """The task of a page, and the files that were there when it was written."""
    page = read(root, path)
    seen = page.machine.get("artifacts")
    return page.task, tuple(seen)[:MAX_ITEMS] if isinstance(seen, dict) else ()


def kept_rules(store: Store) -> list[str]:
    """The rules that earlier tasks support, each with its numbers (`reflect.keep_rules`)."""
    try:
        return msgspec.json.decode(store.ref(RULES) or "[]", type=list[str])[:MAX_RULES]
    except msgspec.DecodeError:
        return []


def is_replanned(summary: PageSummary, since: int) -> bool:
    """Whether the next step on a page was edited, or was stated after a time in milliseconds."""
    if summary.page is None or not summary.path:  # a page made from the report is of now
        return False
    edits = edits_of(summary.page, edited=summary.edited)
    stated = members_of(summary.page, "stated").get("resumption_point")
    return edits.resumption_point is not UNSET or (isinstance(stated, int) and stated > since)


def _redacted(report: AgentReport) -> AgentReport:
    """A report without secrets and control characters."""
    stated = {name: value for name in PARTS if (value := getattr(report, name)) is not UNSET}
    for name, value in stated.items():
        if isinstance(value, str):
            stated[name] = redacted_text(value, limit=MAX_MISSION if name == "mission" else None)
        else:
            stated[name] = tuple(map(_redacted_item, value))
    return AgentReport(**stated)


def _redacted_item(item: str | ReportedStep | ReportedArtifact) -> str | ReportedStep | ReportedArtifact:
    if isinstance(item, str):
        return redacted_text(item)
    texts = {name: redacted_text(text) for name, text in msgspec.structs.asdict(item).items()}
    return msgspec.structs.replace(item, **texts)


def _shortened(report: AgentReport) -> AgentReport:
    lists = {name: value for name in PARTS if isinstance(value := getattr(report, name), tuple)}
    return msgspec.structs.replace(report, **{name: _shortened_list(value) for name, value in lists.items()})


def _shortened_list(items: tuple[object, ...]) -> tuple[object, ...]:
    """The first items of a list of a report, and one that says how many are left out."""
    if len(items) <= MAX_ITEMS:
        return items
    more = more_text(len(items) - MAX_ITEMS)
    last: object = more
    if isinstance(items[0], ReportedStep):
        last = ReportedStep(text=more)
    elif isinstance(items[0], ReportedArtifact):
        last = ReportedArtifact(path=more)
    return (*items[:MAX_ITEMS], last)
