"""The report of a verification: its codes and findings, and what was tested in words for a reader.

Nothing is tested here but the signature of an accepted loss (`verify` does the rest).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from adjourn.findings import Finding, Span
from adjourn.log.event import GENESIS, Event
from adjourn.log.kinds import HistoryAccepted
from adjourn.tasks.accepted_loss import AcceptedLoss, is_signed
from adjourn.tasks.ledger import Ledger

NOT_TRUST = "do not resume from it; compare with a backup, or with a checkpoint's folder in version control"

CODES = MappingProxyType(
    {
        "hash-mismatch": "an event's bytes are not those that were hashed",
        "parent-mismatch": "an event does not follow the one before it",
        "head-mismatch": "the last event is not the expected one",
        "missing-event": "an event is missing or cannot be read",
        "not-an-event": "stored bytes are not an event",
        "newer-format": "an event has a newer format than this adjourn knows; only the chain was checked from there",
        "wrong-task": "an event belongs to another task",
        "wrong-seq": "an event has the wrong position",
        "data-misfit": "an event's data do not match its kind",
        "fold-failed": "the ledger does not follow from the events",
        "root-mismatch": "a checkpoint's Merkle root is not that of the events before it",
        "signature-mismatch": "a checkpoint's signature is not valid",
        "unknown-signer": "a checkpoint is signed by a key that is not trusted here",
        "document-changed": "the bytes of a checkpoint's document have changed",
        "document-missing": "the document of a checkpoint that can be resumed is missing",
        "document-mismatch": "a checkpoint's document does not match the events",
        "contract-missing": "the text of the contract that a task was opened under is missing",
        "stale-fold": "a cached ledger is not the one that follows from the events",
        "ref-mismatch": "a checkpoint's name points at another event",
        "history-cut": "the history is shorter than its cached fold, or the last event seen by this user, says",
        "loss-accepted": "the store was restored from a backup, and a person accepted that later events are lost",
        "folder-ahead": "a signed folder in the workspace has more of a task's history than the store",
        "folder-broken": "a checkpoint's folder fails verification",
        "export-broken": "a file of exported events is not what was written and signed",
        "imported": "a history was imported on a person's word; what it says was not verified",
        "record-broken": "a version of a Continuation Record fails verification",
    }
)
"""The codes of all findings, each with its meaning."""


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A finding and its place: the event's position `seq` (-1: the task as a whole) and stored hash ("" for none)."""

    finding: Finding
    task: str = ""
    seq: int = -1
    hash: str = ""


class TaskReport(msgspec.Struct, kw_only=True):
    """What was checked of one task: `events` of `total` are valid; `head` is the hash of the last valid one."""

    task: str
    total: int = 0
    events: int = 0
    head: str = GENESIS
    checkpoints: int = 0
    documents: int = 0
    findings: list[Located] = []

    @property
    def valid(self) -> bool:
        return all(entry.finding.severity != "error" for entry in self.findings)


class RecordReport(msgspec.Struct, kw_only=True):
    """What was checked of one Continuation Record: `versions` are valid; `broken` is the finding after them, if any."""

    record: str
    versions: int
    head: str
    broken: Located | None = None


class VerificationReport(msgspec.Struct, kw_only=True):
    """What was checked, and what was found. `loose` are findings without a task that was checked."""

    deep: bool
    tasks: list[TaskReport] = []
    records: list[RecordReport] = []
    loose: list[Located] = []

    @property
    def findings(self) -> list[Located]:
        of_tasks = [entry for task in self.tasks for entry in task.findings]
        return [*of_tasks, *(record.broken for record in self.records if record.broken), *self.loose]

    @property
    def valid(self) -> bool:
        return all(entry.finding.severity != "error" for entry in self.findings)

    @property
    def events(self) -> int:
        return sum(task.events for task in self.tasks)

    @property
    def checkpoints(self) -> int:
        return sum(task.checkpoints for task in self.tasks)

    @property
    def documents(self) -> int:
        return sum(task.documents for task in self.tasks)

    @property
    def versions(self) -> int:
        return sum(record.versions for record in self.records)


def finding(
    code: str,
    message: str,
    *,
    severity: Literal["error", "warning"] = "error",
    help: str = NOT_TRUST,  # noqa: A002  # as above
) -> Finding:
    return Finding(code=code, message=message, severity=severity, span=Span(), help=help)


def unknown_signer(key: str, event: Event, event_hash: str) -> Located:
    unknown = finding(
        "unknown-signer",
        f"signed by unknown key {key}",
        severity="warning",
        help="if you know the owner of the key, trust it: `adjourn keys trust NAME KEY`",
    )
    return Located(finding=unknown, task=event.task, seq=event.seq, hash=event_hash)


def imported(ledger: Ledger) -> list[Located]:
    """A warning where a task began with a history that a person imported, and that nobody could verify."""
    if not ledger.imported_from:
        return []
    entries = f"{ledger.imported} {'entry' if ledger.imported == 1 else 'entries'}"
    message = f"imported from {', '.join(ledger.imported_from)}, not verified: {entries}"
    note = finding("imported", message, severity="warning", help="compare it with its source, if that matters")
    return [Located(finding=note, task=ledger.task)]


def accepted_loss(loss: AcceptedLoss | HistoryAccepted, *, task: str = "", seq: int = -1) -> Located:
    """What is known of an accepted loss: who accepted it and when, or that its signature does not hold."""
    signed = is_signed(loss)
    message = f"{loss.who} accepted at {loss.accepted} that events since {loss.since} are lost"
    if isinstance(loss, HistoryAccepted):
        message += f"; this task was seen to reach event {loss.lost}"
    if signed is False:
        note = finding("signature-mismatch", f"not what {loss.key} signed: {message}")
    elif signed is None:
        trust = "if you know the owner of the key, trust it: `adjourn keys trust NAME KEY`"
        note = finding("unknown-signer", f"signed by unknown key {loss.key}: {message}", severity="warning", help=trust)
    else:
        look = "look at the servers for effects of calls since then"
        note = finding("loss-accepted", message, severity="warning", help=look)
    return Located(finding=note, task=task, seq=seq)


def head_mismatch(report: TaskReport, expected: str, seen: int | None) -> Located:
    message = f"the last event is {report.head}, not {expected}"
    help_ = "the end of the history is missing, or it was rewritten; compare with a backup"
    if seen is not None:
        more = report.total - 1 - seen
        message = f"the expected head is event {seen}; {more} were added after it"
        help_ = "this is expected if the task continued meanwhile: nothing up to there was changed"
    mismatch = finding("head-mismatch", message, help=help_)
    return Located(finding=mismatch, task=report.task, seq=report.events, hash=report.head)


# --- what was tested, in words: one test a line, with what it found


class Claim(NamedTuple):
    """One thing that was tested: its claim, how it is tested, and the codes of its findings."""

    claim: str
    how: str
    codes: tuple[str, ...]


class CheckedClaim(NamedTuple):
    """A claim and what was found against it. `state` is that of the worst finding; a warning may well be right."""

    claim: str
    how: str
    state: Literal["ok", "warning", "error"]
    findings: list[Located]


OF_FOLDER = Claim(
    "The checkpoint's folder says the same",
    "its history, its fields and its files are those that were signed",
    ("folder-broken", "export-broken"),
)
OF_RECORDS = Claim(
    "Records are what their authors wrote",
    "each version has the hash of its content, and names the version before it",
    ("record-broken",),
)
TESTS = (
    Claim(
        "No event was changed, removed or put in",
        "each event has the hash of its bytes, and names the hash of the event before it",
        ("hash-mismatch", "parent-mismatch", "missing-event"),
    ),
    Claim(
        "The events can be read, and the state follows from them",
        "each is of this task and position; spent calls, open questions and all else are counted from the first one",
        ("not-an-event", "newer-format", "wrong-task", "wrong-seq", "data-misfit", "fold-failed", "stale-fold"),
    ),
    Claim(
        "Nothing is missing at the end",
        "the cached state, the last event noted beside your keys, and signed folders here know no later event",
        ("history-cut", "head-mismatch", "folder-ahead", "loss-accepted"),
    ),
    Claim(
        "Checkpoints are signed",
        "each has the Merkle root of all events before it, under a signature by a key that is trusted here",
        ("root-mismatch", "signature-mismatch", "unknown-signer"),
    ),
    Claim(
        "Checkpoints say what happened",
        "each document states what the events say, each name points at its checkpoint, and the contract's text is there",
        ("document-changed", "document-missing", "document-mismatch", "contract-missing", "ref-mismatch"),
    ),
    OF_FOLDER,
    OF_RECORDS,
    Claim("Nothing was taken on a person's word", "the history began here, not with an import", ("imported",)),
)


def explained(report: VerificationReport, *, has_folder: bool) -> list[CheckedClaim]:
    """The claims that were tested, each with its findings. Beyond a broken event nothing is known. `has_folder`: a folder was tested, too."""
    checked = []
    for test in TESTS:
        if (test is OF_FOLDER and not has_folder) or (test is OF_RECORDS and not report.records):
            continue
        findings = [finding for finding in report.findings if finding.finding.code in test.codes]
        errors = any(finding.finding.severity == "error" for finding in findings)
        state: Literal["ok", "warning", "error"] = "error" if errors else "warning" if findings else "ok"
        checked.append(CheckedClaim(test.claim, test.how, state, findings))
    return checked
