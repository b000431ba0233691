"""Compose a hand-over: read what it is made of, from the task's ledger, its last events, its page, its record and the policy.

Owns: this reading, and who the hand-over says must act next. Must never: write, lower a budget, or guess about a call in doubt.
"""

from __future__ import annotations

from typing import NamedTuple

from adjourn.aex import Policy
from adjourn.checkpoints import (
    NO_REPORT,
    TaskCheckpoint,
    imported_history,
    is_replanned,
    plan_summary,
    statements_of,
    trusted_signer,
)
from adjourn.errors import AdjournError
from adjourn.handover.calls import recent_calls, said
from adjourn.handover.record_sections import mind_of
from adjourn.handover.sections import Sources, sections
from adjourn.handover.value import Handover
from adjourn.knowledge.brief import Recorded, recorded
from adjourn.knowledge.records import CRStore, expire_due, record_of
from adjourn.log import milliseconds, timestamp
from adjourn.tasks import Ledger, Task, describe_holder, is_alive

MAX_DESCRIPTION, MAX_GOAL, MAX_NOTE = 2500, 500, 300
MAX_HASH = 64
FINISHED, WAITING, HELD, ACTIVE = "finished", "waiting for a person", "held by another agent", "active"
_MISSING = (
    "the record of this work, version {}, is not in this store; a person can copy it: `adjourn record export` where it is, "
    "`adjourn record import` here"
)


class Reader(NamedTuple):
    """The recipient: the work tree that has the pages, the policy and budget (in calls) that they work under, and the group of their client."""

    tree: str
    policy: Policy | None = None
    budget: int | None = None
    group: str = ""


def hand_over(task: Task, checkpoint: TaskCheckpoint, reader: Reader) -> Handover:
    """Compose what a session that resumes `checkpoint` receives about its task, as the loaded ledger has it. Raises `IntegrityError`."""
    ledger, now = task.ledger, task.clock()
    summary = plan_summary(task, reader.tree, now)
    page = statements_of(summary.page) if summary is not None and summary.page is not None else NO_REPORT
    known = _known(task, checkpoint, now)
    made = checkpoint.event.timestamp
    # a description from before the plan was changed may name the step of then
    outdated = summary is not None and is_replanned(summary, milliseconds(made))
    description = "" if outdated else said(checkpoint.data.description, MAX_DESCRIPTION)
    sources = Sources(
        ledger=ledger,
        recent=recent_calls(task.store, ledger, timestamp(now)),
        page=page,
        recorded=known,
        stamp=timestamp(now),
        policy=reader.policy,
        description=description,
    )
    mission = said(page.mission, MAX_GOAL) if isinstance(page.mission, str) else ""
    goal = said(ledger.goal, MAX_GOAL) or mission
    notes = [*(summary.notes if summary is not None else ()), *known.notes]
    return Handover(
        name=checkpoint.data.name,
        task=task.id,
        made=made,
        state=_state(task, known, sources.stamp, reader.group),
        description=description,
        untrusted_signer="" if trusted_signer(checkpoint) else checkpoint.data.key,
        goal=goal,
        mission=mission if mission != goal else "",
        tools=tuple(said(tool, 200) for tool in ledger.tools),
        calls_used=ledger.calls_used,
        calls_left=ledger.remaining(reader.budget),
        sections=sections(sources),
        notes=tuple(said(note, MAX_NOTE) for note in notes),
        doubts=len(ledger.doubts),
        page=summary.path if summary is not None else "",
        events=ledger.seq + 1,
        imported=imported_history(ledger),
    )


def _state(task: Task, known: Recorded, stamp: str, group: str) -> str:
    """Who must act next."""
    ledger = task.ledger
    if known.is_finished or ledger.finished:
        return FINISHED
    for session in ledger.sessions.values():
        if session.group != group and is_alive(task.store, task.id, session, task.clock()):
            return f"{HELD}: {said(session.client or 'a client', 60)}, {describe_holder(session)}"
    return WAITING if known.is_blocked or _is_asked(ledger, stamp) else ACTIVE


def _is_asked(ledger: Ledger, stamp: str) -> bool:
    """Whether a person can still answer a question about a call."""
    return any(not (one.approved or one.refused) and one.expires > stamp for one in ledger.approvals.values())


def _known(task: Task, checkpoint: TaskCheckpoint, now: int) -> Recorded:
    """What the task's record and state of mind say; nothing without a record."""
    store = task.store
    named = said(checkpoint.data.record, MAX_HASH)
    record = record_of(store, task.id)
    if record is None:
        return Recorded(notes=(_MISSING.format(named),) if named else ())
    records, given = CRStore(store), list[str]()
    if named and records.versions.find(named) is None:
        given.append(f"the version of the record that the checkpoint names, {named}, is not in this store")
    try:
        mind = mind_of(store, record)
    except AdjournError as error:
        mind = None
        given.append(f"the recorded facts, questions and goals cannot be read: {error.message}")
    due = expire_due(record, now)  # the next resume or decision writes it; it is shown already
    return recorded(
        due.record if due else record,
        mind,
        now=now,
        verified=records.verify_chain(record["id"]),
        consumed=records.consumed,
        given=given,
    )
