"""Continuation Records for tests: their authors, the fields of one, and versions of it."""

from __future__ import annotations

from typing import Any

from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees

NOW = 1_777_735_812_345
AGENT = CRAuthor(id="agent-1", type="agent", model="some-model")
ANN = CRAuthor(id="ann", type="human", name="Ann €")
BY_AGENT = {"id": "agent-1", "type": "agent"}


def fields(**more: Any) -> Tree:
    """What a record is made of: a task with a question before its one resume point, and a decision."""
    question = {
        "id": "q1", "type": "question", "question": "Which one?", "context": "", "options": ["this", "that"], "status": "open",
        "blocksResumePoints": ["go"], "priority": "blocking",
    }  # fmt: skip
    point = {
        "id": "go", "label": "Go", "description": "", "when": "asked", "preconditions": ["a backup"], "requiredAuthority": "human",
        "safeToAutoExecute": False, "onTimeout": "escalate", "approvalStatus": "pending", "nextSteps": ["one", "two"],
    }  # fmt: skip
    decision = {
        "id": "d1", "description": "Use this", "status": "accepted", "rationale": "it is here", "madeBy": BY_AGENT, "madeAt": NOW,
        "affects": ["n1"], "overridableBy": ["human"],
    }  # fmt: skip
    task = {"id": "t1", "goal": "Get it done", "status": "in-progress"}
    return {"task": task, "questionsForUser": [question], "resumePoints": [point], "decisions": [decision], **more}


def tagged(record: Tree, tag: str) -> Tree:
    return {"metadata": {**record["metadata"], "tags": [*record["metadata"]["tags"], tag]}}


def grown(store: RecordTrees, record: Tree, count: int) -> Tree:
    """The record after more versions."""
    for number in range(count):
        record = store.update(record["id"], tagged(record, f"{record['sequence']}.{number}"), AGENT)
    return record
