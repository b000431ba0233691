"""Look up a checkpoint's name, and import the history of a folder that git or a colleague brought.

Owns: the lookup (the store first, then the workspace's folder), the import of a folder's history, and who must vouch for it. Must never:
apply a history that was not verified, or move a name back to an older checkpoint of its task.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Literal, NamedTuple

from adjourn.checkpoints import (
    TaskCheckpoint,
    VerifiedFolder,
    attachments,
    find,
    folder,
    folder_verification,
    trusted_signer,
)
from adjourn.errors import AdjournError, NotFoundError, RefusedError
from adjourn.log import canonical, decode, digest
from adjourn.store import Head, Store
from adjourn.tasks import PermanentConflictError, append_with_retry, idempotency
from adjourn.text import did_you_mean

_CHUNK = 2000


def locate(store: Store, root: str, name: str) -> tuple[TaskCheckpoint, Literal["store", "folder"]]:
    """The newest checkpoint of a name, and where it was found. A folder that this store did not write is imported first.

    Raises `NotFoundError`, and for a folder the errors of verifying and importing it.
    """
    if "/" in name:  # TASK/NAME: the task's own, whatever has the name now
        return find(store, name), "store"
    if folder.is_as_written(store, root, name) is False:
        return import_named(store, root, name).checkpoint, "folder"
    try:
        return find(store, name), "store"
    except NotFoundError:
        known = sorted(ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/"))
        near = did_you_mean(name, known) or (known and f"use one of: {', '.join(known[:10])}")
        raise NotFoundError(
            f'no checkpoint is named "{name}"', near or "create one: call aex.checkpoint"
        ) from None


def import_newer_folders(store: Store, root: str, checkpoint: TaskCheckpoint) -> None:
    """Import the folders of the workspace that have later events of the checkpoint's task than the store: calls spent there are spent.

    Skips a folder that fails verification, is not trusted, or has another history of the task.
    """
    task = checkpoint.event.task
    for name in folder.names(root):
        with suppress(AdjournError):
            if folder.is_as_written(store, root, name) is not False:
                continue
            brought = folder.read_published(folder.path_of(root, name)).file.adjourn
            if brought is not None and brought.task == task and brought.seq > store.head(task).seq:
                import_named(store, root, name)


def import_named(store: Store, root: str, name: str) -> Imported:
    """Verify the folder of a name and import it. Raises the errors of both."""
    verified = folder_verification.verify_named(root, name)
    # INVARIANT: import_folder holds this folder to the history that the person vouched for.
    return import_folder(store, verified, vouched=vouched_for(store, verified.checkpoint) is not None)


def vouched_for(store: Store, checkpoint: TaskCheckpoint) -> int | None:
    """The position up to which a person vouched for this history by importing it; None if that does not reach the checkpoint."""
    value = store.ref(f"vouched/{checkpoint.event.task}") or ""
    return int(value) if value.isdigit() and int(value) >= checkpoint.event.seq else None


def is_trusted(store: Store, checkpoint: TaskCheckpoint) -> bool:
    """Whether the signer of a checkpoint is trusted, or a person vouched for its history. Raises `IntegrityError`."""
    return bool(trusted_signer(checkpoint)) or vouched_for(store, checkpoint) is not None


def check_trusted(store: Store, checkpoint: TaskCheckpoint) -> None:
    """Raise `RefusedError` unless `is_trusted`."""
    if not is_trusted(store, checkpoint):
        raise _untrusted(checkpoint.data.name, checkpoint.data.key)


def _untrusted(name: str, key: str) -> RefusedError:
    return RefusedError(
        f'checkpoint "{name}" is signed by {key}, which is not trusted here',
        "ask a person who knows that key to run `adjourn keys trust NAME KEY`, or `adjourn import` for this checkpoint only",
    )


class Imported(NamedTuple):
    """An imported checkpoint, and a note for the person ("" for none)."""

    checkpoint: TaskCheckpoint
    note: str


def import_folder(store: Store, verified: VerifiedFolder, *, vouched: bool = False) -> Imported:
    """Import a verified folder's history and knowledge into a store. `vouched`: a person vouches for the history.

    Raises `RefusedError` when nobody vouches for the signer, `ConflictError` when the store has another history of that task.
    """
    checkpoint = verified.checkpoint
    task = checkpoint.event.task
    if not verified.trusted_as and not vouched:
        raise _untrusted(checkpoint.data.name, verified.signer)

    def extend() -> Imported:
        head = store.head(task)
        shared = _shared(store, verified)  # raises before anything of another history is imported
        note = attachments.take_in(store, checkpoint, verified.known)
        _extend(store, verified, shared, head)
        return Imported(checkpoint, note)

    return append_with_retry(extend, f"task {task}")


def _shared(store: Store, verified: VerifiedFolder) -> int:
    """The number of a folder's events that the store has. Raises `ConflictError` when the store has others in their place."""
    task, audit = verified.checkpoint.event.task, verified.audit
    shared = 0
    for entry in store.read(task, 0, audit.total):
        if not entry.hash == audit.hash_of(shared) == digest(entry.data):
            raise PermanentConflictError(
                f"task {task} has diverged: the histories here and in the folder differ from event {shared} on",
                "resume the checkpoint in this store, or import the folder into another store",
            )
        shared += 1
    return shared


def _extend(store: Store, verified: VerifiedFolder, shared: int, head: Head) -> None:
    """Append a folder's events. The refs come with the last ones, so that a kill leaves no history without its claims."""
    checkpoint, audit = verified.checkpoint, verified.audit
    name, task = checkpoint.data.name, checkpoint.event.task
    # the store's claims are newer than the folder's where it has the whole history
    new = shared < audit.total
    refs = idempotency.index(task, (decode(entry.data) for entry in audit.entries())) if new else {}
    refs = {  # another task may have claimed the same effect since
        ref: value for ref, value in refs.items() if not ref.startswith("effect/") or store.ref(ref) is None
    }
    if _is_newer(store, checkpoint):
        refs[f"checkpoint/{name}"] = f"{task} {checkpoint.event.seq} {checkpoint.hash}"
    if not verified.trusted_as and vouched_for(store, checkpoint) is None:
        refs[f"vouched/{task}"] = str(checkpoint.event.seq)
    texts = [text.encode() for text in (verified.extra.contract, verified.extra.policy) if text]
    entries = audit.entries(shared)
    last = list(islice(entries, _CHUNK))
    while following := list(islice(entries, _CHUNK)):
        head = store.append(task, last, expect=head)
        last = following
    documents = [
        canonical(one) for one in (verified.extra.document, verified.extra.report) if one is not None
    ]
    store.append(task, last, expect=head, refs=refs, blobs=[*texts, *documents])


def _is_newer(store: Store, checkpoint: TaskCheckpoint) -> bool:
    """Whether the name should point at this checkpoint: an older folder moves no name back within its task."""
    try:
        known = find(store, checkpoint.data.name).event
    except AdjournError:
        return True
    return known.task != checkpoint.event.task or known.seq < checkpoint.event.seq
