"""Verifying a checkpoint's folder (see `folder`) before anything of it is used.

The tests, in this order: both files are regular and within their limits; checkpoint.json has the published fields with their types;
the lines of audit.jsonl are an unbroken chain from the task's first event (`attachments`); the event that checkpoint.json names is a
checkpoint of that task; its signature is valid over the Merkle root of the events before it; every field, and the document, says
what the chain says (spec/events.md, section 7); the attached files are those that the document names.

Must never: write, or return a folder that has not passed all of them.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any, NamedTuple

from adjourn.checkpoints import attachments
from adjourn.checkpoints.attachments import RESTORE, Audit, follow, tool_history_entry
from adjourn.checkpoints.checkpoint import FORMAT, TaskCheckpoint, as_checkpoint, check_signature, document_of, known_to
from adjourn.checkpoints.folder import (
    AUDIT_FILE,
    JSON_FILE,
    MAX_HISTORY,
    NO_TEXT,
    CheckpointFile,
    Extra,
    omitted,
    path_of,
    read_published,
)
from adjourn.errors import IntegrityError, InvalidError
from adjourn.host import keys
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import decode
from adjourn.log.kinds import data_of, facts_of
from adjourn.log.signing import decode_bytes, fingerprint
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import check_task_id


class VerifiedFolder(NamedTuple):
    """A folder that passed every test. `signer` is the key's fingerprint, `trusted_as` its trusted name, "" for none."""

    file: CheckpointFile
    extra: Extra
    checkpoint: TaskCheckpoint
    ledger: Ledger
    audit: Audit
    signer: str
    trusted_as: str
    known: attachments.Knowledge


def verify_named(root: str, name: str) -> VerifiedFolder:
    """Verify the folder of a checkpoint in a workspace, as `verify` does. It must hold a checkpoint of that name, not another."""
    path = path_of(root, name)
    verified = verify(path)
    if verified.checkpoint.data.name != name:
        raise IntegrityError(f'{path} has checkpoint "{verified.checkpoint.data.name}", not "{name}"', RESTORE)
    return verified


def verify(folder: str) -> VerifiedFolder:
    """Verify a folder by all tests of this module. Raises `InvalidError`, `IntegrityError`, `NotFoundError`."""
    file = read_published(folder).file
    extra = file.adjourn
    if extra is None:
        raise InvalidError(
            f"{folder} has the published fields only: nothing in it can be verified",
            "vouch for it yourself with `adjourn checkpoint import`",
        )
    if extra.format != FORMAT:
        raise InvalidError(f"{folder} has format {extra.format[:40]!r}, not {FORMAT}", "update adjourn")
    check_task_id(extra.task)
    audit, last = follow(os.path.join(folder, AUDIT_FILE), extra.seq)
    if last.hash != extra.hash:
        raise IntegrityError(
            f"{folder}/{JSON_FILE}: adjourn.hash does not match event {extra.seq} of {AUDIT_FILE}", RESTORE
        )
    checkpoint = as_checkpoint(last)
    if checkpoint.event.task != extra.task:
        raise IntegrityError(f"{folder}/{JSON_FILE}: adjourn.task does not match {AUDIT_FILE}", RESTORE)
    ledger = Ledger(task=extra.task)
    history: deque[dict[str, Any]] = deque(maxlen=MAX_HISTORY)
    for entry in audit.entries(0, extra.seq):
        event = decode(entry.data)
        data = data_of(event)
        ledger.apply(event, entry.hash, data)
        decided = (tool_history_entry(fact, data_of(fact)) for fact in facts_of(event))
        history.extend(decision for decision in decided if decision is not None)
    if ledger.tree.root().hex() != checkpoint.data.root:
        raise IntegrityError(f"{folder}: the signed Merkle root does not match audit.jsonl", "do not resume from it")
    check_signature(checkpoint, _stated_key(folder, extra))
    _check_statements(folder, file, extra, checkpoint, ledger=ledger, history=list(history))
    ledger.apply(checkpoint.event, checkpoint.hash, checkpoint.data)
    by_name = {fingerprint(key): name for name, key in keys.trusted().items()}
    signer = checkpoint.data.key
    carried = attachments.read(folder, checkpoint)
    return VerifiedFolder(file, extra, checkpoint, ledger, audit, signer, by_name.get(signer, ""), carried)


def _stated_key(folder: str, extra: Extra) -> bytes:
    try:
        return decode_bytes(extra.public_key, keys.KEY_BYTES)
    except InvalidError as error:
        raise InvalidError(f"{folder}/{JSON_FILE}: adjourn.publicKey is not a key: {error.message}", RESTORE) from error


def _check_statements(
    folder: str,
    file: CheckpointFile,
    extra: Extra,
    checkpoint: TaskCheckpoint,
    *,
    ledger: Ledger,
    history: list[dict[str, Any]],
) -> None:
    """Every field of checkpoint.json must say what the verified chain says."""
    data = checkpoint.data
    stated = document_of(ledger, data.name, data.description, known_to(data))
    due = [
        ("name", file.name, data.name),
        ("description", file.description, data.description),
        ("timestamp", file.timestamp, checkpoint.event.timestamp),
        ("callsUsed", file.calls_used, ledger.calls_used),
        ("budget", file.budget, ledger.budget),
        ("toolHistory", file.tool_history, history),
        ("adjourn.historyOmitted", extra.history_omitted, omitted(stated, len(history))),
        ("adjourn.document", _document_digest(extra.document), data.document),
        ("adjourn.document", extra.document, stated),
        ("adjourn.report", data.report if extra.report is None else _document_digest(extra.report), data.report),
        ("adjourn.contract", digest(extra.contract.encode()), ledger.contract or NO_TEXT),
        ("adjourn.policy", digest(extra.policy.encode()), ledger.policy or NO_TEXT),
    ]
    for field, says, chain_says in due:
        if says != chain_says:
            text = f": {says!r}, but the history says {chain_says!r}" if isinstance(says, int) else ""
            raise IntegrityError(f"{folder}/{JSON_FILE}: {field} differs from what was signed{text}", RESTORE)


def _document_digest(stated: dict[str, Any]) -> str:
    try:
        return digest(canonical(stated))
    except InvalidError:
        return ""
