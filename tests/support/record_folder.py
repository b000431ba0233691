"""A Continuation Record of a person's commands: what it holds, and the folder whose store has it."""

from __future__ import annotations

from pathlib import Path

from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.store.sqlite import SqliteStore

AGENT = CRAuthor(id="agent-1", type="agent")
BY_AGENT = {"id": "agent-1", "type": "agent"}
NOW = 1_777_735_812_345
FIELDS: Tree = {
    "task": {"id": "t1", "goal": "Move the notes", "successCriteria": ["all are there"], "status": "in-progress"},
    "decisions": [
        {"id": "d1", "description": "Use SQLite", "status": "accepted", "rationale": "nothing to run", "madeBy": BY_AGENT, "madeAt": NOW,
         "affects": ["go"], "overridableBy": ["human"]},
    ],
    "learnings": [
        {"id": "l1", "type": "warning", "source": "observation", "content": "Names may hold \x1b[31mred", "learnedBy": BY_AGENT,
         "learnedAt": NOW, "affects": []},
    ],
    "questionsForUser": [
        {"id": "q1", "type": "question", "question": "Keep the old file?", "context": "It has 3 MB.", "options": ["yes", "no"],
         "status": "open", "blocksResumePoints": ["go"], "priority": "blocking"},
    ],
    "resumePoints": [
        {"id": "go", "label": "Move them", "description": "", "when": "tests pass", "preconditions": ["a backup"],
         "requiredAuthority": "human", "safeToAutoExecute": False, "onTimeout": "escalate", "approvalStatus": "pending",
         "nextSteps": ["copy", "compare"], "alternativePaths": [{"condition": "no time", "steps": ["leave them"]}]},
    ],
}  # fmt: skip


class RecordFolder:
    """A folder with a store of records."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".aex").mkdir(parents=True)

    def store(self) -> RecordTrees:
        return RecordTrees(SqliteStore(self.root / ".aex" / "adjourn.db"))

    def fill(self) -> None:
        """Create the record `line`."""
        self.store().create(FIELDS, author=AGENT, cr_id="line")
