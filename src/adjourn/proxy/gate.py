"""From the client: every message is passed on, answered here, or held until a person has decided.

Owns: what becomes of a client's line. Must never: let through what it could not decide on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from adjourn.aex import tool_name_ok
from adjourn.aex.policy import Policy
from adjourn.clients import Desk
from adjourn.errors import AdjournError, StoreError
from adjourn.log import digest, kinds
from adjourn.mcp import FrameError, Message, Oversize, frames
from adjourn.policy import READING_VERBS, arguments_digest, judge
from adjourn.policy.protected import only_reads, protected_path, reason_for
from adjourn.proxy.approvals import Asker, is_ours
from adjourn.proxy.meta import MetaTools
from adjourn.proxy.params import GIVEN_BACK, PLAIN, TASK_META, Gated, beside_call, beside_request, given_back
from adjourn.proxy.pipes import NO_ANSWER, Batch, Pending, Wire, Written
from adjourn.proxy.report import MAX_KEPT, is_kept
from adjourn.proxy.requests import ServerRequests
from adjourn.tasks import MAX_SHOWN_TOOL, OF_CLIENT, Admitted, Ask, Block, Continue, Decision, rule_name
from adjourn.tasks import judge as judge_method
from adjourn.tasks.decision import Call, Replay
from adjourn.tasks.methods import refusal
from adjourn.tasks.session import Session
from adjourn.text import beginning, preview, visible_lines

if TYPE_CHECKING:
    from adjourn.proxy.sampling import Sampler

UNREAD = "the upstream server does not read any more"
_BESIDE_THE_REQUEST = ("_meta", *GIVEN_BACK)
SAMPLE, MAX_NAME, MAX_REASON = 120, 80, 500
"""Characters that are kept of a refused message, of what it has as a name, and of why."""
MAX_SAMPLED = 1024
"""Bytes of it that are looked at for secrets."""


class Gate:
    """Handles the client's lines, in one thread."""

    def __init__(
        self,
        wire: Wire,
        desk: Desk,
        asker: Asker,
        meta: MetaTools,
        *,
        errors: str,
        wake: Callable[[], None],
    ) -> None:
        self._wire = wire
        self.requests = ServerRequests(wire, desk)
        self._desk = desk
        self._asker = asker
        self._meta = meta
        self._errors = errors
        self._forwards: list[bytes] = []
        self._answers: list[bytes] = []
        self._calls: list[Gated] = []
        self._places: list[int] = []
        self._queued: set[Any] = set()
        self._unsent: set[Any] = set()
        self._refusals = 0
        self.read_only: dict[str, bool] = {}
        self.destructive: set[str] = set()
        self.revision = ""
        self.sampler: Sampler | None = None
        """Asks the client's model, where the client offers that."""
        self._wake = wake

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
        modern = self._desk.era == "modern"
        if outer is not None or modern or (self.revision and self.revision not in frames.BATCH_REVISIONS):
            raise FrameError(frames.INVALID_REQUEST, "this protocol revision has no batches")
        batch = Batch()
        batch.due = 1  # keeps it open until every element has been looked at
        for element in elements:
            self._line(element + b"\n", batch)
        self._flush()
        self._wire.to_client(self._wire.answer(batch, NO_ANSWER))

    def _response(self, message: Message) -> None:
        if self._asker.answered_by(message) or (
            self.sampler is not None and self.sampler.answered_by(message)
        ):
            return
        if not self.requests.may_answer(message.id):
            self._refused("an answer to a request of the server that was refused", message.raw)
            return
        self._forward(message.raw)

    def _notification(self, message: Message) -> None:
        if message.method == "tools/call":
            self._refused("a tools/call without id", message.raw)
            return
        if message.method == "notifications/cancelled" and self._cancelled(message.params.get("requestId")):
            return
        if message.method == "notifications/initialized" and self.sampler is not None:
            self.sampler.begin()
        policy, automatic = self._desk.policy, self._desk.setting.auto_confirm
        if (block := refusal(policy, message.method, OF_CLIENT, auto_confirm=automatic)) is not None:
            if not policy.observe:
                self._refused(block.message[:500], message.raw)
                return
            tool = rule_name(message.method)[:MAX_SHOWN_TOOL]
            self._note(
                kinds.PolicyObserved(decision="block", reason=block.reason, rule=block.rule, tool=tool)
            )
        self._forward(message.raw)

    def _cancelled(self, request_id: object) -> bool:
        """The client gave up a request. Returns whether the upstream need not know, since it was only held here."""
        if not frames.is_id(request_id):
            return False
        self._flush()  # it may be among the lines that have just come
        if self._asker.cancelled(request_id):
            return True
        pending = self._wire.give_up(request_id)
        if pending is not None and pending.session is not None and pending.call:
            self._settle(pending.session, kinds.ToolSettled(call=pending.call, outcome="no-answer"))
        return False

    def _settle(self, session: Session, settled: kinds.ToolSettled) -> None:
        try:
            session.settle([settled])
        except AdjournError as error:
            self._wire.report.event("store.error", str(error))

    def _request(self, message: Message, batch: Batch | None) -> None:
        if batch is not None:
            batch.due += 1
        if message.id in self._wire.pending or message.id in self._queued or self._asker.holds(message.id):
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
        if kind == "other" and (place := protected_path(message.params, self._desk.places, reads=True)):
            self._protect(message, name, name, place, batch)
            return
        verdict = judge_method(self._desk.policy, message.method, OF_CLIENT)
        if verdict.effect != "allow" or verdict.confirm is not None:
            call = self._call(name, message.params, named_only=True)
            if message.method not in OF_CLIENT:
                call = msgspec.structs.replace(call, vendor=True)
            self._queue(message, call, batch)
            return
        if kind == "initialize":
            self._greeted(message.params.get("clientInfo"), "legacy")
            self._asker.legacy_capabilities(message.params.get("capabilities"))
            self._offers_sampling(message.params.get("capabilities"))
        elif message.modern:
            self._greeted(message.meta.get(frames.META_CLIENT), "modern")
        self._track(message, Pending(kind, modern=message.modern, batch=batch))
        self._forward(message.raw)

    def _greeted(self, info: object, era: str) -> None:
        name = info.get("name") if isinstance(info, dict) else None
        version = info.get("version") if isinstance(info, dict) else None
        if isinstance(name, str) and name:
            self._desk.client = (
                f"{name} {version}"[:100] if isinstance(version, str) and version else name[:100]
            )
        self._desk.era = era

    def _offers_sampling(self, capabilities: object) -> None:
        if isinstance(capabilities, dict) and isinstance(capabilities.get("sampling"), dict):
            from adjourn.proxy.sampling import Sampler  # noqa: PLC0415  # few clients offer it

            self.sampler = Sampler(self._wire, self._desk, wake=self._wake)

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
        meta_tool = self._meta.name_of(name)
        if meta_tool:
            verdict = self._desk.policy.judge_open(meta_tool)
            if verdict.effect == "allow" and verdict.confirm is None:
                self._flush()  # it sees what came before it as done
                self._answer(batch, self._meta.handle(message, meta_tool))
                return
            call = self._call(meta_tool, message.params, named_only=True)
        else:
            call = self._call(name, message.params)
            # a server's word that a tool only reads counts where its name says so, too
            reads = name in READING_VERBS or (not call.effectful and only_reads(name))
            place = protected_path(arguments, self._desk.places, tool=name, reads=reads)
            if place is not None:
                self._protect(message, f'tool "{name}"', name, place, batch)
                return
        self._queue(message, call, batch)

    def _protect(self, message: Message, what: str, tool: str, place: str, batch: Batch | None) -> None:
        """Refuse a request that names a protected place."""
        may_not, remedy = reason_for(place)
        self._note(kinds.ToolDenied(reason="protected", rule=place, tool=tool[:MAX_SHOWN_TOOL]))
        self._refuse_call(message, Block("protected", f"{what} {may_not}", remedy), batch)

    def _call(self, tool: str, params: dict[str, Any], *, named_only: bool = False) -> Call:
        arguments = params.get("arguments") or {}
        if named_only and tool not in self._meta.definitions:
            arguments = {key: value for key, value in params.items() if key not in _BESIDE_THE_REQUEST}
        beside: dict[str, Any] = {}
        if not params.keys() <= PLAIN:
            beside = beside_request(params) if named_only else beside_call(params)
        state = params.get("requestState", "" if "inputResponses" in params else None)
        ours = isinstance(state, str) and is_ours(state)
        effectful = not named_only and not (self.read_only.get(tool) or tool in READING_VERBS)
        shown = preview(arguments) if effectful or named_only or beside else ""
        return Call(
            tool=tool,
            digest=arguments_digest(arguments),
            effectful=effectful,
            arguments=f"{shown} with {preview(beside)}" if beside else shown,
            state=digest(state.encode()) if isinstance(state, str) and not ours else "",
            named_only=named_only,
            destructive=tool in self.destructive,
            params=arguments_digest(beside) if beside else "",
            given_back="" if state is None or ours else given_back(params),
            server=self._desk.setting.server,
            definition="" if named_only else self._desk.definitions.get(tool, ""),
            given=arguments,
        )

    # --- admission

    def _queue(self, message: Message, call: Call, batch: Batch | None) -> None:
        if "requestState" in message.params and (block := self._asker.take_answer(message, call)) is not None:
            self._refuse_call(message, block, batch)
            return
        alone = (
            call.tool in self._meta.definitions
            or message.meta.get(TASK_META)
            or message.params.get("requestState")
        )
        if alone:
            self._flush()  # it may be of another task, and sees what came before it as done
        self._calls.append(Gated(message, call, batch))
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
        if forwards and (written := self._wire.to_upstream(b"".join(forwards))) != "all":
            self._unread(written, self._unsent)
        self._unsent.clear()
        if answers:
            self._wire.to_client(b"".join(answers))

    def _unread(self, written: Written, request_ids: Collection[Any]) -> None:
        """Answer requests that were not forwarded whole, as the upstream does not read any more."""
        self._wire.report.event("upstream.gone", UNREAD)
        outcome: Literal["error", "no-answer"] = "error" if written == "nothing" else "no-answer"
        for request_id in list(request_ids):
            pending = self._wire.pending.pop(request_id, None)
            if pending is None or pending.cancelled:
                continue
            if pending.kind == "call" and pending.session is not None:
                self._settle(pending.session, kinds.ToolSettled(call=pending.call, outcome=outcome))
            error = frames.error(request_id, frames.UPSTREAM_GONE, UNREAD)
            self._wire.to_client(self._wire.reply(pending, error))

    def _admit(self, calls: list[Gated], places: list[int]) -> None:
        try:
            session, admitted = self._desk.admit([gated.call for gated in calls], calls[0].task)
        except StoreError as error:
            self._without_store(calls, places, error)
            return
        except AdjournError as error:
            for gated in calls:
                self._refuse_call(gated.message, Block("held", error.message, error.remedy), gated.batch)
            return
        for gated, place, decided in zip(calls, places, admitted, strict=True):
            self._decided(gated, place, decided, session)

    def _without_store(self, calls: list[Gated], places: list[int], error: StoreError) -> None:
        """Nothing can be written: only what has no effect, and costs no budget, may pass."""
        policy = self._desk.policy
        for gated, place in zip(calls, places, strict=True):
            call = gated.call
            verdict = judge(policy, call.tool, call.given, self._desk.setting.root)
            harmless = not call.effectful and not call.named_only and not _is_counted(policy, call.tool)
            if harmless and verdict.effect == "allow" and verdict.confirm is None:
                self._track(gated.message, Pending("other", modern=gated.message.modern, batch=gated.batch))
                self._forwards[place] = gated.message.raw
            else:
                reason = f'tool "{call.tool}" was not called, since it could not be recorded: {error.message}'
                self._refuse_call(gated.message, Block("store", reason, error.remedy), gated.batch)
        self._wire.report.event("store.error", str(error))

    def _decided(self, gated: Gated, place: int, admitted: Admitted, session: Session) -> None:
        decision: Decision = admitted.decision
        message, call = gated.message, gated.call
        if isinstance(decision, Block):
            self._wire.report.event("tool.denied", decision.message)
            self._refuse_call(message, decision, gated.batch)
        elif isinstance(decision, Ask):
            if admitted.approval is not None:
                self._asker.ask(gated, admitted.approval, session, decision.within)
        elif isinstance(decision, Replay):
            self._answer(gated.batch, self._replayed(gated, decision, session))
        elif call.tool in self._meta.definitions:
            self._answer(gated.batch, self._meta_answer(gated, admitted, session))
        else:
            self._forwards[place] = self._forward_line(gated, admitted, session)
            self._wire.report.routine("tool.allowed", tool=call.tool, call=admitted.call)

    def proceed(self, gated: Gated, admitted: Admitted, session: Session) -> None:
        """Go on with a call that was held, in whatever thread the person's answer came."""
        if gated.call.tool in self._meta.definitions:
            self._wire.to_client(self._wire.answer(gated.batch, self._meta_answer(gated, admitted, session)))
        else:
            written = self._wire.to_upstream(self._forward_line(gated, admitted, session))
            if written != "all":
                self._unread(written, [gated.message.id])
            self._unsent.discard(gated.message.id)

    def _replayed(self, gated: Gated, replay: Replay, session: Session) -> bytes:
        """The recorded answer to a call whose effect may happen only once."""
        message = gated.message
        kept = session.task.store.get_blob(replay.answer)
        self._wire.report.event("tool.replayed", f"{gated.call.tool}: the answer of call {replay.call}")
        if kept is None:
            reason = (
                f"the effect of this call happened already, in call {replay.call}; its answer was not kept"
            )
            return self.refusal(message, Block("once_done", reason, "go on without repeating it"))
        if message.modern and kept[:1] == b"{":  # it may have been given to a client of the other era
            fields = msgspec.json.decode(kept, type=dict[str, msgspec.Raw])
            kept = msgspec.json.encode({"resultType": "complete"} | fields)
        return frames.result(message.id, msgspec.Raw(kept))

    def _meta_answer(self, gated: Gated, admitted: Admitted, session: Session) -> bytes:
        answer = self._meta.handle(gated.message, gated.call.tool)
        if admitted.call in session.task.ledger.open_calls:
            session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok")], later=True)
        return answer

    def _forward_line(self, gated: Gated, admitted: Admitted, session: Session) -> bytes:
        """Track an admitted call; returns the bytes to forward."""
        message = gated.message
        pending = Pending("call", modern=message.modern, batch=gated.batch)
        pending.session, pending.call, pending.tool = session, admitted.call, gated.call.tool
        pending.effectful = gated.call.effectful
        opened = session.task.ledger.open_calls.get(admitted.call)
        pending.kept = opened is not None and opened.once != ""
        pending.started = time.monotonic_ns()
        if gated.call.named_only and opened is None:
            pending.kind = "other"
        self._track(message, pending)
        state = message.params.get("requestState")
        if not isinstance(admitted.decision, Continue) and isinstance(state, str) and is_ours(state):
            return frames.without_params(message.raw, GIVEN_BACK)
        return message.raw

    def give_up(self, lines: list[bytes]) -> None:
        """After a failure of ours: nothing of these lines is forwarded, and every request among them is answered."""
        self._calls, self._places, self._forwards, self._answers = [], [], [], []
        self._queued.clear()
        for request_id in self._unsent:
            self._wire.pending.pop(request_id, None)
        self._unsent.clear()
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

    def _track(self, message: Message, pending: Pending) -> None:
        self._unsent.add(message.id)
        self._wire.pending[message.id] = pending

    def _forward(self, line: bytes) -> None:
        self._forwards.append(line)

    def _answer(self, batch: Batch | None, line: bytes) -> None:
        if out := self._wire.answer(batch, line):
            self._answers.append(out)

    def _refuse_call(self, message: Message, block: Block, batch: Batch | None) -> None:
        self._answer(batch, self.refusal(message, block))

    def refusal(self, message: Message, block: Block) -> bytes:
        """The answer to a refused call, in the shape that --errors names. Requests other than tools/call get errors."""
        is_call = message.method == "tools/call"
        return self.refused(message.id, block, is_call=is_call, modern=message.modern)

    def refused(self, request_id: object, block: Block, *, is_call: bool, modern: bool) -> bytes:
        """The same for a request of which no more is known."""
        text = (
            f"{block.message}. {block.remedy[:1].upper()}{block.remedy[1:]}."
            if block.remedy
            else block.message
        )
        text = visible_lines(text)
        if self._errors == "jsonrpc" or not is_call:
            return frames.error(request_id, frames.INVALID_REQUEST, text)
        return frames.result(request_id, frames.tool_result(text, modern=modern, is_error=True))

    def _refuse(self, error: FrameError, line: bytes, batch: Batch | None = None) -> None:
        if batch is not None:
            batch.due += 1
        self._answer(batch, frames.error(error.id, error.code, error.reason))
        self._wire.report.event("message.refused", error.reason)
        self._refused(
            error.reason, line, sample=beginning(line[:MAX_SAMPLED].decode(errors="replace"), SAMPLE)
        )

    def _refused(self, reason: str, line: bytes, sample: str = "") -> None:
        """Write down that a message went nowhere. A flood of them must not fill the store."""
        self._refusals += 1
        if not is_kept(self._refusals):
            return
        if self._refusals > MAX_KEPT:
            reason += f" (number {self._refusals:,} of those refused)"
        self._note(kinds.MessageRefused(reason=beginning(reason, MAX_REASON), sample=sample, size=len(line)))

    def _note(self, data: kinds.Data) -> None:
        try:
            self._desk.session().note(data)
        except AdjournError as error:
            self._wire.report.event("store.error", str(error))


def _is_counted(policy: Policy, tool: str) -> bool:
    """Whether a call of the tool has to be written down to be counted, or something has to be before it."""
    return bool(
        policy.budget is not None
        or policy.budgets
        or policy.limits_of(tool)
        or policy.once_of(tool)
        or policy.checkpoint_before(tool)
    )
