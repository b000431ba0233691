"""One call of a client that runs its tools itself, and asks before each by starting a process for that one answer.

Who sits on the task: not that process, which is gone before the call begins, but its client. All its visits are one
session of a name that is worked out, not drawn, so that processes which start at once need not meet to share it.

The session lives as long as the client's process where that is known, else for a lease's time after each visit. It
never fences another holder, and a living one of another client keeps it out, as it does a proxy.

What is written of an allowed call depends on whether the client says afterwards what came of it (`ClientCapabilities.settles`):

- If it does, its intent. The call is open until it is settled; when the client is killed meanwhile, it is in doubt. What
  is still open when the client's turn ends in good order was answered to its agent all the same, and is settled then.
- If it does not, its intent, and in the same step that no answer was seen. So it is counted, it is never open, and it never
  becomes a doubt: adjourn was not there when it ran.

A call about which the client asks a person is counted when it is asked, since the client tells nobody what the person said;
repeated with an approval that was given elsewhere, it is not counted again. Of a client that cannot ask (`ClientCapabilities.asks`) the
call is refused until it was approved elsewhere, and is not counted before.

Owns: this sitting, and the facts of such calls. Must never: say that a call went well which nobody saw end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.aex import Policy
from adjourn.checkpoints import GuardedSession
from adjourn.errors import HeldError, RefusedError
from adjourn.log import digest, kinds, timestamp
from adjourn.policy import Contract
from adjourn.tasks import (
    APPROVAL_MILLISECONDS,
    LEASE_MILLISECONDS,
    SYSTEM,
    AppendedEvent,
    Ask,
    Block,
    Builder,
    Decision,
    Fact,
    Forward,
    Ledger,
    OnceClaim,
    OpenCall,
    RecordedAnswer,
    SessionIdentity,
    Task,
    TaskSwitchedError,
    ToolRequest,
    decide,
    idempotency,
    observed,
    question,
    refusal_event,
    usable_approval,
)

Outcome = Literal["ok", "tool-error", "error", "no-answer"]


class ClientCapabilities(NamedTuple):
    """What a client does beside asking: it says what came of a call (`settles`), it can ask a person (`asks`)."""

    settles: bool = False
    asks: bool = True


DEFAULT_CAPABILITIES = ClientCapabilities()


class VisitedTask(Task):
    """A task on which several processes open one and the same session: whoever comes second finds it open."""

    def commit(self, build: Builder, **options: Any) -> list[AppendedEvent]:
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

    def __init__(
        self,
        task: Task,
        contract: Contract,
        sitting: SessionIdentity,
        capabilities: ClientCapabilities = DEFAULT_CAPABILITIES,
    ) -> None:
        self.task = task
        self._capabilities = capabilities
        self.policy: Policy = contract.policy
        self._session = GuardedSession(
            task,
            contract.policy,
            sitting,
            policy_text=contract.policy_text.encode(),
            contract_text=contract.contract_text.encode(),
        )
        self._session.id = self.id = _name(task.ledger, sitting)
        self.notes: list[str] = []
        """What is to be said about the checkpoints that were made."""

    def ask(self, call: ToolRequest, name: str = "") -> Decided:
        """Decide on a call, which the client names, and write it down. Raises `HeldError`, `TaskSwitchedError`, `StoreError`."""
        made: list[Decision] = []
        changes: dict[str, str | None] = {}

        def build(ledger: Ledger) -> list[Fact]:
            self._session.check_held(ledger)
            over = list(self._over(ledger, call))
            changes.clear()
            changes.update(idempotency.keep(self.task, over, {}))
            claim = idempotency.look_up(self.task, self.policy, ledger, call, changes)
            paid = self._is_paid(ledger, call)
            decision = decide(self.policy, ledger, call, now=self.task.clock(), spent=-paid, claim=claim)
            made[:] = [decision]
            call_id = f"{self.id}.{ledger.seq + 1}{_mark(name)}"
            facts = [
                *(Fact(ended, SYSTEM, self.id) for ended in over),
                *self._facts(ledger, call, call_id, decision, claim, paid=paid),
            ]
            if claim is not None:
                changes.update(self._claimed(claim, call_id, decision))
            return facts

        self._sit()
        self.notes += self._session.checkpoint_before([call])
        try:
            self.task.commit(build, durable=call.effectful, refs=lambda _: changes)
        except (HeldError, TaskSwitchedError):
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

    def settle(self, call: ToolRequest, name: str, settled: kinds.ToolSettled) -> bool:
        """Write down what came of a call that this client made; False when none of that name, or like it, is open."""
        mine = self._open()
        late = [one for one in self.task.ledger.doubts.values() if one.session == self.id]
        found = next((one for one in (*mine, *late) if name and one.call.endswith(_mark(name))), None)
        found = found or next(
            (one for one in mine if (one.tool, one.digest) == (call.tool, call.digest)), None
        )
        if found is None:
            return False
        fact = msgspec.structs.replace(settled, call=found.call)
        self._session.settle([fact])
        self.notes += self._session.checkpoint_after_recorded(found.tool, _seq_of(found.call), fact)
        return True

    def turn_over(self) -> None:
        """The client has answered its agent all that it asked for: what is still open was not seen, but it is not cut off.

        A call that a person was asked about, and that is not settled by then, was not made.
        """
        ledger = self.task.ledger
        self._session.settle(
            [
                kinds.ToolSettled(call=one.call, outcome="error" if _is_asked(ledger, one) else "ok")
                for one in self._open()
            ]
        )

    def checkpoint(self, trigger: str) -> bool:
        """Make a checkpoint under the task's own name, if a call was made since the last one."""
        ledger = self.task.ledger
        here = any(one.group == self._session.identity.group for one in ledger.sessions.values())
        if not here or ledger.calls_used == ledger.calls_at_checkpoint:
            return False
        from adjourn.checkpoints import close_session  # noqa: PLC0415  # signing is not on the start path

        sitting = self._session if self.id in ledger.sessions else None
        close_session.keep(
            self.task,
            trigger,
            self._session.identity.root,
            budget=self.policy.budget,
            sitting=sitting,
            tell=self.notes.append,
        )
        return True

    def end(self, reason: str) -> None:
        """Get up, with a last checkpoint if calls were made or something was noted."""
        if self.id in self.task.ledger.sessions:
            from adjourn.checkpoints import close_session  # noqa: PLC0415  # as above

            self._session.is_open = True
            close_session.end(self._session, reason, self._session.identity.root, tell=self.notes.append)

    def _open(self) -> list[OpenCall]:
        return [one for one in self.task.ledger.open_calls.values() if one.session == self.id]

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
        self,
        ledger: Ledger,
        call: ToolRequest,
        call_id: str,
        decision: Decision,
        claim: OnceClaim | None,
        *,
        paid: bool,
    ) -> Iterator[Fact]:
        actor, session = self._session.actor, self.id
        if isinstance(decision, Block | RecordedAnswer):
            yield Fact(_refusal(call, decision), actor, session)
            return
        if isinstance(decision, Ask):
            _, required = question(call, decision, ledger.approvals.values(), self.task.clock())
            if required is not None:
                yield Fact(required, actor, session)
            if not self._capabilities.asks:
                return
        passes = decision if isinstance(decision, Forward) else Forward()
        if passes.observed is not None:
            yield Fact(observed(call, passes.observed), SYSTEM, session)
        allowed = kinds.ToolAllowed(
            approval=passes.approval,
            arguments=call.arguments,
            call=call_id,
            digest=call.digest,
            effectful=call.effectful and self._capabilities.settles,
            limits=list(passes.limits),
            once=claim.key if claim is not None else "",
            tool=call.tool,
            uncounted=paid and passes is decision,
        )
        yield Fact(allowed, actor, session)
        if passes is decision and not self._capabilities.settles:
            yield Fact(self._ended(call_id), SYSTEM, session)

    def _claimed(self, claim: OnceClaim, call_id: str, decision: Decision) -> dict[str, str | None]:
        """What a call makes of its claim: it is open until the call is settled, or done at once if nobody will see its end."""
        if not isinstance(decision, Forward) and not (isinstance(decision, Ask) and self._capabilities.asks):
            return {}
        done = "" if self._capabilities.settles else f" {idempotency.DONE}"
        return idempotency.claimed(self.task.id, claim.key, f"{call_id}{done}")

    def _is_paid(self, ledger: Ledger, call: ToolRequest) -> bool:
        """Whether the call was counted when a person was asked, and that person has said yes elsewhere since."""
        asked = any(
            (one.session, one.tool, one.digest) == (self.id, call.tool, call.digest)
            for one in ledger.open_calls.values()
        )
        return asked and usable_approval(ledger, call, self.task.clock(), "") is not None

    def _over(self, ledger: Ledger, call: ToolRequest) -> Iterator[kinds.ToolSettled]:
        """Asked calls that need not be kept any longer: the call itself comes again, or its question has expired."""
        stamp = timestamp(self.task.clock() - APPROVAL_MILLISECONDS)
        for one in ledger.open_calls.values():
            same = (one.tool, one.digest) == (call.tool, call.digest)
            asked = not self._capabilities.settles or _is_asked(ledger, one)
            if one.session == self.id and asked and (same or one.since < stamp):
                yield self._ended(one.call)

    def _ended(self, call: str) -> kinds.ToolSettled:
        """No answer was seen; where one would have been, the call was not made."""
        outcome: Outcome = "error" if self._capabilities.settles else "no-answer"
        return kinds.ToolSettled(call=call, outcome=outcome)


def _mark(name: str) -> str:
    """What the id of a call ends with that the client has a name for."""
    return f".{digest(name.encode())[:8]}" if name else ""


def _seq_of(call: str) -> int:
    """The position of a visited call's intent, or of a fact right before it."""
    seq = call.split(".")[1]
    return int(seq) if seq.isdecimal() else 0


def _is_asked(ledger: Ledger, call: OpenCall) -> bool:
    """Whether the client was to ask a person about an open call."""
    return any((one.tool, one.digest) == (call.tool, call.digest) for one in ledger.approvals.values())


def _refusal(call: ToolRequest, decision: Block | RecordedAnswer) -> kinds.Data:
    """That a call was not let through. A recorded answer cannot be handed out here."""
    if isinstance(decision, RecordedAnswer):
        return kinds.ToolDenied(reason="once_done", rule=decision.call, tool=call.tool)
    return refusal_event(call, decision)


def _name(ledger: Ledger, sitting: SessionIdentity) -> str:
    """The session's id: the same for all visits, and another one once it was fenced off."""
    number = 0
    while True:
        name = digest(f"{ledger.task} {sitting.group} {sitting.process} {number}".encode())[:8]
        if name not in ledger.fenced:
            return name
        number += 1
