"""A checkpoint as a folder that carries itself: it can be committed, moved by git, verified and resumed elsewhere.

    .aex/checkpoints/NAME/checkpoint.json   the published fields, and under `adjourn` what makes it verifiable
    .aex/checkpoints/NAME/audit.jsonl       the chain, one stored event a line, up to and including the checkpoint
    (and what `knowledge` carries beside them)

What is tested before anything of a folder is applied, in this order: both are regular files within bounds;
checkpoint.json has the published fields with their types; the lines of audit.jsonl are an unbroken chain from the
task's first event (`adjourn.log.chain`); the event it points at is a checkpoint of that task; the signature holds, over
the Merkle root of the events before it; every field, and the document, says what the chain says (spec/events.md, section 7);
what is known is what the document names.

Owns: writing and verifying these folders. Must never: write through a link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from adjourn.engine import keys, knowledge
from adjourn.engine.checkpoint import (
    FORMAT,
    Checkpoint,
    as_checkpoint,
    check_signature,
    document,
    document_of,
    find,
    known_to,
)
from adjourn.engine.published import tool_history_entry
from adjourn.engine.task import check_task_id
from adjourn.engine.workspace import (
    CHECKPOINTS,
    check_name,
    inside,
    locked,
    make_folder,
    read_file,
    remove_file,
    write_file,
)
from adjourn.errors import ConflictError, IntegrityError, InvalidError, NotFoundError, RefusedError
from adjourn.log.canonical import canonical, digest
from adjourn.log.chain import verify_chain
from adjourn.log.event import decode
from adjourn.log.kinds import data_of
from adjourn.log.signing import decode_bytes, encode_bytes, fingerprint
from adjourn.state.ledger import Ledger
from adjourn.store.base import Entry, Store

JSON_FILE = "checkpoint.json"
AUDIT_FILE = "audit.jsonl"
MAX_HISTORY = 10_000
"""Entries of `toolHistory`; older ones are only in audit.jsonl, and `historyOmitted` tells how many."""
MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_AUDIT_BYTES = 256 * 1024 * 1024
_PAGE = 4096
_NO_TEXT = digest(b"")


class Extra(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What `checkpoint.json` has under `adjourn`: all that is needed to verify it, and to go on without the store."""

    format: str
    task: str
    seq: int
    hash: str
    document: dict[str, Any]
    public_key: str
    contract: str = ""
    policy: str = ""
    history_omitted: int = 0


class CheckpointFile(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """`checkpoint.json`: the published fields in their order, then ours."""

    name: str
    description: str = ""
    timestamp: str
    calls_used: int
    budget: int | None = None
    tool_history: list[dict[str, Any]]
    adjourn: Extra | None = None


class VerifiedFolder(NamedTuple):
    """A folder that held. `signer` is the fingerprint, `trusted_as` the name it is trusted under, "" if it is not."""

    file: CheckpointFile
    extra: Extra
    checkpoint: Checkpoint
    ledger: Ledger
    entries: list[Entry]
    signer: str
    trusted_as: str
    known: knowledge.Knowledge


def write(store: Store, checkpoint: Checkpoint, root: str) -> str:
    """Write a checkpoint's folder into a workspace; returns its path relative to `root`, with a slash at the end.

    When another process has made a newer version of that name meanwhile, it is that one: the last writer must not leave
    the older. A crash in between leaves the folder as it was, or without checkpoint.json: never one that verifies and is
    wrong.
    """
    name = checkpoint.data.name
    relative = f"{CHECKPOINTS}/{name}"
    path = make_folder(root, relative)
    with locked(path):
        _remember(store, name, write_into(store, find(store, name), path))
    return f"{relative}/"


def write_into(store: Store, checkpoint: Checkpoint, folder: str) -> str:
    """Write the files into a folder that is there, in the workspace or not; returns the digest of checkpoint.json."""
    task, seq = checkpoint.event.task, checkpoint.event.seq
    file = render(store, checkpoint)
    if _task_in(folder) != task:
        # another task's: with our audit.jsonl it would be no checkpoint of either
        remove_file(folder, JSON_FILE)
    write_file(folder, AUDIT_FILE, (entry.data + b"\n" for entry in store.read(task, 0, seq + 1)))
    knowledge.write(store, checkpoint, folder)
    data = msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"
    write_file(folder, JSON_FILE, data)
    knowledge.remove_older(folder, checkpoint)
    return digest(data)


def _task_in(folder: str) -> str:
    try:
        file = _read_json(folder)
    except (InvalidError, NotFoundError):
        return ""
    return file.adjourn.task if file.adjourn else ""


def _remember(store: Store, name: str, file_digest: str) -> None:
    """Keep the digest of the file as written, so that resuming can tell an edited one without reading the whole chain."""
    ref = f"folder/{name}"
    current = store.ref(ref)
    if current != file_digest:
        with suppress(
            ConflictError
        ):  # another workspace of this store: a wrong digest costs one verification
            store.swap(ref, file_digest, expect=current)


def render(store: Store, checkpoint: Checkpoint) -> CheckpointFile:
    """The content of checkpoint.json."""
    event, event_hash, data = checkpoint
    stated = document(store, checkpoint)
    history = _history(store, event.task, event.seq, MAX_HISTORY)
    texts = {key: _text(store, stated[key]) for key in ("contract", "policy")}
    return CheckpointFile(
        name=data.name,
        description=data.description,
        timestamp=event.timestamp,
        calls_used=stated["callsUsed"],
        budget=stated.get("budget"),
        tool_history=history,
        adjourn=Extra(
            format=FORMAT,
            task=event.task,
            seq=event.seq,
            hash=event_hash,
            document=stated,
            public_key=encode_bytes(_public_key(data.key)),
            contract=texts["contract"],
            policy=texts["policy"],
            history_omitted=_omitted(stated, len(history)),
        ),
    )


def _omitted(stated: dict[str, Any], shown: int) -> int:
    """How many decisions a `toolHistory` of `shown` entries leaves out."""
    decisions: int = stated["callsUsed"] + stated["callsRefused"]
    return max(0, decisions - shown) if shown == MAX_HISTORY else 0


def _text(store: Store, text_digest: str) -> str:
    if text_digest in ("", _NO_TEXT):
        return ""
    stored = store.get_blob(text_digest)
    if stored is None:
        raise IntegrityError(
            f"the contract or policy {text_digest[:12]} is not in the store", "import the checkpoint again"
        )
    return stored.decode()


def _public_key(key: str) -> bytes:
    for public in keys.trusted().values():
        if fingerprint(public) == key:
            return public
    raise NotFoundError(
        f"the key {key} that signed the checkpoint is not known here", "`adjourn keys trust` adds it"
    )


def _history(store: Store, task: str, stop: int, limit: int) -> list[dict[str, Any]]:
    """The last `limit` decisions before event `stop`, oldest first, read from the end in pages."""
    pages: list[list[dict[str, Any]]] = []
    found = 0
    while stop > 0 and found < limit:
        start = max(0, stop - _PAGE)
        page = list(_decisions(store.read(task, start, stop)))
        pages.append(page)
        found += len(page)
        stop = start
    return [entry for page in reversed(pages) for entry in page][-limit:]


def _decisions(entries: Iterator[Entry] | list[Entry]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        event = decode(entry.data)
        shown = tool_history_entry(event, data_of(event))
        if shown is not None:
            yield shown


# --- reading


def path_of(root: str, name: str) -> str:
    """The folder of a checkpoint in a workspace, which may not be reached by a link. Raises `RefusedError`."""
    relative = f"{CHECKPOINTS}/{check_name(name)}"
    path = inside(root, relative)
    if path != os.path.join(os.path.realpath(root), relative):
        raise RefusedError(f"{relative} is reached by a link", "remove it; adjourn follows no link here")
    return path


def names(root: str) -> list[str]:
    """What there is in the workspace's folder of checkpoints, whether it is one or not."""
    try:
        return sorted(os.listdir(inside(root, CHECKPOINTS)))
    except (OSError, RefusedError):
        return []


def is_as_written(store: Store, root: str, name: str) -> bool | None:
    """Whether checkpoint.json is what this store wrote; None when there is no such file."""
    try:
        data = read_file(os.path.join(path_of(root, name), JSON_FILE), MAX_JSON_BYTES)
    except NotFoundError:
        return None
    return digest(data) == store.ref(f"folder/{name}")


class PublishedFile(NamedTuple):
    """A checkpoint.json as decoded, and its bytes."""

    file: CheckpointFile
    data: bytes


def _read_json(folder: str) -> CheckpointFile:
    return read_published(folder).file


def read_published(folder: str) -> PublishedFile:
    """A checkpoint.json, with its types checked and nothing else. Raises `InvalidError`, `NotFoundError`."""
    path = os.path.join(folder, JSON_FILE)
    data = read_file(path, MAX_JSON_BYTES)
    try:
        return PublishedFile(msgspec.json.decode(data, type=CheckpointFile), data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(
            f"{path} is not a checkpoint: {error}", "restore it from version control"
        ) from error


def verify_named(root: str, name: str) -> VerifiedFolder:
    """Test the folder of a checkpoint in a workspace: it must also hold a checkpoint of that name, not a copy of another."""
    path = path_of(root, name)
    verified = verify(path)
    if verified.checkpoint.data.name != name:
        raise IntegrityError(f'{path} holds checkpoint "{verified.checkpoint.data.name}"', _RESTORE)
    return verified


def verify(folder: str) -> VerifiedFolder:
    """Test a folder whole, as the module's docstring says. Raises `InvalidError`, `IntegrityError`, `NotFoundError`."""
    file = _read_json(folder)
    extra = file.adjourn
    if extra is None:
        raise InvalidError(
            f"{folder} has the published fields only: nothing in it can be verified",
            "a person who vouches for it can run `adjourn import` on it",
        )
    if extra.format != FORMAT:
        raise InvalidError(f"{folder} has format {extra.format[:40]!r}, not {FORMAT}", "update adjourn")
    check_task_id(extra.task)
    entries = _read_audit(folder, extra)
    checkpoint = as_checkpoint(entries[-1])
    if checkpoint.event.task != extra.task:
        raise IntegrityError(f"{folder}/{JSON_FILE}: adjourn.task is not that of {AUDIT_FILE}", _RESTORE)
    ledger = Ledger(task=extra.task)
    for entry in entries[:-1]:
        event = decode(entry.data)
        ledger.apply(event, entry.hash, data_of(event))
    if ledger.tree.root().hex() != checkpoint.data.root:
        raise IntegrityError(
            f"{folder}: the signed Merkle root is not that of audit.jsonl", "do not resume from it"
        )
    check_signature(checkpoint, _stated_key(folder, extra))
    _check_statements(folder, file, extra, checkpoint, ledger=ledger, entries=entries)
    ledger.apply(checkpoint.event, checkpoint.hash, checkpoint.data)
    known = {fingerprint(key): name for name, key in keys.trusted().items()}
    signer = checkpoint.data.key
    carried = knowledge.read(folder, checkpoint)
    return VerifiedFolder(file, extra, checkpoint, ledger, entries, signer, known.get(signer, ""), carried)


def _stated_key(folder: str, extra: Extra) -> bytes:
    try:
        return decode_bytes(extra.public_key, keys.KEY_BYTES)
    except InvalidError as error:
        raise InvalidError(
            f"{folder}/{JSON_FILE}: adjourn.publicKey is no key: {error.message}", _RESTORE
        ) from error


def _read_audit(folder: str, extra: Extra) -> list[Entry]:
    """The events up to the checkpoint. Later ones are left by a crash between both files: they must follow, and are
    not looked at otherwise.
    """
    path = os.path.join(folder, AUDIT_FILE)
    lines = read_file(path, MAX_AUDIT_BYTES).split(b"\n")
    if len(lines) <= extra.seq + 1 or extra.seq < 0:
        raise IntegrityError(
            f"{path} has {len(lines) - 1} events, not the {extra.seq + 1} that it must have", _RESTORE
        )
    if lines.pop():
        raise IntegrityError(f"{path} does not end with a line feed", _RESTORE)
    entries = [Entry(digest(line), line) for line in lines]
    result = verify_chain(entries)
    if not result.valid:
        raise IntegrityError(
            f"{path} breaks at line {(result.broken_at or 0) + 1}: {result.reason}", _RESTORE
        )
    if entries[extra.seq].hash != extra.hash:
        raise IntegrityError(
            f"{folder}/{JSON_FILE}: adjourn.hash is not that of event {extra.seq} in {AUDIT_FILE}", _RESTORE
        )
    return entries[: extra.seq + 1]


_RESTORE = "restore it from version control, or `adjourn export` it anew from the store"


def _check_statements(
    folder: str,
    file: CheckpointFile,
    extra: Extra,
    checkpoint: Checkpoint,
    *,
    ledger: Ledger,
    entries: list[Entry],
) -> None:
    """Every field of checkpoint.json must say what the verified chain says."""
    data = checkpoint.data
    stated = document_of(ledger, data.name, data.description, known_to(data))
    history = list(_decisions(entries[:-1]))[-MAX_HISTORY:]
    due = [
        ("name", file.name, data.name),
        ("description", file.description, data.description),
        ("timestamp", file.timestamp, checkpoint.event.timestamp),
        ("callsUsed", file.calls_used, ledger.calls_used),
        ("budget", file.budget, ledger.budget),
        ("toolHistory", file.tool_history, history),
        ("adjourn.historyOmitted", extra.history_omitted, _omitted(stated, len(history))),
        ("adjourn.document", _document_digest(extra.document), data.document),
        ("adjourn.document", extra.document, stated),
        ("adjourn.contract", digest(extra.contract.encode()), ledger.contract or _NO_TEXT),
        ("adjourn.policy", digest(extra.policy.encode()), ledger.policy or _NO_TEXT),
    ]
    for field, says, chain_says in due:
        if says != chain_says:
            shown = f": {says!r}, where the history says {chain_says!r}" if isinstance(says, int) else ""
            raise IntegrityError(f"{folder}/{JSON_FILE}: {field} is not what was signed{shown}", _RESTORE)


def _document_digest(stated: dict[str, Any]) -> str:
    try:
        return digest(canonical(stated))
    except InvalidError:
        return ""
