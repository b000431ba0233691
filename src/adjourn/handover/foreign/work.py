"""Work that another tool wrote down, as far as adjourn can continue it, and a task made of it.

A person vouches for it, and nothing in it is verified: its entries are events of kinds of their own (`task.imported`,
`entry.imported`), its statements the words of an agent. It brings no approval that a person gave elsewhere, and refunds no call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from adjourn.checkpoints.checkpoint import TaskCheckpoint
from adjourn.checkpoints.page import NO_REPORT, AgentReport
from adjourn.checkpoints.save import CheckpointRequest, save_checkpoint
from adjourn.errors import InvalidError
from adjourn.host.workspace import check_name
from adjourn.knowledge.cognition.store import CognitiveStore, SessionOptions
from adjourn.knowledge.model.cognition import apply_reply
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records import agent_notes
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import Actor
from adjourn.tasks.task import NewEvent, Task
from adjourn.text.fitting import fit_text
from adjourn.text.quoting import clean, one_line
from adjourn.text.redact import without_secrets

Source = Literal["aex", "continuum", "langgraph", "handoff"]
SOURCES: tuple[Source, ...] = get_args(Source)
MAX_FILE_BYTES = 16 * 1024 * 1024
"""A file that is read whole."""
MAX_ENTRIES = 10_000
"""Entries of a history that become events; all of them stay in the document."""
MAX_STATEMENTS = 200
"""Items of one kind (facts, decisions, …) that are imported."""
MAX_WORD, MAX_LINE = 128, 200
NO_NOTE = agent_notes.AgentNote()


class ForeignWork(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says, without secrets. None of it is verified; all of it is somebody's words.

    `documents` are what the store keeps of it: the file, and its audit.jsonl if it has one. `at` is its time as it states it, `calls`
    and `budget` are numbers of calls, `entries` its history, `report` is for the page, `note` for the record. `record` and `mind` are
    the members of a Continuation Record and a cognitive checkpoint, if that is what it is. `kept` and `left_out` say what was taken
    over and what was not.
    """

    source: Source
    name: str
    documents: tuple[bytes, ...]
    goal: str = ""
    description: str = ""
    at: str = ""
    calls: int = 0
    budget: int | None = None
    entries: tuple[kinds.EntryImported, ...] = ()
    report: AgentReport = NO_REPORT
    note: agent_notes.AgentNote = NO_NOTE
    record: Tree = {}
    mind: Tree = {}
    kept: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def word(value: Any, limit: int = MAX_WORD) -> str:
    """A short text for an event: one line, without secrets; "" for what is not text."""
    return one_line(without_secrets(clean(value)), limit) if isinstance(value, str) else ""


def prose(value: Any, limit: int = agent_notes.MAX_STATEMENT) -> str:
    """A text of the file without secrets and control characters, at most `limit` characters; "" for what is not text."""
    return fit_text(without_secrets(clean(value)).strip(), limit) if isinstance(value, str) else ""


def statements(values: Iterable[Any]) -> tuple[str, ...]:
    """The texts among the values, each once, as far as there is room."""
    return tuple(dict.fromkeys(text for value in values if (text := prose(value))))[:MAX_STATEMENTS]


def name_from(text: str, source: Source) -> str:
    """A checkpoint's name made from a text; the name of the format where the text has no character for one."""
    name = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower())
    name = "-".join(part for part in name.split("-") if part)[:40].strip("-")
    try:
        return name if name and without_secrets(name) == check_name(name) else source
    except InvalidError:
        return source


def counted(number: int, thing: str) -> str:
    """`1 call`, `2 calls`, `2 entries`."""
    if number == 1:
        return f"1 {thing}"
    return f"{number} {thing[:-1] + 'ies' if thing.endswith('y') else thing + 's'}"


# --- a task with its history, its record, its page, and a checkpoint that can be resumed


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
    task.commit([NewEvent(fact, by) for fact in facts], blobs=list(work.documents))
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
        name: value for name, value in work.record.get("task", {}).items() if name not in about or name == "status"
    }
    mind = _write_mind(task, work)
    named = {"checkpointId": mind} if mind else {}
    records = RecordTrees(task.store, clock=task.clock)
    fields = records.create({**work.record, "task": about, **named}, author=author, cr_id=task.id)
    if members := agent_notes.changed_by_note(fields, work.note, author, task.clock()):
        records.update(fields["id"], members, author)


def _write_mind(task: Task, work: ForeignWork) -> str:
    """The id of the cognitive checkpoint with what the work states as known, assumed, asked and intended; "" for nothing."""
    statements = agent_notes.statements(work.note)
    if not statements and not work.mind:
        return ""
    options = SessionOptions(clock=task.clock)
    mind = CognitiveStore(task.store, task.id, goal=work.goal, triggers=(), options=options)
    if work.mind:
        mind.restore_from_checkpoint(work.mind, move_head=True)
    if statements:
        change: Callable[[Tree, int], Tree] = lambda state, at: apply_reply(state, statements, at)  # noqa: E731
        mind.change(change)
    return mind.create_checkpoint("Import").id
