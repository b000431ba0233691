"""Find checkpoints of a workspace by name or in a list, and import the history of a folder that git or a colleague brought.

A name is looked up in the store first, then in the workspace's folder. Somebody must vouch for an imported history, and none is applied
that was not verified. A name never moves back to an older checkpoint of its task. A list does not reveal whether a file outside of the
workspace exists.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from adjourn.checkpoints import attachments, checkpoint, folder
from adjourn.checkpoints.attachments import shown_size
from adjourn.checkpoints.checkpoint import TaskCheckpoint, find, trusted_signer
from adjourn.errors import AdjournError, IntegrityError, InvalidError, NotFoundError, RefusedError
from adjourn.host.workspace import CHECKPOINTS, read_file, resolve_inside
from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import decode
from adjourn.log.kinds import data_of
from adjourn.store.base import Entry, Head, PermanentConflictError, Store, append_with_retry
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.work_index import checkpoint_names, named_refs, place_changes

if TYPE_CHECKING:
    from adjourn.checkpoints.folder_verification import VerifiedFolder

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
        texts = sorted(ref.removeprefix("checkpoint/") for ref in store.refs("checkpoint/"))
        from adjourn.text.near_words import did_you_mean

        near = did_you_mean(name, texts) or (texts and f"use one of: {', '.join(texts[:10])}")
        raise NotFoundError(f'no checkpoint is named "{name}"', near or "create one: call aex.checkpoint") from None


def import_newer_folders(store: Store, root: str, checkpoint: TaskCheckpoint, located: str = "") -> None:
    """Import the folders of the workspace that have later events of the checkpoint's task than the store: calls spent there are spent.

    Skips the folder that was `located`, which was compared with the store. Skips a folder that fails verification, is not trusted, or has another history of the task.
    """
    task = checkpoint.event.task
    for name in folder.names(root):
        with suppress(AdjournError):
            if name == located or folder.is_as_written(store, root, name) is not False:
                continue
            brought = folder.read_published(folder.path_of(root, name)).file.adjourn
            if brought is not None and brought.task == task and brought.seq > store.head(task).seq:
                import_named(store, root, name)


def import_named(store: Store, root: str, name: str) -> Imported:
    """Verify the folder of a name and import it. Raises the errors of both."""
    from adjourn.checkpoints.folder_verification import verify_named  # few resumes find a folder that is new

    verified = verify_named(root, name)
    # INVARIANT: import_folder holds this folder to the history that the person vouched for.
    return import_folder(store, verified, vouched=vouched_for(store, verified.checkpoint) is not None)


def vouched_for(store: Store, checkpoint: TaskCheckpoint) -> int | None:
    """The position up to which a person vouched for this history by importing it; None if that does not reach the checkpoint."""
    value = store.ref(f"vouched/{checkpoint.event.task}") or ""
    return int(value) if value.isdigit() and int(value) >= checkpoint.event.seq else None


def check_trusted(store: Store, checkpoint: TaskCheckpoint) -> str:
    """The name under which the signer of a checkpoint is trusted; "" where a person vouched for its history instead.

    Raises `RefusedError` where neither is so, `IntegrityError`.
    """
    signer = trusted_signer(checkpoint)
    if not signer and vouched_for(store, checkpoint) is None:
        raise _untrusted(checkpoint.data.name, checkpoint.data.key)
    return signer


def _untrusted(name: str, key: str) -> RefusedError:
    return RefusedError(
        f'checkpoint "{name}" is signed by {key}, which is not trusted here',
        "ask a person who knows that key to run `adjourn keys trust NAME KEY`, or `adjourn checkpoint import` for this checkpoint only",
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
    from adjourn.tasks import idempotency  # as above

    index = idempotency.index(task, (decode(entry.data) for entry in audit.entries())) if new else {}
    refs: dict[str, str | None] = {  # another task may have claimed the same effect since
        ref: value for ref, value in index.items() if not ref.startswith("effect/") or store.ref(ref) is None
    }
    if _is_newer(store, checkpoint):
        refs[f"checkpoint/{name}"] = f"{task} {checkpoint.event.seq} {checkpoint.hash}"
        refs[f"{named_refs(task)}{name}"] = f"{checkpoint.event.seq} {checkpoint.hash}"
    if new:
        refs |= place_changes(store, _folded(task, audit.entries(0, shared)), _folded(task, audit.entries()))
    if not verified.trusted_as and vouched_for(store, checkpoint) is None:
        refs[f"vouched/{task}"] = str(checkpoint.event.seq)
    texts = [text.encode() for text in (verified.extra.contract, verified.extra.policy) if text]
    entries = audit.entries(shared)
    last = list(islice(entries, _CHUNK))
    while following := list(islice(entries, _CHUNK)):
        head = store.append(task, last, expect=head)
        last = following
    documents = [canonical(row) for row in (verified.extra.document, verified.extra.report) if row is not None]
    store.append(task, last, expect=head, refs=refs, blobs=[*texts, *documents])


def _folded(task: str, entries: Iterable[Entry]) -> Ledger:
    ledger = Ledger(task=task)
    for entry in entries:
        event = decode(entry.data)
        ledger.apply(event, entry.hash, data_of(event))
    return ledger


def _is_newer(store: Store, checkpoint: TaskCheckpoint) -> bool:
    """Whether the name should point at this checkpoint: an older folder moves no name back within its task."""
    try:
        event = find(store, checkpoint.data.name).event
    except AdjournError:
        return True
    return event.task != checkpoint.event.task or event.seq < checkpoint.event.seq


# --- contracts and checkpoints of a workspace, listed (`aex.list_tasks`, `aex.review_task`)

SHARED_FOLDER = "tasks"
"""The folder whose contracts everybody sees who works in the workspace."""
FOLDERS = ((SHARED_FOLDER, "task"), (".aex/runs", "run"))
MAX_FILE_BYTES = 10_000_000
MAX_FILES = 2000
MAX_CURSOR = 12
UNTRUSTED = "an untrusted signer"
"""The author of the description of a checkpoint without a trusted signer, or not verified yet."""


def list_tasks(
    store: Store, root: str, *, limit: int, more: str = "", home: str = "", sessions: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """`tasks`: `{name, path, type, goal, tools?}` of contracts, runs, checkpoints and `sessions`, in this order, in at most `limit` bytes.

    Who has its checkpoints in a `home` of its own sees no run. If they do not fit, checkpoints come first, `left` counts those that are missing, and `more` is the cursor of the next answer.
    Raises `InvalidError` for another cursor.
    """
    if more and not (more.isascii() and more.isdecimal() and len(more) < MAX_CURSOR):
        raise InvalidError(f"unknown cursor: {more[:40]!r}", "give the `more` of an earlier answer, or leave it out")
    contracts = [entry for place, kind in FOLDERS[: 1 if home else None] for entry in _contracts(root, place, kind)]
    checkpoints = [*_checkpoints(store, home or root), *sessions]
    room = limit - 1000
    if not more and sum(map(shown_size, contracts + checkpoints)) <= room:
        return {"tasks": contracts + checkpoints}
    rows, start = checkpoints + contracts, int(more or 0)
    shown: list[dict[str, Any]] = []
    for entry in rows[start:]:
        room -= shown_size(entry)
        if room < 0 and shown:
            break
        shown.append(entry)
    stop = start + len(shown)
    left = {"more": str(stop), "left": len(rows) - stop} if stop < len(rows) else {}
    return {"tasks": shown} | left


def _contracts(root: str, place: str, kind: str) -> list[dict[str, Any]]:
    entries = []
    for name in _names(root, place):
        if not name.endswith(".aex"):
            continue
        path = f"{place}/{name}"
        try:
            _, text = read_contract_file(root, path)
        except AdjournError:
            continue
        from adjourn.aex.permissions import from_text  # the parser, for a contract that is opened

        layer, _ = from_text(text, path)
        tools = [rule.pattern for rule in layer.allow]
        entry = {"name": layer.name or name.removesuffix(".aex"), "path": path, "type": kind}
        entries.append(entry | ({"goal": layer.goal} if layer.goal else {}) | {"tools": tools})
    return entries


def _checkpoints(store: Store, root: str) -> list[dict[str, Any]]:
    """The checkpoints of the store, and those that only a folder has (git brought them)."""
    goals, untrusted = dict[str, str](), set[str]()
    for name in checkpoint_names(store):
        with suppress(InvalidError):  # one that is broken must not hide the others
            task_checkpoint = checkpoint.find(store, name)
            goals[name] = task_checkpoint.data.description
            if not _is_trusted(task_checkpoint):
                untrusted.add(name)
    for name in _names(root, CHECKPOINTS):
        if name not in goals:
            try:
                goals[name] = folder.read_published(folder.path_of(root, name)).file.description
                untrusted.add(name)
            except AdjournError:
                continue
    return [
        {"name": name, "path": f"{CHECKPOINTS}/{name}/", "type": "checkpoint", "goal": goal}
        | ({"describedBy": UNTRUSTED} if name in untrusted else {})
        for name, goal in sorted(goals.items())
    ]


def _is_trusted(task_checkpoint: checkpoint.TaskCheckpoint) -> bool:
    try:
        return bool(checkpoint.trusted_signer(task_checkpoint))
    except IntegrityError:
        return False


def _names(root: str, place: str) -> list[str]:
    try:
        return sorted(os.listdir(resolve_inside(root, place)))[:MAX_FILES]
    except (OSError, AdjournError):
        return []


def read_contract_file(root: str, path: str, within: str = "") -> tuple[str, str]:
    """Real path and text of an `.aex` file in the workspace, or in a folder `within` it.

    Raises `NotFoundError`, the same for every cause.
    """
    try:
        real = resolve_inside(os.path.join(root, within), os.path.join(os.path.realpath(root), path))
        if not real.endswith(".aex"):
            raise NotFoundError("")
        return real, read_file(real, MAX_FILE_BYTES, os.path.realpath(root)).decode()
    except (AdjournError, OSError, ValueError):
        text = path[:200]
        raise NotFoundError(f"no contract at {text!r}", "name an .aex file inside the workspace") from None
