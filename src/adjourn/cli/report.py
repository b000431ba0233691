"""`adjourn report`: one value, collected from verified events, record and documents, and printed for people or programs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import click
import msgspec

from adjourn import __version__
from adjourn.cli.context import TASK_NAME, CommandContext, at_store, example, flag, for_machines, text_option
from adjourn.cli.output import counted, safe, say, say_json, shown_bytes
from adjourn.cli.start import StoreContext
from adjourn.cli.task_view import budget, current_task
from adjourn.cli.terminal import ProgressLine
from adjourn.errors import AdjournError, InvalidError, UsageError
from adjourn.handover.calls import telling_argument
from adjourn.handover.inbox import WaitingItem, find_waiting
from adjourn.handover.lanes import SessionLanes, session_lanes
from adjourn.handover.timeline import Timeline, TimelineEntry
from adjourn.host.keys import reading_secret
from adjourn.host.workspace import write_file
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.records.task_record import read_record_of
from adjourn.log import kinds
from adjourn.log.event import Event, decode, milliseconds, timestamp
from adjourn.log.kinds import tool_name
from adjourn.store.base import Head, Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task
from adjourn.text.fitting import fit_text
from adjourn.text.plot import LANES_STYLE, PLOT_STYLE, BudgetPoint, budget_plot, sparkline, thinned
from adjourn.text.redact import visible_line, visible_lines, without_secrets
from adjourn.verification.report import VerificationReport
from adjourn.verification.verify import Around, verify_task

MAX_EVENTS = 20_000
"""Events, from the end, that calls and approvals are taken from. The budget is of all events."""
MAX_ROWS = 500
MAX_DECISIONS = 100
MAX_FINDINGS = 50
MAX_LINE = 300
MAX_DOCUMENT = 20_000
_POINTS = 4_000


class ReportedApproval(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A question about a call, and who answered it how; `answer` is `waits` where nobody did."""

    at: str
    tool: str
    argument: str
    answer: str
    by: str = ""
    via: str = ""
    reason: str = ""


class ReportedCheckpoint(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A checkpoint, with the calls that were spent by then."""

    at: str
    name: str
    description: str
    trigger: str
    calls: int


class ReportedDecision(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A decision of the record."""

    decision: str
    status: str
    rationale: str
    by: str


class ReportedVerification(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """What `adjourn verify` finds for the task."""

    valid: bool
    events: int
    checkpoints: int
    findings: list[str]


class WorkReport(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A task as it was when the report was `made`. Every text is without secrets and bounded; `left_out` counts what is not in it."""

    task: str
    made: str
    goal: str
    state: str
    spent: str
    limit: int | None
    opened: str
    touched: str
    clients: list[str]
    contract: str
    policy: str
    points: list[tuple[int, int]]
    entries: list[TimelineEntry]
    approvals: list[ReportedApproval]
    decisions: list[ReportedDecision]
    checkpoints: list[ReportedCheckpoint]
    waiting: list[WaitingItem]
    check: ReportedVerification
    notes: list[str]
    left_out: dict[str, int]

    @property
    def plotted(self) -> Sequence[BudgetPoint]:
        """The budget over time."""
        return [BudgetPoint(at, value) for at, value in self.points]

    @property
    def marks(self) -> Sequence[BudgetPoint]:
        """The checkpoints on it."""
        return [
            BudgetPoint(moment(checkpoint.at), checkpoint.calls, f"{checkpoint.name} ({checkpoint.calls} calls)")
            for checkpoint in self.checkpoints
        ]


def moment(stamp: str) -> int:
    """Milliseconds of a time stamp; 0 for what is none."""
    try:
        return milliseconds(stamp)
    except InvalidError:
        return 0


class _History:
    """What the events of a task say, as they are read."""

    def __init__(self, task: str, first: int) -> None:
        self._first = first
        self._calls = 0
        self._asked: dict[str, ReportedApproval] = {}
        self.ledger = Ledger(task=task)
        self.timeline = Timeline()
        self.points: list[BudgetPoint] = []
        self.clients: dict[str, None] = {}
        self.approvals: dict[str, ReportedApproval] = {}
        self.checkpoints: list[ReportedCheckpoint] = []

    def feed(self, event: Event, event_hash: str) -> None:
        """Take in the next event."""
        data = kinds.data_of(event)
        self.ledger.apply(event, event_hash, data)
        if self.ledger.calls_used != self._calls or not self.points:
            self._calls = self.ledger.calls_used
            self.points.append(BudgetPoint(moment(event.timestamp), self._calls))
            if len(self.points) > 2 * _POINTS:
                self.points = list(thinned(self.points, _POINTS))
        if isinstance(data, kinds.SessionOpened):
            self.clients[_line(data.client) or "a client"] = None
        elif isinstance(data, kinds.CheckpointCreated):
            self.checkpoints.append(_checkpoint(event, data, self._calls))
        if event.seq >= self._first:
            self.timeline.feed(event)
            self._approve(event, data)

    def _approve(self, event: Event, data: kinds.Data | None) -> None:
        if isinstance(data, kinds.ConfirmRequired):
            argument = _line(telling_argument(data.arguments)) if data.arguments else ""
            self.approvals[data.approval] = ReportedApproval(
                at=event.timestamp, tool=_line(tool_name(data)), argument=argument, answer="waits"
            )
        elif isinstance(data, kinds.ConfirmApproved | kinds.ConfirmDenied):
            approval = self.approvals.get(data.approval)
            if approval is not None:
                answer = "approved" if isinstance(data, kinds.ConfirmApproved) else "denied"
                by = event.by.id if event.by.type == "human" else "nobody"
                self.approvals[data.approval] = msgspec.structs.replace(
                    approval,
                    answer=answer,
                    by=_line(by),
                    via=_line(data.via),
                    reason=_line(data.reason),
                    at=event.timestamp,
                )


class ReportSource(NamedTuple):
    """Where a report is from, and who is shown how far it is."""

    context: StoreContext
    task: Task
    progress: Callable[[int, int], None] | None = None


def collect(source: ReportSource) -> WorkReport:
    """The report of a task as it is now. Raises `AdjournError` where its history cannot be read."""
    context, task = source.context, source.task
    store, now = context.store, context.now
    head = Head(task.ledger.seq, task.ledger.hash)
    history = _History(task.id, max(0, head.seq + 1 - MAX_EVENTS))
    for entry in verified_entries_from(store, task.id, 0, head):
        history.feed(decode(entry.data), entry.hash)
    history.timeline.expire(timestamp(now))
    inbox = find_waiting(store, clock=lambda: now, secret=reading_secret(), task=task.id)
    history.timeline.mark_doubts([item.id for item in inbox.items if item.kind == "in-doubt"])
    entries, approvals, ledger = history.timeline.entries(), list(history.approvals.values()), history.ledger
    record, notes = _record(store, task.id)
    decisions = [_decision(decision) for decision in record.get("decisions", ())]
    verified = verify_task(store, task.id, progress=source.progress, around=Around(reading_secret(), context.root))
    counts = {
        "events": max(0, head.seq + 1 - MAX_EVENTS),
        "entries": len(entries) - MAX_ROWS,
        "approvals": len(approvals) - MAX_ROWS,
        "checkpoints": len(history.checkpoints) - MAX_ROWS,
        "decisions": len(decisions) - MAX_DECISIONS,
        "waiting": len(inbox.items) - MAX_ROWS,
        "findings": len(verified.findings) - MAX_FINDINGS,
    }
    end = BudgetPoint(moment(ledger.touched), ledger.calls_used)
    return WorkReport(
        task=task.id,
        made=timestamp(now),
        goal=_text(ledger.goal, MAX_DOCUMENT),
        state=_state(ledger, inbox.items),
        spent=budget(ledger),
        limit=ledger.budget,
        opened=ledger.opened,
        touched=ledger.touched,
        clients=list(history.clients)[-20:],
        contract=_document(store, ledger.contract),
        policy=_document(store, ledger.policy),
        points=[(point.at, int(point.value)) for point in thinned([*history.points, end], _POINTS)],
        entries=entries[-MAX_ROWS:],
        approvals=approvals[-MAX_ROWS:],
        decisions=decisions[-MAX_DECISIONS:],
        checkpoints=history.checkpoints[-MAX_ROWS:],
        waiting=inbox.items[:MAX_ROWS],
        check=_check(verified),
        notes=notes,
        left_out={name: count for name, count in counts.items() if count > 0},
    )


def _state(ledger: Ledger, waiting: Sequence[WaitingItem]) -> str:
    doubts = sum(item.kind == "in-doubt" for item in waiting)
    words = ["finished" if ledger.finished else "active"]
    words += [f"{doubts} in doubt"] * bool(doubts)
    words += [f"{len(waiting) - doubts} waiting for a person"] * (len(waiting) > doubts)
    return ", ".join(words)


def _checkpoint(event: Event, data: kinds.CheckpointCreated, calls: int) -> ReportedCheckpoint:
    return ReportedCheckpoint(
        at=event.timestamp,
        name=_line(data.name),
        description=_line(data.description),
        trigger=_line(data.trigger),
        calls=calls,
    )


def _decision(decision: Tree) -> ReportedDecision:
    return ReportedDecision(
        decision=_line(decision["description"]),
        status=_line(decision["status"]),
        rationale=_line(decision["rationale"]),
        by=_line(decision["madeBy"]["id"]),
    )


def _check(verified: VerificationReport) -> ReportedVerification:
    findings = [
        f"{entry.finding.severity}: {entry.finding.code}: {_line(entry.finding.message)}" for entry in verified.findings
    ]
    return ReportedVerification(
        valid=verified.valid, events=verified.events, checkpoints=verified.checkpoints, findings=findings[:MAX_FINDINGS]
    )


def _record(store: Store, task: str) -> tuple[dict[str, Any], list[str]]:
    try:
        return read_record_of(store, task) or {}, []
    except AdjournError as error:
        return {}, [f"the record cannot be read: {error.message}"]


def _document(store: Store, digest: str) -> str:
    """The text of a document; "" where there is none, or it is not kept."""
    data: bytes | None = None
    if digest:
        with suppress(AdjournError):
            data = store.get_blob(digest)
    return _text((data or b"")[: 4 * MAX_DOCUMENT].decode(errors="replace"), MAX_DOCUMENT)


def _line(text: str) -> str:
    return fit_text(visible_line(without_secrets(text[: 10 * MAX_LINE])), MAX_LINE)


def _text(text: str, most: int) -> str:
    return fit_text(visible_lines(without_secrets(text[: 2 * most])), most)


# --- the command

_HTML = (".html", ".htm")


@click.command(
    epilog=example(
        "adjourn report",
        "adjourn report 20261121 --html --out report.html",
        "adjourn report --md | gh pr comment --body-file -",
    )
)
@click.argument("task", default="", type=TASK_NAME)
@flag("--html", "Write one HTML file that needs nothing else.", dest="as_html")
@flag("--md", "Write Markdown (the default, unless FILE ends with .html).", dest="as_markdown")
@text_option("--out FILE", "Write to FILE, which is replaced (default: print).")
@at_store
@for_machines
def report(context: CommandContext, *, task: str, as_html: bool, as_markdown: bool, out: str, as_json: bool) -> int:
    """Report a task for a pull request or an incident: what it was to do, what was done, and who approved it.

    Goal, budget over time, calls with their outcome, approvals, decisions, checkpoints, what is in doubt, contract and policy, and
    whether the history passes verification. Secrets are replaced, texts of agents are shown as text, and long lists are cut, which is
    said. Without TASK, the same task as `adjourn status`. Exit code 1 when the history fails verification.
    """
    if as_html + as_markdown + as_json > 1:
        raise UsageError("--html, --md and --json exclude each other", "give one of them")
    with ProgressLine("verifying") as progress:
        opened = current_task(context, task)
        work_report = collect(ReportSource(context, opened, progress))
    code = 0 if work_report.check.valid else 1
    if as_json:
        say_json(msgspec.to_builtins(work_report))
        return code
    is_html = as_html or (not as_markdown and out.lower().endswith(_HTML))
    lanes = _lanes(opened, work_report) if is_html else SessionLanes()
    text = render_report(work_report, "report.html" if is_html else "report.md", lanes)
    if not out:
        say(text.rstrip("\n"))
        return code
    folder, name = os.path.split(os.path.abspath(out))
    data = text.encode()
    write_file(folder, name, data)
    say(f"wrote {safe(out)}: {shown_bytes(len(data))}. {verdict(work_report)}")
    return code


def _lanes(task: Task, report: WorkReport) -> SessionLanes:
    """The picture that the task's page has, without links."""
    start, head = max(0, task.ledger.seq + 1 - MAX_EVENTS), Head(task.ledger.seq, task.ledger.hash)
    doubts = [item.id for item in report.waiting if item.kind == "in-doubt"]
    return session_lanes(verified_entries_from(task.store, task.id, start, head), doubts)


# --- what the templates are given

_LEFT_OUT = {
    "events": "older events, from which calls and approvals are not shown",
    "entries": "older calls and events are not shown",
    "approvals": "older approvals are not shown",
    "checkpoints": "older checkpoints are not shown",
    "decisions": "older decisions are not shown",
    "waiting": "newer things that wait are not shown",
    "findings": "more findings are not shown",
}
_BACKTICKS = re.compile("`+")


class ReportTable(NamedTuple):
    """A table of a report, which is left out without rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def render_report(report: WorkReport, template: str, lanes: SessionLanes) -> str:
    """The report as `report.html`, one file that needs nothing else, or as `report.md`, for a pull request or a ticket."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # 50 ms
    from markupsafe import Markup

    from adjourn.cli.log import STYLES

    environment = Environment(
        loader=PackageLoader("adjourn.cli"),
        autoescape=template.endswith(".html"),
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible_lines(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"code": _code, "fenced": _fenced}
    plot = budget_plot("Calls spent over time", report.plotted, report.limit, report.marks)
    left_out = [f"{count:,} {_LEFT_OUT[name]}" for name, count in report.left_out.items()]
    return environment.get_template(template).render(
        report=report,
        goal=report.goal,
        facts=[
            ("task", report.task),
            ("state", report.state),
            ("clients", ", ".join(report.clients)),
            ("began (UTC)", _when(report.opened)),
            ("last event (UTC)", _when(report.touched)),
            ("calls spent", report.spent),
        ],
        verdict=verdict(report),
        tables=_tables(report),
        tones={label: style.rpartition(" ")[2] for label, style in STYLES.items() if style},
        documents=[("Contract", report.contract), ("Policy", report.policy)],
        notes=[*report.notes, *left_out],
        sparkline=sparkline(report.plotted, report.limit),
        plot=Markup(plot),  # noqa: S704  # it escapes every text
        lanes=lanes,
        plot_style=Markup(PLOT_STYLE + LANES_STYLE),  # noqa: S704  # our own
        version=__version__,
        made=_when(report.made),
    )


def _tables(report: WorkReport) -> list[ReportTable]:
    return [
        ReportTable(
            "In doubt or waiting for a person",
            ("Since (UTC)", "What", "Title", "About", "Answer"),
            [
                (_when(item.since), item.kind, item.title, item.context, item.commands[0] if item.commands else "")
                for item in report.waiting
            ],
        ),
        ReportTable(
            "Decisions",
            ("Status", "Decision", "By", "Why"),
            [(entry.status, entry.decision, entry.by, entry.rationale) for entry in report.decisions],
        ),
        ReportTable(
            "Approvals",
            ("When (UTC)", "Call", "Answer", "By", "Reason"),
            [
                (
                    _when(approval.at),
                    f"{approval.tool} {approval.argument}".rstrip(),
                    approval.answer,
                    f"{approval.by} ({approval.via})" if approval.by else "",
                    approval.reason,
                )
                for approval in report.approvals
            ],
        ),
        ReportTable(
            "Checkpoints",
            ("When (UTC)", "Name", "Calls", "Description"),
            [
                (
                    _when(checkpoint.at),
                    checkpoint.name,
                    str(checkpoint.calls),
                    checkpoint.description or checkpoint.trigger,
                )
                for checkpoint in report.checkpoints
            ],
        ),
        ReportTable(
            "Calls and events",
            ("When (UTC)", "Outcome", "What", "About", "Note"),
            [(_when(entry.timestamp), entry.label, entry.what, entry.about, entry.note) for entry in report.entries],
        ),
    ]


def verdict(report: WorkReport) -> str:
    """Whether the history is what was written."""
    check = report.check
    counts = f"{counted(check.events, 'event')}, {counted(check.checkpoints, 'signed checkpoint')}"
    return f"Valid: {counts}." if check.valid else f"BROKEN: {counts} are valid. See the findings."


def _when(stamp: str) -> str:
    """`2026-05-02 17:30:12`, in UTC, since reports are read elsewhere."""
    return stamp[:19].replace("T", " ")


def _code(text: str) -> str:
    """A text on one line as Markdown's code; "" for an empty one."""
    line = " ".join(visible_line(text).replace("`", "'").split())
    return f"`{line}`" if line else ""


def _fenced(text: str) -> str:
    """Lines as Markdown's code: the fence is longer than any in them."""
    fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
    return f"{fence}text\n{text.rstrip()}\n{fence}"
