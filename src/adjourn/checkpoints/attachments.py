"""The files of a checkpoint's folder beside checkpoint.json, and the form of the events in them.

    .aex/checkpoints/NAME/record-HASH.jsonl    the Continuation Record up to the version that the checkpoint names (`records.transfer`)
    .aex/checkpoints/NAME/cognition-HASH.json  the cognitive checkpoint that this version names, in canonical JSON
    .aex/checkpoints/NAME/audit.jsonl          the history of the task (see below)

The checkpoint's signed document names the first two by hash: the record by the hash of that version, the cognitive checkpoint by its
SHA-256. Each has the first twelve digits of its hash in its name, so the files of two versions of the checkpoint can be in a folder
until checkpoint.json is replaced. A checkpoint without a record has neither file. A folder that lacks them can be resumed; the next
session then reads that the record is missing. What the signed document does not name is not imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from adjourn.checkpoints.checkpoint import TaskCheckpoint
from adjourn.errors import AdjournError, ConflictError, IntegrityError, InvalidError, NotFoundError
from adjourn.host import keys
from adjourn.host.workspace import read_file, read_lines, remove_file, write_file
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import milliseconds

if TYPE_CHECKING:
    from adjourn.knowledge.model.documents import Tree
    from adjourn.knowledge.records.store import RecordTrees
    from adjourn.knowledge.records.transfer import Fork
    from adjourn.log.kinds import CheckpointCreated
    from adjourn.store.base import Store
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec

from adjourn.log import kinds
from adjourn.log.event import GENESIS, MAX_EVENT_BYTES, Event
from adjourn.store.base import Entry
from adjourn.tasks.ledger import MAX_TIME, Ledger
from adjourn.text.quoting import one_line

MAX_RECORD_BYTES = 256 * 1024 * 1024
MAX_COGNITION_BYTES = 64 * 1024 * 1024
_NAME = r"record-[0-9a-f]{12}\.jsonl|cognition-[0-9a-f]{12}\.json"
_RESTORE = "restore it from version control, or `adjourn checkpoint export` it again; the checkpoint can be resumed without this file"


class Knowledge(NamedTuple):
    """The verified content of both files: the lines of the record's file, and the cognitive checkpoint."""

    record: Sequence[bytes] = ()
    cognition: Tree | None = None


def record_file(data: CheckpointCreated) -> str:
    """The name of the record's file in the folder of a checkpoint that has one."""
    return f"record-{data.record[:12]}.jsonl"


def cognition_file(data: CheckpointCreated) -> str:
    """The name of the cognitive checkpoint's file in the folder of a checkpoint that has one."""
    return f"cognition-{data.cognition[:12]}.json"


def is_knowledge(name: str) -> bool:
    """Whether `name` is that of one of these two files, of any version of the checkpoint."""
    return re.fullmatch(_NAME, name) is not None


def write(store: Store, checkpoint: TaskCheckpoint, folder: str) -> None:
    """Write the files that the checkpoint names, if the store has their content. Files of older versions stay."""
    record, mind = _of(store, checkpoint)
    if record:
        write_file(folder, record_file(checkpoint.data), record)
    if mind:
        write_file(folder, cognition_file(checkpoint.data), canonical(mind))


def remove_older(folder: str, checkpoint: TaskCheckpoint) -> None:
    """Remove the files of all versions but the one in checkpoint.json."""
    anchored = {record_file(checkpoint.data), cognition_file(checkpoint.data)}
    for name in os.listdir(folder):
        if is_knowledge(name) and name not in anchored:
            remove_file(folder, name)


def _of(store: Store, checkpoint: TaskCheckpoint) -> Knowledge:
    from adjourn.knowledge.cognition.repository import SessionRepository
    from adjourn.knowledge.records.store import RecordTrees
    from adjourn.knowledge.records.transfer import export_record

    data = checkpoint.data
    if not data.record:
        return Knowledge()

    try:
        records = RecordTrees(store)
        version = records.resolve(data.record)
        lines = list(export_record(records, data.record, keys.private_key()))
        named = version.get("checkpointId", "")
        mind = SessionRepository(store).checkpoint(named) if data.cognition else None
    except NotFoundError:  # the checkpoint came from elsewhere, without them
        return Knowledge()
    return Knowledge(lines, mind if mind and digest(canonical(mind)) == data.cognition else None)


def read(folder: str, checkpoint: TaskCheckpoint) -> Knowledge:
    """Read and verify both files of a folder; a missing file counts as empty. Raises `InvalidError`, `IntegrityError`."""
    data = checkpoint.data
    return Knowledge(
        _record(os.path.join(folder, record_file(data)), data.record) if data.record else (),
        _cognition(os.path.join(folder, cognition_file(data)), data.cognition) if data.cognition else None,
    )


def _record(path: str, version: str) -> Sequence[bytes]:
    from adjourn.knowledge.records.store import RecordTrees
    from adjourn.store.memory import MemoryStore

    if not os.path.lexists(path):
        return ()

    lines: list[bytes] = []
    try:
        carried = _import(RecordTrees(MemoryStore()), _kept(path, lines))
    except AdjournError as error:
        raise IntegrityError(
            f"{path} fails verification: {error.message}", CRLF if error.remedy == CRLF else _RESTORE
        ) from error
    if carried["contentHash"] != version:
        raise IntegrityError(
            f"{path} ends with version {carried['contentHash'][:12]}, but version {version[:12]} was signed", _RESTORE
        )
    return lines


def _kept(path: str, lines: list[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file, and append each to `lines`. Lines after a bad one are never read."""
    from adjourn.knowledge.model.documents import MAX_DOCUMENT_BYTES

    for number, line in enumerate(read_lines(path, MAX_RECORD_BYTES, MAX_DOCUMENT_BYTES), 1):
        check_line_ending(path, number, line)
        lines.append(line)
        yield line


def _cognition(path: str, signed: str) -> Tree | None:
    from adjourn.knowledge.model.cognition import CognitiveCheckpoint
    from adjourn.knowledge.model.documents import read as model_read

    mind = _read(path, MAX_COGNITION_BYTES)
    if not mind:
        return None
    if digest(mind) != signed:
        raise IntegrityError(f"{path} fails verification: its hash is not the signed one", _RESTORE)

    try:
        return model_read(mind, CognitiveCheckpoint)
    except InvalidError as error:
        raise InvalidError(f"{path}: {error.message}", _RESTORE) from error


def take_in(store: Store, checkpoint: TaskCheckpoint, known: Knowledge) -> str:
    """Import the verified content of both files into a store. Returns a note for the person, "" for none.

    Where the store has a conflicting version of the record, the folder's version becomes a record of its own, to be merged.
    """
    from adjourn.knowledge.cognition.repository import SessionRepository
    from adjourn.knowledge.cognition.store import CognitiveStore
    from adjourn.knowledge.model.record import CRAuthor
    from adjourn.knowledge.records.store import RecordTrees
    from adjourn.knowledge.records.transfer import Fork

    if not known.record:
        return ""

    task, here = checkpoint.event.task, RecordTrees(store)
    try:
        _import(here, known.record)
    except ConflictError:
        other = f"{task}-{checkpoint.data.record[:8]}"
        if here.get(other) is None:
            now = milliseconds(checkpoint.event.timestamp)
            author = CRAuthor(id="adjourn", type="system")
            _import(here, known.record, Fork(other, author, now))
        return f"the record changed here and elsewhere; the version of the folder is now record {other}: merge the two with `adjourn record merge`"
    mind = known.cognition
    if mind is not None and SessionRepository(store).checkpoint(mind["id"]) is None:
        CognitiveStore(store, task, triggers=()).restore_from_checkpoint(mind, move_head=True)
    return ""


def _import(into: RecordTrees, lines: Iterable[bytes], fork: Fork | None = None) -> Tree:
    from adjourn.knowledge.records.transfer import import_record

    return import_record(into, lines, (), fork).record


def _read(path: str, most: int) -> bytes:
    try:
        return read_file(path, most)
    except NotFoundError:
        return b""


# --- audit.jsonl, read line by line, so that a file of any length and content needs little memory
#
# Reading ends at the first line that breaks the chain. Of each verified event the 32 bytes of its hash are kept. A second reading
# compares every event with its hash, so a change of the file in between is found.

MAX_AUDIT_BYTES = 256 * 1024 * 1024
MAX_EVENTS = 1_000_000
_DIGEST_BYTES = 32
CRLF = "put the line `.aex/checkpoints/** -text` into .gitattributes, commit it, then delete the folder and `git checkout` it again"
RESTORE = "restore it from version control, or `adjourn checkpoint export` it again from the store"


class Audit(msgspec.Struct, frozen=True):
    """The verified events of a file, up to the one that was asked for: its path and their hashes, 32 bytes each."""

    path: str
    digests: bytes

    @property
    def total(self) -> int:
        """The number of events."""
        return len(self.digests) // _DIGEST_BYTES

    def hash_of(self, seq: int) -> str:
        """The hash of event `seq`, in hex."""
        return self.digests[seq * _DIGEST_BYTES : (seq + 1) * _DIGEST_BYTES].hex()

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Read the events `start <= seq < stop` again. Raises `IntegrityError` if the file changed since it was verified."""
        stop = self.total if stop is None else min(stop, self.total)
        seq = start
        for line in islice(read_lines(self.path, MAX_AUDIT_BYTES, MAX_EVENT_BYTES), start, stop):
            entry = _entry(line)
            if entry.hash != self.hash_of(seq):
                raise IntegrityError(f"{self.path} was changed at line {seq + 1} while it was read", RESTORE)
            yield entry
            seq += 1
        if seq < stop:
            raise IntegrityError(f"{self.path} became shorter while it was read", RESTORE)


def follow(path: str, seq: int) -> tuple[Audit, Entry]:
    """Verify the events 0 … `seq` of a file; returns them and the last one. Raises `InvalidError`, `IntegrityError`.

    A crash between the writing of two files can leave more lines than that: they must continue the chain, and are ignored.
    """
    digests = bytearray()
    last = None
    link = _link(GENESIS)
    number = 0
    for number, line in enumerate(read_lines(path, MAX_AUDIT_BYTES, MAX_EVENT_BYTES), 1):
        check_line_ending(path, number, line)
        if not line.startswith(link):
            raise IntegrityError(
                f"{path} fails verification at line {number}: it does not follow the line before (parent-mismatch)",
                RESTORE,
            )
        if not line.endswith(b"\n"):
            raise IntegrityError(f"{path} does not end with a line feed", RESTORE)
        if number > MAX_EVENTS:
            raise IntegrityError(
                f"{path} has more than {MAX_EVENTS:,} events", "resume from the store that wrote the folder"
            )
        entry = _entry(line)
        link = _link(entry.hash)
        if number <= seq + 1:
            digests += bytes.fromhex(entry.hash)
            last = entry
    if last is None or number <= seq:
        raise IntegrityError(f"{path} has {number} events, expected {seq + 1}", RESTORE)
    return Audit(path, bytes(digests)), last


def check_line_ending(path: str, number: int, line: bytes) -> None:
    """Raise `IntegrityError` where git or an editor replaced the line feed at the end of a line by CR and LF."""
    if line.endswith(b"\r\n"):
        raise IntegrityError(
            f"{path} has CRLF line endings (line {number}): they were converted since it was written", CRLF
        )


def _entry(line: bytes) -> Entry:
    data = line[:-1]
    return Entry(sha256(data).hexdigest(), data)


def _link(after: str) -> bytes:
    return b'{"after":"%b"' % after.encode()


# --- events as published JSON: the entries of `toolHistory` and `auditSummary`

_REFUSED = {kinds.BudgetExhausted.KIND: "budget_exhausted", kinds.ConfirmDenied.KIND: "confirm_required"}
_SHOWN = ("entry", "tool", "reason", "used", "limit", "name", "code", "signal", "message")


def tool_history_entry(event: Event, data: kinds.Data | None) -> dict[str, Any] | None:
    """The entry `{tool, timestamp, decision, reason?}` of an event that is a decision on a call, else None."""
    if isinstance(data, kinds.ToolAllowed):
        return {"tool": data.tool, "timestamp": event.timestamp, "decision": "forward"}
    if isinstance(data, kinds.EntryImported):
        return _imported_decision(data) if data.decision else None
    reason = _REFUSED.get(event.event, "")
    if isinstance(data, kinds.ToolDenied):
        reason = data.reason
    if not reason:
        return None
    tool = getattr(data, "tool", "")
    return {"tool": tool, "timestamp": event.timestamp, "decision": "block", "reason": reason}


def _imported_decision(data: kinds.EntryImported) -> dict[str, Any]:
    """The entry as the imported file has it: its tool, its time, its decision."""
    entry = {"tool": data.tool, "timestamp": data.at, "decision": data.decision}
    return entry | ({"reason": data.reason} if data.reason else {})


def audit_entry(event: Event, data: kinds.Data | None) -> dict[str, Any]:
    """The entry `{event, data}` of an event: the members that say what happened. Digests and ids are in the audit log only."""
    fields = {name: getattr(data, name) for name in _SHOWN if getattr(data, name, None) not in (None, "", 0)}
    if isinstance(data, kinds.EntryImported):
        fields |= ({"at": data.at} if data.at else {}) | {"verified": False}
    elif isinstance(data, kinds.TaskImported) and not data.signer and not data.head:
        fields = {"from": data.source or "aex", "calls": data.calls, "verified": False}
    return {"event": event.event, "data": fields}


def imported_history(ledger: Ledger) -> dict[str, Any] | None:
    """What a task's history has of an import that nobody could verify: its formats, the number of its entries, and the time that its
    file states; None for nothing.
    """
    if not ledger.imported_from:
        return None
    stated = {"at": one_line(ledger.imported_at, MAX_TIME)} if ledger.imported_at else {}
    return {"from": ledger.imported_from, "entries": ledger.imported, "verified": False} | stated


def shown_size(value: object) -> int:
    """The bytes of a value in an answer: indented by two, in a list that is a member of the answer."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return len(text) + 4 * text.count(b"\n") + 6


AUDITED = frozenset(
    kind.KIND
    for kind in (
        kinds.ToolAllowed,
        kinds.ToolChanged,
        kinds.ToolDenied,
        kinds.BudgetExhausted,
        kinds.ConfirmRequired,
        kinds.ConfirmApproved,
        kinds.ConfirmDenied,
        kinds.ConfirmAutoApproved,
        kinds.CheckpointCreated,
        kinds.CheckpointResumed,
        kinds.UpstreamCrashed,
        kinds.UpstreamError,
        kinds.EffectSettled,
        kinds.EffectRepeated,
        kinds.EntryImported,
        kinds.TaskImported,
        kinds.TaskFinished,
        kinds.TaskReopened,
    )
)
"""Kinds of events that the answer of a resume lists."""
