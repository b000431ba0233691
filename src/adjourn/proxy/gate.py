"""From the client: every message is passed on, answered here, or held until a person has decided.

Owns: what becomes of a client's line. Must never: let through what it could not decide on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from adjourn.aex import Policy, tool_name_ok
from adjourn.checkpoints import GuardedSession
from adjourn.errors import AdjournError, StoreError
from adjourn.log import kinds
from adjourn.mcp import FrameError, Message, Oversize, frames
from adjourn.policy import READING_VERBS, judge, meta_tool
from adjourn.policy.protected import only_reads, protected_path, reason_for
from adjourn.proxy.approvals import Confirmations
from adjourn.proxy.calls import TASK_META, GatedCall, call_of
from adjourn.proxy.connection import MAX_NOTED, MAX_SAMPLED, Connection, is_noted
from adjourn.proxy.forwarding import Forwarder
from adjourn.proxy.meta import MetaTools
from adjourn.proxy.meta_definitions import DEFINITIONS
from adjourn.proxy.pipes import NO_ANSWER, Batch, Pending
from adjourn.proxy.requests import ServerRequests
from adjourn.tasks import (
    MAX_SHOWN_TOOL,
    OF_CLIENT,
    Admitted,
    Ask,
    Block,
    Decision,
    RecordedAnswer,
    ToolRequest,
    method_refusal,
    rule_name,
)
from adjourn.tasks import judge as judge_method
from adjourn.text import beginning

if TYPE_CHECKING:
    from adjourn.proxy.sampling import ClientSampling

SAMPLE, MAX_NAME, MAX_REASON = 120, 80, 500
"""Characters that are kept of a refused message, of its tool name, and of the reason."""


class Gate:
    """Handles the client's lines, in one thread. `wake` has the main thread look at `sampling` at once."""

    def __init__(
        self,
        connection: Connection,
        meta: MetaTools,
        confirmations: Confirmations,
        forwarder: Forwarder,
        requests: ServerRequests,
        *,
        wake: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._wire = connection.wire
        self._context = connection.context
        self._meta = meta
        self._confirmations = confirmations
        self._forwarder = forwarder
        self._requests = requests
        self._wake = wake
        self._forwards: list[bytes] = []
        self._answers: list[bytes] = []
        self._calls: list[GatedCall] = []
        self._places: list[int] = []
        self._queued: set[Any] = set()
        self._refusals = 0
        self.sampling: ClientSampling | None = None
        """Asks the client's model, if the client offers that."""

    def handle(self, lines: list[bytes]) -> None:
        """Take lines that arrived together. Their intents are one transaction, their forwarding one write."""
        for line in lines:
            if type(line) is Oversize:
                self._refuse(FrameError(frames.PARSE_ERROR, "a message longer than the limit"), line)
            elif not line.isspace():
                self._line(line, None)
        self._flush()

    # --- one line

    def _line(self, line: bytes, batch: Batch | None) -> None:
        try:
            message = frames.decode_client_line(line)
            if isinstance(message, list):
                self._batch(message, batch)
                return
        except FrameError as error:
            self._refuse(error, line, batch)
            return
        if message.method == "":
            self._response(message)
        elif message.id is None:
            self._notification(message)
        else:
            self._request(message, batch)

    def _batch(self, elements: list[bytes], outer: Batch | None) -> None:
        modern = self._context.era == "modern"
        revision = self._connection.upstream.revision
        if outer is not None or modern or (revision and revision not in frames.BATCH_REVISIONS):
            raise FrameError(frames.INVALID_REQUEST, "this protocol revision has no batches")
        batch = Batch(due=1)  # keeps it open until every element has been handled
        for element in elements:
            self._line(element + b"\n", batch)
        self._flush()
        self._wire.to_client(self._wire.answer(batch, NO_ANSWER))

    def _response(self, message: Message) -> None:
        if self._confirmations.answered_by(message) or (
            self.sampling is not None and self.sampling.answered_by(message)
        ):
            return
        if not self._requests.may_answer(message.id):
            self._refused("an answer to a request of the server that was refused", message.raw)
            return
        self._forwards.append(message.raw)

    def _notification(self, message: Message) -> None:
        if message.method == "tools/call":
            self._refused("a tools/call without id", message.raw)
            return
        if message.method == "notifications/cancelled" and self._cancelled(message.params.get("requestId")):
            return
        if message.method == "notifications/initialized" and self.sampling is not None:
            self.sampling.begin()
        policy, automatic = self._context.policy, self._context.options.auto_confirm
        if (block := method_refusal(policy, message.method, OF_CLIENT, auto_confirm=automatic)) is not None:
            if not policy.observe:
                self._refused(block.message[:500], message.raw)
                return
            tool = rule_name(message.method)[:MAX_SHOWN_TOOL]
            observed = kinds.PolicyObserved(decision="block", reason=block.reason, rule=block.rule, tool=tool)
            self._connection.note(observed)
        self._forwards.append(message.raw)

    def _cancelled(self, request_id: object) -> bool:
        """The client gave up a request. Returns whether the upstream need not know, since it was only held here."""
        if not frames.is_id(request_id):
            return False
        self._flush()  # it may be among the lines that have just come
        if self._confirmations.cancelled(request_id):
            return True
        pending = self._wire.give_up(request_id)
        if pending is not None and pending.session is not None and pending.call:
            settled = kinds.ToolSettled(call=pending.call, outcome="no-answer")
            self._connection.settle(pending.session, settled)
        return False

    def _request(self, message: Message, batch: Batch | None) -> None:
        if batch is not None:
            batch.expect()
        if (
            message.id in self._wire.pending
            or message.id in self._queued
            or self._confirmations.holds(message.id)
        ):
            self._answer(batch, frames.error(message.id, frames.INVALID_REQUEST, "this id is still in use"))
        elif message.method == "tools/call":
            self._tools_call(message, batch)
        else:
            self._other(message, batch)

    def _other(self, message: Message, batch: Batch | None) -> None:
        kind = {"initialize": "initialize", "server/discover": "discover", "tools/list": "list"}.get(
            message.method, "other"
        )
        name = rule_name(message.method)
        if kind == "other" and (place := protected_path(message.params, self._context.places, reads=True)):
            self._protect(message, name, name, place, batch)
            return
        verdict = judge_method(self._context.policy, message.method, OF_CLIENT)
        if verdict.effect != "allow" or verdict.confirm is not None:
            call = call_of(name, message.params, self._context, self._connection.upstream, named_only=True)
            if message.method not in OF_CLIENT:
                call = msgspec.structs.replace(call, vendor=True)
            self._queue(message, call, batch)
            return
        if kind == "initialize":
            self._greeted(message.params.get("clientInfo"), "legacy")
            self._confirmations.legacy_capabilities(message.params.get("capabilities"))
            self._offers_sampling(message.params.get("capabilities"))
        elif message.modern:
            self._greeted(message.meta.get(frames.META_CLIENT), "modern")
        self._forwarder.track(message, Pending(kind, modern=message.modern, batch=batch))
        self._forwards.append(message.raw)

    def _greeted(self, info: object, era: str) -> None:
        name = info.get("name") if isinstance(info, dict) else None
        version = info.get("version") if isinstance(info, dict) else None
        client = name if isinstance(name, str) else ""
        if client and isinstance(version, str) and version:
            client = f"{client} {version}"
        self._context.identify(client[:100], era)

    def _offers_sampling(self, capabilities: object) -> None:
        if isinstance(capabilities, dict) and isinstance(capabilities.get("sampling"), dict):
            from adjourn.proxy.sampling import ClientSampling  # noqa: PLC0415  # 5 ms; few clients offer it

            self.sampling = ClientSampling(self._connection, wake=self._wake)

    def _tools_call(self, message: Message, batch: Batch | None) -> None:
        name = message.params.get("name")
        arguments = message.params.get("arguments")
        if not isinstance(name, str) or not tool_name_ok(name):
            shown = beginning(repr(name), MAX_NAME)
            self._answer(batch, frames.error(message.id, frames.INVALID_PARAMS, f"not a tool name: {shown}"))
            self._refused("not a tool name", message.raw, sample=shown)
            return
        if arguments is not None and not isinstance(arguments, dict):
            self._answer(
                batch, frames.error(message.id, frames.INVALID_PARAMS, "arguments must be an object")
            )
            return
        if message.modern:
            self._greeted(message.meta.get(frames.META_CLIENT), "modern")
        if dotted := meta_tool(name):
            verdict = self._context.policy.judge_open(dotted)
            if verdict.effect == "allow" and verdict.confirm is None:
                self._flush()  # it sees what came before it as done
                self._answer(batch, self._meta.handle(message, dotted))
                return
            call = call_of(dotted, message.params, self._context, self._connection.upstream, named_only=True)
        else:
            call = call_of(name, message.params, self._context, self._connection.upstream)
            # a server's word that a tool only reads counts where its name says so, too
            reads = name in READING_VERBS or (not call.effectful and only_reads(name))
            place = protected_path(arguments, self._context.places, tool=name, reads=reads)
            if place is not None:
                self._protect(message, f'tool "{name}"', name, place, batch)
                return
        self._queue(message, call, batch)

    def _protect(self, message: Message, what: str, tool: str, place: str, batch: Batch | None) -> None:
        """Refuse a request that names a protected place."""
        may_not, remedy = reason_for(place)
        self._connection.note(kinds.ToolDenied(reason="protected", rule=place, tool=tool[:MAX_SHOWN_TOOL]))
        self._refuse_call(message, Block("protected", f"{what} {may_not}", remedy), batch)

    # --- admission

    def _queue(self, message: Message, call: ToolRequest, batch: Batch | None) -> None:
        if (
            "requestState" in message.params
            and (block := self._confirmations.take_answer(message, call)) is not None
        ):
            self._refuse_call(message, block, batch)
            return
        alone = call.tool in DEFINITIONS or message.meta.get(TASK_META) or message.params.get("requestState")
        if alone:
            self._flush()  # it may be of another task, and sees what came before it as done
        self._calls.append(GatedCall(message, call, batch))
        self._queued.add(message.id)
        self._places.append(len(self._forwards))
        self._forwards.append(b"")  # its place among the lines that pass, to keep their order
        if alone:
            self._flush()

    def _flush(self) -> None:
        calls, places = self._calls, self._places
        self._calls, self._places = [], []
        if calls:
            self._queued.clear()
            self._admit(calls, places)
        forwards, answers = self._forwards, self._answers
        self._forwards, self._answers = [], []
        if forwards:
            self._forwarder.send(forwards)
        if answers:
            self._wire.to_client(b"".join(answers))

    def _admit(self, calls: list[GatedCall], places: list[int]) -> None:
        try:
            session, admitted = self._context.admit([gated.call for gated in calls], calls[0].task)
        except StoreError as error:
            self._without_store(calls, places, error)
            return
        except AdjournError as error:
            for gated in calls:
                self._refuse_call(gated.message, Block("held", error.message, error.remedy), gated.batch)
            return
        for gated, place, decided in zip(calls, places, admitted, strict=True):
            self._decided(gated, place, decided, session)

    def _without_store(self, calls: list[GatedCall], places: list[int], error: StoreError) -> None:
        """Nothing can be written: only what has no effect, and costs no budget, may pass."""
        policy = self._context.policy
        for gated, place in zip(calls, places, strict=True):
            call = gated.call
            verdict = judge(policy, call.tool, call.given, self._context.options.root)
            harmless = not call.effectful and not call.named_only and not _is_counted(policy, call.tool)
            if harmless and verdict.effect == "allow" and verdict.confirm is None:
                pending = Pending("other", modern=gated.message.modern, batch=gated.batch)
                self._forwarder.track(gated.message, pending)
                self._forwards[place] = gated.message.raw
            else:
                reason = f'tool "{call.tool}" was not called, since it could not be recorded: {error.message}'
                self._refuse_call(gated.message, Block("store", reason, error.remedy), gated.batch)
        self._wire.report.event("store.error", str(error))

    def _decided(self, gated: GatedCall, place: int, admitted: Admitted, session: GuardedSession) -> None:
        decision: Decision = admitted.decision
        message, call = gated.message, gated.call
        if isinstance(decision, Block):
            self._wire.report.event("tool.denied", decision.message)
            self._refuse_call(message, decision, gated.batch)
        elif isinstance(decision, Ask):
            if admitted.approval is not None:
                self._confirmations.ask(gated, admitted.approval, session, decision.within)
        elif isinstance(decision, RecordedAnswer):
            self._answer(gated.batch, self._forwarder.recorded_answer(gated, decision, session))
        elif call.tool in DEFINITIONS:
            self._answer(gated.batch, self._forwarder.meta_answer(gated, admitted, session))
        else:
            self._forwards[place] = self._forwarder.line_of(gated, admitted, session)
            self._wire.report.routine("tool.allowed", tool=call.tool, call=admitted.call)

    def give_up(self, lines: list[bytes]) -> None:
        """After a failure of ours: nothing of these lines is forwarded, and every request among them is answered."""
        self._calls, self._places, self._forwards, self._answers = [], [], [], []
        self._queued.clear()
        self._forwarder.drop()
        for line in lines:
            try:
                message = frames.decode_client_line(line)
            except FrameError:
                continue
            if isinstance(message, Message) and message.is_request and message.id not in self._wire.pending:
                self._wire.to_client(
                    frames.error(message.id, frames.INTERNAL_ERROR, "adjourn failed on this message")
                )

    # --- small things

    def _answer(self, batch: Batch | None, line: bytes) -> None:
        if out := self._wire.answer(batch, line):
            self._answers.append(out)

    def _refuse_call(self, message: Message, block: Block, batch: Batch | None) -> None:
        self._answer(batch, self._connection.refusal(message, block))

    def _refuse(self, error: FrameError, line: bytes, batch: Batch | None = None) -> None:
        if batch is not None:
            batch.expect()
        self._answer(batch, frames.error(error.id, error.code, error.reason))
        self._wire.report.event("message.refused", error.reason)
        self._refused(
            error.reason, line, sample=beginning(line[:MAX_SAMPLED].decode(errors="replace"), SAMPLE)
        )

    def _refused(self, reason: str, line: bytes, sample: str = "") -> None:
        """Write down that a message went nowhere. A flood of them must not fill the store."""
        self._refusals += 1
        if not is_noted(self._refusals):
            return
        if self._refusals > MAX_NOTED:
            reason += f" (number {self._refusals:,} of those refused)"
        self._connection.note(
            kinds.MessageRefused(reason=beginning(reason, MAX_REASON), sample=sample, size=len(line))
        )


def _is_counted(policy: Policy, tool: str) -> bool:
    """Whether a call of the tool has to be written down to be counted, or something has to be before it."""
    return bool(
        policy.budget is not None
        or policy.budgets
        or policy.limits_of(tool)
        or policy.once_of(tool)
        or policy.checkpoint_before(tool)
    )
