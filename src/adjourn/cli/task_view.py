"""The view of a task, the same in every command: holders, calls in doubt, questions, next step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from adjourn.cli.start import StoreContext
from adjourn.errors import AdjournError, NotFoundError
from adjourn.handover.clients import last_client
from adjourn.handover.inbox import calls_in_doubt
from adjourn.host import process
from adjourn.host.keys import reading_secret
from adjourn.host.process import group_of
from adjourn.log import kinds
from adjourn.log.kinds import tool_name
from adjourn.store.base import Store
from adjourn.tasks.approvals import BY_A_PERSON, waiting_approvals
from adjourn.tasks.entries import Approval, OpenCall, OpenSession, rate_of, rate_used
from adjourn.tasks.heads import KeptHeads, last_phase
from adjourn.tasks.lease import describe_holder, is_alive
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.owners import owner_of
from adjourn.tasks.task import GRAPH_HEADS, GRAPH_WRITES, Task, last_worked_on, tasks_of
from adjourn.tasks.troubles import OpenTrouble, open_troubles
from adjourn.text.times import period


class Holder(NamedTuple):
    """A session that has not closed. `alive` is None where its machine cannot be seen and its lease has run out."""

    session: OpenSession
    alive: bool | None


def holders(context: StoreContext, ledger: Ledger) -> list[Holder]:
    """The sessions of a task that have not closed, each with whether it is alive."""
    return [
        Holder(session, is_alive(context.store, ledger.task, session, context.now))
        for session in ledger.sessions.values()
    ]


def doubts(ledger: Ledger, sessions: list[Holder]) -> list[OpenCall]:
    """Calls in doubt, and those that the next session will find in doubt, because theirs is over without having closed."""
    return calls_in_doubt(ledger, {holder.session.id for holder in sessions if not holder.alive})


def questions(ledger: Ledger, now: int) -> list[Approval]:
    """The questions of a task that wait for a person."""
    return waiting_approvals(ledger, now)


class GivenAnswer(msgspec.Struct, frozen=True):
    """A person's answer to a question about a call, with the reason that they gave. `answer`: `approved` or `denied`."""

    tool: str
    arguments: str
    answer: str
    by: str
    reason: str


def answers(ledger: Ledger) -> list[GivenAnswer]:
    """The approvals with a reason, and the denials, that a task still keeps; the newest last."""
    names = {kinds.ConfirmApproved.KIND: "approved", kinds.ConfirmDenied.KIND: "denied"}
    return [
        GivenAnswer(tool_name(call), call.arguments, names[call.event], call.by, call.said)
        for call in ledger.notable.values()
        if call.event in names and call.by and call.why.partition(" ")[0] in (*BY_A_PERSON, "elicitation:accept")
    ]


def each_task(context: StoreContext, names: Iterable[str] | None = None) -> Iterator[tuple[str, Task | AdjournError]]:
    """Every task, or those of these `names`; for each that cannot be read, why."""
    for name in tasks_of(context.store) if names is None else names:
        try:
            yield name, context.task(name)
        except AdjournError as error:
            yield name, error


def readable_ledgers(context: StoreContext) -> Iterator[tuple[str, Ledger]]:
    """The ledgers of all tasks that can be read, by the tasks' ids."""
    for name, task in each_task(context):
        if not isinstance(task, AdjournError):
            yield name, task.ledger


def task_json(context: StoreContext, ledger: Ledger) -> dict[str, Any]:
    """A task for machines."""
    sessions = holders(context, ledger)
    owner = owner_of(context.store, ledger.task)
    document: dict[str, Any] = {
        "task": ledger.task,
        "owner": owner.id,
        "ownerName": owner.shown,
        "goal": ledger.goal,
        "client": last_client(context.store, ledger),
        "state": "finished" if ledger.finished else "active",
        "finished": ledger.finished,
        "finishNote": ledger.finish_note,
        "callsUsed": ledger.calls_used,
        "callsRefused": ledger.calls_refused,
        "budget": ledger.budget,
        "budgetRemaining": ledger.remaining(ledger.budget),
        "events": ledger.seq + 1,
        "head": ledger.hash,
        "opened": ledger.opened,
        "touched": ledger.touched,
        "sessions": [msgspec.to_builtins(holder.session) | {"alive": holder.alive} for holder in sessions],
        "checkpoint": ledger.checkpoint,
        "troubles": [trouble._asdict() for trouble in open_troubles(ledger)],
        "inDoubt": [msgspec.to_builtins(call) for call in doubts(ledger, sessions)],
        "questions": [approval_json(question, ledger.task) for question in questions(ledger, context.now)],
        "answers": [msgspec.to_builtins(answer) for answer in answers(ledger)],
        "tools": ledger.tools,
        "workedMilliseconds": ledger.worked,
        "tokens": ledger.tokens,
        "microUsd": ledger.micro_usd,
        "budgets": [msgspec.to_builtins(spent) for spent in budgets(context.store, ledger, context.now)],
        "rates": [msgspec.to_builtins(spent) for spent in rates(ledger, context.now)],
    }
    return document


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a budget, or of a rate in the last `seconds`, is spent. `what` is the budget's key, or the rate's tools; `owner`
    whose budget it is, where it is not that of all.
    """

    what: str
    used: float
    limit: float
    seconds: int = 0
    owner: str = ""

    @property
    def title(self) -> str:
        """What is counted, in words."""
        owner = self.owner or "all tasks"
        return f"{self.what} of {owner} in the last {period(self.seconds)}" if self.seconds else self.what


def budgets(store: Store, ledger: Ledger, now: int) -> list[Spent]:
    """The budgets that the last session worked under, but its task's calls, as far as their texts are in the store. Those with
    `seconds` are counted over all tasks.
    """
    from adjourn.tasks.budgets import last_policy, workspace_spent

    policy = last_policy(store, ledger)
    if policy is None:
        return []
    of_task = [Spent(key, round(used, 4), limit) for key, used, limit in ledger.budgets_used(policy) if key != "calls"]
    used = workspace_spent(store, policy.workspace_budgets, now)
    of_workspace = (
        Spent("calls", used[rule.counter], rule.amount, rule.per_seconds, rule.owner)
        for rule in policy.workspace_budgets
    )
    return [*of_task, *of_workspace]


def rates(ledger: Ledger, now: int) -> list[Spent]:
    """The rates that calls have counted for in their last period."""
    spent = []
    for key in ledger.rates:
        amount, seconds, tools = rate_of(key)
        if used := rate_used(ledger.rates, key, now):
            spent.append(Spent(tools, used, amount, seconds))
    return spent


def approval_json(question: Approval, task: str) -> dict[str, Any]:
    """A question for machines."""
    return {
        "approval": question.id,
        "task": task,
        "tool": question.tool,
        "server": question.server,
        "arguments": question.arguments,
        "cause": question.cause,
        "asked": question.asked,
        "expires": question.expires,
        "refused": question.refused,
        "doubt": question.doubt,
    }


def current_task(context: StoreContext, name: str = "") -> Task:
    """The task that is named; else that of the client this command runs in; else the one used last."""
    name = name or os.environ.get("ADJOURN_TASK", "") or _of_client(context)
    if name:
        return context.task(name)
    newest = max(tasks_of(context.store), key=lambda task: last_worked_on(context.store, task), default="")
    if not newest:
        for head in KeptHeads(context.store, reading_secret()).known():
            context.task(head.task)  # raises where its history is missing and nobody accepted that
        raise NotFoundError("the store has no task yet", "create one: call a tool through `adjourn proxy`")
    return context.task(newest)


def _of_client(context: StoreContext) -> str:
    """The task of an MCP client among the processes that this one descends from."""
    clients = context.store.refs("client/")
    if not clients:
        return ""
    for client in process.ancestors():
        if task := clients.get(f"client/{group_of(client, context.root)}"):
            return task if context.store.head(task).seq >= 0 else ""
    return ""


def budget(ledger: Ledger) -> str:
    """`12 of 100`, or `12` without a limit."""
    return str(ledger.calls_used) if ledger.budget is None else f"{ledger.calls_used} of {ledger.budget}"


def who(session: OpenSession) -> str:
    """The client of a session, and where its process runs."""
    return f"{session.client or 'a client'}, {describe_holder(session)}"


def state(holder: Holder) -> str:
    """Why a session is not alive; "" for one that is."""
    if holder.alive:
        return ""
    if not holder.session.pid:
        return "idle: no call for a while"
    return "dead" if holder.alive is False else "lease expired"


def next_step(context: StoreContext, ledger: Ledger, sessions: list[Holder], troubles: Sequence[OpenTrouble]) -> str:
    """The next step for a person, in one line."""
    from adjourn.runs.journal import name_of

    waiting = questions(ledger, context.now)
    if waiting:
        return f"answer: adjourn approve {waiting[0].id}   (or deny)"
    unsure = doubts(ledger, sessions)
    if unsure:
        return f"check the effect of {tool_name(unsure[0])}, then: adjourn settle {unsure[0].call} --done   (or --not-done)"
    if troubles:
        return troubles[0].text
    if any(holder.alive for holder in sessions):
        return "nothing; a session is active"
    if ledger.finished:
        return f"nothing; the task is finished (adjourn tasks reopen {ledger.task})"
    if context.store.ref(name_of(ledger.task)) is not None:
        return f"resume the run: adjourn run --resume --task {ledger.task}"
    if step := last_phase(context.store, ledger):
        if not step.phase:
            return "nothing; the coding session has ended"
        return f"continue in your client: /code --resume   (at step {step.step}, {step.phase})"
    if ledger.checkpoint:
        return f"continue in any client: call aex.resume with the name {ledger.checkpoint}"
    return _step_in_program(context, ledger) or "nothing to resume from: the task has no checkpoint yet"


def _step_in_program(context: StoreContext, ledger: Ledger) -> str:
    """The next step of a task that a program keeps with an adapter; "" for others."""
    if context.store.refs(f"{GRAPH_HEADS}{ledger.task}/"):
        return "continue the LangGraph thread: invoke its graph with the same thread_id"
    if context.store.ref(f"{GRAPH_WRITES}{ledger.task}/items") is not None:
        return "continue the conversation: open it under the same name in your program"
    return ""
