"""What waits for a person, put into a store: each kind of item, with the texts that an agent or a server writes.

Owns: these histories. Must never: answer one.
"""

from __future__ import annotations

import itertools
from typing import Any

from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log import kinds
from adjourn.log.event import Actor, timestamp
from adjourn.tasks.task import NewEvent, Task
from support.record_folder import BY_AGENT
from support.task_sessions import SharedTask

CODEX = CRAuthor(id="codex", type="agent")
RECORD = "line"
_DIGESTS = itertools.count(1)


def _digest() -> str:
    return f"{next(_DIGESTS):064x}"


def opened(shared: SharedTask, goal: str = "Release 1.4.0", *, by: str = "claude-code") -> Task:
    """The task `t1`, opened by an agent."""
    task = shared.task()
    task.commit(lambda _: [NewEvent(kinds.TaskOpened(goal=goal), Actor(by, "agent"))])
    return task


def asked(task: Task, name: str = "k1", tool: str = "deploy", **members: Any) -> None:
    """A question about a call."""
    given = {"digest": _digest(), "cause": "confirm before deploy (.aex/policy.aex:4)", **members}
    expires = timestamp(task.clock() + 15 * 60_000)
    task.commit(lambda _: [NewEvent(kinds.ConfirmRequired(approval=name, tool=tool, expires=expires, **given))])


def called(task: Task, call: str, tool: str, arguments: str = "", message: str = "", **members: Any) -> None:
    """A call that was answered: with an error if there is a `message`, else well."""
    sent = kinds.ToolAllowed(call=call, tool=tool, digest=_digest(), effectful=True, arguments=arguments, **members)
    outcome = kinds.ToolSettled(call=call, outcome="tool-error" if message else "ok", message=message)
    task.commit(lambda _: [NewEvent(sent), NewEvent(outcome)])


def in_doubt(task: Task, call: str = "c9", tool: str = "pay", arguments: str = "{}") -> None:
    """A call whose answer is not known."""
    sent = kinds.ToolAllowed(call=call, tool=tool, digest=_digest(), effectful=True, arguments=arguments)
    task.commit(lambda _: [NewEvent(sent)])


def noted(shared: SharedTask, say: str = "Lock the table?", *, options: bool = True) -> RecordTrees:
    """A record with a question, a resume point, a contested decision and a blocker; each text of them begins with `say`."""
    records = RecordTrees(shared.store, clock=shared.clock)
    now = shared.clock()
    question = {
        "id": "q1", "type": "question", "question": say, "context": f"{say} context", "status": "open", "blocksResumePoints": [],
        "priority": "high",
    }  # fmt: skip
    if options:
        question["options"] = [f"{say} yes", f"{say} no"]
    point = {
        "id": "go", "label": f"{say} label", "description": say, "when": say, "preconditions": [say], "requiredAuthority": "human",
        "safeToAutoExecute": False, "onTimeout": "escalate", "approvalStatus": "pending", "nextSteps": [f"{say} step"],
        "alternativePaths": [],
    }  # fmt: skip
    decision = {
        "id": "d1", "description": f"{say} decided", "status": "accepted", "rationale": say, "madeBy": BY_AGENT, "madeAt": now, "affects": [],
        "overridableBy": ["human"],
    }  # fmt: skip
    blocker = {
        "id": "b1", "type": "permission", "description": f"{say} blocked", "status": "active", "severity": "high", "createdBy": BY_AGENT,
        "createdAt": now, "blocksResumePoints": [],
    }  # fmt: skip
    fields = {
        "task": {"id": "t1", "goal": f"{say} goal", "successCriteria": [say], "status": "in-progress"},
        "questionsForUser": [question],
        "resumePoints": [point],
        "decisions": [decision],
        "blockers": [blocker],
    }
    records.create(fields, author=CRAuthor(id="claude-code", type="agent"), cr_id=RECORD)
    records.contest_decision(RECORD, "d1", f"{say} otherwise", f"{say} why", CODEX)
    return records
