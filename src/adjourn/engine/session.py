"""One sitting of one client on a task: opening it against other holders, admitting calls, settling them, closing.

Owns: who may work on a task now (never two clients at once, never silently), and the facts of each call.
Must never: speak MCP, or keep anything that the chain does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import RLock
from types import MappingProxyType
from typing import NamedTuple

from adjourn.aex.policy import Policy
from adjourn.engine import ids, once
from adjourn.engine.decide import (
    APPROVAL_MILLISECONDS,
    Ask,
    Block,
    Call,
    Claim,
    Continue,
    Decision,
    Forward,
    Replay,
    decide,
)
from adjourn.engine.holders import LEASE_MILLISECONDS, Reason, is_alive, lost, seat
from adjourn.engine.process import Process
from adjourn.engine.task import SYSTEM, Fact, Task, Written
from adjourn.errors import ConflictError, HeldError, RefusedError
from adjourn.log import kinds
from adjourn.log.canonical import MAX_SAFE_INTEGER, digest
from adjourn.log.event import Actor, timestamp
from adjourn.state.ledger import Approval, Ledger
from adjourn.state.ledger import Session as Holder

NO_ANSWERS: Mapping[str, bytes] = MappingProxyType({})
MAX_SHOWN_TOOL = 200


class Sitting(NamedTuple):
    """Who sits down: the client and this process. `group` is one for all processes that one client started, `root` the
    workspace they work in.
    """

    process: Process
    group: str
    client: str = ""
    era: str = ""
    root: str = ""


class Admitted(NamedTuple):
    """The decision on one call. `call` is its id when it goes forward, `approval` the question when a person is asked."""

    decision: Decision
    call: str = ""
    approval: Approval | None = None


class Session:
    """A sitting. Its methods may be called from several threads. Raises `HeldError` once another client took over."""

    def __init__(
        self,
        task: Task,
        policy: Policy,
        sitting: Sitting,
        *,
        policy_text: bytes = b"",
        contract_text: bytes = b"",
        auto_confirm: bool = False,
    ) -> None:
        self.task = task
        self.policy = policy
        self.sitting = sitting
        self.id = ids.session_id()
        self.actor = Actor(sitting.client or "agent", "agent")
        self._texts = (policy_text, contract_text)
        self._auto_confirm = auto_confirm
        self._lock = RLock()
        self._calls = 0
        self._fenced = ""
        self.is_open = False

    # --- opening and closing

    def open(self, *, take_over: bool = False, also: Sequence[kinds.Data] = ()) -> None:
        """Sit down; `also` is written in the same step. Raises `HeldError` while another client lives on the task."""
        policy_text, contract_text = self._texts
        with self._lock:
            self.task.refresh()
            self.task.commit(
                lambda ledger: [
                    *self._opening(ledger, take_over=take_over),
                    *(Fact(data, self.actor, self.id) for data in also),
                ],
                refs=self._leases,
                blobs=[text for text in (policy_text, contract_text) if text],
            )
            self._fenced = ""
            self.is_open = True

    def _opening(self, ledger: Ledger, *, take_over: bool) -> Iterator[Fact]:
        policy_text, contract_text = self._texts
        if not ledger.exists:
            contract = digest(contract_text) if contract_text else ""
            yield Fact(kinds.TaskOpened(goal=self.policy.goal, contract=contract), SYSTEM, self.id)
        for holder in list(ledger.sessions.values()):
            reason = self._why_over(holder, take_over=take_over)
            if reason:
                yield Fact(lost(ledger, holder, reason), SYSTEM, self.id)
        process = self.sitting.process
        opened = kinds.SessionOpened(
            budget=_budget_of(self.policy),
            client=self.sitting.client[:100],
            era=self.sitting.era,
            group=self.sitting.group,
            host=process.host,
            pid=process.pid,
            policy=digest(policy_text),
            started=process.started,
        )
        yield Fact(opened, SYSTEM, self.id)

    def _why_over(self, holder: Holder, *, take_over: bool) -> Reason | None:
        """Why another session is over, None if it goes on beside this one. Raises `HeldError` if it lives elsewhere."""
        alive = is_alive(self.task.store, self.task.id, holder, self.task.clock())
        if not alive:
            return "dead" if alive is False else "expired"
        if holder.group == self.sitting.group:
            return None
        if take_over:
            return "taken-over"
        raise HeldError(
            f"task {self.task.id} is held by {holder.client or 'a client'} ({seat(holder)}, session {holder.id}) "
            f"since {holder.since}",
            "end that session, or start the proxy with --take-over to fence it off",
        )

    def _leases(self, written: list[Written]) -> dict[str, str | None]:
        """Our lease, and none for those that are over."""
        over = [event.data.lost for event, _ in written if isinstance(event.data, kinds.SessionLost)]
        ended = {f"lease/{self.task.id}/{lost}": None for lost in over}
        return {**ended, self._lease: self._lease_end()}

    @property
    def _lease(self) -> str:
        return f"lease/{self.task.id}/{self.id}"

    def _lease_end(self) -> str:
        return str(self.task.clock() + LEASE_MILLISECONDS)

    def heartbeat(self) -> None:
        """Renew the lease. To be called at least every third of it while the session is open."""
        with self._lock:
            if self.is_open:
                current = self.task.store.ref(self._lease)
                with suppress(ConflictError):  # whoever changed it has fenced us; the next call finds out
                    self.task.store.swap(self._lease, self._lease_end(), expect=current, durable=False)

    def close(self, reason: str, to: str = "") -> None:
        """Get up. What is still open is in doubt. `to` names the task that the client goes on with."""
        with self._lock:
            if not self.is_open:
                return
            self.is_open = False

            def build(ledger: Ledger) -> list[Fact]:
                held = self.id in ledger.sessions
                return [Fact(kinds.SessionClosed(reason=reason, to=to), SYSTEM, self.id)] if held else []

            if not self.task.commit(build, refs=lambda _: {self._lease: None}):
                with suppress(ConflictError):  # gone already
                    self.task.store.swap(self._lease, None, expect=self.task.store.ref(self._lease))
            self.task.fold()

    def check_held(self, ledger: Ledger) -> None:
        """Raise unless this session still holds the task, and its client still works on it."""
        if self.sitting.group in ledger.moved:
            raise MovedError(
                f"this client went on with task {ledger.moved[self.sitting.group]}", "call again"
            )
        if self.id in ledger.sessions:
            return
        taken = ledger.fenced.get(self.id)
        others = [other for other in ledger.sessions.values() if other.group != self.sitting.group]
        if taken or others:
            by = ", ".join(f"{other.client or 'a client'} since {other.since}" for other in others)
            self._fenced = f"task {ledger.task} was taken over by {by or 'another client at ' + str(taken)}"
            raise HeldError(self._fenced, "stop, or resume it explicitly when that session has ended")
        raise _LostError(f"session {self.id} was given up for dead", "call again")

    def hold(self) -> None:
        """Sit down again if this session was given up for dead meanwhile. Raises `HeldError` when another client has it."""
        with self._lock:
            try:
                self.check_held(self.task.refresh())
            except _LostError:
                self.open()

    # --- calls

    def admit(self, calls: Sequence[Call]) -> list[Admitted]:
        """Decide on calls in order and write their intents: durably before any effect. One transaction for all.

        Raises `HeldError` when another client took over, `StoreError` when nothing can be written; then nothing may
        be forwarded.
        """
        with self._lock:
            if self._fenced:
                raise HeldError(self._fenced, "stop, or resume it explicitly when that session has ended")
            if not self.is_open:
                raise RefusedError(f"session {self.id} is not open", "start a new session")
            try:
                return self._admit(calls)
            except _LostError:
                self.open()
                return self._admit(calls)

    def _admit(self, calls: Sequence[Call]) -> list[Admitted]:
        result: list[Admitted] = []
        changes: dict[str, str | None] = {}
        first = self._calls

        def build(ledger: Ledger) -> list[Fact]:
            self.check_held(ledger)
            result.clear()
            self._calls = first
            facts: list[Fact] = []
            now = self.task.clock()
            spent = 0
            counted: dict[str, int] = {}
            taken: set[str] = set()
            asked: list[Approval] = []
            changes.clear()
            for call in calls:
                claim = once.look_up(self.task, self.policy, ledger, call, changes)
                decision = decide(
                    self.policy,
                    ledger,
                    call,
                    now=now,
                    spent=spent,
                    counted=counted,
                    auto_confirm=self._auto_confirm,
                    claim=claim,
                )
                if (token := _token(decision)) and token in taken:
                    decision = _busy(call)
                taken.add(token)
                if isinstance(decision, Forward):
                    self._calls += 1
                    admitted = Admitted(decision, f"{self.id}.{self._calls}")
                    self._intend(facts, call, decision, admitted.call, claim)
                    spent += not call.named_only
                    for limit in decision.limits:
                        counted[limit] = counted.get(limit, 0) + 1
                    if claim is not None:
                        changes.update(once.claimed(self.task.id, claim.key, admitted.call))
                elif isinstance(decision, Continue):
                    admitted = Admitted(decision, decision.call)
                    facts.append(Fact(kinds.ToolContinued(call=decision.call), self.actor, self.id))
                elif isinstance(decision, Ask):
                    known = (*ledger.approvals.values(), *asked)
                    approval, required = question(call, decision, known, now)
                    admitted = Admitted(decision, approval=approval)
                    if required is not None:
                        asked.append(approval)
                        facts.append(Fact(required, self.actor, self.id))
                else:
                    admitted = Admitted(decision)
                    facts.append(Fact(refusal(call, decision), self.actor, self.id))
                result.append(admitted)
            return facts

        self.task.commit(build, durable=any(call.effectful for call in calls), refs=lambda _: changes)
        return result

    def _intend(
        self, facts: list[Fact], call: Call, decision: Forward, call_id: str, claim: Claim | None
    ) -> None:
        if decision.auto:
            facts.append(Fact(kinds.ConfirmAutoApproved(tool=call.tool), SYSTEM, self.id))
        if decision.observed is not None:
            facts.append(Fact(observed(call, decision.observed), SYSTEM, self.id))
        if call.named_only and not decision.approval and not decision.auto:
            return  # nothing named it: it is not gated, and leaves no trace
        allowed = kinds.ToolAllowed(
            approval=decision.approval,
            arguments=call.arguments if call.effectful else "",
            call=call_id,
            digest=call.digest,
            effectful=call.effectful and not call.named_only,
            limits=list(decision.limits),
            once=claim.key if claim is not None else "",
            tool=call.tool,
            uncounted=call.named_only,
        )
        facts.append(Fact(allowed, self.actor, self.id))

    def settle(
        self,
        settled: Sequence[kinds.ToolSettled],
        *,
        later: bool = False,
        answers: Mapping[str, bytes] = NO_ANSWERS,
    ) -> None:
        """Write what came of calls. `later`: with the next commit (for calls without effect).

        `answers` are the results of calls whose effect may happen only once, by call: they are kept.
        """
        facts = [Fact(data, SYSTEM, self.id) for data in settled]
        if later:
            for fact in facts:
                self.task.defer(fact)
        elif facts:
            self.task.commit(
                lambda _: facts,
                durable=bool(answers),
                refs=lambda _: once.keep(self.task, settled, answers),
                blobs=list(answers.values()),
            )

    def change(self, policy: Policy, policy_text: bytes, contract_text: bytes) -> None:
        """Go on under permissions that were edited meanwhile. Raises `HeldError`, `StoreError`: then nothing was changed."""
        changed = kinds.PolicyChanged(
            budget=_budget_of(policy),
            contract=digest(contract_text) if contract_text else "",
            policy=digest(policy_text),
        )

        def build(ledger: Ledger) -> list[Fact]:
            self.check_held(ledger)
            return [Fact(changed, SYSTEM, self.id)]

        with self._lock:
            self.hold()
            self.task.commit(build, blobs=[text for text in (policy_text, contract_text) if text])
            self._texts = (policy_text, contract_text)
            self.policy = policy

    def note(self, data: kinds.Data) -> None:
        """Write down something that happened beside the calls. Raises `HeldError` when another client took over."""

        def build(ledger: Ledger) -> list[Fact]:
            self.check_held(ledger)
            return [Fact(data, SYSTEM, self.id)]

        self.task.commit(build, durable=False)

    def holds(self) -> bool:
        """Whether this session still sits on the task."""
        return self.is_open and self.id in self.task.refresh().sessions


def _budget_of(policy: Policy) -> int:
    return -1 if policy.budget is None else min(policy.budget, MAX_SAFE_INTEGER)


def question(
    call: Call, ask: Ask, known: Iterable[Approval], now: int
) -> tuple[Approval, kinds.ConfirmRequired | None]:
    """Of the known questions the one that is open for this very call; else a new one, and the fact that it is asked."""
    stamp = timestamp(now)
    for one in known:
        same = (one.tool, one.digest, one.doubt, one.who, one.otherwise) == (
            call.tool, call.digest, ask.doubt, ask.who, ask.otherwise,
        )  # fmt: skip
        if same and not one.approved and not one.refused and one.expires > stamp:
            return one, None
    required = kinds.ConfirmRequired(
        approval=ids.approval_id(),
        arguments=call.arguments,
        cause=ask.cause,
        digest=call.digest,
        doubt=ask.doubt,
        expires=timestamp(now + (APPROVAL_MILLISECONDS if ask.within is None else ask.within)),
        otherwise=ask.otherwise,
        tool=call.tool,
        who=ask.who,
    )
    new = Approval(
        id=required.approval,
        tool=call.tool,
        digest=call.digest,
        expires=required.expires,
        cause=ask.cause,
        asked=stamp,
        arguments=call.arguments,
        doubt=ask.doubt,
        who=ask.who,
        otherwise=ask.otherwise,
    )
    return new, required


def refusal(call: Call, decision: Block | Replay) -> kinds.Data:
    """That a call was not let through."""
    if isinstance(decision, Replay):
        return kinds.ToolReplayed(call=decision.call, once=decision.once, tool=call.tool)
    if decision.reason == "budget_exhausted":
        return kinds.BudgetExhausted(
            budget=decision.budget, limit=decision.limit, tool=call.tool, used=decision.used
        )
    return kinds.ToolDenied(reason=decision.reason, rule=decision.rule, tool=call.tool[:MAX_SHOWN_TOOL])


def observed(call: Call, decision: Block | Ask | Replay) -> kinds.PolicyObserved:
    """What the policy would have done, had it not only observed."""
    if isinstance(decision, Block):
        return kinds.PolicyObserved(
            decision="block", reason=decision.reason, rule=decision.rule, tool=call.tool[:MAX_SHOWN_TOOL]
        )
    if isinstance(decision, Ask):
        return kinds.PolicyObserved(
            decision="ask", reason=decision.cause, rule=decision.cause, tool=call.tool
        )
    return kinds.PolicyObserved(
        decision="replay", reason=f"call {decision.call} had this effect", tool=call.tool
    )


def _token(decision: Decision) -> str:
    """The approval or the paused call that a decision uses up."""
    if isinstance(decision, Forward):
        return decision.approval
    return decision.call if isinstance(decision, Continue) else ""


def _busy(call: Call) -> Block:
    """One approval, or one paused call, serves one call of a batch."""
    return Block("busy", f'tool "{call.tool}" is already being answered', "call again later")


class MovedError(RefusedError):
    """A sister proxy of the same client resumed another task; this one follows."""


class _LostError(RefusedError):
    """This session was declared over though it lives, and nobody else has taken the task."""
