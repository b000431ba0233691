"""A workspace with a week of work in it: three tasks of two clients, for the tests of the web page and its screenshots.

The code that a proxy runs makes the history: the policy decides on each call, which is recorded and signed. Only the clock and the
tools' answers are made up. It writes to no folder but the one that it is given.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from adjourn.checkpoints.page import NO_REPORT, AgentReport
from adjourn.checkpoints.save import CheckpointRequest, finish, save_checkpoint
from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.host import process
from adjourn.host.keys import secret
from adjourn.host.workspace_store import open_at
from adjourn.knowledge.cognition.store import CognitiveStore, SessionOptions
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.policy.contract import read_contract
from adjourn.tasks.approvals import answer
from adjourn.tasks.decision import ToolRequest
from adjourn.tasks.lease import expire_dead_sessions
from adjourn.tasks.task import Task
from adjourn.text.redact import preview

POLICY = """policy acme v1

use files.*, git.log, git.show, shell.run, postgres.query, tracker.*, release.*
deny git.reset
confirm before release.*
confirm before files.edit_file
budget calls=40
checkpoint before release.*
"""
MINUTE = 60_000
DAY = 24 * 60 * MINUTE
READING = frozenset(("files.read_file", "git.log", "git.show", "postgres.query", "tracker.get_issue"))
CLAUDE, CODEX = CRAuthor(id="claude-code", type="agent"), CRAuthor(id="codex", type="agent")
PERSON = Actor("dana", "human")
_EDIT = {
    "path": "src/acme/invoices.py",
    "old_string": "def total(lines):\n    return sum(line.amount for line in lines)\n",
    "new_string": "def total(lines, *, rate=Decimal(0)):\n    net = sum(line.amount for line in lines)\n"
    "    return net + net * rate\n",
}


class WeekClock:
    """A clock that only moves when the story does. Milliseconds."""

    def __init__(self, start: int) -> None:
        self.time = start

    def __call__(self) -> int:
        return self.time

    def pass_(self, *, minutes: float) -> None:
        self.time += round(minutes * MINUTE)


class WeekClient:
    """A client at work on a task: `claude-code` or `codex`, through a proxy of its own."""

    def __init__(self, root: Path, clock: WeekClock, task: str, client: str, *, asked: str = "") -> None:
        """`asked` is the person's first prompt, which becomes the goal of a new task."""
        self._root, self._clock, self._task, self._client = str(root), clock, task, client
        self._asked = asked
        self._proxies: dict[str, ClientContext] = {}
        self._process = process.current()

    def _proxy(self, server: str) -> ClientContext:
        """The proxy in front of one of the client's servers."""
        if server not in self._proxies:
            options = ClientOptions(root=self._root, contract=read_contract(self._root), task=self._task, server=server)
            made = self._proxies[server] = ClientContext(options, self._clock, lambda _event, _text: None)
            made.identify(self._client, "2025-11-25")
            made.join(f"{self._client}-{self._task}")
            if self._asked:
                made.task.keep_prompt(self._asked)
        self._proxies[server].process = self._process
        return self._proxies[server]

    def die(self) -> None:
        """From now on this client's processes count as ones that have ended: nothing is closed."""
        self._process = process.Process(self._process.host, 2**22 + 1, 1)  # no process has this number
        self._proxies.clear()

    @property
    def task(self) -> Task:
        return next(iter(self._proxies.values())).sessions.open().task

    def call(
        self, tool: str, arguments: dict[str, Any], *, error: str = "", settles: bool = True, after: float = 2
    ) -> str:
        """A call, `after` so many minutes. Returns the id of the question that it raised; "" for none."""
        self._clock.pass_(minutes=after)
        text = json.dumps(arguments, sort_keys=True)
        server, _, name = tool.rpartition(".")
        request = ToolRequest(
            tool=name,
            server=server,
            digest=hashlib.sha256(f"{tool} {text}".encode()).hexdigest(),
            effectful=tool not in READING,
            arguments=preview(arguments),
            given=arguments,
        )
        session, (admitted,) = self._proxy(server).sessions.admit([request])
        if admitted.call and settles:
            self._clock.pass_(minutes=0.05)
            done = kinds.ToolSettled(
                call=admitted.call, outcome="tool-error" if error else "ok", message=error, milliseconds=3_000
            )
            session.settle([done])
        return admitted.approval.id if admitted.approval is not None else ""

    def approved(self, tool: str, arguments: dict[str, Any], *, after: float = 3) -> None:
        """A call that a person is asked about, and approves."""
        question = self.call(tool, arguments)
        self._clock.pass_(minutes=after)
        task = self.task
        task.refresh()
        answer(task, question, yes=True, via="cli", by=PERSON)
        self.call(tool, arguments, after=0.1)

    def checkpoint(self, name: str, description: str, said: AgentReport = NO_REPORT) -> None:
        self._clock.pass_(minutes=1)
        session = next(iter(self._proxies.values())).sessions.open()
        save_checkpoint(
            session.task, self._root, CheckpointRequest(name, description=description, said=said), session=session
        )

    def leave(self) -> None:
        for proxy in self._proxies.values():
            proxy.close("eof")


def make_week(root: Path, now: int) -> None:
    """Fill a workspace with the week that ends at `now`."""
    (root / ".aex").mkdir(parents=True)
    (root / ".aex" / "policy.aex").write_text(POLICY, encoding="utf-8")
    clock = WeekClock(now - 6 * DAY)
    _release(root, clock)
    clock.time = now - 2 * DAY
    _migration(root, clock)
    clock.time = now - 40 * MINUTE
    _tax(root, clock, now)


def _release(root: Path, clock: WeekClock) -> None:
    """Begun in one client, continued in another, and finished."""
    first = WeekClient(root, clock, "release-1-3", "claude-code", asked="Release acme-api 1.3.0")
    first.call("tracker.get_issue", {"id": 412})
    first.call("git.log", {"since": "v1.2.0"})
    first.call("shell.run", {"command": "pytest -q"}, error="2 failed: test_refund_rounding, test_csv_export")
    for path in ("src/acme/refunds.py", "src/acme/export.py"):
        first.call("files.read_file", {"path": path})
        first.approved("files.edit_file", {**_EDIT, "path": path})
    first.call("git.reset", {"mode": "hard"})
    first.call("shell.run", {"command": "pytest -q"}, after=4)
    first.checkpoint(
        "tests-pass",
        "Both failing tests are mended; the changelog and the release are left",
        AgentReport(
            current_state=("the rounding of refunds and the CSV export are mended",),
            resumption_point="Write the changelog, then publish 1.3.0",
        ),
    )
    first.leave()
    clock.pass_(minutes=60 * 17)
    second = WeekClient(root, clock, "release-1-3", "codex")
    second.call("git.show", {"since": "v1.2.0"})
    second.approved("files.edit_file", {"path": "CHANGELOG.md", "old_string": "", "new_string": "## 1.3.0\n"})
    second.call("shell.run", {"command": "python -m build"}, after=5)
    second.call("shell.run", {"command": "twine check dist/*"})
    second.approved("release.publish", {"version": "1.3.0", "channel": "stable"}, after=4)
    second.call("tracker.close_issue", {"id": 412})
    finish(second.task, str(root), by=Actor("codex", "agent"))
    second.leave()


def _migration(root: Path, clock: WeekClock) -> None:
    """Two agents think about it, their records are merged, one is killed in the middle of a call."""
    name = "invoices-schema"
    first = WeekClient(
        root, clock, name, "claude-code", asked="Move the invoices table to the new schema without downtime"
    )
    first.call("postgres.query", {"sql": "SELECT count(*) FROM invoices"})
    first.call("files.read_file", {"path": "migrations/0042_invoices.py"})
    first.checkpoint("before-migration", "The new schema is written, nothing is migrated")
    first.leave()
    store = open_at(str(root))
    records = RecordTrees(store, clock=clock)
    thoughts = _thoughts(name, clock())
    shared = {key: thoughts.pop(key) for key in ("task", "decisions")}
    begun = records.create(shared, author=CLAUDE, cr_id=name)
    other = f"{name}-codex"
    records.fork(begun["contentHash"], shared, CODEX, cr_id=other)
    clock.pass_(minutes=30)
    records.contest_decision(
        other, "d1", "Backfill in batches of 5,000 rows", "a long transaction blocks autovacuum", CODEX
    )
    clock.pass_(minutes=10)
    person = CRAuthor(id=PERSON.id, type="human")
    records.merge(name, other, "manual", author=person)
    records.update(other, {"task": {**shared["task"], "status": "completed"}}, person)
    records.update(name, thoughts, CLAUDE)
    mind = CognitiveStore(store, name, goal=shared["task"]["goal"], triggers=(), options=SessionOptions(clock=clock))
    mind.change(_mind)
    first.die()
    first.call("shell.run", {"command": "alembic upgrade +1"}, settles=False)
    clock.pass_(minutes=30)
    expire_dead_sessions(Task(store, name, clock=clock, secret=secret()))
    store.close()


def _tax(root: Path, clock: WeekClock, now: int) -> None:
    """Near the end of its budget, and waiting for a person."""
    client = WeekClient(root, clock, "tax-rates", "claude-code", asked="Add tax rates to the totals of invoices")
    for number in range(14):
        client.call("files.read_file", {"path": f"src/acme/rates/{number}.py"}, after=0.3)
        client.call("shell.run", {"command": f"pytest -q tests/rates/test_{number}.py"}, after=0.5)
    stated = AgentReport(resumption_point="Change the total: the sum does not use them yet")
    client.checkpoint("rates-read", "All rates are covered by tests", stated)
    clock.time = now - 3 * MINUTE
    client.call("files.edit_file", _EDIT, after=1)
    client.call("release.publish", {"version": "1.4.0", "channel": "beta", "notes": "Adds tax rates."}, after=1)


def _mind(state: dict[str, Any], at: int) -> dict[str, Any]:
    """What the agent has in mind: goals, steps, and what its conclusion rests on."""

    def step(name: str, label: str, status: str, **more: Any) -> dict[str, Any]:
        return {
            "id": name, "type": "reasoning", "phase": "execution", "status": status, "label": label, "assumptions": [],
            "openQuestions": [], "confidence": 0.8, "childIds": [], "createdAt": at, "branchId": "main",
        } | more  # fmt: skip

    (root,) = state["intentGraph"]["goals"]
    parts = [("copy", "Every row is in the new table", "active"), ("switch", "Requests use the new table", "deferred")]
    goals = [{**root, "subGoalIds": [name for name, _, _ in parts]}]
    goals += [
        {"id": name, "description": text, "status": status, "subGoalIds": [], "parentGoalId": root["id"], "priority": 1}
        for name, text, status in parts
    ]
    nodes = [
        step("plan", "Choose how rows are copied", "completed", type="decision", childIds=["backfill", "compare"]),
        step("backfill", "Run the backfill", "pending", type="tool-call", parentId="plan"),
        step("compare", "Compare the counts", "pending", parentId="plan", blockedBy=["backfill"]),
    ]
    facts = [
        {"id": "rows", "content": "invoices has 2.1 million rows", "source": "postgres.query", "confidence": 1},
        {
            "id": "lock",
            "content": "ALTER TABLE locks it for about 40 s",
            "source": "a trial on a copy",
            "confidence": 0.9,
        },
    ]
    belief = "A backfill in batches keeps requests below a second"
    return {
        "nodes": nodes,
        "intentGraph": {**state["intentGraph"], "goals": goals},
        "epistemicState": {
            **state["epistemicState"],
            "facts": facts,
            "beliefs": [{"id": "b1", "statement": belief, "confidence": 0.7, "evidence": ["rows", "lock"]}],
            "openQuestions": [{
                "id": "window", "question": "Is there a quiet hour tonight?", "priority": "high", "blocksNodes": ["backfill"],
            }],
        },
    }  # fmt: skip


def _thoughts(task: str, at: int) -> dict[str, Any]:
    """A record of what an agent knows, wants and asks."""
    by = {"id": "claude-code", "type": "agent"}
    return {
        "task": {
            "id": task, "goal": "Move the invoices table to the new schema without downtime",
            "successCriteria": ["all rows are there", "no request waits longer than a second"],
            "status": "in-progress",
        },
        "decisions": [{
            "id": "d1", "description": "Backfill in one transaction", "status": "accepted",
            "rationale": "simple, and the table has 2 million rows", "madeBy": by, "madeAt": at,
            "affects": ["backfill"], "overridableBy": ["human"],
        }],
        "questionsForUser": [{
            "id": "q1", "type": "question", "status": "open", "priority": "blocking",
            "question": "May the migration lock the invoices table for about 40 seconds?",
            "context": "Without the lock, the backfill has to run in batches, which takes about an hour.",
            "options": ["Yes, tonight after 22:00", "No, run it in batches"], "blocksResumePoints": ["backfill"],
        }],
        "resumePoints": [{
            "id": "backfill", "label": "Run the backfill", "description": "", "when": "the question is answered",
            "preconditions": ["a backup from today exists"], "requiredAuthority": "human",
            "safeToAutoExecute": False, "onTimeout": "escalate", "approvalStatus": "pending",
            "nextSteps": ["take a backup", "run the backfill", "compare the counts"], "alternativePaths": [],
        }],
    }  # fmt: skip
