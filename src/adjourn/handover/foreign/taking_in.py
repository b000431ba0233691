"""Make a task of another tool's work: its history, its record, its page, and a checkpoint that can be resumed.

A person vouches for it, and nothing in it is verified: its entries are events of kinds of their own (`task.imported`,
`entry.imported`), its statements the words of an agent.

Owns: the order of what is written: the history in one transaction, then the record, then the checkpoint. Must never: give the
work an approval that a person gave elsewhere, or refund a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from adjourn.checkpoints import CheckpointRequest, TaskCheckpoint, save_checkpoint
from adjourn.handover.foreign.work import NO_NOTE, ForeignWork
from adjourn.knowledge.cognition import CognitiveStore, SessionOptions, apply_reply, head_of
from adjourn.knowledge.model import CRAuthor, Tree
from adjourn.knowledge.records import CRStore, agent_notes
from adjourn.log import Actor, digest, kinds
from adjourn.tasks import NewEvent, Task


class ImportedWork(NamedTuple):
    """The checkpoint of an imported task, its page ("" for none), and notes for the person."""

    checkpoint: TaskCheckpoint
    page: str
    notes: list[str]


def import_work(task: Task, root: str, work: ForeignWork, by: Actor, tree: str = "") -> ImportedWork:
    """Import another tool's work into a new task, because a person (`by`) vouches for it. Raises `AdjournError`."""
    imported = kinds.TaskImported(
        at=work.at,
        audit=digest(work.documents[1]) if len(work.documents) > 1 else "",
        budget=-1 if work.budget is None else work.budget,
        calls=work.calls,
        document=digest(work.documents[0]),
        source=work.source,
    )
    facts: list[kinds.Data] = [kinds.TaskOpened(goal=work.goal), imported, *work.entries]
    task.commit([NewEvent(one, by) for one in facts], blobs=list(work.documents))
    _write_record(task, work)
    saved = save_checkpoint(
        task,
        root,
        CheckpointRequest(work.name, description=work.description, said=work.report, trigger="import", by=by),
        tree=tree,
    )
    return ImportedWork(saved.checkpoint, saved.page, saved.notes)


def _write_record(task: Task, work: ForeignWork) -> None:
    """The task's Continuation Record and state of mind, if the work has anything for them."""
    if work.note == NO_NOTE and not work.record and not work.mind:
        return
    author = CRAuthor(id=f"imported from {work.source}", type="agent")
    goal = work.goal or f"Task {task.id}"
    about = {"id": task.id, "goal": goal, "status": "in-progress"}
    about |= {
        name: value
        for name, value in work.record.get("task", {}).items()
        if name not in about or name == "status"
    }
    mind = _write_mind(task, work)
    named = {"checkpointId": mind} if mind else {}
    records = CRStore(task.store, clock=task.clock)
    made = records.create({**work.record, "task": about, **named}, author=author, cr_id=task.id)
    if members := agent_notes.changed_by_note(made, work.note, author, task.clock()):
        records.update(made["id"], members, author)


def _write_mind(task: Task, work: ForeignWork) -> str:
    """The id of the cognitive checkpoint with what the work states as known, assumed, asked and intended; "" for nothing."""
    said = agent_notes.statements(work.note)
    if not said and not work.mind:
        return ""
    options = SessionOptions(clock=task.clock)
    mind = CognitiveStore(task.store, task.id, goal=work.goal, triggers=(), options=options)
    if work.mind:
        mind.restore_from_checkpoint(work.mind, move_head=True)
    if said:
        change: Callable[[Tree, int], Tree] = lambda state, at: apply_reply(state, said, at)  # noqa: E731
        mind.change(change)
    mind.create_checkpoint("Import")
    return head_of(mind.session)
