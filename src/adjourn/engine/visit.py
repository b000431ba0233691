"""One call of a client that runs its tools itself, and asks before each by starting a process for that one answer.

Who sits on the task: not that process, which is gone before the call begins, but its client. All its visits are one
session of a name that is worked out, not drawn, so that processes which start at once need not meet to share it.

- A client whose proxies work here is found among the processes that this one descends from: its visits belong to its
  group, go to its task, and count against the same budget.
- Otherwise the task is the workspace's, whoever asks, and under whatever name: one budget for all of them, which no new
  session and no new process begins anew. `--task` names another.
- The session lives as long as the client's process where that is known, else for a lease's time after each visit. It
  never fences another holder, and a living one of another client keeps it out, as it does a proxy.

What is written of an allowed call: its intent, and in the same step that it went to the client and no answer was seen.
So it is counted, it is never open, and it never becomes a doubt: adjourn was not there when it ran. A call about which a
person is to be asked is counted when it is asked, since the client tells nobody what the person said; repeated with an
approval that was given elsewhere, it is not counted again.

Owns: this sitting, and the facts of such calls. Must never: outlive its answer, or speak a client's format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from adjourn.aex.policy import Policy
from adjourn.engine import ids, process
from adjourn.engine.contract import Contract, for_task
from adjourn.engine.decide import (
    APPROVAL_MILLISECONDS,
    Ask,
    Block,
    Call,
    Decision,
    Forward,
    decide,
    usable_approval,
)
from adjourn.engine.desk import MAX_MOVES, Desk, Setting, group_of
from adjourn.engine.paths import places
from adjourn.engine.process import Process
from adjourn.engine.session import (
    LEASE_MILLISECONDS,
    MAX_SHOWN_TOOL,
    MovedError,
    Session,
    Sitting,
)
from adjourn.engine.task import SYSTEM, Builder, Fact, Task, Written
from adjourn.errors import ConflictError, HeldError, InvalidError, RefusedError
from adjourn.log import kinds
from adjourn.log.canonical import canonical, digest
from adjourn.log.event import timestamp
from adjourn.state.ledger import Approval, Ledger
from adjourn.store.base import Store

READING_VERBS = frozenset(("file.read", "git.status", "git.diff", "network.search", "todo.read"))
"""Tools of the contract vocabulary that have no effect."""
FOLD_EVERY = 64
"""Events between two cached folds. Each visit loads the task anew, so fewer than between those of a session that stays."""
MAX_EVENTS_OF_VISIT = 6
MAX_ANCESTORS = 30


class VisitedTask(Task):
    """A task on which several processes open one and the same session: whoever comes second finds it open."""

    def commit(self, build: Builder, **options: Any) -> list[Written]:
        def once(ledger: Ledger) -> list[Fact]:
            return [fact for fact in build(ledger) if not _is_open(ledger, fact)]

        return super().commit(once, **options)


def _is_open(ledger: Ledger, fact: Fact) -> bool:
    return isinstance(fact.data, kinds.SessionOpened) and fact.session in ledger.sessions


class Decided(NamedTuple):
    """A decision, and the rule that allows the call where it may pass."""

    decision: Decision
    rule: str


class Visit:
    """The session of all visits of one client on a task, as one of them sees it."""

    def __init__(self, task: Task, contract: Contract, sitting: Sitting) -> None:
        self.task = task
        self.policy: Policy = contract.policy
        self._session = Session(
            task,
            contract.policy,
            sitting,
            policy_text=contract.policy_text.encode(),
            contract_text=contract.contract_text.encode(),
        )
        self._session.id = self.id = _name(task.ledger, sitting)

    def ask(self, call: Call) -> Decided:
        """Decide on a call and write it down. Raises `HeldError`, `MovedError`, `StoreError`."""
        made: list[Decision] = []

        def build(ledger: Ledger) -> list[Fact]:
            self._session.check_held(ledger)
            paid = self._is_paid(ledger, call)
            decision = decide(self.policy, ledger, call, now=self.task.clock(), spent=-paid)
            made[:] = [decision]
            return [*self._over(ledger, call), *self._facts(ledger, call, decision, paid=paid)]

        self._sit()
        try:
            self.task.commit(build, durable=call.effectful)
        except (HeldError, MovedError):
            raise
        except RefusedError:  # given up for dead between two looks
            self._sit()
            self.task.commit(build, durable=call.effectful)
        return Decided(
            made[0], str(self.policy.judge_call(call.tool, call.given, call.paths, call.matcher).rule)
        )

    def note(self, data: kinds.Data) -> None:
        """Write down what was decided without the rules."""
        self._sit()
        self._session.note(data)

    def _sit(self) -> None:
        """Sit down if no earlier visit has, else keep the seat. Raises `HeldError` as `open` does."""
        if self.id not in self.task.ledger.sessions:
            self._session.open()
            return
        self._session.is_open = True
        lease = self.task.store.ref(f"lease/{self.task.id}/{self.id}") or "0"
        if not lease.isdigit() or int(lease) < self.task.clock() + LEASE_MILLISECONDS // 2:
            self._session.heartbeat()

    # --- the facts

    def _facts(self, ledger: Ledger, call: Call, decision: Decision, *, paid: bool) -> Iterator[Fact]:
        actor, session = self._session.actor, self.id
        if isinstance(decision, Block):
            yield Fact(_refused(self.policy, ledger, call, decision), actor, session)
            return
        if isinstance(decision, Ask) and not _question(ledger, call, decision, self.task.stamp):
            required = kinds.ConfirmRequired(
                approval=ids.approval_id(),
                arguments=call.arguments,
                cause=decision.cause,
                digest=call.digest,
                doubt=decision.doubt,
                expires=timestamp(self.task.clock() + APPROVAL_MILLISECONDS),
                tool=call.tool,
            )
            yield Fact(required, actor, session)
        passes = decision if isinstance(decision, Forward) else Forward()
        allowed = kinds.ToolAllowed(
            approval=passes.approval,
            arguments=call.arguments,
            call=f"{session}.{ledger.seq + 1}",
            digest=call.digest,
            effectful=False,
            limits=list(passes.limits),
            tool=call.tool,
            uncounted=paid and passes is decision,
        )
        yield Fact(allowed, actor, session)
        if not isinstance(decision, Ask):
            yield self._unseen(allowed.call)

    def _is_paid(self, ledger: Ledger, call: Call) -> bool:
        """Whether the call was counted when a person was asked, and that person has said yes elsewhere since."""
        asked = any(
            (one.session, one.tool, one.digest) == (self.id, call.tool, call.digest)
            for one in ledger.open_calls.values()
        )
        return asked and usable_approval(ledger, call, self.task.clock(), "") is not None

    def _over(self, ledger: Ledger, call: Call) -> Iterator[Fact]:
        """Asked calls that need not be kept any longer: the call itself comes again, or its question has expired."""
        stamp = timestamp(self.task.clock() - APPROVAL_MILLISECONDS)
        for one in ledger.open_calls.values():
            same = (one.tool, one.digest) == (call.tool, call.digest)
            if one.session == self.id and (same or one.since < stamp):
                yield self._unseen(one.call)

    def _unseen(self, call: str) -> Fact:
        return Fact(kinds.ToolSettled(call=call, outcome="no-answer"), SYSTEM, self.id)


def _refused(policy: Policy, ledger: Ledger, call: Call, block: Block) -> kinds.Data:
    if block.reason == "budget_exhausted":
        return kinds.BudgetExhausted(limit=policy.budget or 0, tool=call.tool, used=ledger.calls_used)
    return kinds.ToolDenied(reason=block.reason, rule=block.rule, tool=call.tool[:MAX_SHOWN_TOOL])


def _question(ledger: Ledger, call: Call, ask: Ask, stamp: str) -> Approval | None:
    """The question that is already open for this very call."""
    for known in ledger.approvals.values():
        same = (known.tool, known.digest, known.doubt) == (call.tool, call.digest, ask.doubt)
        if same and not known.approved and not known.refused and known.expires > stamp:
            return known
    return None


class Visitor:
    """A process that was started for one answer. Opens the store when it is first needed."""

    def __init__(self, setting: Setting, client: str, client_process: int = 0) -> None:
        """`client` is its name, `client_process` its process where it says so; it must be one that this one descends from."""
        self.desk = Desk(setting)
        self._setting = setting
        self._client = client
        self._groups = {group_of(process_, setting.root): process_ for process_ in _ancestors()}
        """The processes that this one descends from, nearest first, by the name of the group they would be."""
        self._named = next(
            (group for group, process_ in self._groups.items() if process_.pid == client_process), ""
        )

    def behind_proxy(self) -> bool:
        """Whether the client has a proxy in this workspace."""
        return bool(_with_proxies(self.desk.store, self._groups))

    def ask(self, call: Call, working_directory: str = "") -> Decided:
        """Decide on a call and write it down; relative paths among its arguments are of `working_directory`.

        Raises `HeldError` or another `RefusedError`, `StoreError`.
        """
        for _ in range(MAX_MOVES):
            visit = self._visit()
            leads_to = places(visit.policy, call.tool, call.given, self._setting.root, working_directory)
            placed = msgspec.structs.replace(call, paths=leads_to.paths, matcher=leads_to.matcher)
            try:
                decided = visit.ask(placed)
            except MovedError:
                self.desk.close("moved")
                self.desk = Desk(self._setting)
                continue
            self._keep(visit)
            return decided
        raise ConflictError("this client's task is being moved about", "call again")

    def note(self, data: kinds.Data) -> None:
        """Write down what was decided without the rules."""
        visit = self._visit()
        visit.note(data)
        self._keep(visit)

    def _visit(self) -> Visit:
        """The task, and as whom to sit there."""
        desk, own = self.desk, self._setting.task
        workspace = f"workspace/{digest(self._setting.root.encode())[:8]}"
        group = _with_proxies(desk.store, self._groups)
        desk.group = group or workspace
        task = VisitedTask(desk.store, desk.task_id(), clock=desk.clock, secret=desk.secret)
        if own and not group:
            held_by = {holder.group for holder in task.ledger.sessions.values()}
            group = next((one for one in self._groups if one in held_by), "") or self._named
        # A process of no machine is one of which only its lease tells how long it lives.
        client = self._groups.get(group or self._named, Process(workspace, 0, 0))
        sitting = Sitting(client, group or workspace, self._client, "hook")
        return Visit(task, for_task(self._setting.contract, desk.store, task.ledger.contract), sitting)

    def _keep(self, visit: Visit) -> None:
        """Now and then, leave things so that the next visits load little: a cached fold, and a log that was copied."""
        if visit.task.ledger.seq % FOLD_EVERY < MAX_EVENTS_OF_VISIT:
            visit.task.fold()
            self.desk.close("")


def _with_proxies(store: Store, groups: Mapping[str, Process]) -> str:
    """The group whose proxies share a task in this store, "" for none."""
    clients = store.refs("client/")
    return next((group for group in groups if f"client/{group}" in clients), "")


def _name(ledger: Ledger, sitting: Sitting) -> str:
    """The session's id: the same for all visits, and another one once it was fenced off."""
    number = 0
    while True:
        name = digest(f"{ledger.task} {sitting.group} {sitting.process} {number}".encode())[:8]
        if name not in ledger.fenced:
            return name
        number += 1


def _ancestors() -> Iterator[Process]:
    host = process.host()
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        if pid <= 1:
            return
        yield Process(host, pid, process.started(pid) or 0)
        pid = _parent(pid)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read(4096).rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def arguments_digest(arguments: object) -> str:
    """SHA-256 of the canonical arguments; of a sorted encoding for the few values that RFC 8785 cannot hold."""
    try:
        return digest(canonical(arguments))
    except InvalidError:
        return digest(msgspec.json.encode(arguments, order="sorted"))
