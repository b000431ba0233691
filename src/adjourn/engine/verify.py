"""Verification of a store, of one task, or of a checkpoint's folder: is history what was written and signed?

Each task is verified by the rules of `verify_events`, and every name of a checkpoint must be of a task that is there. Continuation
Records are verified by their own rules (spec/record.md, section 6), folders by those of `folder_verifying`.

A missing tail is only found through a ref, or with a head that was kept elsewhere (`expect_head`).

Owns: what is verified of each of them. Must never: write, print, or trust a cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjourn.engine import folder, folder_verifying
from adjourn.engine.task import tasks_of
from adjourn.engine.verify_events import Progress, TaskCheck
from adjourn.engine.verify_report import (
    Located,
    RecordReport,
    Report,
    TaskReport,
    finding,
    head_mismatch,
    unknown_signer,
)
from adjourn.errors import AdjournError, InvalidError
from adjourn.store.base import Store

if TYPE_CHECKING:
    from adjourn.engine.records import CRStore

_NO_RECORD = "do not go on from it; compare with an export of the record, or a backup"


def verify_store(store: Store, *, deep: bool = True, progress: Progress | None = None) -> Report:
    """Check every task, and every checkpoint's name."""
    heads = tasks_of(store)
    total = sum(head.seq + 1 for head in heads.values())
    report = Report(deep=deep, tasks=[])
    for task in heads:
        done = report.events
        step = None if progress is None else _shifted(progress, done, total)
        report.tasks.append(TaskCheck(store, task, deep=deep).run(progress=step))
    for name, value in store.refs("checkpoint/").items():
        if value.partition(" ")[0] not in heads:
            message = f'checkpoint "{name.removeprefix("checkpoint/")}" is of a task that is not in the store'
            report.loose.append(
                Located(finding=finding("ref-mismatch", message), task=value.partition(" ")[0][:64])
            )
    report.records = _records(store)
    return report


def verify_task(
    store: Store, task: str, *, expect_head: str = "", deep: bool = True, progress: Progress | None = None
) -> Report:
    """Check one task. `expect_head` is the hash that its last event must have, known from elsewhere."""
    check = TaskCheck(store, task, deep=deep)
    checked = check.run(expect_head=expect_head, progress=progress)
    return Report(deep=deep, tasks=[checked], records=_records(store, task))


def _records(store: Store, task: str = "") -> list[RecordReport]:
    """The lines of all Continuation Records, or of those of one task."""
    if not any(name.startswith("record/") for name in store.streams()):
        return []
    from adjourn.engine.records import CRStore  # noqa: PLC0415  # few stores have one

    records = CRStore(store)
    return [_record(records, name) for name in records.ids() if not task or _is_of(records, name, task)]


def _is_of(records: CRStore, name: str, task: str) -> bool:
    """Whether a record is of a task. Of one that cannot be read nobody can tell, so it may be."""
    try:
        return bool(records.resolve(name)["task"]["id"] == task)
    except (AdjournError, TypeError, UnicodeDecodeError):
        return True


def _record(records: CRStore, name: str) -> RecordReport:
    found = records.verify_chain(name)
    report = RecordReport(record=name, versions=found.checked, head=found.head)
    if not found.valid:
        message = f"record {name} breaks after {found.checked} versions, at {found.broken_at}: {found.reason}"
        broken = finding("record-broken", message, help=_NO_RECORD)
        report.broken = Located(finding=broken, hash=str(found.broken_at))
    return report


def verify_folder(path: str, *, expect_head: str = "") -> Report:
    """Check a checkpoint's folder whole (`adjourn.engine.folder_verifying`). Raises `NotFoundError` when it is none."""
    file = folder.read_published(path).file
    task = file.adjourn.task if file.adjourn else ""
    report = TaskReport(task=task, findings=[], total=file.adjourn.seq + 1 if file.adjourn else 0)
    try:
        verified = folder_verifying.verify(path)
    except InvalidError as error:
        found = finding("folder-broken", error.message, help=error.remedy)
        report.findings.append(Located(finding=found, task=task))
        return Report(deep=True, tasks=[report])
    event, event_hash, data = verified.checkpoint
    report.events, report.head, report.checkpoints, report.documents = event.seq + 1, event_hash, 1, 1
    if not verified.trusted_as:
        report.findings.append(unknown_signer(data.key, event, event_hash))
    if expect_head and expect_head != event_hash:
        report.findings.append(head_mismatch(report, expect_head, None))
    return Report(deep=True, tasks=[report])


def _shifted(progress: Progress, done: int, total: int) -> Progress:
    return lambda here, _: progress(done + here, total)
