"""Continuation Records as a program reads and writes them, typed: all of a store as whole documents, or the one of a task.

That of a task has a verb for each thing that happens. The verbs are those of the meta-tools `adjourn.note` and `adjourn.ask`, and write
the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from adjourn.errors import InvalidError
from adjourn.host import keys
from adjourn.host.clock import now
from adjourn.knowledge.model import drafts
from adjourn.knowledge.model.cognition import normalised
from adjourn.knowledge.model.documents import Tree, plain, tree_of, view
from adjourn.knowledge.model.drafts import checked
from adjourn.knowledge.model.record import (
    ContinuationRecord,
    CRAuthor,
    CRDecision,
    CRDiff,
    CRMergeResult,
    CRQuestion,
    CRResumePoint,
    Strategy,
)
from adjourn.knowledge.records import agent_notes, dependencies, effect_lookup
from adjourn.knowledge.records.effect_lookup import EffectCall
from adjourn.knowledge.records.effects import Probe, RunningEffect
from adjourn.knowledge.records.store import RecordStore
from adjourn.store.base import Store
from adjourn.tasks.task import Task
from adjourn.text.near_words import did_you_mean

T = TypeVar("T", CRDecision, CRResumePoint)
Items = Iterable[str | Mapping[str, object]]
"""Items by their words alone, or as objects with more members."""


class CRStore(RecordStore[ContinuationRecord]):
    """Continuation Records over a `Store`. Safe to use from several threads; several processes may use one store.

    `id` names a record, `contentHash` one version of it. Records and their parts come out typed and frozen, and go in typed or as dicts;
    members that this version does not know stay in them. `clock` returns milliseconds; `new_id` makes ids of records.

    Methods raise `UnknownRecordError` (a `KeyError`) for an unknown record, `InvalidError` for a value that is not a record,
    `RefusedError` if a rule or a missing authority forbids the change, and `ConflictError` if another process wrote first. An
    error means that nothing was written. A returned record is durable.

    >>> records = CRStore(MemoryStore())
    >>> record = records.create({"task": {"id": "t1", "goal": "pay"}}, author=CRAuthor(id="a", type="agent"))
    >>> record.task.goal, record.sequence
    ('pay', 0)
    """

    def _made(self, record: Tree) -> ContinuationRecord:
        return view(record, ContinuationRecord)


class NoteMembers(TypedDict, total=False):
    """What `TaskRecord.note` takes: the members of `adjourn.note`, by their names in Python."""

    facts: Items
    assumptions: Iterable[str]
    questions: Iterable[str]
    goals: Iterable[str]
    decisions: Items
    learnings: Items
    goal: str
    status: Literal["in-progress", "completed", "failed"]
    success_criteria: Iterable[str]
    tags: Iterable[str]
    resume_points: Items
    blockers: Items
    invariants: Items
    withdraw: Iterable[str]
    answers: Iterable[Mapping[str, str]]


_WORDS = {"decisions": "decision", "learnings": "content", "resume_points": "label"} | dict.fromkeys(
    ("blockers", "invariants"), "description"
)
"""The member of an item that its words alone stand for."""


class TaskRecord:
    """The record of a task in a store, created with the first thing that is said. Safe to use from several threads and processes.

    `author` is who says it, an agent by default; `clock` returns milliseconds; `root` is the folder of the files that facts depend on. A returned item is durable. Methods raise what those of
    `CRStore` raise.

    >>> record = TaskRecord(MemoryStore(), "pay-42", goal="Pay invoice 42", author="payer")
    >>> record.decide("Pay by bank transfer", because="the card was refused").status
    'accepted'
    >>> with record.effect("bank", "transfer", {"invoice": "42"}, key="invoice:42") as transfer:
    ...     if transfer.run:
    ...         transfer.outputs = {"reference": "T-1"}
    >>> [effect.outputs for effect in record.current.tool_effects]
    [{'reference': 'T-1'}]
    """

    @checked
    def __init__(
        self,
        store: Store,
        task: str,
        *,
        goal: str = "",
        author: CRAuthor | str = "agent",
        clock: Callable[[], int] = now,
        root: str = ".",
    ) -> None:
        drafts.require_store(store, "TaskRecord")
        self._root = root
        self.author = CRAuthor(id=author, type="agent") if isinstance(author, str) else author
        self.records = CRStore(store, clock=clock)
        """The store of records that has this one."""
        self._task = Task(store, task, clock=clock, secret=keys.secret())
        self._goal = goal
        self._fork = ""
        """The id of the record, where it is not the task's own."""

    @property
    def id(self) -> str:
        """The id of the record, which is created if need be."""
        return self._fork or str(self._own()["id"])

    @property
    def current(self) -> ContinuationRecord:
        """The newest version, with the newest effects of the task."""
        return view(effect_lookup.current(self._task.store, self._own()), ContinuationRecord)

    # --- saying

    def note(self, **members: Unpack[NoteMembers]) -> ContinuationRecord:
        """Note what was learned and decided, and revise it: what `adjourn.note` takes. What the record has in the same words is skipped.

        An item is its words, or an object: `decisions=["Use SQLite", {"decision": "Use WAL", "because": "one writer"}]`. A fact may name
        what it depends on: `facts=[{"fact": "Port 8080", "files": ["app.toml"], "env": ["HOME"], "versions": {"node": "22"}}]`.
        """
        return self._noted(members)[1]

    @checked
    def decide(
        self, decision: str, *, because: str = "", status: Literal["accepted", "tentative", "rejected"] = "accepted"
    ) -> CRDecision:
        """Note a decision and its reason. A decision in the same words takes the new status."""
        note, record = self._noted({"decisions": [{"decision": decision, "because": because, "status": status}]})
        return _with_words(record.decisions, "description", note.decisions[0].decision)

    @checked
    def ask(
        self,
        question: str,
        *,
        context: str = "",
        options: Sequence[str] = (),
        priority: Literal["blocking", "high", "medium", "low"] = "medium",
    ) -> CRQuestion:
        """Ask a person. An equal question is returned as it is: with its answer, once a person has given one."""
        asked = agent_notes.read_question(
            {"question": question, "context": context, "options": list(options), "priority": priority}
        )
        return view(agent_notes.write_question(self._task, asked, self.author, self._own()).question, CRQuestion)

    @checked
    def resume_point(
        self,
        label: str,
        *,
        when: str = "",
        preconditions: Sequence[str] = (),
        next_steps: Sequence[str] = (),
        authority: Literal["human", "agent", "any"] = "human",
    ) -> CRResumePoint:
        """Add a gate: work continues there when somebody with this authority has approved it."""
        point = {
            "label": label,
            "when": when,
            "preconditions": preconditions,
            "next_steps": next_steps,
            "required_authority": authority,
        }
        note, record = self._noted({"resume_points": [point]})
        return _with_words(record.resume_points, "label", note.resume_points[0].label)

    @checked
    def effect(
        self,
        tool: str,
        operation: str,
        inputs: Mapping[str, Any],
        *,
        key: str = "",
        replayable: bool = False,
        probe: Probe | None = None,
    ) -> AbstractContextManager[RunningEffect]:
        """An effect that happens once: claimed before the block, settled after it, in doubt if the block raises or is killed.

        `key` names it for the business (`invoice:42`), by default its inputs do. In the block, make the call if the value's `run` is
        true, and set `outputs`. Else it happened before, and `outputs` are what was kept. `probe` checks an effect in doubt. Raises
        `RefusedError` where nobody knows whether it happened.
        """
        call = EffectCall(tool, operation, dict(inputs), key=key, replayable=replayable)
        return self.records.effects.once(self.id, call, self.author, probe=probe)

    # --- people and other agents

    @checked
    def answer(self, question: CRQuestion, answer: str, by: CRAuthor) -> CRQuestion:
        """Answer an open question as the person `by`."""
        record = self.records.answer_question(self.id, question.id, answer, by)
        return next(item for item in record.questions_for_user if item.id == question.id)

    @checked
    def approve(self, point: CRResumePoint, by: CRAuthor, *, note: str = "") -> CRResumePoint:
        """Approve a resume point as `by`. A `note` becomes a constraint of the record."""
        record = self.records.approve_resume_point(self.id, point.id, by, note=note)
        return next(item for item in record.resume_points if item.id == point.id)

    @checked
    def fork(self, author: CRAuthor | str) -> TaskRecord:
        """A record of the same task for another agent, that continues from this version. `merge` brings both together."""
        forked = TaskRecord(self.records.store, self._task.id, author=author, clock=self._task.clock, root=self._root)
        forked._fork = self.records.fork(self._own()["contentHash"], {}, forked.author).id
        return forked

    @checked
    def diff(self, other: TaskRecord | ContinuationRecord) -> CRDiff:
        """How the other record, or a version, differs from this one."""
        return self.records.diff(self.id, _name(other))

    @checked
    def merge(self, other: TaskRecord | ContinuationRecord, strategy: Strategy = "manual") -> CRMergeResult:
        """Merge what another agent wrote about the same task into this record. With `manual`, both sides of a conflict are kept for a person."""
        return self.records.merge(self.id, _name(other), strategy, author=self.author)

    def _noted(self, members: Mapping[str, Any]) -> tuple[agent_notes.AgentNote, ContinuationRecord]:
        """Write a note. Returns it as it is stored, without secrets and invisible characters, and the record."""
        note = agent_notes.read_note({_member(name): _items(name, value) for name, value in members.items()})
        around = dependencies.around_here(self._root, self._task.secret)
        written = agent_notes.write_note(self._task, note, self.author, self._own(), around)
        return note, view(written.record, ContinuationRecord)

    def _own(self) -> Tree:
        self._task.refresh()
        if self._fork:
            return tree_of(self.records.resolve(self._fork))
        return agent_notes.own_record(self._task, self.author, self._goal)


def _name(other: TaskRecord | ContinuationRecord) -> str:
    return other.id if isinstance(other, TaskRecord) else other.content_hash


def _member(name: str) -> str:
    """The name in JSON of a member of a note. Raises `InvalidError` for one that a note does not have."""
    if name not in NoteMembers.__annotations__:
        raise InvalidError(
            f"note has no member {name[:80]!r}",
            did_you_mean(name, NoteMembers.__annotations__) or f"use one of {', '.join(NoteMembers.__annotations__)}",
        )
    return _spelled(name)


def _items(name: str, value: Any) -> Any:
    """The value of a member as JSON has it."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    if name not in _WORDS:
        return plain(list(value))
    return [
        {_WORDS[name]: item}
        if isinstance(item, str)
        else {_spelled(str(member)): plain(inner) for member, inner in item.items()}
        if isinstance(item, Mapping)
        else item
        for item in value
    ]


def _spelled(member: str) -> str:
    """The name in JSON of a member by its name in Python."""
    return re.sub("_([a-z])", lambda match: match[1].upper(), member)


def _with_words(items: Sequence[T], member: str, words: str) -> T:
    """The item that is stored in these words."""
    said = normalised(words)
    return next(item for item in reversed(items) if normalised(getattr(item, member)) == said)
