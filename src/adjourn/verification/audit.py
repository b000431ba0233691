"""Exported events of many tasks as lines of JSON, for a system that keeps audit logs; and their proof, which needs no store.

    {"digest":…,"event":{…},"principal":…,"principalName":…,"seq":…,"task":…}    an event: `event` are its stored bytes
    {"head":{"hash":…,"lines":…,"seq":…,"task":…}}                               after the lines of a task: where its chain ended
    {"export":{…},"signature":…}                                                 the last line: the root over all lines before it, signed

Each line of an event can be checked by itself, and two that follow each other in a chain by their link. The signed root says that no
line was changed, removed, added or moved. Nothing is held in memory but one line, the sessions of one task and the heads of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

import msgspec

from adjourn.errors import IntegrityError, InvalidError
from adjourn.host import keys
from adjourn.log.event import GENESIS, MAX_EVENT_BYTES, decode, timestamp
from adjourn.log.merkle import Frontier
from adjourn.log.signing import decode_bytes, encode_bytes, fingerprint, holds, sign_bytes
from adjourn.store.base import EMPTY, Head, Store
from adjourn.tasks.owners import Owner, Period, owned_events
from adjourn.tasks.task import tasks_of
from adjourn.verification.report import Located, TaskReport, VerificationReport, finding

STATEMENT = "adjourn/export/1"
MAX_LINE = MAX_EVENT_BYTES + 4096
"""Bytes of a line: an event, and what stands around it."""
MAX_FILE = 1 << 42
_NO_TRUST = "do not rely on this file; export the events again from the store"
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class AuditChoice(NamedTuple):
    """Which events are exported: of these `tasks` (none: all), of a `person` or service ("": all), from a period."""

    tasks: tuple[str, ...] = ()
    person: str = ""
    period: Period = Period()


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """An exported event. `principal` stands behind the session that caused it ("": nobody is known to)."""

    digest: str
    event: msgspec.Raw
    principal: str
    principalName: str  # noqa: N815  # as it stands in the file
    seq: int
    task: str


class _Ended(msgspec.Struct, frozen=True, kw_only=True):
    """Where the chain of a task ended when its `lines` were exported."""

    hash: str
    lines: int
    seq: int
    task: str


class AuditExport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the signature covers: which events were asked for, how many `lines` precede this one, and the Merkle `root` over them."""

    key: str
    lines: int
    person: str
    root: str
    since: str
    tasks: list[str]
    timestamp: str
    until: str
    statement: str = STATEMENT


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    head: _Ended


class _End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    export: AuditExport
    signature: str


def audit_lines(store: Store, choice: AuditChoice, now: int) -> Iterator[bytes]:
    """The lines of an export with their line feeds, each verified before it is returned. `now` is the time in milliseconds.

    Raises `IntegrityError` for a history that fails verification: there is no signed end then.
    """
    tree = Frontier()
    for task, head in tasks_of(store).items():
        if choice.tasks and task not in choice.tasks:
            continue
        lines = 0
        try:
            for line in _lines_of(store, task, head, choice):
                lines += 1
                tree.append(sha256(line).digest())
                yield line + b"\n"
        except InvalidError as error:
            remedy = error.remedy or "run `adjourn verify`; or name the other tasks"
            raise IntegrityError(f"task {task} cannot be exported: {error.message}", remedy) from error
        if lines:
            line = _encode(_Head(_Ended(hash=head.hash, lines=lines, seq=head.seq, task=task)))
            tree.append(sha256(line).digest())
            yield line + b"\n"
    export = AuditExport(
        key=fingerprint(keys.own_public_key()),
        lines=len(tree),
        person=choice.person,
        root=tree.root().hex(),
        since=_stamp(choice.period.since),
        tasks=sorted(choice.tasks),
        timestamp=timestamp(now),
        until=_stamp(choice.period.until),
    )
    yield _encode(_End(export, sign_bytes(keys.private_key(), _encode_sorted(export)))) + b"\n"


def _stamp(moment: int | None) -> str:
    return "" if moment is None else timestamp(moment)


def _lines_of(store: Store, task: str, head: Head, choice: AuditChoice) -> Iterator[bytes]:
    for entry, event, owner in owned_events(store, task, head, choice.period):
        by = Owner(shown=event.by.id if event.by.type == "human" else "")
        if not choice.person or owner.is_called(choice.person) or by.is_called(choice.person):
            yield _encode(
                AuditLine(
                    digest=entry.hash,
                    event=msgspec.Raw(entry.data),
                    principal=owner.id,
                    principalName=owner.shown,
                    seq=event.seq,
                    task=task,
                )
            )


# --- the proof, without a store


class _Check:
    """What is known of an export as its lines are read, one after the other."""

    def __init__(self) -> None:
        self.report = VerificationReport(deep=True)
        self._tree = Frontier()
        self._task: TaskReport | None = None
        self._last = EMPTY
        self._is_over = False
        self._ended: set[str] = set()

    def add(self, number: int, line: bytes) -> bool:
        """Check the line of this number, from 1. False: it fails, and nothing vouches for those after it."""
        try:
            self._take(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidError) as error:
            message = error.message if isinstance(error, InvalidError) else f"it is not a line of an export: {error}"
            self._fail("export-broken", f"line {number}: {message}")
            return False
        return True

    def end(self) -> None:
        """Check that the export was whole: it ends with its signed line."""
        if not self._is_over and self.report.valid:
            self._fail("export-broken", "the signed line at the end is missing")

    def _take(self, line: bytes) -> None:
        if self._is_over:
            raise InvalidError("it follows the signed end")
        if line.startswith(b'{"export":'):
            self._take_end(line)
            return
        if line.startswith(b'{"head":'):
            self._take_head(msgspec.json.decode(line, type=_Head).head)
        else:
            self._take_event(msgspec.json.decode(line, type=AuditLine))
        self._tree.append(sha256(line).digest())

    def _take_event(self, line: AuditLine) -> None:
        data = bytes(line.event)
        if sha256(data).hexdigest() != line.digest:
            raise InvalidError(f"the bytes of event {line.seq} of task {line.task[:64]} are not those that were hashed")
        event = decode(data)
        if (event.task, event.seq) != (line.task, line.seq):
            raise InvalidError(f"it says that it is event {event.seq} of task {event.task[:64]}")
        if self._task is None:
            self._begin(line.task)
        report = self._task
        if report is None or report.task != line.task:
            raise InvalidError(f"event {line.seq} of task {line.task} stands among those of another task")
        if line.seq <= self._last.seq:
            raise InvalidError(f"event {line.seq} of task {line.task} follows event {self._last.seq}")
        if line.seq == self._last.seq + 1 and event.after != (self._last.hash if line.seq else GENESIS):
            raise InvalidError(f"event {line.seq} of task {line.task} does not follow the one before it")
        self._last = Head(line.seq, line.digest)
        report.events += 1
        report.head = line.digest

    def _begin(self, task: str) -> None:
        if task in self._ended:
            raise InvalidError(f"the events of task {task} had ended before")
        self._task, self._last = TaskReport(task=task), EMPTY
        self.report.tasks.append(self._task)

    def _take_head(self, head: _Ended) -> None:
        report = self._task
        if report is None or report.task != head.task:
            raise InvalidError(f"it ends task {head.task[:64]}, which has no event before it")
        if report.events != head.lines or self._last.seq > head.seq:
            raise InvalidError(f"task {head.task} has {report.events} lines, and its head counts {head.lines}")
        if self._last.seq == head.seq and self._last.hash != head.hash:
            raise InvalidError(f"the last event of task {head.task} is not its head")
        report.total = head.lines
        self._ended.add(head.task)
        self._task = None

    def _take_end(self, line: bytes) -> None:
        self._is_over = True
        end = msgspec.json.decode(line, type=_End)
        if encode_bytes(decode_bytes(end.signature, 64)) != end.signature or _encode(end) != line:
            raise InvalidError("it is not as it was written")
        export = end.export
        if self._task is not None:
            raise InvalidError(f"the head of task {self._task.task} is missing")
        if export.statement != STATEMENT or (export.lines, export.root) != (len(self._tree), self._tree.root().hex()):
            raise InvalidError(
                f"the lines are not the {export.lines} that were signed: some were removed, added or moved"
            )
        public = next((public for public in keys.trusted().values() if fingerprint(public) == export.key), None)
        if public is None:
            trust = "if you know the owner of the key, trust it: `adjourn keys trust NAME KEY`"
            self._fail("unknown-signer", f"signed by unknown key {export.key[:80]}", trust)
        elif not holds(public, end.signature, _encode_sorted(export)):
            self._fail("signature-mismatch", f"the end is not what {export.key} signed")

    def _fail(self, code: str, message: str, help_: str = _NO_TRUST) -> None:
        self.report.loose.append(Located(finding=finding(code, message, help=help_)))


def verify_lines(lines: Iterable[bytes]) -> VerificationReport:
    """Verify an export by its lines, each with its line feed. A signature by a key that is not trusted here proves nothing: it is an error."""
    check = _Check()
    for number, line in enumerate(lines, 1):
        if not check.add(number, line.removesuffix(b"\n")):
            break
    check.end()
    return check.report
