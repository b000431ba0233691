"""Verification of a store, of one task, or of a checkpoint's folder: is history what was written and signed?

For each task, in this order: the chain, by the rules of `adjourn.log.chain`, over the stored bytes as they stream by.
Then, unless only the chain was asked for: each event is one of this task and of its place, with data that fit its kind; the
ledger follows from them; each checkpoint has the Merkle root of what was before it, a signature that holds, and a document
that says what the ledger said there; the text of the contract is kept; the cached fold is the true one. Last, every
`checkpoint/*` ref points at that checkpoint. What follows the first broken event is not looked at: nothing vouches for it.
Continuation Records are verified by their own rules (spec/record.md, section 6).

A missing tail is only found through a ref, or with a head that was kept elsewhere (`expect_head`).

Owns: these rules and `CODES`. Must never: write, print, or trust a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import msgspec

from adjourn.engine import folder, keys
from adjourn.engine.checkpoint import Checkpoint, as_checkpoint, check_signature, document_of, known_to
from adjourn.engine.task import tasks_of
from adjourn.errors import AdjournError, IntegrityError, InvalidError
from adjourn.findings import Finding, Span
from adjourn.log.canonical import canonical, digest
from adjourn.log.chain import verify_chain
from adjourn.log.event import GENESIS, Event, decode
from adjourn.log.kinds import CheckpointCreated, data_of
from adjourn.log.signing import fingerprint
from adjourn.state.ledger import Ledger
from adjourn.store.base import Entry, Store

if TYPE_CHECKING:
    from adjourn.engine.records import CRStore

CHUNK = 4096

Progress = Callable[[int, int], None]
"""Called with how many events are checked, and of how many."""

_NOT_TRUST = "do not resume from it; compare with a backup, or with a checkpoint's folder in version control"
_NO_RECORD = "do not go on from it; compare with an export of the record, or a backup"
_MADE_ANEW = "it is a cache: the next checkpoint makes it anew"

CODES = MappingProxyType(
    {
        "hash-mismatch": "an event's bytes are not those that were hashed",
        "parent-mismatch": "an event does not follow the one before it",
        "head-mismatch": "the last event is not the expected one",
        "missing-event": "an event is gone, or cannot be read",
        "not-an-event": "stored bytes are no event",
        "newer-format": "an event has a newer format than this adjourn knows; only the chain was checked from there",
        "wrong-task": "an event belongs to another task",
        "wrong-seq": "an event says that it has another position",
        "data-misfit": "an event's data do not fit its kind",
        "fold-failed": "the ledger does not follow from the events",
        "root-mismatch": "a checkpoint's Merkle root is not that of the events before it",
        "signature-mismatch": "a checkpoint's signature does not hold",
        "unknown-signer": "a checkpoint is signed by a key that is not trusted here",
        "document-changed": "the bytes of a checkpoint's document have changed",
        "document-missing": "the document of a checkpoint that can be resumed is gone",
        "document-mismatch": "a checkpoint's document does not say what the events say",
        "contract-missing": "the text of the contract that a task was opened under is gone",
        "stale-fold": "a cached ledger is not the one that follows from the events",
        "ref-mismatch": "a checkpoint's name points at something else",
        "folder-broken": "a checkpoint's folder does not hold together",
        "record-broken": "a version of a Continuation Record is not what was written",
    }
)
"""Every code of a finding here, and what it means."""


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A finding and where it is: `seq` is the position (-1: the task as a whole), `hash` the stored one, if there is one."""

    finding: Finding
    task: str = ""
    seq: int = -1
    hash: str = ""


class TaskReport(msgspec.Struct, kw_only=True):
    """What was checked of one task. `events` held, of `total`; `head` is the hash of the last good one."""

    task: str
    total: int = 0
    events: int = 0
    head: str = GENESIS
    checkpoints: int = 0
    documents: int = 0
    findings: list[Located] = []

    @property
    def valid(self) -> bool:
        return all(found.finding.severity != "error" for found in self.findings)


class RecordReport(msgspec.Struct, kw_only=True):
    """What was checked of one Continuation Record. `versions` held; `broken` is the finding where they end."""

    record: str
    versions: int
    head: str
    broken: Located | None = None


class Report(msgspec.Struct, kw_only=True):
    """What was checked, and what was found. `loose` are findings that belong to no task."""

    deep: bool
    tasks: list[TaskReport] = []
    records: list[RecordReport] = []
    loose: list[Located] = []

    @property
    def findings(self) -> list[Located]:
        of_tasks = [found for task in self.tasks for found in task.findings]
        return [*of_tasks, *(one.broken for one in self.records if one.broken), *self.loose]

    @property
    def valid(self) -> bool:
        return all(found.finding.severity != "error" for found in self.findings)

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
        return sum(one.versions for one in self.records)


def verify_store(store: Store, *, deep: bool = True, progress: Progress | None = None) -> Report:
    """Check every task, and every checkpoint's name."""
    heads = tasks_of(store)
    total = sum(head.seq + 1 for head in heads.values())
    report = Report(deep=deep, tasks=[])
    for task in heads:
        done = report.events
        step = None if progress is None else _shifted(progress, done, total)
        report.tasks.append(_TaskCheck(store, task, deep=deep).run(progress=step))
    for name, value in store.refs("checkpoint/").items():
        if value.partition(" ")[0] not in heads:
            message = f'checkpoint "{name.removeprefix("checkpoint/")}" is of a task that is not in the store'
            report.loose.append(
                Located(finding=_finding("ref-mismatch", message), task=value.partition(" ")[0][:64])
            )
    report.records = _records(store)
    return report


def verify_task(
    store: Store, task: str, *, expect_head: str = "", deep: bool = True, progress: Progress | None = None
) -> Report:
    """Check one task. `expect_head` is the hash that its last event must have, known from elsewhere."""
    check = _TaskCheck(store, task, deep=deep)
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
        broken = _finding("record-broken", message, help=_NO_RECORD)
        report.broken = Located(finding=broken, hash=str(found.broken_at))
    return report


def verify_folder(path: str, *, expect_head: str = "") -> Report:
    """Check a checkpoint's folder whole (`adjourn.engine.folder`). Raises `NotFoundError` when it is none."""
    file = folder.read_published(path).file
    task = file.adjourn.task if file.adjourn else ""
    report = TaskReport(task=task, findings=[], total=file.adjourn.seq + 1 if file.adjourn else 0)
    try:
        verified = folder.verify(path)
    except InvalidError as error:
        found = _finding("folder-broken", error.message, help=error.remedy)
        report.findings.append(Located(finding=found, task=task))
        return Report(deep=True, tasks=[report])
    event, event_hash, data = verified.checkpoint
    report.events, report.head, report.checkpoints, report.documents = event.seq + 1, event_hash, 1, 1
    if not verified.trusted_as:
        report.findings.append(_unknown_signer(data.key, event, event_hash))
    if expect_head and expect_head != event_hash:
        report.findings.append(_head_mismatch(report, expect_head, None))
    return Report(deep=True, tasks=[report])


class _TaskCheck:
    """One run over one task."""

    def __init__(self, store: Store, task: str, *, deep: bool) -> None:
        self.store = store
        self.deep = deep
        self.report = TaskReport(task=task, total=store.head(task).seq + 1, findings=[])
        self.ledger = Ledger(task=task)
        self._known = {fingerprint(public): public for public in keys.trusted().values()} if deep else {}
        self._strangers: set[str] = set()
        self._folding = deep
        self._cached = self._cached_fold() if deep else None

    def run(self, *, expect_head: str = "", progress: Progress | None = None) -> TaskReport:
        report = self.report
        seen: int | None = None
        reader = self.store.read(report.task, 0, report.total)
        whole = False
        try:
            while chunk := list(islice(reader, CHUNK)):
                if expect_head:
                    seen = next(
                        (report.events + i for i, e in enumerate(chunk) if e.hash == expect_head), seen
                    )
                if not self._take(chunk):
                    break
                if progress is not None:
                    progress(report.events, report.total)
            else:
                whole = report.events == report.total
        except (IntegrityError, TypeError, UnicodeDecodeError):
            self._find_gap()
        if whole and expect_head and report.head != expect_head:
            report.findings.append(_head_mismatch(report, expect_head, seen))
        if whole and self._folding:
            self._check_rest()
        self._check_refs()
        return report

    def _add(
        self,
        code: str,
        message: str,
        *,
        seq: int = -1,
        hash: str = "",  # noqa: A002  # the word for it everywhere
        severity: Literal["error", "warning"] = "error",
        help: str = _NOT_TRUST,  # noqa: A002  # the field of every finding
    ) -> None:
        found = _finding(code, message, severity=severity, help=help)
        self.report.findings.append(Located(finding=found, task=self.report.task, seq=seq, hash=hash))

    # --- the chain

    def _take(self, chunk: list[Entry]) -> bool:
        """Check entries that follow. False: it breaks here, and the rest is not looked at."""
        report = self.report
        odd: int | None = None
        try:
            result = verify_chain(chunk, after=report.head)
        except TypeError:  # not bytes, but another type that SQLite takes in any column
            odd = next(i for i, entry in enumerate(chunk) if not _is_bytes(entry.data))
            result = verify_chain(chunk[:odd], after=report.head)
        if self._folding:
            for entry in chunk[: result.checked]:
                if not self._look(entry):
                    break
        report.events += result.checked
        report.head = result.head
        if result.reason is not None:
            bad = chunk[result.checked]
            self._add(result.reason, CODES[result.reason], seq=report.events, hash=bad.hash)
        elif odd is not None:
            self._add("hash-mismatch", CODES["hash-mismatch"], seq=report.events, hash=str(chunk[odd].hash))
        return result.valid and odd is None

    def _find_gap(self) -> None:
        """A page could not be read: go on event by event up to the one that is missing."""
        report = self.report
        while report.events < report.total:
            try:
                entry = next(iter(self.store.read(report.task, report.events, report.events + 1)), None)
            except (IntegrityError, TypeError, UnicodeDecodeError):
                entry = None
            if entry is None:
                self._add("missing-event", CODES["missing-event"], seq=report.events)
                return
            if not self._take([entry]):
                return

    # --- the meaning

    def _look(self, entry: Entry) -> bool:
        """Decode and fold one event whose bytes hold. False: it cannot be, which ends the folding, not the chain."""
        ledger, seq = self.ledger, self.ledger.seq + 1
        try:
            event = decode(entry.data)
        except InvalidError as error:
            self._folding = False
            newer = "version" in error.message
            code = "newer-format" if newer else "not-an-event"
            help_ = error.remedy or _NOT_TRUST
            severity: Literal["error", "warning"] = "warning" if newer else "error"
            self._add(code, error.message, seq=seq, hash=entry.hash, severity=severity, help=help_)
            return False
        if event.task != ledger.task or event.seq != seq:
            self._folding = False
            code = "wrong-task" if event.task != ledger.task else "wrong-seq"
            message = f"it says that it is event {event.seq} of task {event.task[:64]}"
            self._add(code, message, seq=seq, hash=entry.hash)
            return False
        try:
            data = data_of(event)
        except InvalidError as error:
            data = None
            self._add("data-misfit", error.message, seq=seq, hash=entry.hash)
        if isinstance(data, CheckpointCreated):
            self._look_at_checkpoint(Checkpoint(event, entry.hash, data))
        try:
            ledger.apply(event, entry.hash, data)
        except Exception as error:  # whatever it is, it belongs into the report
            self._folding = False
            self._add("fold-failed", f"{CODES['fold-failed']}: {error}", seq=seq, hash=entry.hash)
            return False
        if self._cached is not None and self._cached.seq == ledger.seq and self._cached != ledger:
            self._warn_of_fold()
        return True

    def _look_at_checkpoint(self, checkpoint: Checkpoint) -> None:
        event, event_hash, data = checkpoint
        ledger = self.ledger
        self.report.checkpoints += 1
        if data.root != ledger.tree.root().hex():
            self._add("root-mismatch", CODES["root-mismatch"], seq=event.seq, hash=event_hash)
        public = self._known.get(data.key)
        if public is not None:
            try:
                check_signature(checkpoint, public)
            except IntegrityError as error:
                self._add(
                    "signature-mismatch", error.message, seq=event.seq, hash=event_hash, help=error.remedy
                )
        elif data.key not in self._strangers:
            self._strangers.add(data.key)
            self.report.findings.append(_unknown_signer(data.key, event, event_hash))
        due = digest(canonical(document_of(ledger, data.name, data.description, known_to(data))))
        if due != data.document:
            self._add("document-mismatch", CODES["document-mismatch"], seq=event.seq, hash=event_hash)
        self._look_at_document(checkpoint)

    def _look_at_document(self, checkpoint: Checkpoint) -> None:
        event, event_hash, data = checkpoint
        try:
            stored = self.store.get_blob(data.document)
        except (InvalidError, TypeError):
            self._add("document-changed", CODES["document-changed"], seq=event.seq, hash=event_hash)
            return
        if stored is not None:
            self.report.documents += 1
        elif (self.store.ref(f"checkpoint/{data.name}") or "").endswith(f" {event_hash}"):
            # an older version cannot be resumed, and an imported history brings only its last document
            self._add("document-missing", CODES["document-missing"], seq=event.seq, hash=event_hash)

    # --- what stands beside the chain

    def _cached_fold(self) -> Ledger | None:
        text = (self.store.ref(f"fold/{self.report.task}") or "").partition(":")[2]
        try:
            return msgspec.json.decode(text, type=Ledger) if text else None
        except (msgspec.DecodeError, InvalidError):
            self._warn_of_fold()
            return None

    def _warn_of_fold(self) -> None:
        self._add("stale-fold", CODES["stale-fold"], severity="warning", help=_MADE_ANEW)

    def _check_rest(self) -> None:
        if self._cached is not None and self._cached.seq > self.ledger.seq:
            self._warn_of_fold()
        contract = self.ledger.contract
        if contract:
            try:
                there = self.store.get_blob(contract) is not None
            except (InvalidError, TypeError):
                there = False
            if not there:
                message = f"{CODES['contract-missing']} ({contract[:12]})"
                self._add("contract-missing", message, help="import a checkpoint of the task again")

    def _check_refs(self) -> None:
        """Every checkpoint's name that points into this task must point at that checkpoint."""
        task = self.report.task
        for ref, value in self.store.refs("checkpoint/").items():
            named, _, rest = value.partition(" ")
            position, _, event_hash = rest.partition(" ")
            if named != task:
                continue
            name = ref.removeprefix("checkpoint/")
            seq = int(position) if position.isdecimal() and len(position) < 16 else -1
            if not self._points_at(name, seq, event_hash):
                message = f'the name "{name}" does not point at a checkpoint of that name'
                self._add("ref-mismatch", message, seq=seq, hash=event_hash)

    def _points_at(self, name: str, seq: int, event_hash: str) -> bool:
        if not 0 <= seq < self.report.total:
            return False
        try:
            entry = next(iter(self.store.read(self.report.task, seq, seq + 1)), None)
            return entry is not None and entry.hash == event_hash and as_checkpoint(entry).data.name == name
        except (InvalidError, TypeError, UnicodeDecodeError):
            return False


def _is_bytes(data: object) -> bool:
    return isinstance(data, bytes)


def _finding(
    code: str,
    message: str,
    *,
    severity: Literal["error", "warning"] = "error",
    help: str = _NOT_TRUST,  # noqa: A002  # as above
) -> Finding:
    return Finding(code=code, message=message, severity=severity, span=Span(), help=help)


def _unknown_signer(key: str, event: Event, event_hash: str) -> Located:
    found = _finding(
        "unknown-signer",
        f"signed by unknown key {key}",
        severity="warning",
        help="`adjourn keys trust NAME KEY` if you know whose it is",
    )
    return Located(finding=found, task=event.task, seq=event.seq, hash=event_hash)


def _head_mismatch(report: TaskReport, expected: str, seen: int | None) -> Located:
    message = f"the last event is {report.head}, not {expected}"
    help_ = "the end of the history is missing, or it was written anew; compare with a backup"
    if seen is not None:
        more = report.total - 1 - seen
        message = f"the expected head is event {seen}; {more} were added after it"
        help_ = "if the task went on meanwhile, that is all right: nothing up to there was changed"
    found = _finding("head-mismatch", message, help=help_)
    return Located(finding=found, task=report.task, seq=report.events, hash=report.head)


def _shifted(progress: Progress, done: int, total: int) -> Progress:
    return lambda here, _: progress(done + here, total)
