"""Calls of the client on their way to a decision, and their outcome: forwarded, answered here, refused, or held for a person.

Owns: the order in which lines reach the server. Must never: let through what it could not decide on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from time import monotonic_ns, time_ns
from typing import TypeVar

import msgspec

from adjourn.aex.policy import Policy
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.errors import AdjournError, StoreError
from adjourn.log import kinds
from adjourn.log.event import SYSTEM
from adjourn.mcp import frames
from adjourn.mcp.lenient import object_of
from adjourn.policy.calls import judge
from adjourn.relay.confirmation import POLL_SECONDS, Answered, Confirmations, HeldCall
from adjourn.relay.meta import DEFINITIONS, MetaTools
from adjourn.relay.ports import Outcome
from adjourn.relay.request import (
    GIVEN_BACK,
    KEY_META,
    MAX_KEY,
    NOTHING,
    TASK_META,
    Connection,
    Request,
    ToolPlan,
    call_of,
    is_ours,
    key_of,
)
from adjourn.relay.tools import ToolList
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
from adjourn.tasks.idempotency import kept_answer
from adjourn.tasks.session import Admitted
from adjourn.tasks.task import NewEvent

_OUTCOMES = {Block: "denied", RecordedAnswer: "replayed", Ask: "asked"}
_call_of: Callable[[Request], ToolRequest] = attrgetter("call")
_T = TypeVar("_T")


class Admission:
    """One per proxy. While it is `busy`, a decision is being made in the worker: nothing may be given to it. `resume` is called when
    it no longer is.
    """

    def __init__(
        self,
        connection: Connection,
        meta: MetaTools,
        tool_list: ToolList,
        confirmations: Confirmations,
        resume: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._context = connection.context
        self._sessions = connection.sessions
        self._meta = meta
        self._tool_list = tool_list
        self._confirmations = confirmations
        self._resume = resume
        self._calls: list[Request] = []
        """Requests whose calls are to be decided on together."""
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
        request.kind = kind
        self._lines.append(request.raw)
        self._tracked.append(request)

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
        request.task = self._context.task.named(task) if type(task) is str and task else ""
        if request.meta and key_of(request.meta) is None:
            why = f"{KEY_META} is not a text of 1 to {MAX_KEY} characters"
            self.refuse(request, Block("key_invalid", why, "give the call such a key, or none"))
            return True
        request.call = call = call_of(plan, request, self._connection, protected)
        request.is_keyed = call.key != ""
        # an approval of a call that is refused anyway stays unused
        may_answer = "requestState" in params and not protected
        if may_answer and (block := self._confirmations.take_answer(request, call)):
            self.refuse(request, block)
            return True
        request.place = len(self._lines)
        self._calls.append(request)
        self._lines.append(b"")  # its place among the lines that pass, to keep their order
        if alone:
            self.flush()
        return True

    def call_meta_tool(self, request: Request, name: str) -> None:
        """Carry out a meta-tool that needs no decision. It sees what came before it as done."""
        self._in_worker(partial(self._meta.handle, request, name), partial(self._meta_answered, request))

    def flush(self) -> None:  # noqa: C901  # one pass, on the path of every call
        """Decide on what is queued, and send all. May be busy when it returns; then it continues by itself."""
        if self._calls:
            calls, self._calls = self._calls, []
            wanted, task = list(map(_call_of, calls)), calls[0].task
            # reading calls that count for nothing go before they are recorded
            forward = partial(self._forward, calls, at_once=True)
            if (commits := self._connection.commits) is not None:
                self.busy = True
                commits.admit(self._sessions, wanted, task, forward, partial(self._committed, calls))
                return
            pending = None
            try:
                if admitting := self._sessions.admitting(wanted, task, forward):
                    session, pending = admitting
                    session.commit_calls(pending)
            except AdjournError as error:
                if self._sessions.is_for_later(error, pending):
                    self._decide_later(calls)
                    return
                self._undecided(calls, error)
            else:
                if pending is None:
                    self._decide_later(calls)
                    return
                if not pending.is_sent:
                    self._decided(calls, session, pending.decided)
        lines, tracked, answers = self._lines, self._tracked, self._answers
        if lines:
            self._lines, self._tracked = [], []
            for request in tracked:  # nothing of its text is kept: its answer may be long in coming
                request.is_sent, request.call = True, None
                request.raw, request.body, request.params, request.meta = b"", NOTHING, NOTHING, NOTHING
            if data := lines[0] if len(lines) == 1 else b"".join(lines):
                self._connection.server.send(data, tracked)
        if answers:
            self._answers = []
            self._connection.client.send(b"".join(answers))

    def give_up(self) -> None:
        """After a failure of ours: nothing of what waits is forwarded, and every request among it is answered."""
        dropped = self._tracked
        self._calls, self._lines, self._tracked, self._answers = [], [], [], []
        for request in dropped:
            self._connection.settle(request, "error", "adjourn failed on this message")
        for request in list(self._connection.requests.values()):
            if request in dropped or not (request.is_sent or self._confirmations.holds(request.id)):
                error = frames.error(request.id, frames.INTERNAL_ERROR, "adjourn failed on this message")
                self.answer(request, error)
        self.flush()

    # --- the worker

    def _in_worker(self, job: Callable[[], _T], then: Callable[[Outcome[_T]], None]) -> None:
        """Do something that may take long; no line of the client is read meanwhile."""
        self.busy = True
        self._connection.loop.work(job, then)

    @contextmanager
    def _taking_up(self) -> Iterator[None]:
        """What it was busy with has come to its outcome: take that in, send what it leads to, and continue with what waits."""
        self.busy = False
        try:
            yield
            if not self.busy:
                self.flush()
                self._tool_list.compare()  # behind the answer to a resume
            self._go_on_with_held()
        except Exception as error:  # one odd message must not end the session
            self._connection.report.event("proxy.bug", f"{type(error).__name__}: {error}")
            self.give_up()
        self._resume()

    def _meta_answered(self, request: Request, outcome: Outcome[bytes]) -> None:
        with self._taking_up():
            self.answer(request, outcome.get())

    # --- deciding

    def _decide_later(self, calls: list[Request]) -> None:
        """Decide in the worker on calls before which something has to be done that takes long."""
        wanted = list(map(_call_of, calls))
        self._in_worker(partial(self._sessions.admit, wanted, calls[0].task), partial(self._committed, calls))

    def _committed(self, calls: list[Request], outcome: Outcome[tuple[GuardedSession, list[Admitted]] | None]) -> None:
        """Continue with calls that were decided on in the worker, or together with those of others."""
        with self._taking_up():
            try:
                decided = outcome.get()
            except AdjournError as error:
                self._undecided(calls, error)
            else:
                if decided is None:
                    self._decide_later(calls)
                elif not calls[0].is_sent:
                    self._decided(calls, *decided)

    def _decided(self, calls: list[Request], session: GuardedSession, admitted: list[Admitted]) -> None:
        passing: list[Request] = []
        forwarded: list[Admitted] = []
        for request, admission in zip(calls, admitted, strict=True):
            decision = admission.decision
            if isinstance(decision, (Forward, Continue)):
                passing.append(request)
                forwarded.append(admission)
                continue
            self._observe(request, _OUTCOMES[type(decision)])
            if isinstance(decision, Block):
                self._connection.report.event("tool.denied", decision.message)
                self.refuse(request, decision)
            elif isinstance(decision, RecordedAnswer):
                self.answer(request, self._recorded(request, decision, session))
            elif isinstance(decision, Ask) and admission.approval is not None:
                self._confirmations.ask(request, admission.approval, session, decision.within)
                if self._confirmations.waiting:
                    self._connection.loop.after(POLL_SECONDS, self.poll)
        if not passing:
            return
        call = passing[0].call
        if call is not None and call.tool in DEFINITIONS:  # it is alone
            carry_out = partial(self._carry_out, passing[0], call.tool, forwarded[0], session)
            self._in_worker(carry_out, partial(self._meta_answered, passing[0]))
        else:
            self._forward(passing, session, forwarded)

    def _undecided(self, calls: list[Request], error: AdjournError) -> None:
        """No decision could be written down. Only what has no effect, and costs no budget, may pass without a store."""
        is_store = isinstance(error, StoreError)
        if is_store:
            self._connection.report.event("store.error", str(error))
        for request in calls:
            if request.call is not None and request.call.protected:
                self.refuse(request, protected_refusal(request.call))
            elif request.is_sent:
                if is_store:  # it may pass, as it has
                    request.kind, request.session = "other", None
                else:
                    self._withhold(request, error)
            elif is_store:
                self._observe(request, "store-error")
                self._without_store(request, error)
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
        # answered here, and only here
        request.kind, request.session, request.cancelled = "withheld", None, True
        batch, request.batch = request.batch, None
        if out := line if batch is None else batch.add(line):
            self._answers.append(out)

    def _without_store(self, request: Request, error: AdjournError) -> None:
        call, policy, options = request.call, self._sessions.policy, self._context.options
        assert call is not None
        verdict = judge(policy, call.tool, call.given, options.tree, options.start, around=options.root)
        harmless = not call.effectful and not call.named_only and not is_counted(policy, call.tool)
        unclear = unclear_refusal(policy, call) if call.may_clash else None
        if unclear is not None:
            self.refuse(request, unclear)
        elif harmless and verdict.effect == "allow" and verdict.confirm is None:
            self._lines[request.place] = request.raw
            self._tracked.append(request)
        else:
            reason = f'tool "{call.tool}" was not called, since it could not be recorded: {error.message}'
            self.refuse(request, Block("store", reason, error.remedy))

    def _forward(
        self, calls: Sequence[Request], session: GuardedSession, admitted: Sequence[Admitted], *, at_once: bool = False
    ) -> None:
        """Put the lines of admitted calls in their places. Their answers are expected from now on."""
        open_calls, observer = session.task.ledger.open_calls, self._connection.observer
        for request, admission in zip(calls, admitted, strict=True):
            call = request.call
            assert call is not None
            line = request.raw
            if "requestState" in request.params and not isinstance(admission.decision, Continue):
                state = request.params["requestState"]
                if isinstance(state, str) and is_ours(state):
                    line = frames.without_params(line, GIVEN_BACK)
            intent = open_calls.get(admission.call)
            request.session, request.call_id = session, admission.call
            request.effectful = call.effectful
            request.is_kept = intent is not None and intent.once != ""
            request.kind = "other" if call.named_only and intent is None else "call"
            request.started = monotonic_ns()
            self._lines[request.place] = line
            self._tracked.append(request)
            request.tool = call.tool
            if observer is not None:
                observer.decided(request, "allowed")
            data = {"tool": call.tool, "call": admission.call}
            self._connection.report.routine(("tool.allowed", "", data, time_ns(), False))
        if at_once:
            self.flush()

    def _carry_out(self, request: Request, name: str, admitted: Admitted, session: GuardedSession) -> bytes:
        """Carry out a meta-tool that was decided on. In the worker."""
        line = self._meta.handle(request, name)
        if admitted.call in session.task.ledger.open_calls:
            settled = kinds.ToolSettled(call=admitted.call, outcome="ok")
            session.task.deferred.append(NewEvent(settled, SYSTEM, session.id))
        return line

    def _recorded(self, request: Request, replay: RecordedAnswer, session: GuardedSession) -> bytes:
        """The recorded answer to a call whose effect may happen only once."""
        tool = request.call.tool if request.call is not None else ""
        result = kept_answer(session.task.store, replay.answer)
        self._connection.report.event("tool.replayed", f"{tool}: the answer of call {replay.call}")
        if result is None:
            reason = f"call {replay.call} already had this effect, and its answer was not kept"
            block = Block("once_done", reason, "continue without repeating the call")
            return self._connection.refusal(request, block)
        if request.modern and result[:1] == b"{":  # the first answer may have been in an earlier protocol revision
            result = msgspec.json.encode({"resultType": "complete"} | object_of(result))
        return frames.result(request.id, msgspec.Raw(result))

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
            if not call.named_only:  # as any other call: its tool, or the policy, may have changed while it waited
                definition = self._connection.served.definitions.get(call.tool, "")
                call = held.request.call = msgspec.structs.replace(call, definition=definition)
            self._in_worker(partial(self._admit_held, answered, call), partial(self._held_decided, held))

    def _admit_held(self, answered: Answered, call: ToolRequest) -> tuple[GuardedSession, Admitted]:
        """Decide on a held call again. In the worker."""
        task = answered.held.session.task.id
        session, (admitted,) = self._sessions.admit([call], task)
        if admitted.approval is not None and self._confirmations.ask_again(answered, admitted.approval):
            session, (admitted,) = self._sessions.admit([call], task)
        return session, admitted

    def _held_decided(self, held: HeldCall, outcome: Outcome[tuple[GuardedSession, Admitted]]) -> None:
        with self._taking_up():
            try:
                session, admitted = outcome.get()
            except AdjournError as error:
                self._refuse_held(held, error.message)
                return
            decision = admitted.decision
            if not isinstance(decision, (Forward, Continue)):
                why = decision.message if isinstance(decision, Block) else "no approval is left for it"
                self._refuse_held(held, why)
                return
            approval = held.approval
            self._connection.report.event("confirm.approved", tool=approval.tool, approval=approval.id)
            held.request.place = len(self._lines)
            self._lines.append(b"")
            self._decided([held.request], session, [admitted])

    def _refuse_held(self, held: HeldCall, why: str) -> None:
        self.refuse(held.request, self._confirmations.refusal(held, why))
        self.flush()


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
