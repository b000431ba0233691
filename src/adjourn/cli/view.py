"""What is told of a task, the same in every command: who holds it, what is in doubt, what waits, what comes next.

Owns: these projections of a ledger, for people and for machines. Must never: print, or write a fact.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from adjourn.cli.place import Place
from adjourn.engine import process
from adjourn.engine.desk import group_of
from adjourn.engine.session import is_alive
from adjourn.engine.task import Task, tasks_of
from adjourn.errors import AdjournError, NotFoundError
from adjourn.log.event import decode, timestamp
from adjourn.state.ledger import Approval, Call, Ledger, Session
from adjourn.store.base import Store

MAX_ANCESTORS = 30


class Holder(NamedTuple):
    """A sitting that has not closed. `alive` is None where its machine cannot be seen and its lease has run out."""

    session: Session
    alive: bool | None


def holders(place: Place, ledger: Ledger) -> list[Holder]:
    return [
        Holder(session, is_alive(place.store, ledger.task, session, place.now))
        for session in ledger.sessions.values()
    ]


def doubts(ledger: Ledger, sitting: list[Holder]) -> list[Call]:
    """Calls in doubt, and those that the next session will find in doubt, because theirs is over without having closed."""
    over = {holder.session.id for holder in sitting if not holder.alive}
    cut_off = [call for call in ledger.open_calls.values() if call.effectful and call.session in over]
    return [*ledger.doubts.values(), *cut_off]


def questions(ledger: Ledger, now: int) -> list[Approval]:
    """Questions that can still be answered with yes."""
    stamp = timestamp(now)
    return [asked for asked in ledger.approvals.values() if not asked.approved and asked.expires > stamp]


def each_task(place: Place) -> Iterator[tuple[str, Task | AdjournError]]:
    """Every task, or why it cannot be read."""
    for name in tasks_of(place.store):
        try:
            yield name, place.task(name)
        except AdjournError as error:
            yield name, error


def as_told(place: Place, ledger: Ledger) -> dict[str, Any]:
    """A task for machines."""
    sitting = holders(place, ledger)
    told: dict[str, Any] = {
        "task": ledger.task,
        "goal": ledger.goal,
        "callsUsed": ledger.calls_used,
        "callsRefused": ledger.calls_refused,
        "budget": ledger.budget,
        "budgetRemaining": ledger.remaining(ledger.budget),
        "events": ledger.seq + 1,
        "head": ledger.hash,
        "opened": ledger.opened,
        "touched": ledger.touched,
        "sessions": [msgspec.to_builtins(one.session) | {"alive": one.alive} for one in sitting],
        "checkpoint": ledger.checkpoint,
        "inDoubt": [msgspec.to_builtins(call) for call in doubts(ledger, sitting)],
        "questions": [question(asked, ledger.task) for asked in questions(ledger, place.now)],
        "tools": ledger.tools,
    }
    return told


def question(asked: Approval, task: str) -> dict[str, Any]:
    """A question for machines."""
    return {
        "approval": asked.id,
        "task": task,
        "tool": asked.tool,
        "arguments": asked.arguments,
        "cause": asked.cause,
        "asked": asked.asked,
        "expires": asked.expires,
        "refused": asked.refused,
        "doubt": asked.doubt,
    }


def current_task(place: Place, name: str = "") -> Task:
    """The task meant: named, that of the client this command runs in, else the one touched last."""
    name = name or os.environ.get("ADJOURN_TASK", "") or _of_client(place)
    if name:
        return place.task(name)
    newest = max(tasks_of(place.store), key=lambda task: _touched(place.store, task), default="")
    if not newest:
        raise NotFoundError("the store has no task yet", "`adjourn proxy` makes one with its first call")
    return place.task(newest)


def _of_client(place: Place) -> str:
    """The task of an MCP client among the processes that this one descends from."""
    clients = place.store.refs("client/")
    if not clients:
        return ""
    host = process.host()
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        client = process.Process(host, pid, process.started(pid) or 0)
        task = clients.get(f"client/{group_of(client, place.root)}")
        if task:
            return task if place.store.head(task).seq >= 0 else ""
        pid = _parent(pid)
        if pid <= 1:
            break
    return ""


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read(4096).rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _touched(store: Store, task: str) -> str:
    head = store.head(task)
    try:
        return decode(next(iter(store.read(task, head.seq))).data).timestamp
    except (AdjournError, StopIteration):
        return ""


def budget(ledger: Ledger) -> str:
    """`12 of 100`, or `12` without a limit."""
    return str(ledger.calls_used) if ledger.budget is None else f"{ledger.calls_used} of {ledger.budget}"


def who(session: Session) -> str:
    return f"{session.client or 'a client'}, process {session.pid} on {session.host.split(':')[0]}"


def next_step(ledger: Ledger, sitting: list[Holder], now: int) -> str:
    """What a person would do now, in one line."""
    waiting = questions(ledger, now)
    if waiting:
        return f"answer: adjourn approve {waiting[0].id}   (or deny)"
    unsure = doubts(ledger, sitting)
    if unsure:
        return (
            f"find out about {unsure[0].tool}, then: adjourn settle {unsure[0].call} --done   (or --not-done)"
        )
    if ledger.budget is not None and ledger.calls_used >= ledger.budget:
        return "the budget is spent: raise it in the policy, or end here"
    if any(holder.alive for holder in sitting):
        return "nothing; a session is at work"
    if ledger.checkpoint:
        return f"go on in any client: call aex.resume with the name {ledger.checkpoint}"
    return "nothing to resume from yet: no checkpoint was made"
