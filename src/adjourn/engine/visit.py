"""One call of a client that runs its tools itself, and asks before each by starting a process for that one answer.

Who sits on the task: not that process, which is gone before the call begins, but its client. All its visits are one
session of a name that is worked out, not drawn, so that processes which start at once need not meet to share it.

The session lives as long as the client's process where that is known, else for a lease's time after each visit. It
never fences another holder, and a living one of another client keeps it out, as it does a proxy.

What is written of an allowed call: its intent, and in the same step that it went to the client and no answer was seen.
So it is counted, it is never open, and it never becomes a doubt: adjourn was not there when it ran. A call about which a
person is to be asked is counted when it is asked, since the client tells nobody what the person said; repeated with an
approval that was given elsewhere, it is not counted again.

Owns: this sitting, and the facts of such calls. Must never: say that a call went well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from adjourn.aex.policy import Policy
from adjourn.engine import ids, once, triggers
from adjourn.engine.contract import Contract
from adjourn.engine.decide import (
    APPROVAL_MILLISECONDS,
    Ask,
    Block,
    Call,
    Claim,
    Decision,
    Forward,
    Replay,
    decide,
    usable_approval,
)
from adjourn.engine.session import (
    LEASE_MILLISECONDS,
    MAX_SHOWN_TOOL,
    MovedError,
    Session,
    Sitting,
)
from adjourn.engine.task import SYSTEM, Builder, Fact, Task, Written
from adjourn.errors import HeldError, RefusedError
from adjourn.log import kinds
from adjourn.log.canonical import digest
from adjourn.log.event import timestamp
from adjourn.state.ledger import Ledger


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
        changes: dict[str, str | None] = {}

        def build(ledger: Ledger) -> list[Fact]:
            self._session.check_held(ledger)
            changes.clear()
            claim = once.look_up(self.task, self.policy, ledger, call, changes)
            paid = self._is_paid(ledger, call)
            decision = decide(self.policy, ledger, call, now=self.task.clock(), spent=-paid, claim=claim)
            made[:] = [decision]
            facts = [*self._over(ledger, call), *self._facts(ledger, call, decision, claim, paid=paid)]
            if claim is not None and claim.key and isinstance(decision, Forward | Ask):
                changes[once.ref(self.task.id, claim.key)] = f"{self._call_id(ledger)} {once.DONE}"
            return facts

        self._sit()
        triggers.before(self._session, [call])
        try:
            self.task.commit(build, durable=call.effectful, refs=lambda _: changes)
        except (HeldError, MovedError):
            raise
        except RefusedError:  # given up for dead between two looks
            self._sit()
            self.task.commit(build, durable=call.effectful, refs=lambda _: changes)
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

    def _facts(
        self, ledger: Ledger, call: Call, decision: Decision, claim: Claim | None, *, paid: bool
    ) -> Iterator[Fact]:
        actor, session = self._session.actor, self.id
        if isinstance(decision, Block | Replay):
            yield Fact(_refused(call, decision), actor, session)
            return
        if isinstance(decision, Ask) and not _is_open_question(ledger, call, decision, self.task.stamp):
            yield Fact(self._question(call, decision), actor, session)
        passes = decision if isinstance(decision, Forward) else Forward()
        if passes.observed is not None:
            yield Fact(_observed(call, passes.observed), SYSTEM, session)
        allowed = kinds.ToolAllowed(
            approval=passes.approval,
            arguments=call.arguments,
            call=self._call_id(ledger),
            digest=call.digest,
            effectful=False,
            limits=list(passes.limits),
            once=claim.key if claim is not None else "",
            tool=call.tool,
            uncounted=paid and passes is decision,
        )
        yield Fact(allowed, actor, session)
        if passes is decision:
            yield self._unseen(allowed.call)

    def _question(self, call: Call, ask: Ask) -> kinds.ConfirmRequired:
        within = APPROVAL_MILLISECONDS if ask.within is None else ask.within
        return kinds.ConfirmRequired(
            approval=ids.approval_id(),
            arguments=call.arguments,
            cause=ask.cause,
            digest=call.digest,
            doubt=ask.doubt,
            expires=timestamp(self.task.clock() + within),
            otherwise=ask.otherwise,
            tool=call.tool,
            who=ask.who,
        )

    def _call_id(self, ledger: Ledger) -> str:
        return f"{self.id}.{ledger.seq + 1}"

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


def _refused(call: Call, decision: Block | Replay) -> kinds.Data:
    if isinstance(decision, Replay):
        return kinds.ToolDenied(reason="once_done", rule=decision.call, tool=call.tool)
    if decision.reason == "budget_exhausted":
        return kinds.BudgetExhausted(
            budget=decision.budget, limit=decision.limit, tool=call.tool, used=decision.used
        )
    return kinds.ToolDenied(reason=decision.reason, rule=decision.rule, tool=call.tool[:MAX_SHOWN_TOOL])


def _observed(call: Call, decision: Block | Ask | Replay) -> kinds.PolicyObserved:
    """What the policy would have done, had it not only observed."""
    if isinstance(decision, Ask):
        return kinds.PolicyObserved(
            decision="ask", reason=decision.cause, rule=decision.cause, tool=call.tool
        )
    if isinstance(decision, Block):
        return kinds.PolicyObserved(
            decision="block", reason=decision.reason, rule=decision.rule, tool=call.tool
        )
    return kinds.PolicyObserved(decision="replay", reason="once_done", tool=call.tool)


def _is_open_question(ledger: Ledger, call: Call, ask: Ask, stamp: str) -> bool:
    """Whether a person is asked about this very call already."""
    return any(
        (known.tool, known.digest, known.doubt) == (call.tool, call.digest, ask.doubt)
        and not known.approved
        and not known.refused
        and known.expires > stamp
        for known in ledger.approvals.values()
    )


def _name(ledger: Ledger, sitting: Sitting) -> str:
    """The session's id: the same for all visits, and another one once it was fenced off."""
    number = 0
    while True:
        name = digest(f"{ledger.task} {sitting.group} {sitting.process} {number}".encode())[:8]
        if name not in ledger.fenced:
            return name
        number += 1
