"""Composing a checkpoint's page from the agent's report, the page before, the Continuation Record and the history.

Each part comes from the first source that has it: the agent's report; the page before, if a person edited it; the task's
Continuation Record; the page before; the history. Lines that are derived from the history are named in the page's machine data
(`derived`; `instead`: the resumption point that a derived one replaces), so that the next page derives them again.

Owns: that order, and the derived lines. Must never: read a file or a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from adjourn.checkpoints.page import MINUTE, Artifact, ChecklistItem, Page
from adjourn.errors import InvalidError
from adjourn.log import digest, milliseconds
from adjourn.tasks import Ledger
from adjourn.text import clean, fit_text, without_secrets

MAX_MISSION, MAX_TEXT = 50_000, 4000
MAX_ITEMS = 200
MAX_ACTIONS = 20
MAX_DOUBTS = 5
SHOWN = 200
MAX_NAME = 60
_AUTHORITY = frozenset(("approved", "auto-approved"))


class ReportedStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the checklist, in an agent's report."""

    text: str
    status: str = "pending"
    note: str = ""


class ReportedArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that was produced, in an agent's report."""

    path: str
    note: str = ""


class AgentReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An agent's or a person's report on the work. A part that is left out stays as it was on the page before."""

    mission: str | UnsetType = UNSET
    progress: tuple[ReportedStep, ...] | UnsetType = UNSET
    current_state: tuple[str, ...] | UnsetType = UNSET
    open_questions: tuple[str, ...] | UnsetType = UNSET
    artifacts: tuple[ReportedArtifact, ...] | UnsetType = UNSET
    resumption_point: str | UnsetType = UNSET


NO_REPORT = AgentReport()


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the history says. `at` is in milliseconds, `began` the time stamp of the session's start, `budget` a number of calls,
    `last` the last call's tool and arguments, `failed` what went wrong before this checkpoint, `produced` are paths.
    """

    ledger: Ledger
    at: int
    trigger: str
    began: str = ""
    budget: int | None = None
    last: tuple[str, str] | None = None
    failed: str = ""
    produced: Sequence[str] = ()


def report_of(page: Page) -> AgentReport:
    """A page as a report."""
    return AgentReport(
        mission=page.mission,
        progress=tuple(
            ReportedStep(text=one.text, status=one.status, note=one.note) for one in page.progress
        ),
        current_state=page.current_state,
        open_questions=page.open_questions,
        artifacts=tuple(ReportedArtifact(path=one.path, note=one.note) for one in page.artifacts),
        resumption_point=page.resumption_point,
    )


def compose(
    happened: TaskFacts,
    said: AgentReport = NO_REPORT,
    *,
    description: str = "",
    before: Page | None = None,
    edited: bool = False,
    record: Mapping[str, Any] | None = None,
    machine: Mapping[str, Any] = {},
    by: str = "",
) -> Page:
    """Compose the page of a checkpoint. `description` serves as the resumption point if `said` has none.

    `before` is the page that this one follows, `edited` whether a person edited it, `record` the task's Continuation Record,
    `machine` the machine data, `by` who reports, "" for unknown.
    """
    sources = _Sources(said, before, edited=edited, record=record)
    ledger = happened.ledger
    derived: dict[str, Any] = {}
    mission = sources.text("mission") or ledger.goal or f"Task {ledger.task}"
    mission = _clean(mission, limit=MAX_MISSION) or f"Task {ledger.task}"
    if not sources.text("mission"):
        derived["mission"] = _mark(mission)
    progress = sources.progress()
    if not progress:
        progress = (ChecklistItem(text=mission, status="in_progress", note="in progress"),)
        derived["progress"] = [_mark(mission)]
    state = _texts(sources.texts("current_state"))
    found = [line for line in _texts(_state_lines(happened)) if line not in state]
    derived["currentState"] = [_mark(line) for line in found]
    artifacts = _artifacts(sources, happened.produced)
    stated = _clean(_opt(said.resumption_point) or description or sources.text("resumption_point"))
    resumption = stated
    if happened.failed or not stated:
        resumption = _clean(_next_step(happened, progress, stated))
        derived["resumptionPoint"] = _mark(resumption)
        derived["instead"] = stated
    remaining = ledger.remaining(happened.budget)
    return Page(
        time=happened.at // MINUTE * MINUTE,
        mission=mission,
        progress=progress,
        current_state=(*state, *found),
        open_questions=_texts(sources.texts("open_questions")),
        artifacts=artifacts,
        resumption_point=resumption,
        iterations_used=ledger.calls_used,
        budget_remaining=UNSET if remaining is None else remaining,
        duration=_minutes(happened.began or ledger.opened, happened.at),
        others=before.others if before is not None else (),
        by=_clean(by, one_line=True, limit=MAX_NAME) or (before.by if before is not None else ""),
        machine={**machine, "derived": {name: value for name, value in derived.items() if value}},
    )


class _Sources:
    """The sources of a page's parts, in their order."""

    def __init__(
        self, said: AgentReport, before: Page | None, *, edited: bool, record: Mapping[str, Any] | None
    ) -> None:
        self._said = said
        self._before = before
        known = before.machine if before is not None and isinstance(before.machine, dict) else {}
        named = known.get("derived")
        self._derived: dict[str, Any] = named if isinstance(named, dict) else {}
        recorded = _of_record(record) if record else NO_REPORT
        kept = self._kept()
        self._order = (said, kept, recorded) if edited else (said, recorded, kept)

    def _kept(self) -> AgentReport:
        """The page before as a report, without derived lines."""
        before = self._before
        if before is None:
            return NO_REPORT
        report = report_of(before)
        return msgspec.structs.replace(
            report,
            mission=UNSET if _mark(before.mission) == self._derived.get("mission") else before.mission,
            progress=tuple(
                one for one in report.progress or () if _mark(one.text) not in self._lines("progress")
            ),
            current_state=self._without("currentState", before.current_state),
            open_questions=self._without("openQuestions", before.open_questions),
            resumption_point=str(self._derived.get("instead", ""))
            if _mark(before.resumption_point) == self._derived.get("resumptionPoint")
            else before.resumption_point,
        )

    def _lines(self, name: str) -> list[Any]:
        lines = self._derived.get(name)
        return lines if isinstance(lines, list) else []

    def _without(self, name: str, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text for text in texts if _mark(text) not in self._lines(name))

    def text(self, name: str) -> str:
        return next((value for source in self._order if (value := _opt(getattr(source, name)))), "")

    def texts(self, name: str) -> tuple[str, ...]:
        if getattr(self._said, name) is not UNSET:
            return tuple(getattr(self._said, name))
        return next((value for source in self._order if (value := getattr(source, name) or ())), ())

    def progress(self) -> tuple[ChecklistItem, ...]:
        steps = next((value for source in self._order if (value := source.progress or ())), ())
        found = [
            _progress(text, step.status, _clean(step.note, one_line=True))
            for step in steps[:MAX_ITEMS]
            if (text := _clean(step.text))
        ]
        return tuple(found)

    @property
    def products(self) -> list[ReportedArtifact]:
        return [
            one for source in (*reversed(self._order[1:]), self._said) for one in (source.artifacts or ())
        ]


def _progress(text: str, status: str, note: str) -> ChecklistItem:
    if status == "done":
        return ChecklistItem(text=text, status="done", note="" if note.startswith("in progress") else note)
    if status == "in_progress" or note.startswith("in progress"):
        note = note if note.startswith("in progress") else f"in progress{note and ', ' + note}"
        return ChecklistItem(text=text, status="in_progress", note=note)
    return ChecklistItem(text=text, status="pending", note=note)


def _of_record(record: Mapping[str, Any]) -> AgentReport:
    """A Continuation Record as a report."""
    task = record["task"]
    actions = record["executionSummary"]["actions"][-MAX_ACTIONS:]
    steps = [
        ReportedStep(
            text=one["description"],
            status="done" if one["outcome"] == "success" else "pending",
            note="" if one["outcome"] == "success" else one["outcome"],
        )
        for one in actions
    ]
    over = "done" if task["status"] == "completed" else "pending"
    steps += [ReportedStep(text=criterion, status=over) for criterion in task["successCriteria"]]
    points = [
        point
        for point in record["resumePoints"]
        if point["approvalStatus"] in _AUTHORITY and "consumedAt" not in point
    ]
    effects = [effect for effect in record["toolEffects"] if effect.get("status", "completed") == "completed"]
    paths = [text for effect in effects for text in effect["sideEffects"] if _looks_like_path(text)]
    return AgentReport(
        mission=task["goal"],
        progress=tuple(steps),
        current_state=tuple(
            f"Blocked: {one['description']}" for one in record["blockers"] if one["status"] == "active"
        ),
        open_questions=tuple(
            one["question"] for one in record["questionsForUser"] if one["status"] == "open"
        ),
        artifacts=tuple(ReportedArtifact(path=path) for path in paths),
        resumption_point="; ".join(points[0]["nextSteps"]) if points else UNSET,
    )


def _looks_like_path(text: str) -> bool:
    return " " not in text and "://" not in text and ("/" in text or "." in text)


def _artifacts(sources: _Sources, produced: Iterable[str]) -> tuple[Artifact, ...]:
    """Every file that was ever produced, each once, with its latest note."""
    found: dict[str, str] = {}
    for one in (*sources.products, *(ReportedArtifact(path=path) for path in produced)):
        if path := _clean(one.path, one_line=True):
            found[path] = _clean(one.note, one_line=True) or found.get(path, "")
    kept = list(found.items())[-MAX_ITEMS:]
    return tuple(Artifact(path=path, note=note) for path, note in kept)


def _state_lines(happened: TaskFacts) -> Iterable[str]:
    ledger = happened.ledger
    if happened.failed:
        yield f"Failed: {happened.failed}"
    if happened.last is not None:
        tool, arguments = happened.last
        yield f"Last tool call: {tool} {fit_text(arguments, SHOWN)}".strip()
    yield f"Checkpoint made: {happened.trigger}"
    for call in list(ledger.doubts.values())[:MAX_DOUBTS]:
        yield f"In doubt: {call.tool} {fit_text(call.arguments, SHOWN)} ({call.call})"
    if len(ledger.doubts) > MAX_DOUBTS:
        yield f"In doubt: {len(ledger.doubts) - MAX_DOUBTS} more calls"


def _next_step(happened: TaskFacts, progress: Sequence[ChecklistItem], stated: str) -> str:
    """The derived resumption point."""
    ledger = happened.ledger
    if happened.failed:
        again = f" Then: {stated}" if stated else ""
        return f"Find out what of the failed step took effect outside, and undo or repeat it.{again}"
    todo = next((one.text for one in progress if one.status != "done"), "")
    first = next(iter(ledger.doubts.values()), None)
    if first is not None:
        then = f", then go on with: {todo}" if todo else ""
        return f"Find out whether {first.tool} ({first.call}) had its effect{then}"
    return f"Go on with: {todo}" if todo else "Look over what was done, and finish"


def _mark(text: str) -> str:
    """The digest by which a derived line is known. The line itself would change with a search and replace over the page."""
    return digest(text.encode())[:16]


def _opt(value: str | UnsetType) -> str:
    return value if isinstance(value, str) else ""


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for one in list(texts)[:MAX_ITEMS] if (text := _clean(one))))


def _clean(text: str, *, one_line: bool = False, limit: int = MAX_TEXT) -> str:
    """The text without secrets and control characters, cut at `limit` characters."""
    text = without_secrets(clean(text))
    if one_line:
        text = " ".join(text.split())
    text = text.strip()
    return fit_text(text, limit, trim=True)


def _minutes(began: str, at: int) -> int:
    try:
        return max(0, at - milliseconds(began)) // MINUTE
    except InvalidError:  # an event made elsewhere
        return 0
