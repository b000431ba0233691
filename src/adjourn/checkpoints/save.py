"""Save a checkpoint in the store, as a folder that can be verified alone, and as a page; finish and reopen a task.

The last event of a task must be a checkpoint, so that its folder has the whole history: with an event after it, a machine that
resumes from the folder would miss that event, and the two histories would diverge. So a session is closed first, and its last
checkpoint is saved after that: the checkpoint that was just made is made again, else one under the task's own name.

A checkpoint is not lost because its page cannot be written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from adjourn.checkpoints import folder, page_archive, page_writer, plans
from adjourn.checkpoints.checkpoint import StatedReport, TaskCheckpoint, create, find, owner
from adjourn.checkpoints.folder import remove_temporaries, share_histories
from adjourn.checkpoints.page import NO_REPORT, AgentReport
from adjourn.checkpoints.page_files import is_automatic
from adjourn.errors import AdjournError, InvalidError
from adjourn.host.workspace import MAX_NAME
from adjourn.knowledge.records.task_record import record_of
from adjourn.log import kinds
from adjourn.log.event import SYSTEM, Actor
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.session import Session
from adjourn.tasks.task import NewEvent, Task
from adjourn.text.strict_json import in_words


class SavedCheckpoint(NamedTuple):
    """A checkpoint, its folder and its page ("" if the page could not be written), and notes about the page for the person."""

    checkpoint: TaskCheckpoint
    folder: str
    page: str
    notes: list[str]


class CheckpointRequest(NamedTuple):
    """What is to be saved: under which `name`, what for (`description`), what the agent `said`, why (`trigger`), by whom, and the time
    stamp of the beginning of the session whose work it is ("": of the task's last one).
    """

    name: str
    description: str = ""
    said: AgentReport = NO_REPORT
    trigger: str = "agent"
    by: Actor = SYSTEM
    began: str = ""


def save_checkpoint(
    task: Task, root: str, wanted: CheckpointRequest, *, session: Session | None = None, tree: str = ""
) -> SavedCheckpoint:
    """Save a checkpoint of a task as it is now. Its folder is in the workspace `root`, its page in `tree`, a work tree of it (default:
    the same). Raises `AdjournError`.
    """
    name, description, agent_report, trigger, by, began = wanted
    before = owner(task.store, name)
    report = plans.next_report(task, agent_report)
    more, unsaved = _files(task, tree or root) if trigger in ("agent", "person") else ({}, [])
    author = session.actor if session is not None else by
    done = plans.done_items(task, report, by_person=author.type == "human")
    stated = StatedReport(report, done.unchanged, plans.gone_at_checkpoint(task, tree or root))
    checkpoint = create(task, name, description=description, trigger=trigger, session=session, by=by, report=stated)
    label = f"done {done.proven[-1]}" if done.proven else ""
    notes = [taken_over(name, before)] if before not in ("", task.id) else []
    path = folder.write(task.store, checkpoint, root, notes.append)
    remove_temporaries(os.path.join(root, path))  # the folder may be committed
    share_histories(root)
    try:
        page = page_writer.write(
            task,
            checkpoint,
            tree or root,
            page_writer.PageOptions(began=began, label=label, more=more),
            said=agent_report,
        )
    except AdjournError as error:
        return SavedCheckpoint(checkpoint, path, "", [*notes, f"the checkpoint has no page: {error}"])
    saved = SavedCheckpoint(checkpoint, path, page.path, [*notes, *unsaved, *page.notes])
    return _archived(task, tree or root, saved) if task.ledger.finished else saved


def _files(task: Task, tree: str) -> tuple[dict[str, Any], list[str]]:
    """The files as they are at a milestone, for its page, and notes."""
    from adjourn.checkpoints import git_snapshot  # few checkpoints are requested
    from adjourn.policy.destructive import DEFAULT, read_settings

    try:
        settings = read_settings(tree)
    except InvalidError:  # the session said so
        settings = DEFAULT
    return git_snapshot.for_page(tree, task.id, task.ledger.seq + 1, settings)


def _archived(task: Task, root: str, saved: SavedCheckpoint) -> SavedCheckpoint:
    """The page of a finished task goes to the archive with those before it: no session is to continue there."""
    from adjourn.checkpoints import page_archive, page_files  # few checkpoints are of a finished task

    page = page_files.search(root, task=task.id).newest
    if page is None:
        return saved
    try:
        done = page_archive.archive(root, task.id, page_archive.project_of(page), task.store)
    except AdjournError as error:
        return saved._replace(notes=[*saved.notes, f"the page is not archived: {error}"])
    return saved._replace(page=f"{done.folder}/{done.moved[-1]}" if done.moved else done.folder)


def taken_over(name: str, before: str) -> str:
    """The note when a checkpoint's name passes from the task `before` to another one."""
    return f'the name "{name}" belonged to a checkpoint of task {before}; that one is now {before}/{name}'


def read_report(arguments: dict[str, Any]) -> AgentReport:
    """The agent's report in the arguments of `aex.checkpoint`, without `name` and `description`. Raises `InvalidError`."""
    try:
        return msgspec.convert(arguments, AgentReport)
    except msgspec.ValidationError as error:
        raise InvalidError(f"not a valid report: {in_words(error)}", "see the tool's description") from error


def close_session(
    session: Session,
    reason: str,
    root: str,
    *,
    description: str = "",
    tell: Callable[[str], object] = lambda _: None,
    tree: str = "",
) -> str:
    """Close a session, and save a last checkpoint if the task has calls or notes. Returns the checkpoint's folder, "" for none.

    `description` says how to continue; `tell` receives notes about the page. Raises `AdjournError`; the next session then finds
    this process dead.
    """
    task = session.task
    task.flush()
    ledger = task.refresh()
    last = None
    if ledger.checkpoint_seq == ledger.seq:
        last = find(task.store, ledger.checkpoint)
        last = last if last.event.task == task.id and not is_automatic(last.data.trigger) else None
    opened = ledger.sessions.get(session.id)
    session.close(reason)
    if last is not None:
        name, description = last.data.name, last.data.description
    elif task.ledger.calls_used or record_of(task.store, task.id):
        name = task_checkpoint_name(task.id)
    else:
        return ""
    saved = save_checkpoint(
        task,
        root,
        CheckpointRequest(
            name, description=description, trigger=reason, by=session.actor, began=opened.since if opened else ""
        ),
        tree=tree,
    )
    for note in saved.notes:
        tell(note)
    return saved.folder


def save_task_checkpoint(
    task: Task,
    trigger: str,
    root: str,
    *,
    session: Session | None = None,
    tell: Callable[[str], object] = lambda _: None,
    tree: str = "",
) -> TaskCheckpoint:
    """Save a checkpoint under the task's own name while the session stays open, in case the client exits without closing it."""
    saved = save_checkpoint(
        task, root, CheckpointRequest(task_checkpoint_name(task.id), trigger=trigger), session=session, tree=tree
    )
    for note in saved.notes:
        tell(note)
    return saved.checkpoint


def refresh_page(task: Task, root: str, tree: str = "") -> None:
    """Save a checkpoint after a person settled a call, if the task has one: its page and folder told that the call is in doubt.

    Nothing is lost where that fails: the next checkpoint of the task says it.
    """
    with suppress(AdjournError):
        if root and task.refresh().checkpoint_seq >= 0:
            save_task_checkpoint(task, "after a call in doubt was settled", root, tree=tree)


def task_checkpoint_name(task: str) -> str:
    """The name of a task's own checkpoint: its id, with dashes for characters that a name cannot have."""
    return "".join(char if char.isalnum() or char in "-_" else "-" for char in task)[:MAX_NAME]


# --- finishing a task, and reopening it
#
# A finished task is offered to no new session. Its history, its budget and its checkpoints stay, and a session that is still on it may
# call on: a finish refunds nothing. The task is active again once somebody says so: a person (`adjourn tasks reopen`), or an agent that saves a
# checkpoint with a resumption point. What a call looks like neither finishes nor reopens a task.

MAX_NOTE = 2000
FINISHED = "finished"
"""The trigger of a finished task's checkpoint."""


class Finish(NamedTuple):
    """A finished task: its checkpoint's name and folder, notes for whoever finished it; `was` is since when it was finished before."""

    checkpoint: str
    folder: str
    notes: list[str]
    was: str = ""


def finish(
    task: Task, root: str, *, note: str = "", session: Session | None = None, by: Actor = SYSTEM, tree: str = ""
) -> Finish:
    """Finish a task: write it down, save its checkpoint, archive its pages. `note` says its outcome. `tree` is the work
    tree of the workspace `root` that has the pages.

    A task that is finished gets a new checkpoint if it was worked on since, and is no more finished than before. Raises `AdjournError`.
    """
    if session is not None:
        session.hold()
    was = task.refresh().finished
    author, here = (session.actor, session.id) if session is not None else (by, "")
    confirms = author.type == "human" and task.ledger.finished_by != "human"
    if was and not confirms and task.ledger.checkpoint_seq == task.ledger.seq:
        return Finish(task.ledger.checkpoint, "", [], was)

    def build(ledger: Ledger) -> list[NewEvent]:
        if session is not None:
            session.check_held(ledger)
        if ledger.finished and not confirms:
            return []
        return [NewEvent(kinds.TaskFinished(note=note[:MAX_NOTE] or ledger.finish_note), author, here)]

    task.commit(build)
    name = task_checkpoint_name(task.id)
    saved = save_checkpoint(
        task, root, CheckpointRequest(name, description=note, trigger=FINISHED, by=author), session=session, tree=tree
    )
    notes = [*saved.notes]
    if doubts := len(task.ledger.doubts):
        notes.append(f"{doubts} call{'s are' if doubts > 1 else ' is'} still in doubt: adjourn settle")
    return Finish(name, saved.folder, notes, was)


def reopen(task: Task, tree: str, *, note: str = "", session: Session | None = None, by: Actor = SYSTEM) -> bool:
    """Make a finished task active again, and its last archived page the active one. Returns whether it was finished."""
    author, here = (session.actor, session.id) if session is not None else (by, "")

    def build(ledger: Ledger) -> list[NewEvent]:
        if session is not None:
            session.check_held(ledger)
        return [NewEvent(kinds.TaskReopened(note=note[:MAX_NOTE]), author, here)] if ledger.finished else []

    if not any(isinstance(entry.event.data, kinds.TaskReopened) for entry in task.commit(build)):
        return False
    with suppress(AdjournError):  # without a page, the next checkpoint writes one from the history
        page_archive.restore_task(tree, task.id)
    return True
