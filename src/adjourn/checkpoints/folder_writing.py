"""Writing a checkpoint's folder (see `folder`).

Owns: what goes into it, in which order, and the note of what was written. Must never: write through a link, or leave a folder
that verifies and is wrong.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from adjourn.checkpoints import attachments
from adjourn.checkpoints.checkpoint import FORMAT, TaskCheckpoint, document, find
from adjourn.checkpoints.folder import (
    AUDIT_FILE,
    JSON_FILE,
    MAX_HISTORY,
    NO_TEXT,
    CheckpointFile,
    Extra,
    decisions,
    omitted,
    read_published,
)
from adjourn.errors import ConflictError, IntegrityError, InvalidError, NotFoundError
from adjourn.host import CHECKPOINTS, keys, locked, make_folder, remove_file, write_file
from adjourn.log import digest, encode_bytes, fingerprint
from adjourn.store import Head, Store
from adjourn.tasks import checked

_PAGE = 4096


def write(store: Store, checkpoint: TaskCheckpoint, root: str) -> str:
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


def write_into(store: Store, checkpoint: TaskCheckpoint, folder: str) -> str:
    """Write the files into a folder that is there, in the workspace or not; returns the digest of checkpoint.json."""
    task, seq = checkpoint.event.task, checkpoint.event.seq
    events = checked(store, task, 0, Head(seq, checkpoint.hash))  # before anything that is there is touched
    file = render(store, checkpoint)
    if not _goes_on(store, checkpoint, folder):
        remove_file(folder, JSON_FILE)  # with our audit.jsonl it would be no checkpoint of either history
    write_file(folder, AUDIT_FILE, (entry.data + b"\n" for entry in events))
    attachments.write(store, checkpoint, folder)
    data = msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"
    write_file(folder, JSON_FILE, data)
    attachments.remove_older(folder, checkpoint)
    return digest(data)


def _goes_on(store: Store, checkpoint: TaskCheckpoint, folder: str) -> bool:
    """Whether the checkpoint that stands in a folder is one of the history that this one ends."""
    try:
        there = read_published(folder).file.adjourn
    except (InvalidError, NotFoundError):
        return False
    task, seq = checkpoint.event.task, checkpoint.event.seq
    if there is None or there.task != task or not 0 <= there.seq <= seq:
        return False
    return next(iter(store.read(task, there.seq, there.seq + 1))).hash == there.hash


def _remember(store: Store, name: str, file_digest: str) -> None:
    """Keep the digest of the file as written, so that resuming can tell an edited one without reading the whole chain."""
    ref = f"folder/{name}"
    current = store.ref(ref)
    if current != file_digest:
        with suppress(
            ConflictError
        ):  # another workspace of this store: a wrong digest costs one verification
            store.swap(ref, file_digest, expect=current)


def render(store: Store, checkpoint: TaskCheckpoint) -> CheckpointFile:
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
            history_omitted=omitted(stated, len(history)),
        ),
    )


def _text(store: Store, text_digest: str) -> str:
    if text_digest in ("", NO_TEXT):
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
        page = list(decisions(store.read(task, start, stop)))
        pages.append(page)
        found += len(page)
        stop = start
    return [entry for page in reversed(pages) for entry in page][-limit:]
