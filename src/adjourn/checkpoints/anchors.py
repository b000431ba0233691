"""Anchors of a task's history: names of checkpoints in the store, and signed folders in the workspace.

A history that lacks an event which an anchor names was cut or emptied. A folder with a diverged history, or one that no trusted key
signed, is no anchor. `task` checks the sealed fold and the kept head each time that it loads a task; anchors are checked when a
session begins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from adjourn.errors import AdjournError, IntegrityError
from adjourn.host.workspace import CHECKPOINTS, read_file, resolve_inside
from adjourn.log.event import Actor
from adjourn.store.base import Store
from adjourn.tasks import accepted_loss
from adjourn.tasks.heads import KeptHead, KeptHeads
from adjourn.tasks.task import Task, contradicted
from adjourn.tasks.work_index import is_complete, named_refs

MAX_FOLDERS = 16
"""Folders of a workspace that are read, the newest first, so that the start of a session stays fast."""
MAX_JSON_BYTES = 16 * 1024 * 1024


class Contradiction(NamedTuple):
    """A task's history lacks event `seq` with this hash; `known` ends a sentence: "event 3, which …"."""

    task: str
    seq: int
    hash: str
    known: str


class _Claim(msgspec.Struct, frozen=True):
    """The position that a checkpoint.json names."""

    task: str
    seq: int
    hash: str


class _Claims(msgspec.Struct, frozen=True):
    adjourn: _Claim | None = None


def check(task: Task, root: str) -> None:
    """Raise `IntegrityError` if the history of a task lacks an event that a checkpoint's name, or a folder of `root`, has."""
    for anchor in of_task(task.store, task.id, root):
        raise contradicted(task.id, f"it lacks event {anchor.seq}, which {anchor.known}")


def of_task(store: Store, task: str, root: str) -> Iterator[Contradiction]:
    """The events that names of checkpoints, and folders of the workspace `root`, have of a task, and its history lacks."""
    if newest := _newest_name(store, task):
        seq, event_hash, name = newest
        if not _has(store, task, seq, event_hash):
            yield Contradiction(task, seq, event_hash, f'the name of checkpoint "{name}" points at')
    yield from of_folders(store, root, task)


def of_folders(store: Store, root: str, task: str = "") -> Iterator[Contradiction]:
    """The folders of a workspace, of one task or all, that have more of a history than the store, unless a person accepted its loss."""
    for name, claim in _folders(root):
        if (task and claim.task != task) or not claim.task:
            continue
        with suppress(AdjournError):  # not a task's name, or a folder that fails verification
            head = store.head(claim.task)
            if claim.seq <= head.seq:
                continue
            at = _signed_at(root, name, head.seq, head.hash)
            ahead = KeptHead(task=claim.task, seq=claim.seq, hash=claim.hash, calls=0, at=at)
            if at and accepted_loss.covering(store, ahead) is None:
                yield Contradiction(claim.task, claim.seq, claim.hash, f"the signed folder {CHECKPOINTS}/{name} has")


def accept(store: Store, task: str, secret: bytes) -> None:
    """Accept the history of a task as the store has it, because a person says so. Calls that it lacks count as not made.

    Deletes the kept head, the cached fold, and names of checkpoints that point at no event. The caller has verified the events.
    Raises `ConflictError` where another process changed one of them meanwhile.
    """
    for of, seq, event_hash, name in _names(store):
        if of == task and not _has(store, task, seq, event_hash):
            store.swap(f"checkpoint/{name}", None, expect=store.ref(f"checkpoint/{name}"))
    fold = store.ref(f"fold/{task}")
    if fold is not None:
        store.swap(f"fold/{task}", None, expect=fold)
    KeptHeads(store, secret).forget(task)


def accept_since(store: Store, since: int, by: Actor, tasks: Sequence[str], *, now: int, secret: bytes) -> None:
    """Accept that all tasks of the store lack events since the time `since` (`tasks.accepted_loss`), because a person says so.

    Records it at once in those of the `tasks` that have events. A task that lacks earlier ones, too, stays as it is.
    """
    accepted_loss.accept(store, since, by.id, now)
    for name in tasks:
        with suppress(IntegrityError):
            task = Task(store, name, clock=lambda: now, secret=secret)
            if task.ledger.exists:
                task.commit(task.unrecorded_loss)
                task.keep_head()
            else:
                KeptHeads(store, secret).forget(name)


def _names(store: Store) -> Iterator[tuple[str, int, str, str]]:
    """The task, position and hash that each checkpoint's name points at, and the name."""
    for ref, value in store.refs("checkpoint/").items():
        task, _, position = value.partition(" ")
        seq, _, event_hash = position.partition(" ")
        if seq.isdecimal() and len(seq) < 16:
            yield task, int(seq), event_hash, ref.removeprefix("checkpoint/")


def _newest_name(store: Store, task: str) -> tuple[int, str, str] | None:
    """The position and hash that the newest name of a checkpoint of a task points at, and the name."""
    if not is_complete(store):
        return max(((seq, text, name) for of, seq, text, name in _names(store) if of == task), default=None)
    begin = named_refs(task)
    listed: list[tuple[int, str, str]] = []
    for ref, value in store.refs(begin).items():
        seq, _, event_hash = value.partition(" ")
        if seq.isdecimal() and len(seq) < 16:
            listed.append((int(seq), event_hash, ref.removeprefix(begin)))
    for number, event_hash, name in sorted(listed, reverse=True):
        if store.ref(f"checkpoint/{name}") == f"{task} {number} {event_hash}":  # the index is a hint
            return number, event_hash, name
    return None


def _folders(root: str) -> list[tuple[str, _Claim]]:
    """The newest folders of checkpoints, each with the position that it names, unverified."""
    candidates: list[tuple[float, str, str]] = []
    if not root:
        return []
    try:
        with os.scandir(resolve_inside(root, CHECKPOINTS)) as folders:
            for folder in folders:
                path = os.path.join(folder.path, "checkpoint.json")
                with suppress(OSError):
                    candidates.append((os.lstat(path).st_mtime, folder.name, path))
    except (OSError, AdjournError):
        return []
    claims = []
    for _, name, path in sorted(candidates, reverse=True)[:MAX_FOLDERS]:
        with suppress(AdjournError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            claim = msgspec.json.decode(read_file(path, MAX_JSON_BYTES), type=_Claims).adjourn
            if claim is not None:
                claims.append((name, claim))
    return claims


def _signed_at(root: str, name: str, seq: int, event_hash: str) -> str:
    """When a folder was signed that verifies, whose key is trusted, and that continues from this event; else "". Raises `AdjournError`."""
    from adjourn.checkpoints.folder_verification import verify_named  # only where something is missing

    verified = verify_named(root, name)
    if verified.trusted_as and (seq < 0 or verified.audit.hash_of(seq) == event_hash):
        return verified.checkpoint.event.timestamp
    return ""


def _has(store: Store, task: str, seq: int, event_hash: str) -> bool:
    try:
        entry = next(iter(store.read(task, seq, seq + 1)), None)
    except AdjournError:  # it cannot be read
        return False
    return entry is not None and entry.hash == event_hash
