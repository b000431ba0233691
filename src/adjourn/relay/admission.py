"""Calls of the client on their way to a decision, and their outcome: forwarded, answered here, refused, or held for a person.

Owns: the order in which lines reach the server. Must never: let through what it could not decide on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import time_ns
from typing import TypeVar

import msgspec

from adjourn.aex.policy import Policy
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.errors import AdjournError, StoreError
from adjourn.log import kinds
from adjourn.mcp import frames
from adjourn.mcp.lenient import object_of
from adjourn.policy.calls import judge
from adjourn.relay.approvals import POLL_SECONDS, Answered, Confirmations, HeldCall
from adjourn.relay.calls import GIVEN_BACK, KEY_META, MAX_KEY, TASK_META, call_of, is_ours, key_of
from adjourn.relay.connection import Connection
from adjourn.relay.ports import Outcome
from adjourn.relay.request import Request, ToolPlan
from adjourn.relay.tools import DEFINITIONS, MetaTools
from adjourn.tasks.decision import (
    Ask,
    Block,
    Continue,
    Forward,
    RecordedAnswer,
    ToolRequest,
    protected_refusal,
    unclear_refusal,
)
from adjourn.tasks.session import Admitted
from adjourn.tasks.task import SYSTEM, NewEvent

_T = TypeVar("_T")


_OUTCOMES = {Block: "denied", RecordedAnswer: "replayed", Ask: "asked"}


class Admission:
    """One per proxy. While it is `busy`, a decision is being made in the worker: nothing may be given to it. `resume` is called when
    it no longer is.
    """

    def __init__(
        self,
        connection: Connection,
        meta: MetaTools,
        confirmations: Confirmations,
        resume: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._context = connection.context
        self._meta = meta
        self._confirmations = confirmations
        self._resume = resume
        self._calls: list[tuple[Request, int]] = []
        """Requests with calls that are to be decided on together, and their places among the lines."""
        self._wanted: list[ToolRequest] = []
        """These calls."""
        self._lines: list[bytes] = []
        self._tracked: list[Request] = []
        """Requests among the lines, whose answers are expected."""
        self._answers: list[bytes] = []
        self._answered: list[Answered] = []
        self.busy = False

    # --- what the gate gives

    def pass_on(self, line: bytes) -> None:
        """Send a line to the server, after those before it."""
        self._lines.append(line)

    def track(self, request: Request, kind: str) -> None:
        """Send a request to the server, and expect its answer."""
        self._lines.append(request.raw)
        self._tracked.append(request)
        request.expect_answer(kind)

    def answer(self, request: Request, line: bytes) -> None:
        """Answer a request without the server."""
        if out := self._connection.answer(request, line):
            self._answers.append(out)

    def say(self, line: bytes) -> None:
        """Send the client a message, after the answers before it."""
        self._answers.append(line)

    def refuse(self, request: Request, block: Block) -> None:
        """Refuse a request."""
        self.answer(request, self._connection.refusal(request, block))

    def queue(self, request: Request, plan: ToolPlan, protected: str) -> bool:
        """Decide on a request's call with the next `flush`. False where it has to be given again, once no longer busy.

        `protected` is the protected place that the call would touch, if any.
        """
        params = request.params
        task = request.meta.get(TASK_META) if request.meta else None
        # it may be of another task, and sees what came before it as done
        alone = task or plan.tool in DEFINITIONS or "requestState" in params
        if alone:
            self.flush()
            if self.busy:
                return False
        request.task = self._context.task_named(task) if type(task) is str and task else ""
        if request.meta and key_of(request.meta) is None:
            why = f"{KEY_META} is not a text of 1 to {MAX_KEY} characters"
            self.refuse(request, Block("key_invalid", why, "give the call such a key, or none"))
            return True
        request.call = call = call_of(plan, request, self._connection, protected)
        request.is_keyed = call.key != ""
        may_answer = (
            "requestState" in params and not protected
        )  # an approval of a call that is refused anyway stays unused
        if may_answer and (block := self._confirmations.take_answer(request, call)):
            self.refuse(request, block)
            return True
        self._calls.append((request, len(self._lines)))
        self._wanted.append(call)
        self._lines.append(b"")  # its place among the lines that pass, to keep their order
        if alone:
            self.flush()
        return True

    def call_meta_tool(self, request: Request, name: str) -> None:
        """Carry out a meta-tool that needs no decision. It sees what came before it as done."""
        self._work(lambda: self._meta.handle(request, name), lambda line: self.answer(request, line))

    def flush(self) -> None:
        """Decide on what is queued, and send all. May be busy when it returns; then it continues by itself."""
        calls = self._calls
        if calls:
            wanted = self._wanted
            self._calls, self._wanted = [], []
            # reading calls that count for nothing go before they are recorded
            forward = partial(self._forward, calls, at_once=True)
            if self._connection.commits is not None:
                self.busy = True
                then = partial(self._in_turn, partial(self._committed, calls, wanted))
                self._connection.commits.admit(self._context, wanted, calls[0][0].task, forward, then)
                return
            found = None
            try:
                found = self._context.admitting(wanted, calls[0][0].task, forward)
                if found is not None:
                    session, pending = found
                    session.commit_calls(pending)
            except AdjournError as error:
                if self._context.is_for_later(error, found and found[1]):
                    self._decide_later(calls, wanted)
                    return
                self._undecided(calls, error)
            else:
                if found is None:
                    self._decide_later(calls, wanted)
                    return
                if not pending.is_sent:
                    self._decided(calls, session, pending.decided)
        if self._lines or self._answers:
            self._send()

    def _send(self) -> None:
        lines, tracked, answers = self._lines, self._tracked, self._answers
        if lines:
            self._lines, self._tracked = [], []
            if data := lines[0] if len(lines) == 1 else b"".join(lines):
                self._connection.server.send(data, tracked)
        if answers:
            self._answers = []
            self._connection.client.send(b"".join(answers))

    def give_up(self) -> None:
        """After a failure of ours: nothing of what waits is forwarded, and every request among it is answered."""
        dropped = self._tracked
        self._calls, self._wanted, self._lines, self._tracked, self._answers = [], [], [], [], []
        for request in dropped:
            self._connection.settle(request, "error", "adjourn failed on this message")
        for request in list(self._connection.requests.values()):
            if request in dropped or not (request.is_sent or self._confirmations.holds(request.id)):
                error = frames.error(request.id, frames.INTERNAL_ERROR, "adjourn failed on this message")
                self.answer(request, error)
        self._send()

    # --- deciding

    def _committed(
        self,
        calls: list[tuple[Request, int]],
        wanted: list[ToolRequest],
        outcome: Outcome[tuple[GuardedSession, list[Admitted]] | None],
    ) -> None:
        """Continue with calls that were to be decided on together with those of others."""
        try:
            decided = outcome.get()
        except AdjournError as error:
            self._undecided(calls, error)
        else:
            if decided is None:
                self._decide_later(calls, wanted)
            elif not calls[0][0].is_sent:
                self._decided(calls, *decided)

    def _decide_later(self, calls: list[tuple[Request, int]], wanted: list[ToolRequest]) -> None:
        """Decide on calls before which something has to be done that takes long."""
        self._work(partial(self._admit, calls, wanted), lambda then: then())

    def _admit(self, calls: list[tuple[Request, int]], wanted: list[ToolRequest]) -> Callable[[], None]:
        """Decide, however long it takes. In the worker; what is returned is for the thread of the loop."""
        try:
            session, admitted = self._context.admit(wanted, calls[0][0].task)
        except AdjournError as error:
            return partial(self._undecided, calls, error)
        return partial(self._decided, calls, session, admitted)

    def _decided(
        self, calls: list[tuple[Request, int]], session: GuardedSession, admitted: list[Admitted]
    ) -> None:
        passing: list[tuple[Request, int]] = []
        their: list[Admitted] = []
        for call, one in zip(calls, admitted, strict=True):
            request, decision = call[0], one.decision
            if isinstance(decision, (Forward, Continue)):
                passing.append(call)
                their.append(one)
                continue
            self._observe(request, _OUTCOMES[type(decision)])
            if isinstance(decision, Block):
                self._connection.report.event("tool.denied", decision.message)
                self.refuse(request, decision)
            elif isinstance(decision, RecordedAnswer):
                self.answer(request, self._recorded(request, decision, session))
            elif isinstance(decision, Ask) and one.approval is not None:
                self._confirmations.ask(request, one.approval, session, decision.within)
                if self._confirmations.waiting:
                    self._connection.loop.after(POLL_SECONDS, self.poll)
        if not passing:
            return
        first = passing[0][0]
        if first.call is not None and first.call.tool in DEFINITIONS:  # it is alone
            self._answer_meta_tool(first, their[0], session)
        else:
            self._forward(passing, session, their)

    def _undecided(self, calls: list[tuple[Request, int]], error: AdjournError) -> None:
        """No decision could be written down. Only what has no effect, and costs no budget, may pass without a store."""
        is_store = isinstance(error, StoreError)
        if is_store:
            self._connection.report.event("store.error", str(error))
        for request, place in calls:
            if request.call is not None and request.call.protected:
                self.refuse(request, protected_refusal(request.call))
            elif request.is_sent:
                if is_store:  # it may pass, as it has
                    request.kind, request.session = "other", None
                else:
                    self._withhold(request, error)
            elif is_store:
                self._observe(request, "store-error")
                self._without_store(request, place, error)
            else:
                self._observe(request, "held")
                self.refuse(request, Block("held", error.message, error.remedy))

    def _observe(self, request: Request, outcome: str) -> None:
        """Pass on the outcome of a call that is not simply forwarded."""
        if (observer := self._connection.observer) is not None and request.call is not None:
            request.tool = request.call.tool
            observer.decided(request, outcome)

    def _withhold(self, request: Request, error: AdjournError) -> None:
        """Refuse a call that was forwarded before it turned out that the session may not make it. Its answer is dropped."""
        line = self._connection.refusal(request, Block("held", error.message, error.remedy))
        request.kind, request.session, request.cancelled = (
            "withheld",
            None,
            True,
        )  # answered here, and only here
        batch, request.batch = request.batch, None
        if out := line if batch is None else batch.add(line):
            self._answers.append(out)

    def _without_store(self, request: Request, place: int, error: AdjournError) -> None:
        call, policy = request.call, self._context.policy
        assert call is not None
        options = self._context.options
        verdict = judge(policy, call.tool, call.given, options.tree, options.start, around=options.root)
        harmless = not call.effectful and not call.named_only and not is_counted(policy, call.tool)
        unclear = unclear_refusal(policy, call) if call.may_clash else None
        if unclear is not None:
            self.refuse(request, unclear)
        elif harmless and verdict.effect == "allow" and verdict.confirm is None:
            self._lines[place] = request.raw
            self._tracked.append(request)
            request.expect_answer("other")
        else:
            reason = f'tool "{call.tool}" was not called, since it could not be recorded: {error.message}'
            self.refuse(request, Block("store", reason, error.remedy))

    def _forward(
        self,
        calls: Sequence[tuple[Request, int]],
        session: GuardedSession,
        admitted: Sequence[Admitted],
        *,
        at_once: bool = False,
    ) -> None:
        """Put the lines of admitted calls in their places. Their answers are expected from now on."""
        opened, observer = session.task.ledger.open_calls, self._connection.observer
        for (request, place), one in zip(calls, admitted, strict=True):
            call = request.call
            assert call is not None
            line = request.raw
            if "requestState" in request.params and not isinstance(one.decision, Continue):
                state = request.params["requestState"]
                if isinstance(state, str) and is_ours(state):
                    line = frames.without_params(line, GIVEN_BACK)
            written = opened.get(one.call)
            request.session, request.call_id = session, one.call
            request.effectful = call.effectful
            request.kept = written is not None and written.once != ""
            request.expect_answer("other" if call.named_only and written is None else "call")
            self._lines[place] = line
            self._tracked.append(request)
            request.tool = call.tool
            if observer is not None:
                observer.decided(request, "allowed")
            told = {"tool": call.tool, "call": one.call}
            self._connection.report.routine(("tool.allowed", "", told, time_ns(), False))
        if at_once:
            self._send()

    def _answer_meta_tool(self, request: Request, admitted: Admitted, session: GuardedSession) -> None:
        name = request.call.tool if request.call is not None else ""

        def carry_out() -> bytes:
            line = self._meta.handle(request, name)
            if admitted.call in session.task.ledger.open_calls:
                settled = kinds.ToolSettled(call=admitted.call, outcome="ok")
                session.task.deferred.append(NewEvent(settled, SYSTEM, session.id))
            return line

        self._work(carry_out, lambda line: self.answer(request, line))

    def _recorded(self, request: Request, replay: RecordedAnswer, session: GuardedSession) -> bytes:
        """The recorded answer to a call whose effect may happen only once."""
        tool = request.call.tool if request.call is not None else ""
        kept = session.task.store.get_blob(replay.answer)
        self._connection.report.event("tool.replayed", f"{tool}: the answer of call {replay.call}")
        if kept is None:
            reason = f"call {replay.call} already had this effect, and its answer was not kept"
            block = Block("once_done", reason, "continue without repeating the call")
            return self._connection.refusal(request, block)
        if (
            request.modern and kept[:1] == b"{"
        ):  # the first answer may have been in an earlier protocol revision
            fields = object_of(kept)
            kept = msgspec.json.encode({"resultType": "complete"} | fields)
        return frames.result(request.id, msgspec.Raw(kept))

    # --- the worker

    def _work(self, job: Callable[[], _T], then: Callable[[_T], None]) -> None:
        """Do something that may take long; no line of the client is read meanwhile."""

        def done(outcome: Outcome[_T]) -> None:
            then(outcome.get())

        self.busy = True
        self._connection.loop.work(job, partial(self._in_turn, done))

    def _in_turn(self, then: Callable[[Outcome[_T]], None], outcome: Outcome[_T]) -> None:
        """What it was busy with has come to its outcome."""
        self.busy = False
        try:
            then(outcome)
            if not self.busy:
                self._send()
                self._connection.compare_tools()  # behind the answer to a resume
            self._go_on_with_held()
        except Exception as error:  # one odd message must not end the session
            self._connection.report.event("proxy.bug", f"{type(error).__name__}: {error}")
            self.give_up()
        self._resume()

    # --- held calls

    def answered(self, answered: Iterable[Answered]) -> None:
        """Continue with calls that a person was asked about, or refuse them."""
        self._answered.extend(answered)
        self._go_on_with_held()

    def poll(self) -> None:
        """Look for answers from elsewhere to what is held."""
        if not self.busy:
            self.answered(self._confirmations.poll())
        if self._confirmations.waiting:
            self._connection.loop.after(POLL_SECONDS, self.poll)

    def _go_on_with_held(self) -> None:
        while self._answered and not self.busy:
            answered = self._answered.pop(0)
            held, refused, _ = answered
            if refused or not held.session.is_open:
                self._refuse_held(held, refused or "its session has ended")
                continue
            call = held.request.call
            assert call is not None
            if (
                not call.named_only
            ):  # as any other call: its tool, or the policy, may have changed while it waited
                definition = self._context.served.definitions.get(call.tool, "")
                call = held.request.call = msgspec.structs.replace(call, definition=definition)
            self._work(partial(self._admit_held, answered, call), lambda then: then())

    def _admit_held(self, answered: Answered, call: ToolRequest) -> Callable[[], None]:
        """Decide on a held call again. In the worker; what is returned is for the thread of the loop."""
        held, task = answered.held, answered.held.session.task.id
        try:
            session, (admitted,) = self._context.admit([call], task)
            if admitted.approval is not None and self._confirmations.ask_again(answered, admitted.approval):
                session, (admitted,) = self._context.admit([call], task)
        except AdjournError as error:
            return partial(self._refuse_held, held, error.message)
        decision = admitted.decision
        if isinstance(decision, (Forward, Continue)):
            return partial(self._go_on_held, held, admitted, session)
        why = decision.message if isinstance(decision, Block) else "no approval is left for it"
        return partial(self._refuse_held, held, why)

    def _go_on_held(self, held: HeldCall, admitted: Admitted, session: GuardedSession) -> None:
        approval = held.approval
        self._connection.report.event("confirm.approved", tool=approval.tool, approval=approval.id)
        self._lines.append(b"")
        self._decided([(held.request, len(self._lines) - 1)], session, [admitted])

    def _refuse_held(self, held: HeldCall, why: str) -> None:
        self.refuse(held.request, self._confirmations.refusal(held, why))
        self._send()


def is_counted(policy: Policy, tool: str) -> bool:
    """Whether a call of the tool has to be written down to be counted, or something has to be before it."""
    return bool(
        policy.budget is not None
        or policy.budgets
        or policy.workspace_budgets
        or policy.limits_of(tool)
        or policy.once_of(tool)
        or policy.checkpoint_before(tool)
    )
