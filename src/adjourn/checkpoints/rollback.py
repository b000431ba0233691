"""Rolling back to a checkpoint: its page becomes the active one again, and files get the content they had.

The history keeps everything: no call is refunded, and no effect outside of the workspace is undone. The plan lists such effects.

Owns: the plan, and carrying it out. Must never: change anything while planning.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import msgspec

from adjourn.checkpoints import git_snapshot, page_writer, rollback_journal
from adjourn.checkpoints.checkpoint import TaskCheckpoint, create, find
from adjourn.checkpoints.git_restore import SECONDS, RollbackChange, changes, restore
from adjourn.checkpoints.page_files import FoundPage, search
from adjourn.checkpoints.rollback_journal import RollbackJournal
from adjourn.checkpoints.save import task_checkpoint_name
from adjourn.checkpoints.triggers import BEFORE
from adjourn.errors import AdjournError, ConflictError, NotFoundError
from adjourn.log import Actor, decode, kinds, tool_name
from adjourn.policy import read_settings
from adjourn.tasks import Task, following

MAX_EFFECTS = 100


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


def target_of(root: str, name: str = "") -> FoundPage:
    """The page to roll back to: by name, hash or path, else the newest one before a destructive call. Raises `NotFoundError`."""
    found = search(root).pages
    for page in found:
        known = (page.machine.get("name"), page.id, page.path)
        if name in known if name else str(page.machine.get("trigger", "")).startswith(BEFORE):
            return page
    what = f"no page of {name!r}" if name else "no page of a checkpoint before a destructive call"
    raise NotFoundError(what, "list the pages with `adjourn checkpoint`")


def plan(task: Task, root: str, target: FoundPage, *, files: bool = True, tree: str = "") -> RollbackPlan:
    """What a rollback to a page would do. `files` is whether files are restored: those of `tree`, a work tree of the workspace `root`
    (default: the same). Raises `NotFoundError`, `StoreError`.
    """
    commit = commit_of(target) if files else ""
    changed = changes(tree or root, commit, read_settings(root)) if commit else []
    return RollbackPlan(target, commit, changed, _effects(task, target.seq))


def commit_of(found: FoundPage) -> str:
    """The commit with the files of a checkpoint, "" for none."""
    kept = found.machine.get("files")
    commit = kept.get("commit") if isinstance(kept, dict) else None
    return commit if isinstance(commit, str) else ""


def interrupted(root: str) -> str:
    """The task of a rollback that was killed in the work tree `root`; "" if there is none. Raises `InvalidError`, `RefusedError`."""
    found = rollback_journal.read(root)
    return found.task if found else ""


def carry_out(
    task: Task, root: str, made: RollbackPlan, *, state: bool, by: Actor, tree: str = ""
) -> RollbackResult:
    """Roll back. Files first: the present files are saved before, so that this can be undone.

    `state` is whether the page becomes the active one. A kill at any moment leaves every file whole, and a journal with which `finish`
    does the rest. Raises `AdjournError`; `ConflictError` if an earlier rollback is to be finished first.
    """
    tree = tree or root
    with rollback_journal.alone(tree):
        if interrupted(tree):
            raise ConflictError(
                "an earlier rollback was interrupted", "finish it first: adjourn rollback --yes"
            )
        settings, seq = read_settings(root), task.ledger.seq
        patient = msgspec.structs.replace(settings, keep_seconds=max(SECONDS, settings.keep_seconds))
        before = git_snapshot.keep(tree, task.id, seq + 1, patient).to_json() if made.commit else {}
        journal = RollbackJournal(task.id, made.target.id, seq, state, made.commit, before)
        rollback_journal.write(tree, journal)
        try:
            files = _restore_files(root, tree, journal)
        except AdjournError:
            rollback_journal.finish(tree)  # no file was changed
            raise
        return _complete(task, tree, journal, files, by)


def finish(task: Task, root: str, *, by: Actor, tree: str = "") -> RollbackResult:
    """Do what a rollback of this task that was killed did not do. Raises `AdjournError`; then the next call does it."""
    tree = tree or root
    with rollback_journal.alone(tree):
        journal = rollback_journal.read(tree)
        if journal is None or journal.task != task.id:
            raise NotFoundError(f"no rollback of task {task.id} was interrupted")
        return _complete(task, tree, journal, _restore_files(root, tree, journal), by)


def _restore_files(root: str, tree: str, journal: RollbackJournal) -> list[RollbackChange]:
    if not journal.commit:
        return []
    place = rollback_journal.staging(tree)
    return restore(tree, journal.commit, str(journal.before.get("commit", "")), place, read_settings(root))


def _complete(
    task: Task, tree: str, journal: RollbackJournal, files: list[RollbackChange], by: Actor
) -> RollbackResult:
    """Make the page active, and end the rollback."""
    page = _make_active(task, tree, journal, by) if journal.state else ""
    rollback_journal.finish(tree)
    return RollbackResult(page, str(journal.before.get("commit", "")), files)


def _make_active(task: Task, tree: str, journal: RollbackJournal, by: Actor) -> str:
    pages = search(tree).pages
    target = next((page for page in pages if page.id == journal.page), None)
    if target is None:
        return ""  # deleted after a rollback was killed
    name = f"{task_checkpoint_name(task.id)[:50]}-rollback"
    made = _made_since(task, name, journal.seq)
    if made is None:
        trigger = f"rollback to {target.machine.get('name') or target.path}"[:200]
        made = create(task, name, trigger=trigger, by=by)
    newest = search(tree, task=task.id).newest
    if newest is not None and newest.seq == made.event.seq:
        return newest.path
    more = {"files": journal.before} if journal.before else None
    return page_writer.write(task, made, tree, page_writer.PageOptions(base=target, more=more)).path


def _made_since(task: Task, name: str, seq: int) -> TaskCheckpoint | None:
    """The checkpoint of this rollback, if it was made before a kill."""
    with suppress(NotFoundError):
        found = find(task.store, f"{task.id}/{name}")
        return found if found.event.seq > seq else None
    return None


def _effects(task: Task, since: int) -> list[Effect]:
    found = []
    for entry in following(task.store, task.id, since + 1, task.head):
        event = decode(entry.data)
        data = kinds.data_of(event)
        if isinstance(data, kinds.ToolAllowed) and data.arguments:
            found.append(Effect(data.call, tool_name(data), data.arguments, event.timestamp))
    return found[: -MAX_EFFECTS - 1 : -1]
