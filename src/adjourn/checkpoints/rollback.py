"""Roll back to a checkpoint: its page becomes the active one again, and files get the content they had.

The history keeps everything: no call is refunded, and no effect outside of the workspace is undone. The plan lists such effects, and
changes nothing.

    .aex/rollback/journal.json   the two snapshots, the page, and what is to be done; sealed (HMAC-SHA256 under the user's secret)
    .aex/rollback/files/         content that is not at its place yet

This folder exists only while a rollback is under way, or after one was killed: the next one finishes it. A journal that another user
wrote is not believed.
"""

from __future__ import annotations

import hmac
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import msgspec

from adjourn.checkpoints import git_snapshot, page_writer
from adjourn.checkpoints.checkpoint import TaskCheckpoint, create, find
from adjourn.checkpoints.git_restore import SECONDS, RollbackChange, changes, restore
from adjourn.checkpoints.page_files import FoundPage, search
from adjourn.checkpoints.save import task_checkpoint_name
from adjourn.errors import AdjournError, ConflictError, InvalidError, NotFoundError, RefusedError
from adjourn.host import keys
from adjourn.host.workspace import create_file, locked, make_folder, read_file, sync_folder, write_file
from adjourn.log import kinds
from adjourn.log.event import Actor, decode
from adjourn.log.kinds import tool_name
from adjourn.policy.destructive import read_settings
from adjourn.tasks.heads import verified_entries_from
from adjourn.tasks.ledger import BEFORE, ROLLBACK
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task

MAX_EFFECTS = 100
MAX_TOLD = 50
"""Files and effects that an agent sees of a rollback."""


class Effect(NamedTuple):
    """An allowed call with an effect since the checkpoint. A rollback does not undo what it did outside of the workspace."""

    call: str
    tool: str
    arguments: str
    time: str


class RollbackPlan(NamedTuple):
    """What a rollback would do: the page, the commit with the saved files ("" for none), their changes, and effects that stay."""

    target: FoundPage
    commit: str
    files: list[RollbackChange]
    effects: list[Effect]


class RollbackResult(NamedTuple):
    """What a rollback did: the new page's path, the commit with the files before ("" for neither), and the changes."""

    page: str
    undo: str
    files: list[RollbackChange]


def for_agent(session: Session, root: str, tree: str, name: str, *, apply: bool) -> dict[str, Any]:
    """Roll the task of a session back to one of its checkpoints, or show what that would do. Raises `AdjournError`."""
    task = session.task
    if interrupted(tree):
        if not apply:
            return {
                "applied": False,
                "message": "An earlier rollback was interrupted. Call again with apply: it is finished.",
            }
        return _told(None, finish(task, root, by=session.actor, tree=tree))
    target = target_of(tree, name, task.id)
    planned = plan(task, root, target, tree=tree)
    done = carry_out(task, root, planned, state=True, by=session.actor, tree=tree) if apply else None
    return _told(planned, done)


def _told(planned: RollbackPlan | None, done: RollbackResult | None) -> dict[str, Any]:
    files = done.files if done is not None else planned.files if planned is not None else []
    answer: dict[str, Any] = {"applied": done is not None}
    if planned is not None:
        answer |= {"checkpoint": planned.target.machine.get("name", ""), "page": planned.target.path}
        answer["files"] = [_change(change) for change in files[:MAX_TOLD]]
        answer |= {"moreFiles": len(files) - MAX_TOLD} if len(files) > MAX_TOLD else {}
        answer |= {} if planned.commit else {"note": "No files were saved with it: only the page is restored."}
        answer["notUndone"] = [effect._asdict() for effect in planned.effects[:MAX_TOLD]]
    if done is None:
        return answer | {"message": "Nothing was changed. Call again with apply: true; a person is asked."}
    answer["files"] = [_change(change) for change in files[:MAX_TOLD]]
    return answer | {"page": done.page, "undo": done.undo, "message": "Check each effect in notUndone yourself."}


def _change(change: RollbackChange) -> dict[str, str]:
    return {name: value for name, value in change._asdict().items() if value}


def target_of(root: str, name: str = "", task: str = "") -> FoundPage:
    """The page to roll back to, of `task` or of any: by name, hash or path, else the newest one before a destructive call.

    Raises `NotFoundError`.
    """
    pages = search(root, task=task).pages
    for page in pages:
        if task and page.task != task:
            continue
        names = (page.machine.get("name"), page.id, page.path)
        if name in names if name else str(page.machine.get("trigger", "")).startswith(BEFORE):
            return page
    what = f"no page of {name!r}" if name else "no page of a checkpoint before a destructive call"
    raise NotFoundError(what, "list the pages with `adjourn page`")


def plan(task: Task, root: str, target: FoundPage, *, files: bool = True, tree: str = "") -> RollbackPlan:
    """What a rollback to a page would do. `files` is whether files are restored: those of `tree`, a work tree of the workspace `root`
    (default: the same). Raises `NotFoundError`, `StoreError`.
    """
    commit = commit_of(target) if files else ""
    changed = changes(tree or root, commit, read_settings(root)) if commit else []
    return RollbackPlan(target, commit, changed, _effects(task, target.seq))


def commit_of(page: FoundPage) -> str:
    """The commit with the files of a checkpoint, "" for none."""
    files = page.machine.get("files")
    commit = files.get("commit") if isinstance(files, dict) else None
    return commit if isinstance(commit, str) else ""


def interrupted(root: str) -> str:
    """The task of a rollback that was killed in the work tree `root`; "" if there is none. Raises `InvalidError`, `RefusedError`."""
    journal = read_journal(root)
    return journal.task if journal else ""


def carry_out(task: Task, root: str, plan: RollbackPlan, *, state: bool, by: Actor, tree: str = "") -> RollbackResult:
    """Roll back. Files first: the present files are saved before, so that this can be undone.

    `state` is whether the page becomes the active one. A kill at any moment leaves every file whole, and a journal with which `finish`
    does the rest. Raises `AdjournError`; `ConflictError` if an earlier rollback is to be finished first.
    """
    tree = tree or root
    with lock_rollback(tree):
        if interrupted(tree):
            raise ConflictError("an earlier rollback was interrupted", "finish it first: adjourn rollback --yes")
        settings, seq = read_settings(root), task.ledger.seq
        patient = msgspec.structs.replace(settings, keep_seconds=max(SECONDS, settings.keep_seconds))
        before = git_snapshot.keep(tree, task.id, seq + 1, patient).to_json() if plan.commit else {}
        journal = RollbackJournal(task.id, plan.target.id, seq, state, plan.commit, before)
        write_journal(tree, journal)
        try:
            files = _restore_files(root, tree, journal)
        except AdjournError:
            remove_journal(tree)  # no file was changed
            raise
        return _complete(task, tree, journal, files, by)


def finish(task: Task, root: str, *, by: Actor, tree: str = "") -> RollbackResult:
    """Do what a rollback of this task that was killed did not do. Raises `AdjournError`; then the next call does it."""
    tree = tree or root
    with lock_rollback(tree):
        journal = read_journal(tree)
        if journal is None or journal.task != task.id:
            raise NotFoundError(f"no rollback of task {task.id} was interrupted")
        return _complete(task, tree, journal, _restore_files(root, tree, journal), by)


def _restore_files(root: str, tree: str, journal: RollbackJournal) -> list[RollbackChange]:
    if not journal.commit:
        return []
    place = staging(tree)
    return restore(tree, journal.commit, str(journal.before.get("commit", "")), place, read_settings(root))


def _complete(
    task: Task, tree: str, journal: RollbackJournal, files: list[RollbackChange], by: Actor
) -> RollbackResult:
    """Make the page active, and end the rollback."""
    page = _make_active(task, tree, journal, by) if journal.state else ""
    remove_journal(tree)
    return RollbackResult(page, str(journal.before.get("commit", "")), files)


def _make_active(task: Task, tree: str, journal: RollbackJournal, by: Actor) -> str:
    pages = search(tree).pages
    target = next((page for page in pages if page.id == journal.page), None)
    if target is None:
        return ""  # deleted after a rollback was killed
    name = f"{task_checkpoint_name(task.id)[:50]}-rollback"
    checkpoint = _made_since(task, name, journal.seq)
    if checkpoint is None:
        trigger = f"{ROLLBACK}{target.machine.get('name') or target.path}"[:200]
        checkpoint = create(task, name, trigger=trigger, by=by)
    newest = search(tree, task=task.id).newest
    if newest is not None and newest.seq == checkpoint.event.seq:
        return newest.path
    more = {"files": journal.before} if journal.before else None
    return page_writer.write(task, checkpoint, tree, page_writer.PageOptions(base=target, more=more)).path


def _made_since(task: Task, name: str, seq: int) -> TaskCheckpoint | None:
    """The checkpoint of this rollback, if it was made before a kill."""
    with suppress(NotFoundError):
        checkpoint = find(task.store, f"{task.id}/{name}")
        return checkpoint if checkpoint.event.seq > seq else None
    return None


def _effects(task: Task, since: int) -> list[Effect]:
    effects = []
    for entry in verified_entries_from(task.store, task.id, since + 1, task.head):
        event = decode(entry.data)
        data = kinds.data_of(event)
        if isinstance(data, kinds.ToolAllowed) and data.effectful and data.arguments:
            effects.append(Effect(data.call, tool_name(data), data.arguments, event.timestamp))
    return effects[: -MAX_EFFECTS - 1 : -1]


# --- the journal: what is under way

FOLDER = ".aex/rollback"
_NAME, _FILES = "journal.json", "files"
_MAX_BYTES = 64 * 1024


class RollbackJournal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A rollback under way: of which task, to which page (its id), at which position of the history it began, and whether the page is
    to be made active.

    `commit` is the snapshot to restore ("": no files), `before` the one made just before, as a page keeps it.
    """

    task: str
    page: str
    seq: int
    state: bool
    commit: str = ""
    before: dict[str, Any] = {}
    seal: str = ""


def read_journal(root: str) -> RollbackJournal | None:
    """The journal of a rollback that was killed, or is under way; None if there is none. Raises `InvalidError`, `RefusedError`."""
    path = os.path.join(root, FOLDER, _NAME)
    try:
        journal = msgspec.json.decode(read_file(path, _MAX_BYTES, root), type=RollbackJournal)
    except NotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidError(f"{path} is not the journal of a rollback", f"delete {FOLDER}") from error
    if not hmac.compare_digest(journal.seal.encode(), _seal(root, journal).encode()):
        raise RefusedError(f"{path} was not written by you, here", f"delete {FOLDER}")
    return journal


@contextmanager
def lock_rollback(root: str) -> Iterator[None]:
    """Keep other rollbacks of a workspace out. Raises `StoreError` when one is under way."""
    with locked(make_folder(root, FOLDER)):
        try:
            yield
        finally:
            if not os.path.lexists(os.path.join(root, FOLDER, _NAME)):
                _remove(root)


def write_journal(root: str, journal: RollbackJournal) -> None:
    """Write the journal, durably, before anything is changed."""
    folder = os.path.join(root, FOLDER)
    create_file(folder, ".gitignore", b"*\n", 0o600)
    sealed = msgspec.structs.replace(journal, seal=_seal(root, journal))
    write_file(folder, _NAME, msgspec.json.encode(sealed), 0o600)


def staging(root: str) -> str:
    """An empty folder for files that are not at their place yet."""
    shutil.rmtree(os.path.join(root, FOLDER, _FILES), ignore_errors=True)
    return make_folder(root, f"{FOLDER}/{_FILES}")


def remove_journal(root: str) -> None:
    """Remove the journal: everything is done, or nothing was changed."""
    folder = os.path.join(root, FOLDER)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, _NAME))
        sync_folder(folder)


def _remove(root: str) -> None:
    shutil.rmtree(os.path.join(root, FOLDER), ignore_errors=True)
    with suppress(OSError):
        os.rmdir(os.path.join(root, os.path.dirname(FOLDER)))  # stays unless it is empty


def _seal(root: str, journal: RollbackJournal) -> str:
    plain = msgspec.structs.replace(journal, seal="")
    text = msgspec.json.encode(["adjourn/rollback/1", os.path.realpath(root), plain])
    return hmac.digest(keys.secret(), text, "sha256").hex()
