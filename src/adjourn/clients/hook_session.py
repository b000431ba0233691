"""The session of a client that runs its tools itself, and starts a hook process before each call to have it decided on.

The client holds the task, not the hook process, which has exited before the call starts. All hook processes of one client
share one session. Its id is derived, not random, so that processes which start at once agree on it.

The session lives as long as the client's process where that is known, else for the time of a lease after each hook. It
never fences another holder, and a living session of another client keeps it out, as it does a proxy.

What is written of an allowed call depends on whether the client says afterwards the outcome of it (`ClientCapabilities.settles`):

- If it does, its intent. The call is open until it is settled; when the client is killed meanwhile, it is in doubt. What
  is still open when the client's turn ends in good order was answered to its agent all the same, and is settled then.
- If it does not, its intent, and in the same step that no answer was seen. So it is counted, it is never open, and it never
  becomes a doubt: adjourn was not there when it ran.

A call about which the client asks a person is counted when it is asked, since the client does not report what the person said;
repeated with an approval that was given elsewhere, it is not counted again. Of a client that cannot ask (`ClientCapabilities.asks`) the
call is refused until it was approved elsewhere, and is not counted before.

Owns: this session, and the facts of such calls. Must never: record success for a call whose end was not observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec

from adjourn.aex.match import as_client_names_it
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.errors import ConflictError
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import SYSTEM, timestamp
from adjourn.log.kinds import tool_name
from adjourn.policy.contract import Contract
from adjourn.tasks import idempotency
from adjourn.tasks.budgets import notice_text, spent_shares, workspace_spent
from adjourn.tasks.call_events import observed
from adjourn.tasks.decision import (
    APPROVAL_MILLISECONDS,
    Ask,
    Block,
    Decision,
    Forward,
    OnceClaim,
    RecordedAnswer,
    ToolRequest,
    usable_approval,
)
from adjourn.tasks.entries import OpenCall
from adjourn.tasks.lease import LEASE_MILLISECONDS, SessionIdentity, lease_end, time_of
from adjourn.tasks.ledger import Ledger, is_same_tool
from adjourn.tasks.session import Admitted, PendingCalls
from adjourn.tasks.task import NewEvent, Task

NOT_CONFIRMED = "not made: the client asked a person, and reported no approval"


class ClientCapabilities(NamedTuple):
    """What a client does beside asking: it says the outcome of a call (`settles`), it can ask a person (`asks`)."""

    settles: bool = False
    asks: bool = True


DEFAULT_CAPABILITIES = ClientCapabilities()


class Decided(NamedTuple):
    """A decision, and the rule that allows the call where it may pass."""

    decision: Decision
    rule: str


class _AlreadyAllowedError(Exception):
    """Another hook of the client has let the call pass."""


class HookSession(GuardedSession):
    """The one session of all hook processes of one client on a task, as one of these processes sees it."""

    verifies = False  # each call is another process; the history is verified when the client's session starts

    def __init__(
        self,
        task: Task,
        contract: Contract,
        identity: SessionIdentity,
        capabilities: ClientCapabilities = DEFAULT_CAPABILITIES,
    ) -> None:
        super().__init__(
            task,
            contract.policy,
            identity,
            policy_text=contract.policy_text.encode(),
            contract_text=contract.contract_text.encode(),
        )
        self.id = _session_id(task.ledger, identity)
        self._capabilities = capabilities
        self._call_name = ""
        self.notes: list[str] = []
        """Notes for the person about the checkpoints that were made."""
        self.announce: Callable[[], None] = lambda: None
        """Keep which transcript the client writes; called when the session opens."""

    def ask(self, call: ToolRequest, name: str = "") -> Decided:
        """Decide on a call, which the client names, and write it down.

        A client may run two hooks for one call, of the project's settings and of the user's: the second one counts nothing.

        Raises `HeldError`, `TaskSwitchedError`, `StoreError`, and `IntegrityError` where the history was cut.
        """
        self.ensure_open()
        self.notes += self.checkpoint_before([call])
        self._call_name = name
        decision: Decision = Forward()
        with suppress(_AlreadyAllowedError):
            [admitted] = self.admit([call], prepare=partial(self._begin, call))
            decision = admitted.decision
        verdict = self.policy.judge_call(call.tool, call.given, call.paths, call.matcher)
        return Decided(decision, str(verdict.rule))

    def settle_named(self, call: ToolRequest, name: str, settled: kinds.ToolSettled) -> bool:
        """Write down the outcome of a call that this client made; False when none of that name, or like it, is open."""
        mine = self._open_calls()
        late = [doubt for doubt in self.task.ledger.doubts.values() if doubt.session == self.id]
        open_call = next(
            (open_call for open_call in (*mine, *late) if name and open_call.call.endswith(_mark(name))), None
        )
        open_call = open_call or next(
            (open_call for open_call in mine if open_call.digest == call.digest and _is_alike(open_call, call)), None
        )
        if open_call is None:
            return False
        fact = msgspec.structs.replace(settled, call=open_call.call, seen=True)
        self.settle([fact])
        self.notes += self.checkpoint_after_recorded(tool_name(open_call), _seq_of(open_call.call), fact)
        return True

    def budget_notice(self, has_tools: Callable[[], bool]) -> str:
        """The line for the agent on shares of its budget that this session has not received; "" for none. The ref `noticed/TASK`
        has what it received, since each hook is another process. `has_tools`: whether the agent has the meta-tools.
        """
        store, name = self.task.store, f"noticed/{self.task.id}"
        before = store.ref(name)
        session, *texts = (before or "").split(" ")
        texts = texts if session == self.id else []
        spent = workspace_spent(store, self.policy.workspace_budgets, self.task.now)
        shares = spent_shares(self.policy, self.task.ledger, texts, spent)
        if not shares:
            return ""
        try:
            value = " ".join((self.id, *texts, *(share.mark for share in shares)))
            store.swap(name, value, expect=before, durable=False)
        except ConflictError:  # another hook reports it
            return ""
        permitted = self.policy.judge_open("aex.checkpoint").effect == "allow"
        return notice_text(shares, "aex.checkpoint" if permitted and has_tools() else "")

    def turn_over(self) -> None:
        """The client has answered its agent all that it asked for: what is still open was not seen, but it is not cut off.

        A call that a person was asked about, and that is not settled by then, was not made.
        """
        ledger = self.task.ledger
        self.settle(
            [
                kinds.ToolSettled(call=call.call, message=NOT_CONFIRMED, outcome="error")
                if _is_asked(ledger, call)
                else kinds.ToolSettled(call=call.call, outcome="ok", seen=True)
                for call in self._open_calls()
            ]
        )

    def checkpoint(self, trigger: str) -> bool:
        """Make a checkpoint under the task's own name, if a call was made since the last one, or the client's transcript has news."""
        from adjourn.checkpoints.save import save_task_checkpoint

        ledger = self.task.ledger
        here = any(open_session.group == self.identity.group for open_session in ledger.sessions.values())
        if not here or (not self.observe() and ledger.calls_used == ledger.calls_at_checkpoint):
            return False

        session = self if self.id in ledger.sessions else None
        save_task_checkpoint(
            self.task, trigger, self.identity.root, tree=self.identity.tree, session=session, tell=self.notes.append
        )
        return True

    def end(self, reason: str) -> None:
        """Close the session, with a last checkpoint if calls were made or something was noted."""
        from adjourn.checkpoints.save import close_session

        if self.id in self.task.ledger.sessions:
            self.is_open = True
            self.observe()
            close_session(self, reason, self.identity.root, tree=self.identity.tree, tell=self.notes.append)

    def _open_calls(self) -> list[OpenCall]:
        return [open_call for open_call in self.task.ledger.open_calls.values() if open_call.session == self.id]

    def ensure_open(self) -> None:
        """Open the session unless an earlier hook has, else keep its lease. Raises `HeldError` as `open` does."""
        if self.id not in self.task.ledger.sessions:
            self.open()
            self.announce()
            return
        self.is_open = True
        store = self.task.store
        lease = lease_end(store, store.ref(f"lease/{self.task.id}/{self.id}"))
        if lease < time_of(store, self.task.clock()) + LEASE_MILLISECONDS // 2:
            self.heartbeat()

    def _opening(self, ledger: Ledger, *, take_over: bool, is_run: bool = False) -> Iterator[NewEvent]:
        """The facts of an opening; none where another hook process has opened the session meanwhile."""
        if self.id not in ledger.sessions:
            yield from super()._opening(ledger, take_over=take_over, is_run=is_run)

    # --- the facts

    def _begin(self, call: ToolRequest, pending: PendingCalls) -> None:
        """Start to decide. Raises `_AlreadyAllowedError` where another hook has let this very call pass."""
        mark = _mark(self._call_name)
        of_name = (
            open_call for open_call in self.task.ledger.open_calls.values() if mark and open_call.call.endswith(mark)
        )
        if any(
            (open_call.session, open_call.digest) == (self.id, call.digest)
            and is_same_tool(open_call, call)
            and not _is_asked(self.task.ledger, open_call)
            for open_call in of_name
        ):
            raise _AlreadyAllowedError
        self._settle_asked(call, pending)

    def _settle_asked(self, call: ToolRequest, pending: PendingCalls) -> None:
        """Settle calls that need not be kept open any longer. A call that is paid for costs nothing."""
        over = list(self._over(self.task.ledger, call))
        pending.refs.update(idempotency.keep(self.task, over, {}))
        pending.facts += [NewEvent(ended, SYSTEM, self.id) for ended in over]
        pending.spent = -self._is_paid(self.task.ledger, call)

    def _forward(
        self, pending: PendingCalls, call: ToolRequest, decision: Forward, claim: OnceClaim | None
    ) -> Admitted:
        self._close_questions(pending, call, decision)
        call_id = self._allow(pending, call, decision, claim, uncounted=pending.spent < 0)
        if not self._capabilities.settles:
            pending.facts.append(NewEvent(self._ended(call_id), SYSTEM, self.id))
        return Admitted(decision, call_id)

    def _ask(self, pending: PendingCalls, call: ToolRequest, decision: Ask, claim: OnceClaim | None) -> Admitted:
        """Add the question; where the client asks it, the call counts as made, since nobody reports what the person said."""
        admitted = super()._ask(pending, call, decision, claim)
        if self._capabilities.asks:
            self._allow(pending, call, Forward(), claim, uncounted=False)
        return admitted

    def _refuse(self, pending: PendingCalls, call: ToolRequest, decision: Block | RecordedAnswer) -> None:
        """Add that a call may not pass. A recorded answer cannot be returned by a hook."""
        if isinstance(decision, Block):
            super()._refuse(pending, call, decision)
            return
        denied = kinds.ToolDenied(
            arguments=call.arguments,
            digest=call.digest,
            reason="once_done",
            rule=decision.call,
            server=call.server,
            tool=call.tool,
        )
        pending.facts.append(NewEvent(denied, self.actor, self.id))

    def _allow(
        self, pending: PendingCalls, call: ToolRequest, decision: Forward, claim: OnceClaim | None, *, uncounted: bool
    ) -> str:
        """Add the intent of a call; returns its id. Its claim is open until the call is settled, or done at once if nobody
        will see its end.
        """
        call_id = f"{self.id}.{self.task.ledger.seq + 1}{_mark(self._call_name)}"
        if decision.observed is not None:
            pending.facts.append(NewEvent(observed(call, decision.observed), SYSTEM, self.id))
        allowed = kinds.ToolAllowed(
            approval=decision.approval,
            arguments=call.arguments,
            call=call_id,
            digest=call.digest,
            effectful=call.effectful and self._capabilities.settles,
            limits=list(decision.limits),
            once=claim.key if claim is not None else "",
            server=call.server,
            tool=call.tool,
            uncounted=uncounted,
        )
        pending.facts.append(NewEvent(allowed, self.actor, self.id))
        if claim is not None:
            done = "" if self._capabilities.settles else f" {idempotency.DONE}"
            refs, swaps = idempotency.claims(self.task, claim.key, f"{call_id}{done}")
            pending.refs.update(refs)
            pending.swaps.update(swaps)
        return call_id

    def _is_paid(self, ledger: Ledger, call: ToolRequest) -> bool:
        """Whether the call was counted when a person was asked, and that person has said yes elsewhere since."""
        asked = any(
            (open_call.session, open_call.digest) == (self.id, call.digest) and is_same_tool(open_call, call)
            for open_call in ledger.open_calls.values()
        )
        return asked and usable_approval(ledger, call, self.task.clock(), "") is not None

    def _over(self, ledger: Ledger, call: ToolRequest) -> Iterator[kinds.ToolSettled]:
        """Asked calls that need not be kept any longer: the call itself comes again, or its question has expired."""
        stamp = timestamp(self.task.clock() - APPROVAL_MILLISECONDS)
        for open_call in ledger.open_calls.values():
            same = open_call.digest == call.digest and is_same_tool(open_call, call)
            asked = not self._capabilities.settles or _is_asked(ledger, open_call)
            if open_call.session == self.id and asked and (same or open_call.since < stamp):
                yield self._ended(open_call.call)

    def _ended(self, call: str) -> kinds.ToolSettled:
        """No answer was seen; where one would have been, the call was not made."""
        if self._capabilities.settles:
            return kinds.ToolSettled(call=call, message=NOT_CONFIRMED, outcome="error")
        return kinds.ToolSettled(call=call, outcome="no-answer")


def _mark(name: str) -> str:
    """What the id of a call ends with that the client has a name for."""
    return f".{digest(name.encode())[:8]}" if name else ""


def _seq_of(call: str) -> int:
    """The position of a hook call's intent, or of a fact right before it."""
    seq = call.split(".")[1]
    return int(seq) if seq.isdecimal() else 0


def _is_alike(open_call: OpenCall, call: ToolRequest) -> bool:
    """Whether a call is of the tool of an open one; the client may spell its name otherwise than the server."""
    spelled = msgspec.structs.replace(open_call, tool=as_client_names_it(open_call.tool))
    return is_same_tool(open_call, call) or is_same_tool(spelled, call)


def _is_asked(ledger: Ledger, call: OpenCall) -> bool:
    """Whether the client was to ask a person about an open call."""
    return any(
        approval.digest == call.digest and is_same_tool(approval, call) for approval in ledger.approvals.values()
    )


def _session_id(ledger: Ledger, identity: SessionIdentity) -> str:
    """The session's id: the same for all hooks, and another one once it was fenced off."""
    number = 0
    while True:
        name = digest(f"{ledger.task} {identity.group} {identity.process} {number}".encode())[:8]
        if name not in ledger.fenced:
            return name
        number += 1
