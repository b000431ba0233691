"""The files of a checkpoint's folder that hold what the agent knows, beside the history of what it did.

    .aex/checkpoints/NAME/record-HASH.jsonl    the Continuation Record up to the version that the checkpoint names (`records.transfer`)
    .aex/checkpoints/NAME/cognition-HASH.json  the cognitive checkpoint that this version names, in canonical JSON

The checkpoint's signed document names both by hash: the record by the hash of that version, the cognitive checkpoint by its
SHA-256. Each file has the first twelve digits of its hash in its name, so the files of two versions of the checkpoint can be in
a folder until checkpoint.json is replaced. A checkpoint without a record has neither file. A folder that lacks them can be
resumed; the next session then reads that the record is missing.

Owns: these two files. Must never: import what the signed document does not name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from adjourn.checkpoints.audit_log import CRLF, check_line_ending
from adjourn.checkpoints.checkpoint import TaskCheckpoint
from adjourn.errors import AdjournError, ConflictError, IntegrityError, InvalidError, NotFoundError
from adjourn.host import keys, read_file, read_lines, remove_file, write_file
from adjourn.knowledge import cognition, model, records
from adjourn.log import canonical, digest, milliseconds
from adjourn.store import MemoryStore

if TYPE_CHECKING:
    from adjourn.knowledge.model import Tree
    from adjourn.knowledge.records import CRStore, Fork
    from adjourn.log import CheckpointCreated
    from adjourn.store import Store

MAX_RECORD_BYTES = 256 * 1024 * 1024
MAX_COGNITION_BYTES = 64 * 1024 * 1024
_NAME = re.compile(r"record-[0-9a-f]{12}\.jsonl|cognition-[0-9a-f]{12}\.json")
_RESTORE = "restore it from version control, or `adjourn export` it again; the checkpoint can be resumed without this file"


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
    return _NAME.fullmatch(name) is not None


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
    data = checkpoint.data
    if not data.record:
        return Knowledge()

    try:
        kept = records.CRStore(store)
        version = kept.resolve(data.record)
        lines = list(records.export_record(kept, data.record, keys.private_key()))
        named = version.get("checkpointId", "")
        mind = cognition.SessionRepository(store).checkpoint(named) if data.cognition else None
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
    if not os.path.lexists(path):
        return ()

    lines: list[bytes] = []
    try:
        carried = _import(records.CRStore(MemoryStore()), _kept(path, lines))
    except AdjournError as error:
        raise IntegrityError(
            f"{path} fails verification: {error.message}", CRLF if error.remedy == CRLF else _RESTORE
        ) from error
    if carried["contentHash"] != version:
        raise IntegrityError(
            f"{path} ends with version {carried['contentHash'][:12]}, but version {version[:12]} was signed",
            _RESTORE,
        )
    return lines


def _kept(path: str, lines: list[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file, and append each to `lines`. Lines after a bad one are never read."""
    for number, line in enumerate(read_lines(path, MAX_RECORD_BYTES, model.MAX_DOCUMENT_BYTES), 1):
        check_line_ending(path, number, line)
        lines.append(line)
        yield line


def _cognition(path: str, signed: str) -> Tree | None:
    mind = _read(path, MAX_COGNITION_BYTES)
    if not mind:
        return None
    if digest(mind) != signed:
        raise IntegrityError(f"{path} fails verification: its hash is not the signed one", _RESTORE)

    try:
        return model.read(mind, model.CognitiveCheckpoint)
    except InvalidError as error:
        raise InvalidError(f"{path}: {error.message}", _RESTORE) from error


def take_in(store: Store, checkpoint: TaskCheckpoint, known: Knowledge) -> str:
    """Import the verified content of both files into a store. Returns a note for the person, "" for none.

    Where the store has a conflicting version of the record, the folder's version becomes a record of its own, to be merged.
    """
    if not known.record:
        return ""

    task, here = checkpoint.event.task, records.CRStore(store)
    try:
        _import(here, known.record)
    except ConflictError:
        other = f"{task}-{checkpoint.data.record[:8]}"
        if here.get(other) is None:
            now = milliseconds(checkpoint.event.timestamp)
            author = model.CRAuthor(id="adjourn", type="system")
            _import(here, known.record, records.Fork(other, author, now))
        return f"the record changed here and elsewhere; the version of the folder is now record {other}: merge the two with `adjourn record merge`"
    mind = known.cognition
    if mind is not None and cognition.SessionRepository(store).checkpoint(mind["id"]) is None:
        cognition.CognitiveStore(store, task, triggers=()).restore_from_checkpoint(mind, move_head=True)
    return ""


def _import(into: CRStore, lines: Iterable[bytes], fork: Fork | None = None) -> Tree:
    return records.import_record(into, lines, (), fork).record


def _read(path: str, most: int) -> bytes:
    try:
        return read_file(path, most)
    except NotFoundError:
        return b""
