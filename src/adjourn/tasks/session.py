"""One session of one client on a task: admitting calls and settling them, under the lease that `lease` owns.

Owns: the facts of each call. Must never: speak MCP, or keep anything that the chain does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from adjourn.aex.policy import Policy
from adjourn.errors import HeldError, RefusedError, StoreError
from adjourn.log import kinds
from adjourn.log.event import SYSTEM
from adjourn.store.base import Swap
from adjourn.tasks import budgets, idempotency, workspace_calls
from adjourn.tasks.call_events import listed_as, observed, question, refusal_event
from adjourn.tasks.decision import (
    Ask,
    Block,
    Circumstances,
    Continue,
    Decision,
    Forward,
    OnceClaim,
    RecordedAnswer,
    ToolRequest,
    WorkspaceState,
    decide,
    is_repeated,
    shown_params,
)
from adjourn.tasks.entries import NONE_SPENT, Approval
from adjourn.tasks.lease import SessionExpiredError, SessionIdentity, TaskLease, TaskSwitchedError
from adjourn.tasks.ledger import REPEATED, Ledger, is_same_tool
from adjourn.tasks.task import NewEvent, Task, open_ref
from adjourn.tasks.together import PendingCommit
from adjourn.tasks.workspace_calls import NOTHING_ELSEWHERE, OpenElsewhere

NO_ANSWERS: Mapping[str, bytes] = MappingProxyType({})

is_effectful = attrgetter("effectful")
"""Whether a call is treated as having an effect."""


class Admitted(msgspec.Struct, frozen=True):
    """The decision on one call. `call` is its id when it goes forward, `approval` the question when a person is asked."""

    decision: Decision
    call: str = ""
    approval: Approval | None = None


class PendingCalls(PendingCommit, kw_only=True, eq=False):
    """Calls of a session that are decided on together when they are committed, and what is to be written of them.

    `prepare` may add to it before its first call. `forward` is called before the intents are written if every call passes, has no effect,
    and counts for nothing that others must see first; then `is_sent`. `first` is the number of calls before them, `decided` are the
    decisions so far. `asked` are questions that are new with them, `spent` and `counted` what they cost of the budget and of each rate, `taken` the
    approvals and paused calls that they use up. `workspace` is what all tasks had spent of shared budgets before, `repeated` what other
    tasks are to learn.
    """

    session: Session
    calls: Sequence[ToolRequest]
    forward: Callable[[list[Admitted]], None] | None = None
    prepare: Callable[[PendingCalls], None] | None = None
    facts: list[NewEvent] = msgspec.field(default_factory=list)
    refs: dict[str, str | None] = msgspec.field(default_factory=dict)
    blobs: list[bytes] = msgspec.field(default_factory=list)
    swaps: dict[str, Swap] = msgspec.field(default_factory=dict)
    first: int | None = None
    decided: list[Admitted] = msgspec.field(default_factory=list)
    is_sent: bool = False
    asked: list[Approval] = msgspec.field(default_factory=list)
    spent: int = 0
    counted: dict[str, int] = msgspec.field(default_factory=dict)
    taken: set[str] = msgspec.field(default_factory=set)
    workspace: Mapping[str, int] = NONE_SPENT
    repeated: list[tuple[str, kinds.EffectRepeated]] = msgspec.field(default_factory=list)

    @property
    def lock(self) -> AbstractContextManager[object]:
        return self.session.lock

    def check(self) -> None:
        self.session.check_open()
        if self.durable and not self.session.identity.replica:  # a replica learns by itself which others are gone
            self.session.neighbours.expire_dead()

    def changes(self) -> Mapping[str, str | None]:
        """The refs about to be written."""
        return {**self.refs, **{name: swap.after for name, swap in self.swaps.items()}} if self.swaps else self.refs

    def build(self, ledger: Ledger) -> list[NewEvent]:
        return self.session.decide_on(self, ledger)

    def written(self) -> None:
        for owner, fact in self.repeated:
            workspace_calls.tell(self.task, owner, fact)

    def alone(self) -> None:
        self.session.commit_calls(self)

    def fail(self, error: Exception) -> None:
        super().fail(error)
        if not self.is_sent:
            decided = zip(self.calls, self.decided, strict=False)
            effects = [one.call for call, one in decided if call.effectful and isinstance(one.decision, Forward)]
            self.session.unsent.add(self.task.ledger, effects)

    def begin_again(self) -> None:
        """Forget what was decided at a ledger that another process has appended to."""
        for kept in (
            self.facts,
            self.refs,
            self.blobs,
            self.swaps,
            self.decided,
            self.asked,
            self.counted,
            self.taken,
            self.repeated,
        ):
            kept.clear()
        self.spent, self.workspace = 0, NONE_SPENT


class Session(TaskLease):
    """A client's lease on a task, and the calls under it. `verifies`: the history is verified before a first call with effects.

    Without `sees_outcomes` nobody reports how a call ends: with its intent it is written that no answer was seen, so that it is counted,
    never open and never in doubt.
    """

    verifies = True
    sees_outcomes = True

    def __init__(
        self,
        task: Task,
        policy: Policy,
        identity: SessionIdentity,
        *,
        policy_text: bytes = b"",
        contract_text: bytes = b"",
        auto_confirm: bool = False,
    ) -> None:
        super().__init__(task, policy, identity, policy_text=policy_text, contract_text=contract_text)
        self._auto_confirm = auto_confirm
        self._calls = 0
        self.unsent = UnsentCalls()
        """Calls with effects for which the commit failed. After refusing them, settle them with `settle_unsent`."""
        self.workspace_spent: Mapping[str, int] = NONE_SPENT
        """What was spent of the budgets over all tasks after the last calls, by their counters."""
        self.neighbours = workspace_calls.Neighbours(task)

    def open(self, *, take_over: bool = False, also: Sequence[kinds.Data] = ()) -> None:
        """See `TaskLease.open`. What sessions of other tasks left behind when they were killed is in doubt from now on."""
        workspace_calls.build_index(self.task.store, clock=self.task.clock, secret=self.task.secret)
        self.neighbours.expire_dead()
        super().open(take_over=take_over, also=also)

    def decide_under(self, policy: Policy) -> None:
        """Decide the next calls under `policy`, which is not written down: a step of a run narrows the session's own."""
        self.policy = policy

    def admit(
        self,
        calls: Sequence[ToolRequest],
        forward: Callable[[list[Admitted]], None] | None = None,
        prepare: Callable[[PendingCalls], None] | None = None,
    ) -> list[Admitted]:
        """Decide on calls in order and write their intents: durably before any effect. One transaction for all.

        For `forward` and `prepare` see `PendingCalls`; a call that was forwarded before it was written stays allowed while this session
        holds the task. Raises `HeldError` when another client took over,
        `StoreError` when nothing can be written, `IntegrityError` when the history was changed; then nothing else may be forwarded.
        """
        pending = PendingCalls(
            self.task,
            session=self,
            calls=calls,
            durable=any(map(is_effectful, calls)),
            forward=forward,
            prepare=prepare,
        )
        self.commit_calls(pending)
        return pending.decided

    def commit_calls(self, pending: PendingCalls) -> None:
        """Commit calls by themselves; again once the session, which was taken to be over, is open again. Raises what `admit` raises."""
        with self.lock:
            if self._fenced or not self.is_open:
                self.check_open()
            if pending.durable and not self.identity.replica:
                self.neighbours.expire_dead()
            commit = partial(
                self.task.commit,
                partial(self.decide_on, pending),
                durable=pending.durable,
                refs=pending.refs,
                blobs=pending.blobs,
                swaps=pending.swaps,
            )
            try:
                try:
                    commit()
                except SessionExpiredError:
                    self.open()
                    commit()
            except StoreError as error:
                pending.fail(error)
                raise
            if pending.repeated:
                pending.written()

    def settle_unsent(self) -> None:
        """Settle calls as not made that were refused since committing them failed, if they were written. Raises `StoreError`.

        Only for who sends no call of which `admit` raises `StoreError`.
        """
        if self.unsent.calls:
            with self.lock:
                self.unsent.settle(self.task, self.id)

    def decide_on(self, pending: PendingCalls, ledger: Ledger) -> list[NewEvent]:  # noqa: C901, PLR0912, PLR0915  # one pass, on the path of every call
        """Decide on calls at a ledger; what is to be written of them. Raises what `admit` raises, and `SessionExpiredError`."""
        task, calls = self.task, pending.calls
        if self.id not in ledger.sessions or ledger.moved:
            self._check_held_after(ledger, is_sent=pending.is_sent)
        if pending.is_sent:
            return pending.facts
        if pending.durable and self.verifies and not task.is_verified:
            task.check_history()
        if pending.first is None:
            pending.first = self._calls
        else:
            pending.begin_again()
        self._calls = first = pending.first
        if pending.prepare is not None:
            pending.prepare(pending)
        policy, shared = self.policy, budgets.NO_COUNTS
        if policy.workspace_budgets:
            shared = budgets.counts_of(task.store, policy.workspace_budgets)
            pending.workspace = budgets.spent(shared, task.now)
        if pending.durable:
            self.neighbours.refresh()
        alone = WorkspaceState(self.id, pending.workspace)
        for call in calls:
            claim = None
            if policy.once or ledger.beside or call.key:
                claim = idempotency.look_up(task, policy, ledger, call, pending.changes())
            elsewhere = NOTHING_ELSEWHERE
            if call.effectful and not call.named_only:
                elsewhere = self.neighbours.look_up(call.digest)
            state = alone
            if elsewhere is not NOTHING_ELSEWHERE:
                state = msgspec.structs.replace(elsewhere.state, session=self.id, spent=pending.workspace)
            under = Circumstances(
                now=task.now,
                spent=pending.spent,
                counted=pending.counted,
                workspace=state,
                auto_confirm=self._auto_confirm,
                claim=claim,
            )
            decision = decide(policy, ledger, call, under)
            if elsewhere is NOTHING_ELSEWHERE and isinstance(decision, Ask):
                # a person may have answered another task about the same call
                elsewhere = workspace_calls.open_elsewhere(task, call.digest)
                if elsewhere is not NOTHING_ELSEWHERE:
                    state = msgspec.structs.replace(elsewhere.state, session=self.id, spent=pending.workspace)
                    decision = decide(policy, ledger, call, msgspec.structs.replace(under, workspace=state))
            goes_on = decision.call if isinstance(decision, Continue) else ""
            used = decision.approval if isinstance(decision, Forward) else goes_on
            if used and (used in pending.taken or not (goes_on or self._uses(pending, call, used, elsewhere))):
                decision = _busy(call)
            pending.taken.add(used)
            if isinstance(decision, Forward):
                admitted = self._forward(pending, call, decision, claim)
                if elsewhere is not NOTHING_ELSEWHERE or (claim is not None and claim.state == "doubt"):
                    pending.repeated += self._repeated(admitted, call, claim, elsewhere)
                pending.spent += not call.named_only
                for limit in decision.limits:
                    pending.counted[limit] = pending.counted.get(limit, 0) + 1
            elif isinstance(decision, Continue):
                admitted = Admitted(decision, decision.call)
                self._continue(pending, call, decision)
            elif isinstance(decision, Ask):
                admitted = self._ask(pending, call, decision, claim)
            else:
                admitted = Admitted(decision)
                self._refuse(pending, call, decision)
            pending.decided.append(admitted)
        if pending.spent and policy.budget is not None and ledger.calls_used + pending.spent >= policy.budget:
            pending.refs.update(budgets.spent_refs(ledger))
        if shared:
            self.workspace_spent = {key: used + pending.spent for key, used in pending.workspace.items()}
            if pending.spent:
                pending.swaps.update(budgets.counted(shared, task.now, pending.spent))
        if pending.forward is not None and not (pending.durable or policy.counts):
            # each is to be forwarded, and nothing else is to be written
            pending.is_sent = len(pending.facts) == len(calls) == self._calls - first
            if pending.is_sent:
                pending.forward(pending.decided)
        return pending.facts

    def _uses(self, pending: PendingCalls, call: ToolRequest, approval: str, elsewhere: OpenElsewhere) -> bool:
        """Use up the entry of an approval, which any task of the workspace may use. False where another one has."""
        name = open_ref(elsewhere.owners.get(approval, self.task.id), call.digest, approval)
        entry = self.task.store.ref(name)
        pending.swaps[name] = Swap(entry, None)
        return entry is not None

    def _repeated(
        self, admitted: Admitted, call: ToolRequest, claim: OnceClaim | None, elsewhere: OpenElsewhere
    ) -> Iterator[tuple[str, kinds.EffectRepeated]]:
        """What other tasks are to learn of a call that may be made here although they have something open about it."""
        told = partial(kinds.EffectRepeated, again=admitted.call, task="")
        if claim is not None and claim.state == "doubt" and claim.owner != self.task.id:
            yield claim.owner, told(call=claim.call)
        for before in (*elsewhere.state.doubts, *elsewhere.state.unseen):
            if is_repeated(self.policy, before, call):
                yield elsewhere.owners[before.call], told(call=before.call)
        used = admitted.decision.approval if isinstance(admitted.decision, Forward) else ""
        if owner := elsewhere.owners.get(used):
            yield owner, told(approval=used)

    def check_open(self) -> None:
        """Raise unless calls may be committed: another client took over, or the session was closed."""
        if self._fenced:
            raise HeldError(self._fenced, "stop, or resume it explicitly when that session has ended")
        if not self.is_open:
            raise RefusedError(f"session {self.id} is not open", "start a new session")

    def _check_held_after(self, ledger: Ledger, *, is_sent: bool) -> None:
        """`check_held`; calls that were forwarded already cannot be made in another task."""
        try:
            self.check_held(ledger)
        except TaskSwitchedError as error:
            if is_sent:
                raise HeldError(error.message, error.remedy) from None
            raise

    def _close_questions(self, pending: PendingCalls, call: ToolRequest, decision: Forward) -> None:
        """A call is made without a person's answer: nobody needs to give one any more."""
        if decision.approval:
            return
        for approval in self.task.ledger.approvals.values():
            is_about = (approval.digest, approval.params) == (call.digest, shown_params(call))
            if is_about and is_same_tool(approval, call) and not (approval.approved or approval.refused == REPEATED):
                closed = kinds.ConfirmDenied(
                    approval=approval.id, server=approval.server, tool=approval.tool, via=REPEATED
                )
                pending.facts.append(NewEvent(closed, SYSTEM, self.id))

    def _learn(self, pending: PendingCalls, call: ToolRequest) -> None:
        """Write down what the tool of a call was listed as, where the task does not know it."""
        definition = call.definition and listed_as(self.task.ledger, call.command, call.tool, call.definition)
        if definition and all(fact.data != definition for fact in pending.facts):
            pending.facts.append(NewEvent(definition, SYSTEM, self.id))

    def _forward(
        self, pending: PendingCalls, call: ToolRequest, decision: Forward, claim: OnceClaim | None
    ) -> Admitted:
        """Add the intent of a call that may pass."""
        self._calls += 1
        admitted = Admitted(decision, f"{self.id}.{self._calls}")
        facts = pending.facts
        text = self.task.ledger.definitions.get(f"{call.command} {call.tool}", "")
        if call.definition != text:
            self._learn(pending, call)
        if self.task.ledger.approvals:
            self._close_questions(pending, call, decision)
        if decision.auto:
            facts.append(NewEvent(kinds.ConfirmAutoApproved(server=call.server, tool=call.tool), SYSTEM, self.id))
        if decision.observed is not None:
            facts.append(NewEvent(observed(call, decision.observed), SYSTEM, self.id))
        if claim is not None:
            done = "" if self.sees_outcomes else f" {idempotency.DONE}"
            refs, swaps = idempotency.claims(self.task, claim.key, f"{admitted.call}{done}")
            pending.refs.update(refs)
            pending.swaps.update(swaps)
        if call.named_only and not decision.approval and not decision.auto:
            return admitted  # nothing named it: it is not gated, and leaves no trace
        allowed = kinds.ToolAllowed(
            approval=decision.approval,
            arguments=call.arguments,
            behind=call.behind,
            call=admitted.call,
            digest=call.digest,
            effectful=call.effectful and not call.named_only and self.sees_outcomes,
            limits=list(decision.limits),
            once=claim.key if claim is not None else "",
            params=call.params,
            server=call.server,
            tool=call.tool,
            uncounted=call.named_only,
        )
        facts.append(NewEvent(allowed, self.actor, self.id))
        if not self.sees_outcomes:
            facts.append(NewEvent(kinds.ToolSettled(call=admitted.call, outcome="no-answer"), SYSTEM, self.id))
        return admitted

    def _continue(self, pending: PendingCalls, call: ToolRequest, decision: Continue) -> None:
        if decision.observed is not None:
            pending.facts.append(NewEvent(observed(call, decision.observed), SYSTEM, self.id))
        continued = kinds.ToolContinued(call=decision.call, leg=decision.leg)
        pending.facts.append(NewEvent(continued, self.actor, self.id))

    def _ask(self, pending: PendingCalls, call: ToolRequest, decision: Ask, claim: OnceClaim | None) -> Admitted:
        """Add the question to a person, unless it is open already."""
        del claim  # nothing is claimed before the answer
        self._learn(pending, call)
        approvals = (*self.task.ledger.approvals.values(), *pending.asked)
        approval, required, document = question(call, decision, approvals, self.task.now)
        if required is not None:
            if document:
                pending.blobs.append(document)
            pending.asked.append(approval)
            pending.facts.append(NewEvent(required, self.actor, self.id))
        return Admitted(decision, approval=approval)

    def _refuse(self, pending: PendingCalls, call: ToolRequest, decision: Block | RecordedAnswer) -> None:
        pending.facts.append(NewEvent(refusal_event(call, decision), self.actor, self.id))

    def settle(self, settled: Sequence[kinds.ToolSettled], *, answers: Mapping[str, bytes] = NO_ANSWERS) -> None:
        """Write the outcome of calls. The outcome of one without effect may wait for the next commit (`Task.deferred`).

        `answers` are the results of calls whose effect may happen only once, by call: they are kept.
        """
        if settled:
            self.settling(settled, answers=answers).alone()

    def settling(
        self, settled: Sequence[kinds.ToolSettled], *, answers: Mapping[str, bytes] = NO_ANSWERS
    ) -> PendingCommit:
        """What `settle` is to commit."""
        opened = self.task.ledger.open_calls
        facts, may_be_claimed = [], bool(answers)
        for data in settled:
            facts.append(NewEvent(data, SYSTEM, self.id))
            call = opened.get(data.call)
            may_be_claimed = may_be_claimed or call is None or call.once != ""
        if not may_be_claimed:
            return PendingCommit(self.task, facts)
        kept = {call: idempotency.packed(answer) for call, answer in answers.items()}
        return PendingCommit(
            self.task,
            facts,
            durable=bool(answers),
            refs=lambda _: idempotency.keep(self.task, settled, kept),
            blobs=list(kept.values()),
        )

    def listed(self, server: str, definitions: Mapping[str, str], before: Mapping[str, str], room: int) -> int:
        """Write down which tools a server lists otherwise than the task knows them, or otherwise than `before`.

        Returns how many; `room` is how many at the most. Raises what `admit` raises.
        """

        def build(ledger: Ledger) -> list[NewEvent]:
            self.check_held(ledger)
            changed = (
                listed_as(ledger, server, tool, definition, before.get(tool, ""))
                for tool, definition in definitions.items()
            )
            told = [one for one in changed if isinstance(one, kinds.ToolChanged)]
            return [NewEvent(one, SYSTEM, self.id) for one in told[:room]]

        with self.lock:
            try:
                written = self.task.commit(build)
            except SessionExpiredError:
                self.open()
                written = self.task.commit(build)
        return sum(isinstance(event.event.data, kinds.ToolChanged) for event in written)

    def note(self, data: kinds.Data) -> None:
        """Write down something that happened beside the calls. Raises `HeldError` when another client took over."""

        def build(ledger: Ledger) -> list[NewEvent]:
            self.check_held(ledger)
            return [NewEvent(data, SYSTEM, self.id)]

        self.task.commit(build, durable=False)


def _busy(call: ToolRequest) -> Block:
    """One approval, or one paused call, serves one call at a time."""
    return Block("busy", f'tool "{call.tool}" is already being answered', "call again later")


# --- calls that were refused since committing them failed, although their intents may have been written

MAX_UNSENT = 1000
"""Calls of a session that are kept. The first ones are: while a store is away, no later intent reaches it."""
WHY = "it was not sent: its intent could not be confirmed"


class _Refused(NamedTuple):
    """Where the history ended before the intent of a call."""

    call: str
    seq: int


class UnsentCalls:
    """Those of one session."""

    def __init__(self) -> None:
        self.calls: list[_Refused] = []
        """Empty, but while a store fails."""

    def add(self, ledger: Ledger, calls: Iterable[str]) -> None:
        """Calls that are refused. The ledger is the one that they were decided at."""
        room = MAX_UNSENT - len(self.calls)
        self.calls += [_Refused(call, ledger.seq) for call in islice(calls, room)]

    def settle(self, task: Task, session: str) -> None:
        """Settle the calls with a written intent, and forget those that can never have one. Raises `StoreError`."""
        settled: list[kinds.ToolSettled] = []

        def build(ledger: Ledger) -> list[NewEvent]:
            settled[:] = [
                kinds.ToolSettled(call=call.call, message=WHY, outcome="error")
                for call in self.calls
                if call.call in ledger.open_calls or call.call in ledger.doubts
            ]
            return [NewEvent(fact, SYSTEM, session) for fact in settled]

        task.commit(build, refs=lambda _: idempotency.keep(task, settled, {}))
        # behind a longer history than they were decided at, no intent can appear any more
        self.calls = [call for call in self.calls if call.seq == task.ledger.seq]
