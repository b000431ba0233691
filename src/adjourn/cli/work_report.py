"""What `adjourn report` says of a task: one value, collected from verified events, record and documents. Programs get it as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from adjourn.cli.start import StoreContext
from adjourn.cli.task_view import budget
from adjourn.errors import AdjournError, InvalidError
from adjourn.handover.inbox import WaitingItem, find_waiting
from adjourn.handover.timeline import Timeline, TimelineEntry
from adjourn.host.keys import reading_secret
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.records.task_record import read_record_of
from adjourn.log import kinds
from adjourn.log.event import Event, decode, milliseconds, timestamp
from adjourn.log.kinds import tool_name
from adjourn.store.base import Head, Store
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import Task
from adjourn.text.command_lines import telling_argument
from adjourn.text.fitting import fit_text
from adjourn.text.plot import BudgetPoint, thinned
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
