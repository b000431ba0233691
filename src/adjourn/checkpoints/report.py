"""An agent's or a person's report on the work: what they state, and what a page or a Continuation Record states as a report.

Owns: the type, reading it off a page or a record, which parts a person edited. Must never: read a file or a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from adjourn.checkpoints.page import Page
from adjourn.log import canonical, digest
from adjourn.text import clean, fit_text, without_secrets

MAX_TEXT = 4000
MAX_ACTIONS = 20
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
PARTS = AgentReport.__struct_fields__


class RecordedReport(NamedTuple):
    """A Continuation Record as a report, when its resumption point was approved (milliseconds), and how many of its actions were
    left out.
    """

    report: AgentReport
    at: int = 0
    omitted: int = 0


def stated_parts(report: AgentReport) -> set[str]:
    """The parts that a report states."""
    return {name for name in PARTS if getattr(report, name) is not UNSET}


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


def statements_of(page: Page) -> AgentReport:
    """A page as a report, without the lines that were derived."""
    known = members_of(page, "derived")
    report = report_of(page)
    instead = known.get("instead")
    return msgspec.structs.replace(
        report,
        mission=UNSET if mark(page.mission) == known.get("mission") else page.mission,
        progress=tuple(one for one in report.progress or () if mark(one.text) not in _lines(known, "progress")),
        current_state=_without(page.current_state, _lines(known, "currentState")),
        open_questions=_without(page.open_questions, _lines(known, "openQuestions")),
        artifacts=tuple(one for one in report.artifacts or () if mark(one.path) not in _lines(known, "artifacts")),
        resumption_point=(instead if isinstance(instead, str) else "")
        if mark(page.resumption_point) == known.get("resumptionPoint")
        else page.resumption_point,
    )  # fmt: skip


def edits_of(page: Page, *, edited: bool) -> AgentReport:
    """The parts of a page that a person changed. Of a page that adjourn did not write, that is every part.

    `edited` is whether the text differs from the one that was written. A page of an earlier version does not say which of its parts
    were changed: all of them count.
    """
    if page.machine is not UNSET and not edited:
        return NO_REPORT
    written, now = members_of(page, "sections"), section_marks(page)
    kept = statements_of(page)
    return AgentReport(**{name: getattr(kept, name) for name in PARTS if written.get(name) != now[name]})


def merge_reports(kept: AgentReport, said: AgentReport) -> AgentReport:
    """A report with the parts that a later one states. Artifacts are added up."""
    stated = {name: getattr(said, name) for name in stated_parts(said)}
    if kept.artifacts and said.artifacts:
        stated["artifacts"] = tuple({one.path: one for one in (*kept.artifacts, *said.artifacts)}.values())
    return msgspec.structs.replace(kept, **stated)


def section_marks(page: Page) -> dict[str, str]:
    """The digest of each part of a page."""
    report = msgspec.to_builtins(report_of(page))
    fields = zip(PARTS, AgentReport.__struct_encode_fields__, strict=True)
    return {name: mark(canonical(report[encoded]).decode()) for name, encoded in fields}


def mark(text: str) -> str:
    """The digest by which a line or a part is known. The text itself would change with a search and replace over the page."""
    return digest(text.encode())[:16]


def members_of(page: Page, name: str) -> dict[str, Any]:
    """The members of an object in a page's machine data; empty for none."""
    found = page.machine.get(name) if isinstance(page.machine, dict) else None
    return found if isinstance(found, dict) else {}


def _lines(known: dict[str, Any], name: str) -> list[Any]:
    lines = known.get(name)
    return lines if isinstance(lines, list) else []


def _without(texts: tuple[str, ...], derived: list[Any]) -> tuple[str, ...]:
    return tuple(text for text in texts if mark(text) not in derived)


def redacted_text(text: str, *, one_line: bool = False, limit: int | None = None) -> str:
    """The text without secrets and control characters, cut at `limit` (`MAX_TEXT`) characters with an ellipsis."""
    text = without_secrets(clean(text))
    if one_line:
        text = " ".join(text.split())
    return fit_text(text.strip(), limit or MAX_TEXT, trim=True)


# --- a record


def of_record(record: Mapping[str, Any]) -> RecordedReport:
    """A Continuation Record as a report."""
    task = record["task"]
    actions = record["executionSummary"]["actions"]
    steps = [
        ReportedStep(
            text=one["description"],
            status="done" if one["outcome"] == "success" else "pending",
            note="" if one["outcome"] == "success" else one["outcome"],
        )
        for one in actions[-MAX_ACTIONS:]
    ]
    over = "done" if task["status"] == "completed" else "pending"
    steps += [ReportedStep(text=criterion, status=over) for criterion in task["successCriteria"]]
    point = next(
        (
            one
            for one in record["resumePoints"]
            if one["approvalStatus"] in _AUTHORITY and "consumedAt" not in one
        ),
        None,
    )
    effects = [effect for effect in record["toolEffects"] if effect.get("status", "completed") == "completed"]
    paths = [text for effect in effects for text in effect["sideEffects"] if _looks_like_path(text)]
    report = AgentReport(
        mission=task["goal"],
        progress=tuple(steps),
        current_state=tuple(
            f"Blocked: {one['description']}" for one in record["blockers"] if one["status"] == "active"
        ),
        open_questions=tuple(
            one["question"] for one in record["questionsForUser"] if one["status"] == "open"
        ),
        artifacts=tuple(ReportedArtifact(path=path) for path in paths),
        resumption_point="; ".join(point["nextSteps"]) if point else UNSET,
    )
    at = max(point.get("approvedAt", 0), point.get("createdAt", 0)) if point else 0
    return RecordedReport(report, at, max(0, len(actions) - MAX_ACTIONS))


def _looks_like_path(text: str) -> bool:
    return " " not in text and "://" not in text and ("/" in text or "." in text)
