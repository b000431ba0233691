"""Verification of a store, of one task, or of a checkpoint's folder: is the history what was written and signed?

Each task is verified by the rules of `task_check`, and every name of a checkpoint must belong to a task in the store. Continuation
Records are verified by their own rules (spec/record.md, section 6), folders by those of `folder_verification`.

A missing end of a history, or a missing history, is found by a checkpoint's name, the sealed fold, a head kept beside the keys or a
signed folder of the workspace; or by a head that was kept elsewhere (`expect_head`).

Owns: what is verified of each of them. Must never: write, print, or trust a cache.
"""

from __future__ import annotations

from typing import NamedTuple

from adjourn.checkpoints import anchors, folder, folder_verification
from adjourn.errors import AdjournError, IntegrityError, InvalidError
from adjourn.knowledge.records import CRStore
from adjourn.store import Store
from adjourn.tasks import KeptHeads, Task, tasks_of
from adjourn.verification.report import (
    Located,
    RecordReport,
    TaskReport,
    VerificationReport,
    finding,
    head_mismatch,
    imported,
    unknown_signer,
)
from adjourn.verification.task_check import Progress, TaskCheck

_NO_RECORD = "do not continue from it; compare it with an export of the record, or a backup"


class Around(NamedTuple):
    """What else to compare histories with: what the user's `secret` seals, and folders of the workspace `root`; or neither."""

    secret: bytes = b""
    root: str = ""


NOTHING_AROUND = Around()


def verify_store(
    store: Store, *, deep: bool = True, progress: Progress | None = None, around: Around = NOTHING_AROUND
) -> VerificationReport:
    """Verify every task, record and checkpoint's name of a store, and that no task is missing that `around` knows of.

    `deep` is whether the meaning of events is checked, not the chains only. Raises `StoreError`.
    """
    heads = tasks_of(store)
    total = sum(head.seq + 1 for head in heads.values())
    report = VerificationReport(deep=deep, tasks=[])
    for task in heads:
        done = report.events
        step = None if progress is None else _shifted(progress, done, total)
        report.tasks.append(_cut(store, TaskCheck(store, task, deep=deep).run(progress=step), around))
    if around.secret:
        missing = [kept.task for kept in KeptHeads(store, around.secret).known() if kept.task not in heads]
        report.tasks += [_cut(store, TaskReport(task=task, findings=[]), around) for task in missing]
    report.loose += _ahead(store, around)
    for name, value in store.refs("checkpoint/").items():
        if value.partition(" ")[0] not in heads:
            message = (
                f'checkpoint "{name.removeprefix("checkpoint/")}" belongs to a task that is not in the store'
            )
            report.loose.append(
                Located(finding=finding("ref-mismatch", message), task=value.partition(" ")[0][:64])
            )
    report.records = _records(store)
    return report


def verify_task(
    store: Store,
    task: str,
    *,
    expect_head: str = "",
    deep: bool = True,
    progress: Progress | None = None,
    around: Around = NOTHING_AROUND,
) -> VerificationReport:
    """Verify one task and its records. `expect_head` is the hash that its last event must have, known from elsewhere.

    `deep` and `around` are as for `verify_store`. Raises `StoreError`.
    """
    check = TaskCheck(store, task, deep=deep)
    checked = _cut(store, check.run(expect_head=expect_head, progress=progress), around)
    return VerificationReport(
        deep=deep, tasks=[checked], records=_records(store, task), loose=_ahead(store, around, task)
    )


def _cut(store: Store, report: TaskReport, around: Around) -> TaskReport:
    """Add a finding if a fold or a kept head has more of a task than its history, though the events are valid."""
    errors = {found.finding.code for found in report.findings if found.finding.severity == "error"}
    if around.secret and errors <= {"ref-mismatch"}:
        try:
            Task(store, report.task, clock=lambda: 0, secret=around.secret)
        except IntegrityError as error:
            found = finding("history-cut", error.message, help=error.remedy)
            report.findings.append(Located(finding=found, task=report.task))
    return report


def _ahead(store: Store, around: Around, task: str = "") -> list[Located]:
    """Findings for the folders of the workspace that have more of a history than the store."""
    found = []
    for one in anchors.of_folders(store, around.root, task):
        message = f"the store lacks event {one.seq} of task {one.task}, which {one.known}"
        ahead = finding(
            "folder-ahead", message, help="import the folder with `adjourn import`, or move it away"
        )
        found.append(Located(finding=ahead, task=one.task, seq=one.seq, hash=one.hash))
    return found


def _records(store: Store, task: str = "") -> list[RecordReport]:
    """Verify all Continuation Records, or those of one task."""
    if not any(name.startswith("record/") for name in store.streams()):
        return []

    records = CRStore(store)
    return [_record(records, name) for name in records.ids() if not task or _is_of(records, name, task)]


def _is_of(records: CRStore, name: str, task: str) -> bool:
    """Whether a record belongs to a task. One that cannot be read may."""
    try:
        return bool(records.resolve(name)["task"]["id"] == task)
    except (AdjournError, TypeError, UnicodeDecodeError):
        return True


def _record(records: CRStore, name: str) -> RecordReport:
    found = records.verify_chain(name)
    report = RecordReport(record=name, versions=found.checked, head=found.head)
    if not found.valid:
        message = f"record {name} fails verification after {found.checked} versions, at {found.broken_at}: {found.reason}"
        broken = finding("record-broken", message, help=_NO_RECORD)
        report.broken = Located(finding=broken, hash=str(found.broken_at))
    return report


def verify_folder(path: str, *, expect_head: str = "") -> VerificationReport:
    """Verify a checkpoint's folder (`adjourn.checkpoints.folder_verification`). Raises `NotFoundError` if it is not one."""
    file = folder.read_published(path).file
    task = file.adjourn.task if file.adjourn else ""
    report = TaskReport(task=task, findings=[], total=file.adjourn.seq + 1 if file.adjourn else 0)
    try:
        verified = folder_verification.verify(path)
    except InvalidError as error:
        found = finding("folder-broken", error.message, help=error.remedy)
        report.findings.append(Located(finding=found, task=task))
        return VerificationReport(deep=True, tasks=[report])
    event, event_hash, data = verified.checkpoint
    report.events, report.head, report.checkpoints, report.documents = event.seq + 1, event_hash, 1, 1
    report.findings += imported(verified.ledger)
    if not verified.trusted_as:
        report.findings.append(unknown_signer(data.key, event, event_hash))
    if expect_head and expect_head != event_hash:
        report.findings.append(head_mismatch(report, expect_head, None))
    return VerificationReport(deep=True, tasks=[report])


def _shifted(progress: Progress, done: int, total: int) -> Progress:
    return lambda here, _: progress(done + here, total)
