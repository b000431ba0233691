"""The workspace that the web page is measured on: a store of many tasks, one of which is very long, as proxies leave them.

Owns: what is in it. Must never: measure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import histories

from adjourn.host.clock import now
from adjourn.host.keys import secret as host_secret
from adjourn.host.workspace_store import open_at
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import Actor, timestamp
from adjourn.store import Store
from adjourn.tasks.heads import KeptHead, KeptHeads
from adjourn.tasks.task import NewEvent, Task

POLICY = 'policy bench v0\n\ngoal "Measure."\n\nuse notes.*, ops.deploy\nconfirm before ops.deploy\n'
AGENT = Actor("claude-code", "agent")
CALLS = 3
"""Of each of the many tasks."""
STALE = 1_000
"""Events of the long task after its cached fold."""
_MINUTE = 60_000
_GOALS = ("Release the shop", "Mend the totals of invoices", "Move the queue to the new broker", "Read the audit")


def make_workspace(root: Path, tasks: int, events: int) -> None:
    """So many tasks, and one more of so many events."""
    (root / ".aex").mkdir(parents=True)
    (root / ".aex/policy.aex").write_text(POLICY, encoding="utf-8")
    with closing(open_at(str(root))) as store:
        _add_tasks(store, tasks)
        _add_questions(store, max(1, tasks // 200))
        _add_long_task(store, events)


def _add_tasks(store: Store, count: int) -> None:
    """A minute between two of them, the last one now: of a hundred, one waits for a person and another is in doubt."""
    times = itertools.count(now() - count * _MINUTE, _MINUTE)
    secret = host_secret()
    heads = KeptHeads(store, secret)
    for number, at in zip(range(count), times, strict=False):
        task = Task(store, f"{number:05}-many", clock=lambda at=at: at, secret=secret)  # type: ignore[misc]
        facts = list(_facts(number, at))
        task.commit(lambda _, facts=facts: facts, durable=False)  # type: ignore[misc]
        task.fold()
        ledger = task.ledger
        heads.keep(KeptHead(task=task.id, seq=ledger.seq, hash=ledger.hash, calls=ledger.calls_used))


def _facts(number: int, at: int) -> Iterator[NewEvent]:
    session = f"s{number}"
    yield NewEvent(kinds.TaskOpened(goal=f"{_GOALS[number % len(_GOALS)]}, {number}"), session=session)
    opened = kinds.SessionOpened(
        budget=100, client=AGENT.id, era="legacy", group=f"g{number}", host="h", pid=1, policy=digest(b""), started=1
    )  # fmt: skip
    yield NewEvent(opened, session=session)
    for call in range(CALLS):
        name, arguments = f"{session}.{call}", f'{{"path":"notes/{call}.md","text":"{"a line of it " * 20}"}}'
        sent = kinds.ToolAllowed(
            arguments=arguments, call=name, digest=digest(name.encode()), effectful=True, tool="notes.set"
        )  # fmt: skip
        yield NewEvent(sent, AGENT, session)
        if call or number % 100 != 1:  # else it is in doubt when the session closes
            settled = kinds.ToolSettled(answer=digest(b""), call=name, milliseconds=12, outcome="ok")
            yield NewEvent(settled, session=session)
    if number % 100 == 0:
        asked = kinds.ConfirmRequired(
            approval=f"k{number}", arguments='{"to":"production"}', cause="confirm before ops.deploy (.aex/policy.aex:6)",
            digest=digest(session.encode()), expires=timestamp(at + 30 * 24 * 60 * _MINUTE), tool="ops.deploy",
        )  # fmt: skip
        yield NewEvent(asked, AGENT, session)
    yield NewEvent(kinds.SessionClosed(reason="client-eof"), session=session)
    if number % 3 == 2:
        yield NewEvent(kinds.TaskFinished(note="done"), AGENT)


def _add_questions(store: Store, count: int) -> None:
    """Records, each with a question."""
    records = RecordTrees(store, clock=now)
    for number in range(count):
        question = {
            "id": "q1", "type": "question", "question": f"Which broker, {number}?", "context": "Both are there.", "status": "open",
            "blocksResumePoints": [], "priority": "high", "options": ["old", "new"],
        }  # fmt: skip
        task = {"id": f"{number:05}-many", "goal": "Move the queue", "successCriteria": [], "status": "in-progress"}
        fields = {"task": task, "questionsForUser": [question]}
        records.create(fields, author=CRAuthor(id="claude-code", type="agent"), cr_id=f"r{number}")


def _add_long_task(store: Store, events: int) -> None:
    source = histories.facts()
    histories.extend(store, source, max(1, events - STALE))
    Task(store, histories.TASK, clock=now, secret=host_secret()).fold()
    histories.extend(store, source, events)
