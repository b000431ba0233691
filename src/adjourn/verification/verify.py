"""Verification of a store, of one task, or of a checkpoint's folder: is the history what was written and signed?

Each task is verified by the rules of `TaskCheck`, and every name of a checkpoint must belong to a task in the store. Continuation
Records are verified by their own rules (spec/record.md, section 6), folders by those of `folder_verification`.

A missing end of a history, or a missing history, is found by a checkpoint's name, the sealed fold, a head kept beside the keys or a
signed folder of the workspace; or by a head that was kept elsewhere (`expect_head`).

Nothing here writes, prints, or trusts a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from adjourn.checkpoints import anchors, folder, folder_verification
from adjourn.checkpoints.checkpoint import (
    TaskCheckpoint,
    as_checkpoint,
    check_signature,
    document_of,
    encode_document,
    known_to,
)
from adjourn.errors import AdjournError, IntegrityError, InvalidError
from adjourn.host import keys
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.canonical_json import digest
from adjourn.log.chain import verify_chain
from adjourn.log.event import decode
from adjourn.log.kinds import CheckpointCreated, GraphSaved, GraphWritten, HistoryAccepted, data_of
from adjourn.log.signing import fingerprint
from adjourn.policy.principal import checkpoint_ref
from adjourn.store.base import Entry, Store
from adjourn.tasks.accepted_loss import accepted_losses, covering
from adjourn.tasks.heads import KeptHeads
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import FOLD_FORM, GRAPH_WRITES, GRAPHS, Task, graph_documents, tasks_of
from adjourn.verification.report import (
    CODES,
    NOT_TRUST,
    Located,
    RecordReport,
    TaskReport,
    VerificationReport,
    accepted_loss,
    finding,
    head_mismatch,
    imported,
    unknown_signer,
)

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
    names = store.refs("checkpoint/")
    known = KeptHeads(store, around.secret).known() if around.secret else []
    heads = tasks_of(store)  # after what follows from events, of which sessions may write more meanwhile
    total = sum(head.seq + 1 for head in heads.values())
    report = VerificationReport(deep=deep, tasks=[])
    for task in heads:
        done = report.events
        step = None if progress is None else _shifted(progress, done, total)
        report.tasks.append(_cut(store, TaskCheck(store, task, deep=deep).run(progress=step), around))
    missing = [head.task for head in known if head.task not in heads and covering(store, head) is None]
    report.tasks += [_cut(store, TaskReport(task=task, findings=[]), around) for task in missing]
    report.loose += [*map(accepted_loss, accepted_losses(store)), *_ahead(store, around)]
    for name, value in names.items():
        if value.partition(" ")[0] not in heads:
            message = f'checkpoint "{name.removeprefix("checkpoint/")}" belongs to a task that is not in the store'
            report.loose.append(Located(finding=finding("ref-mismatch", message), task=value.partition(" ")[0][:64]))
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
    findings = []
    for anchor in anchors.of_folders(store, around.root, task):
        message = f"the store lacks event {anchor.seq} of task {anchor.task}, which {anchor.known}"
        ahead = finding(
            "folder-ahead", message, help="import the folder with `adjourn checkpoint import`, or move it away"
        )
        findings.append(Located(finding=ahead, task=anchor.task, seq=anchor.seq, hash=anchor.hash))
    return findings


def _records(store: Store, task: str = "") -> list[RecordReport]:
    """Verify all Continuation Records, or those of one task."""
    if not any(name.startswith("record/") for name in store.streams()):
        return []

    records = RecordTrees(store)
    return [_record(records, name) for name in records.ids() if not task or _is_of(records, name, task)]


def _is_of(records: RecordTrees, name: str, task: str) -> bool:
    """Whether a record belongs to a task. One that cannot be read may."""
    try:
        return bool(records.resolve(name)["task"]["id"] == task)
    except (AdjournError, TypeError, UnicodeDecodeError):
        return True


def _record(records: RecordTrees, name: str) -> RecordReport:
    verification = records.verify_chain(name)
    report = RecordReport(record=name, versions=verification.checked, head=verification.head)
    if not verification.valid:
        message = f"record {name} fails verification after {verification.checked} versions, at {verification.broken_at}: {verification.reason}"
        broken = finding("record-broken", message, help=_NO_RECORD)
        report.broken = Located(finding=broken, hash=str(verification.broken_at))
    return report


def verify_folder(path: str, *, expect_head: str = "") -> VerificationReport:
    """Verify a checkpoint's folder (`adjourn.checkpoints.folder_verification`). Raises `NotFoundError` if it is not one."""
    file = folder.read_published(path).file
    task = file.adjourn.task if file.adjourn else ""
    report = TaskReport(task=task, findings=[], total=file.adjourn.seq + 1 if file.adjourn else 0)
    try:
        verified = folder_verification.verify(path)
    except InvalidError as error:
        broken = finding("folder-broken", error.message, help=error.remedy)
        report.findings.append(Located(finding=broken, task=task))
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


# --- verification of one task
#
# In this order: the chain, by the rules of `adjourn.log.event`, over the stored bytes as they are read. Then, unless only the chain was
# asked for: each event belongs to this task and position, and its data match its kind; the ledger follows from the events; each checkpoint
# has the Merkle root of the events before it, a valid signature, and a document that states the ledger at that point; the store has the
# text of the contract; the cached fold equals the ledger. Last, every `checkpoint/*` ref of the task points at that checkpoint. Events
# after the first invalid one are not checked: nothing vouches for them.

CHUNK = 512

Progress = Callable[[int, int], None]
"""Called with the number of events that were checked, and with their total."""

_RECREATED = "it is a cache: the next checkpoint recreates it"


def _cached_fold(store: Store, task: str) -> tuple[Ledger | None, bool]:
    """The ledger that the store keeps of a task, and whether what it keeps is none."""
    seal, _, text = (store.ref(f"fold/{task}") or "").partition(":")
    try:
        return (msgspec.json.decode(text, type=Ledger) if text and seal.endswith(FOLD_FORM) else None), False
    except (msgspec.DecodeError, InvalidError):
        return None, True


class TaskCheck:
    """The verification of one task, done once by `run`."""

    def __init__(self, store: Store, task: str, *, deep: bool) -> None:
        self.store = store
        self.deep = deep
        # before the head: what sessions write meanwhile must not stand beside events that were read earlier
        self._cached, fold_is_damaged = _cached_fold(store, task) if deep else (None, False)
        self._names = store.refs("checkpoint/")
        self._graph_refs = {
            name: value for kind in (GRAPHS, GRAPH_WRITES) for name, value in store.refs(f"{kind}{task}/").items()
        }
        self.report = TaskReport(task=task, total=store.head(task).seq + 1, findings=[])
        if fold_is_damaged:
            self._warn_of_fold()
        self.ledger = Ledger(task=task)
        self._known = {fingerprint(public): public for public in keys.trusted().values()} if deep else {}
        self._strangers: set[str] = set()
        self._graphs: dict[str, tuple[int, str]] = {}
        """The documents of a LangGraph thread that events name, with the event's position and hash."""
        self._folding = deep

    def run(self, *, expect_head: str = "", progress: Progress | None = None) -> TaskReport:
        report = self.report
        seen: int | None = None
        reader = self.store.read(report.task, 0, report.total)
        whole = False
        try:
            while chunk := list(islice(reader, CHUNK)):
                if expect_head:
                    seen = next((report.events + i for i, e in enumerate(chunk) if e.hash == expect_head), seen)
                if not self._take(chunk):
                    break
                if progress is not None:
                    progress(report.events, report.total)
            else:
                whole = report.events == report.total
        except (IntegrityError, TypeError, UnicodeDecodeError):
            self._find_gap()
        if whole and expect_head and report.head != expect_head:
            report.findings.append(head_mismatch(report, expect_head, seen))
        if whole and self._folding:
            self._check_rest()
        self._check_refs()
        if self.deep:
            self._check_graphs()
        return report

    def _add(
        self,
        code: str,
        message: str,
        *,
        seq: int = -1,
        hash: str = "",  # noqa: A002  # the word for it everywhere
        severity: Literal["error", "warning"] = "error",
        help: str = NOT_TRUST,  # noqa: A002  # the field of every finding
    ) -> None:
        found = finding(code, message, severity=severity, help=help)
        self.report.findings.append(Located(finding=found, task=self.report.task, seq=seq, hash=hash))

    # --- the chain

    def _take(self, chunk: list[Entry]) -> bool:
        """Check the next entries. False: one of them is invalid, and the rest is not checked."""
        report = self.report
        checked, head, _, reason = verify_chain(chunk, after=report.head)
        if self._folding:
            for entry in chunk[:checked]:
                if not self._look(entry):
                    break
        report.events += checked
        report.head = head
        if reason is not None:
            self._add(reason, CODES[reason], seq=report.events, hash=str(chunk[checked].hash))
        return reason is None

    def _find_gap(self) -> None:
        """After a page that could not be read: continue event by event up to the missing one."""
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
        """Decode and fold one event of the valid chain. False: that failed, and no later event is folded."""
        ledger, seq = self.ledger, self.ledger.seq + 1
        try:
            event = decode(entry.data)
        except InvalidError as error:
            self._folding = False
            newer = "version" in error.message
            code = "newer-format" if newer else "not-an-event"
            help_ = error.remedy or NOT_TRUST
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
        if isinstance(data, GraphSaved | GraphWritten):
            self._graphs[data.document] = seq, entry.hash
        if isinstance(data, CheckpointCreated):
            self._look_at_checkpoint(TaskCheckpoint(event, entry.hash, data))
        if isinstance(data, HistoryAccepted):
            self.report.findings.append(accepted_loss(data, task=event.task, seq=seq))
        try:
            ledger.apply(event, entry.hash, data)
        except Exception as error:  # whatever it is, the report has it
            self._folding = False
            self._add("fold-failed", f"{CODES['fold-failed']}: {error}", seq=seq, hash=entry.hash)
            return False
        if self._cached is not None and self._cached.seq == ledger.seq and self._cached != ledger:
            self._warn_of_fold()
        return True

    def _look_at_checkpoint(self, checkpoint: TaskCheckpoint) -> None:
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
                self._add("signature-mismatch", error.message, seq=event.seq, hash=event_hash, help=error.remedy)
        elif data.key not in self._strangers:
            self._strangers.add(data.key)
            self.report.findings.append(unknown_signer(data.key, event, event_hash))
        due = digest(encode_document(document_of(ledger, data.name, data.description, known_to(data))))
        if due != data.document:
            self._add("document-mismatch", CODES["document-mismatch"], seq=event.seq, hash=event_hash)
        self._look_at_document(checkpoint)

    def _look_at_document(self, checkpoint: TaskCheckpoint) -> None:
        event, event_hash, data = checkpoint
        try:
            stored = self.store.get_blob(data.document)
        except (InvalidError, TypeError):
            self._add("document-changed", CODES["document-changed"], seq=event.seq, hash=event_hash)
            return
        if stored is not None:
            self.report.documents += 1
        elif (self.store.ref(checkpoint_ref(data.name, event.task)) or "").endswith(f" {event_hash}"):
            # an older version cannot be resumed, and an imported history brings only its last document
            self._add("document-missing", CODES["document-missing"], seq=event.seq, hash=event_hash)

    # --- what stands beside the chain

    def _warn_of_fold(self) -> None:
        self._add("stale-fold", CODES["stale-fold"], severity="warning", help=_RECREATED)

    def _check_rest(self) -> None:
        self.report.findings += imported(self.ledger)
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
        for ref, value in self._names.items():
            named, _, text = value.partition(" ")
            position, _, event_hash = text.partition(" ")
            if named != task:
                continue
            name = ref.removeprefix("checkpoint/").partition("@")[0]
            seq = int(position) if position.isdecimal() and len(position) < 16 else -1
            if not self._points_at(name, seq, event_hash):
                message = f'the name "{name}" does not point at a checkpoint of that name'
                self._add("ref-mismatch", message, seq=seq, hash=event_hash)

    def _check_graphs(self) -> None:
        """What the refs of a LangGraph thread name must be in its history, and there with all that it names."""
        checked: set[str] = set()
        for ref, document in self._graph_refs.items():
            if document not in self._graphs:
                self._add("ref-mismatch", f"{ref[:200]} names a document that no event of the thread names")
                continue
            self.report.documents += 1
            self._check_documents(document, checked)

    def _check_documents(self, document: str, checked: set[str]) -> None:
        seq, event_hash = self._graphs[document]
        waiting = [document]
        while waiting:
            if (name := waiting.pop()) in checked:
                continue
            checked.add(name)
            try:
                data = self.store.get_blob(name)
            except (InvalidError, IntegrityError, TypeError):
                self._add("document-changed", f"document {name} of the thread was changed", seq=seq, hash=event_hash)
                continue
            if data is None:
                self._add("document-missing", f"document {name} of the thread is missing", seq=seq, hash=event_hash)
                continue
            waiting += graph_documents(data)

    def _points_at(self, name: str, seq: int, event_hash: str) -> bool:
        if not 0 <= seq < self.report.total:
            return False
        try:
            entry = next(iter(self.store.read(self.report.task, seq, seq + 1)), None)
            return entry is not None and entry.hash == event_hash and as_checkpoint(entry).data.name == name
        except (InvalidError, TypeError, UnicodeDecodeError):
            return False
