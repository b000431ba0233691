"""Composing a checkpoint's page from what was stated, the page before, the Continuation Record and the history.

Each part comes from the first source that has it: the report of now; what a person edited on the page before; what was stated on
earlier pages; the task's Continuation Record; the page before; the client's transcript; the history. So a page that nobody asked for, such as the one at the
end of a session, replaces nothing that an agent or a person stated. The machine data says what the next page must know:

    derived    digests of the lines that come from the history or the record: the next page derives them again.
               `instead` is the resumption point that a derived one replaces
    stated     when an agent or a person stated each part, in milliseconds
    sections   the digest of each part, to detect those that a person edits
    omitted    how many items of a list were left out

Must never: read a file or a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from adjourn.checkpoints.page import (
    LATER,
    MAX_ITEMS,
    MAX_MISSION,
    MINUTE,
    NO_REPORT,
    PARTS,
    AgentReport,
    Artifact,
    ChecklistItem,
    Page,
    RecordedReport,
    ReportedArtifact,
    ReportedStep,
    mark,
    members_of,
    more_text,
    of_record,
    section_marks,
    stated_parts,
    statements_of,
)
from adjourn.checkpoints.page import redacted_text as _clean
from adjourn.errors import InvalidError
from adjourn.log.event import milliseconds
from adjourn.log.kinds import tool_name
from adjourn.tasks.entries import OpenCall
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.troubles import open_troubles
from adjourn.text.command_lines import telling_argument

MAX_DOUBTS = 5
MAX_LATER = 3
"""Later prompts that are shown beside a mission that somebody stated."""
SHOWN = 200
MAX_NAME = 60
FAILURES = ("failed", "tests failed", "build failed")
"""Kinds of troubles that come before any next step that was stated."""
_T = TypeVar("_T")


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the history says. `at` is in milliseconds, `began` the time stamp of the session's start, `budget` a number of calls,
    `last` the last call's tool and arguments, `failed` what went wrong before this checkpoint, `produced` are paths,
    `produced_more` is the number of further ones, `gone` are results of earlier pages that are not there now,
    `by` who reports ("": unknown), `transcript` what the client's transcript says.
    """

    ledger: Ledger
    at: int
    trigger: str
    began: str = ""
    budget: int | None = None
    last: tuple[str, str] | None = None
    failed: str = ""
    produced: Sequence[str] = ()
    gone: Sequence[str] = ()
    produced_more: int = 0
    by: str = ""
    transcript: AgentReport = NO_REPORT


def compose(
    happened: TaskFacts,
    said: AgentReport = NO_REPORT,
    *,
    description: str = "",
    before: Page | None = None,
    edits: AgentReport = NO_REPORT,
    record: Mapping[str, Any] | None = None,
    machine: Mapping[str, Any] = {},
) -> Page:
    """Compose the page of a checkpoint. `description` is named where nobody stated a next step.

    `before` is the page that this one follows, `edits` what a person changed on it (`edits_of`), `record` the task's Continuation
    Record, `machine` the machine data.
    """
    sources = _Sources(said, before, edits=edits, record=record)
    ledger, heard = happened.ledger, happened.transcript
    derived: dict[str, Any] = {}
    named = sources.text("mission")
    mission = _clean(named or _asked(ledger, _opt(heard.mission)), limit=MAX_MISSION) or f"Task {ledger.task}"
    if not named:
        derived["mission"] = mark(mission)
    steps = sources.steps()
    progress, omitted = _progress(steps.items or heard.progress or (), steps.omitted)
    has_plan = bool(progress)
    if progress and not steps.items:
        derived["progress"] = [mark(item.text) for item in progress]
    elif not progress:
        asked = mission if named else _clean(ledger.asked, limit=MAX_MISSION) or mission
        progress = (ChecklistItem(text=asked, status="in_progress", note="in progress"),)
        derived["progress"] = [mark(asked)]
    if has_plan and omitted:
        over = any(item.status == "done" for item in progress)  # done items are left out first
        progress = (*progress, ChecklistItem(text=more_text(omitted), status="done" if over else "pending"))
        derived["progress"] = [*derived.get("progress", ()), mark(more_text(omitted))]
    later = _opt(heard.mission).split(LATER)[1:] if named else []
    told = (
        *sources.recorded("current_state"),
        *(f"The person said later: {text}" for text in later[-MAX_LATER:]),
        *(heard.current_state or ()),
        *_state_lines(happened),
    )
    state = _lines(sources.texts("current_state"), told)
    asking = (*sources.recorded("open_questions"), *(heard.open_questions or ()))
    questions = _lines(sources.texts("open_questions"), asking)
    derived["currentState"], derived["openQuestions"] = state.derived, questions.derived
    artifacts = _artifacts(sources, happened)
    derived["artifacts"] = artifacts.derived
    resumption = stated = _clean(sources.point())
    if happened.failed or ledger.failed or ledger.red or not stated:
        plan = progress if has_plan or not description else ()  # the mission alone is no plan
        resumption = _clean(_next_step(happened, plan, stated, description))
        derived["resumptionPoint"] = mark(resumption)
        derived["instead"] = stated
    remaining = ledger.remaining(happened.budget)
    page = Page(
        time=happened.at // MINUTE * MINUTE,
        mission=mission,
        progress=progress,
        current_state=state.items,
        open_questions=questions.items,
        artifacts=artifacts.items,
        resumption_point=resumption,
        iterations_used=ledger.calls_used,
        budget_remaining=UNSET if remaining is None else remaining,
        session_used=UNSET if ledger.session_budget is None else ledger.sitting.used,
        session_remaining=_left_in_session(ledger),
        duration=_minutes(happened.began or ledger.opened, happened.at),
        others=before.others if before is not None else (),
        by=_clean(happened.by, one_line=True, limit=MAX_NAME) or (before.by if before is not None else ""),
    )
    omissions = {
        "progress": omitted,
        "current_state": state.omitted,
        "open_questions": questions.omitted,
        "artifacts": artifacts.omitted,
    }
    fields: dict[str, Any] = {
        "omitted": {name: count for name, count in omissions.items() if count},
        "sections": section_marks(page),
        "stated": sources.stated(happened.at),
    }
    return msgspec.structs.replace(
        page,
        machine={
            **machine,
            "derived": {name: value for name, value in derived.items() if value},
            **{name: value for name, value in fields.items() if value},
        },
    )


def _asked(ledger: Ledger, heard: str) -> str:
    """What the person asked for, and beside it the goal of the contract or policy.

    `heard` are the prompts of the client's transcript. The task may have begun with an earlier one.
    """
    asked, goal = ledger.asked or ledger.goal, ledger.policy_goal
    if heard:
        begin = " ".join(ledger.asked.split())[:SHOWN]
        asked = heard if " ".join(heard.split()).startswith(begin) else f"{ledger.asked}{LATER}{heard}"
    return f"{asked}\n\nGoal of the policy: {goal}" if (heard or ledger.asked) and goal not in ("", asked) else asked


class _Items(NamedTuple, Generic[_T]):
    """The items of a part, the digests of those that are derived, and how many were left out."""

    items: tuple[_T, ...]
    derived: list[str]
    omitted: int = 0


class _Sources:
    """The sources of a page's parts, in their order."""

    def __init__(
        self, report: AgentReport, before: Page | None, *, edits: AgentReport, record: Mapping[str, Any] | None
    ) -> None:
        self._said, self._edits = report, edits
        self._kept = statements_of(before) if before is not None else NO_REPORT
        self._record = of_record(record) if record else RecordedReport(NO_REPORT)
        self._stated_at = _counts(before, "stated")
        self._omitted = _counts(before, "omitted")
        stated = {name: getattr(self._kept, name) for name in self._stated_at if name in PARTS}
        self._order = (report, edits, AgentReport(**stated), self._record.report, self._kept)

    def stated(self, at: int) -> dict[str, int]:
        """When each part was stated: now, or earlier."""
        now = stated_parts(self._said) | stated_parts(self._edits)
        return {
            name: at if name in now else self._stated_at[name]
            for name in PARTS
            if name in now or name in self._stated_at
        }

    def text(self, name: str) -> str:
        return next((value for source in self._order if (value := _opt(getattr(source, name)))), "")

    def point(self) -> str:
        """The resumption point that was stated last; "" for none."""
        opt, recorded = _opt(self._kept.resumption_point), _opt(self._record.report.resumption_point)
        stated_at = self._stated_at.get("resumption_point", 0)
        newer = recorded if self._record.at > stated_at else ""
        said = _opt(self._said.resumption_point) or _opt(self._edits.resumption_point)
        return said or newer or (opt if stated_at else "") or recorded or opt

    def texts(self, name: str) -> _Items[str]:
        """What was stated of a list of texts; what the record has is derived."""
        for source in (self._said, self._edits):
            if (texts := getattr(source, name)) is not UNSET:
                return _Items(tuple(texts), [], self._carried(name) if source is self._edits else 0)
        return _Items(getattr(self._kept, name) or (), [], self._carried(name))

    def recorded(self, name: str) -> tuple[str, ...]:
        return getattr(self._record.report, name) or ()

    def steps(self) -> _Items[ReportedStep]:
        source = next((report for report in self._order if report.progress), NO_REPORT)
        carried = {id(self._said): 0, id(self._record.report): self._record.omitted}
        return _Items(source.progress or (), [], carried.get(id(source), self._carried("progress")))

    def products(self) -> _Items[ReportedArtifact]:
        """Every file that any source names; the latest note counts."""
        report = self._kept if self._edits.artifacts is UNSET else self._edits
        sources = (self._record.report, report, self._said)
        named = tuple(artifact for source in sources for artifact in (source.artifacts or ()))
        return _Items(named, [], self._carried("artifacts"))

    def _carried(self, name: str) -> int:
        """How many items were left out of the page before."""
        return self._omitted.get(name, 0)


def _counts(page: Page | None, name: str) -> dict[str, int]:
    members = members_of(page, name) if page is not None else {}
    return {key: value for key, value in members.items() if type(value) is int and 0 < value < 2**53}


def _progress(steps: Sequence[ReportedStep], omitted: int) -> tuple[tuple[ChecklistItem, ...], int]:
    """The checklist, and how many items it leaves out: those done first, then the last."""
    if len(steps) > MAX_ITEMS:
        todo = [at for at, step in enumerate(steps) if step.status != "done"][:MAX_ITEMS]
        done = [at for at, step in enumerate(steps) if step.status == "done"]
        numbers = sorted([*todo, *done[len(todo) - MAX_ITEMS :]] if len(todo) < MAX_ITEMS else todo)
        omitted += len(steps) - len(numbers)
        steps = [steps[at] for at in numbers]
    items = [
        _step(text, step.status, _clean(step.note, one_line=True)) for step in steps if (text := _clean(step.text))
    ]
    return tuple(items), omitted


def _step(text: str, status: str, note: str) -> ChecklistItem:
    if status == "done":
        return ChecklistItem(text=text, status="done", note="" if note.startswith("in progress") else note)
    if status == "in_progress" or note.startswith("in progress"):
        note = note if note.startswith("in progress") else f"in progress{note and ', ' + note}"
        return ChecklistItem(text=text, status="in_progress", note=note)
    return ChecklistItem(text=text, status="pending", note=note)


def _lines(stated: _Items[str], derived: Iterable[str]) -> _Items[str]:
    """A list of texts: what was stated, how much of it is left out, and the derived lines."""
    lines = _cleaned(stated.items[:MAX_ITEMS])
    omitted = stated.omitted + max(0, len(stated.items) - MAX_ITEMS)
    shown_lines = list(derived)
    more = [more_text(omitted)] if omitted else []
    if len(shown_lines) > MAX_ITEMS:
        shown_lines = [*shown_lines[:MAX_ITEMS], more_text(len(shown_lines) - MAX_ITEMS)]
    added = [line for line in _cleaned([*more, *shown_lines]) if line not in lines]
    return _Items((*lines, *added), [mark(line) for line in added], omitted)


def _artifacts(sources: _Sources, happened: TaskFacts) -> _Items[Artifact]:
    """The files that were ever produced, each once, with its latest note; of too many the newest."""
    named = sources.products()
    notes: dict[str, str] = {}
    heard = happened.transcript.artifacts or ()
    for artifact in (*heard, *named.items, *(ReportedArtifact(path=path) for path in happened.produced)):
        if path := _clean(artifact.path, one_line=True):
            notes[path] = _clean(artifact.note, one_line=True) or notes.get(path, "")
    stated = {_clean(artifact.path, one_line=True) for artifact in named.items}
    derived = [
        mark(path) for artifact in heard if (path := _clean(artifact.path, one_line=True)) and path not in stated
    ]
    omitted = named.omitted + happened.produced_more + max(0, len(notes) - MAX_ITEMS)
    artifacts = [Artifact(path=path, note=note) for path, note in list(notes.items())[-MAX_ITEMS:]]
    if not omitted:
        return _Items(tuple(artifacts), derived)
    return _Items((*artifacts, Artifact(path=more_text(omitted))), [*derived, mark(more_text(omitted))], omitted)


def _named(call: OpenCall) -> str:
    return f"{tool_name(call)} {telling_argument(call.arguments)}".strip()


def _state_lines(happened: TaskFacts) -> Iterable[str]:
    ledger = happened.ledger
    if happened.failed:
        yield f"Failed: {happened.failed}"
    if happened.last is not None:
        tool, arguments = happened.last
        yield f"Last tool call: {tool} {telling_argument(arguments)}".strip()
    yield f"Checkpoint made: {happened.trigger}"
    known_wrong = open_troubles(ledger, happened.gone)
    as_next_step = [trouble for trouble in known_wrong if trouble.kind in FAILURES][-1:]
    for trouble in known_wrong:
        if trouble.kind != "in doubt" and trouble not in as_next_step:
            yield f"Wrong: {trouble.text}"
    for call in list(ledger.doubts.values())[:MAX_DOUBTS]:
        yield f"In doubt: {_named(call)} ({call.call})"
    for call in list(ledger.unseen.values())[:MAX_DOUBTS]:
        yield f"Done, answer lost: {_named(call)} ({call.call})"
    if len(ledger.doubts) > MAX_DOUBTS:
        yield f"In doubt: {len(ledger.doubts) - MAX_DOUBTS} more calls"


def _next_step(happened: TaskFacts, progress: Sequence[ChecklistItem], stated: str, description: str) -> str:
    """The derived resumption point."""
    ledger = happened.ledger
    then = f" Then: {stated}" if stated else ""
    if troubles := [trouble.text for trouble in open_troubles(ledger) if trouble.kind in FAILURES]:
        more = f" {len(troubles) - 1} more steps failed." if len(troubles) > 1 else ""
        return f"{troubles[-1]}.{more}{then}"
    if happened.failed:
        return f"Check which effects of the failed step happened, and undo or repeat it.{then}"
    todo = next((step.text for step in progress if step.status != "done"), "")
    says = f'. The checkpoint says: "{description}"' if description else ""
    first = next(iter(ledger.doubts.values()), None)
    if first is not None:
        then = f", then continue with: {todo}" if todo else says
        return f"Check whether {tool_name(first)} ({first.call}) took effect{then}"
    if point := _opt(happened.transcript.resumption_point):
        return point
    if todo:
        return f"Continue with: {todo}"
    return f"No next step was stated{says or ': review what was done'}"


def _left_in_session(ledger: Ledger) -> int | UnsetType:
    budget = ledger.session_budget
    return UNSET if budget is None else max(0, budget - ledger.sitting.used)


def _opt(value: str | UnsetType) -> str:
    return value if isinstance(value, str) else ""


def _cleaned(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for raw in texts if (text := _clean(raw))))


def _minutes(began: str, at: int) -> int:
    try:
        return max(0, at - milliseconds(began)) // MINUTE
    except InvalidError:  # an event made elsewhere
        return 0
