"""From the server: every answer finds its request, is written down, and passes byte for byte unless it must be edited.

Must never: hand over an answer that nobody asked for, or the answer to an effect before that is settled.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.checkpoints.triggers import GuardedSession
from adjourn.errors import AdjournError, StoreError
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import SYSTEM
from adjourn.mcp import frames, server_lines
from adjourn.mcp.frames import FrameError
from adjourn.mcp.lenient import list_of, object_of, value_of
from adjourn.mcp.server_lines import Reply, ResultHead, failure_texts, is_error, result_head
from adjourn.relay.meta import MetaTools
from adjourn.relay.ports import NEVER, Outcome, Settled
from adjourn.relay.request import MAX_SAMPLED, Connection, Request, is_noted
from adjourn.relay.server_requests import ServerRequests
from adjourn.relay.tools import ToolList, greeting
from adjourn.tasks.budgets import SpentShare, notice_text
from adjourn.tasks.idempotency import MAX_ANSWER
from adjourn.tasks.task import NewEvent
from adjourn.text.command_lines import exit_code_of, is_shell
from adjourn.text.quoting import first_line
from adjourn.text.redact import beginning

UNSET = msgspec.UNSET
MAX_LINE = 200
"""Characters that are kept of a line that is not JSON."""
SETTLE_SECONDS, AGAIN_SECONDS = 60.0, 0.25
"""How long an answer waits for a store that cannot take its settlement, and how often that is tried. Then it is delivered without."""


class Delivery(NamedTuple):
    """Lines for the client, which are not delivered before `settled` is written, at most until a time (`time.monotonic`).

    `later` are calls without effect, whose settlements are written with the next commit; `now` is when the lines arrived, in nanoseconds.
    """

    lines: list[bytes]
    later: list[tuple[Request, Reply]]
    settled: dict[GuardedSession, Settled]
    now: int
    until: float


class Answers:
    """Handles the server's lines. While it is `busy`, it is not to be given any."""

    def __init__(
        self,
        connection: Connection,
        meta: MetaTools,
        tool_list: ToolList,
        server_requests: ServerRequests,
        *,
        has_notices: bool,
    ) -> None:
        self._connection = connection
        self._report = connection.report
        self._meta = meta
        self._tool_list = tool_list
        self._server_requests = server_requests
        self._has_notices = has_notices
        """Whether an answer tells the agent how much of a budget is spent."""
        self._not_json = 0
        self._unwritten: tuple[Delivery, dict[GuardedSession, Exception]] | None = None
        """What waits for a store that could not take its settlements, and why."""
        self._is_closed = False
        self.is_writing = False
        """Whether lines wait for the store, or for a checkpoint."""
        self.greetings = 0
        """How many answers wait for the notice of pending work."""

    @property
    def busy(self) -> bool:
        """Whether lines wait: for the store, for a checkpoint, or for the notice of pending work."""
        return self.is_writing or self.greetings > 0

    def handle(self, lines: list[bytes]) -> None:
        """Process a batch of lines: effects are settled in one transaction before any is delivered."""
        delivery = Delivery([], [], {}, time.monotonic_ns(), time.monotonic() + SETTLE_SECONDS)
        for line in lines:
            try:
                delivery.lines.extend(self._line(line, delivery))
            except Exception as error:  # one odd message must not take others along
                self._report.event("proxy.bug", f"{type(error).__name__}: {error}")
        if delivery.settled:
            if (commits := self._connection.commits) is not None:
                self.is_writing = True
                commits.settle(delivery.settled, partial(self._written, delivery, True))
                return
            failed: dict[GuardedSession, Exception] = {}
            for session, settled in delivery.settled.items():
                try:
                    session.settling(settled.facts, answers=settled.answers).alone()
                except AdjournError as error:
                    failed[session] = error
            if failed:
                self._defer(delivery, failed)
        self._deliver(delivery)

    # --- one line

    def _line(self, line: bytes, delivery: Delivery) -> Iterable[bytes]:
        try:
            line, reply = server_lines.read(line)
        except FrameError as error:
            elements = server_lines.elements(line)
            if elements:
                return [out for element in elements for out in self._line(element, delivery)]
            return self._unread(line, error, delivery)
        if reply.method is not UNSET:
            return (line,) if self._server_requests.pass_on(line, reply.method, reply.id) else ()
        request_id = reply.id
        is_id = type(request_id) is int or type(request_id) is str
        request = self._connection.requests.get(request_id) if is_id else None
        if request is None or not request.is_sent:
            return self._unasked(request_id)
        try:
            if request.kind in ("initialize", "discover") and reply.error is UNSET:
                self._greet(request, line)
                return ()
            line = self._answered(request, reply, line, delivery)
            session = request.session
            if session is not None and session.task.ledger.calls_used >= session.notice.at:
                line = self._with_notice(session, request, line)
        except Exception as error:  # one odd answer must not leave its request without any
            self._report.event("proxy.bug", f"{type(error).__name__}: {error}")
            line = frames.error(reply.id, frames.INTERNAL_ERROR, "the upstream's answer could not be handled")
        if request.batch is not None or request.cancelled:
            return (self._connection.answer(request, line),)
        del self._connection.requests[request_id]
        return (line,)

    def _answered(self, request: Request, reply: Reply, line: bytes, delivery: Delivery) -> bytes:
        """Take note of an answer. Returns what the client gets."""
        asks = _asks_for_input(reply) if b'"input_required"' in line or b"\\u" in line else None
        if asks and (block := self._server_requests.in_answer(asks.inputRequests)):
            if request.session is not None and request.call_id:
                self._settle(request, _lost(request, line), delivery)
            return self._connection.refusal(request, block)
        if request.kind == "call" and request.session is not None:
            if request.effectful or request.is_kept or asks:  # the client may continue with it at once
                fact = _settlement(request, reply, delivery.now)
                self._settle(request, fact, delivery)
                result = reply.result if request.is_kept and fact.outcome == "ok" else UNSET
                if isinstance(result, msgspec.Raw) and len(result) <= MAX_ANSWER:
                    delivery.settled[request.session].answers[request.call_id] = bytes(result)
            else:
                delivery.later.append((request, reply))
        elif request.kind == "withheld":
            return b""
        elif request.kind == "list" and reply.error is UNSET:
            return self._tool_list.answer(request, line)
        elif request.kind == "list" and is_error(reply.error, frames.METHOD_NOT_FOUND):
            return self._tool_list.own_answer(request) or line
        return line

    def _settle(self, request: Request, fact: kinds.ToolSettled, delivery: Delivery) -> None:
        """Write a fact before anything is delivered."""
        if request.session is not None:
            if (observer := self._connection.observer) is not None:
                observer.settled(request, fact.outcome, delivery.now)
            delivery.settled.setdefault(request.session, Settled()).facts.append(fact)

    def _unasked(self, request_id: object) -> Iterable[bytes]:
        text = f"dropped an answer to a request that is not open: {str(request_id)[:40]}"
        self._report.event("answer.unasked", text)
        return ()

    def _unread(self, line: bytes, error: FrameError, delivery: Delivery) -> Iterable[bytes]:
        """Drop a line that can be read in more than one way. Whoever waits for it gets an error."""
        if line.isspace():
            return ()
        sample = beginning(line[:MAX_SAMPLED].decode(errors="replace"), MAX_LINE)
        self._report.event("upstream.non_jsonrpc", f"dropped: {error.reason}: {sample!r}")
        self._not_json += 1
        if is_noted(self._not_json):
            self._connection.note(kinds.UpstreamNonJson(line=sample))
        from adjourn.mcp.unreadable import ids_in  # few lines are that odd

        out = []
        for request_id in ids_in(line):
            request = self._connection.requests.get(request_id)
            if request is None or not request.is_sent:
                self._unasked(request_id)
                continue
            if request.cancelled:
                self._connection.answer(request, b"")
                continue
            if request.session is not None and request.call_id:
                self._settle(request, _lost(request, line), delivery)
            text = f"the upstream's answer cannot be read: {error.reason}"
            answer = frames.error(request_id, frames.INTERNAL_ERROR, text)
            out.append(self._connection.answer(request, answer))
        return out

    # --- writing, and delivering

    def _written(self, delivery: Delivery, is_first: bool, failed: Mapping[GuardedSession, Exception]) -> None:
        """Deliver lines whose settlements are written together with those of others. While the store is away, they wait for it."""
        may_wait = not self._is_closed and time.monotonic() < delivery.until
        again: dict[GuardedSession, Exception] = {
            session: error for session, error in failed.items() if may_wait and isinstance(error, StoreError)
        }
        if is_first:
            for error in again.values():
                self._report.event("answer.waits", str(error))
        self._defer(delivery, {session: error for session, error in failed.items() if session not in again})
        if again:
            self._unwritten = delivery, again
            self._connection.loop.after(AGAIN_SECONDS, self._write_again)
        else:
            self._deliver(delivery)

    def _write_again(self) -> None:
        if self._unwritten is not None and (commits := self._connection.commits) is not None:
            (delivery, failed), self._unwritten = self._unwritten, None
            settled = {session: delivery.settled[session] for session in failed}
            commits.settle(settled, partial(self._written, delivery, False))

    def close(self) -> None:
        """Wait for the store no longer: what is answered is delivered, and written with the next commit of its task."""
        self._is_closed = True
        if self._unwritten is not None:
            (delivery, failed), self._unwritten = self._unwritten, None
            self._defer(delivery, failed)
            self._deliver(delivery)

    def _defer(self, delivery: Delivery, failed: Mapping[GuardedSession, Exception]) -> None:
        """Have what could not be written wait for the next commit of its task."""
        for session, error in failed.items():
            self._report.event("store.error", str(error))
            session.task.deferred.extend(NewEvent(fact, SYSTEM, session.id) for fact in delivery.settled[session].facts)

    def _deliver(self, delivery: Delivery) -> None:
        """Hand lines to the client, after the checkpoints that are due."""
        self.is_writing = False
        facts_of: dict[GuardedSession, list[kinds.ToolSettled]] = {}
        for request, _ in delivery.later:
            session = request.session
            if session is not None and session.policy.counts:
                ledger = session.task.ledger
                if ledger.calls_used >= session.due_at or ledger.milestones:
                    facts_of[session] = []
        for session, settled in delivery.settled.items():
            facts_of[session] = settled.facts
        due = [pair for pair in facts_of.items() if pair[0].is_due_after(pair[1])] if facts_of else []
        lines = delivery.lines
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        if due:
            self.is_writing = True
            self._connection.loop.work(
                partial(self._make_checkpoints, due), partial(self._deliver_after_checkpoints, data)
            )
        elif data:
            self._connection.client.send(data)
        observer = self._connection.observer
        for request, reply in delivery.later:  # not before the client has its answer
            if request.session is not None:
                fact = _settlement(request, reply, delivery.now)
                request.session.task.deferred.append(NewEvent(fact, SYSTEM, request.session.id))
                if observer is not None:
                    observer.settled(request, fact.outcome, delivery.now)

    def _make_checkpoints(self, due: list[tuple[GuardedSession, list[kinds.ToolSettled]]]) -> None:
        """Make what checkpoints are due. In the worker."""
        for session, facts in due:
            try:
                for note in session.checkpoint_after(facts):
                    self._report.event("page", note)
            except AdjournError as error:
                self._report.event("checkpoint.failed", str(error))

    def _deliver_after_checkpoints(self, data: bytes, outcome: Outcome[None]) -> None:
        self.is_writing = False
        if data:
            self._connection.client.send(data)
        outcome.get()

    # --- answers to initialize and server/discover, which tell of work that can be resumed

    def _greet(self, request: Request, line: bytes) -> None:
        """Note what the server says of itself, and hand its answer over once it has what is added."""
        try:
            result = value_of(line)["result"]
        except msgspec.DecodeError:
            result = None
        about: dict[str, Any] = result if isinstance(result, dict) else {}
        self._connection.context.name_server(_server_name(about))
        if request.kind == "initialize":
            revision = about.get("protocolVersion")
            self._connection.upstream.revision = revision if isinstance(revision, str) else ""
        request.is_sent = False  # another answer to it is one that nobody asked for
        self.greetings += 1

        def complete() -> bytes:
            return greeting(line, self._meta.notice()) or line

        self._connection.loop.work(complete, partial(self._deliver_greeting, request, line))

    def _deliver_greeting(self, request: Request, line: bytes, outcome: Outcome[bytes]) -> None:
        """Hand an answer over, unless its request was answered otherwise meanwhile."""
        self.greetings -= 1
        connection = self._connection
        try:
            line = outcome.get()
        except Exception as error:  # it passes as it is
            self._report.event("upstream.odd", f"the answer to {request.kind} is malformed: {error}")
        if connection.requests.get(request.id) is request and (out := connection.answer(request, line)):
            connection.client.send(out)

    # --- the line about the budget that an answer to the agent carries, behind the server's own content

    def _with_notice(self, session: GuardedSession, request: Request, line: bytes) -> bytes:
        """An answer to a call with the notice that is due; the very line without one, or where it cannot carry any."""
        if not self._has_notices:
            session.notice.at = NEVER
            return line
        if request.kind != "call" or request.method != "tools/call":
            return line
        shares = session.notice.due(session.policy, session.task.ledger, session.workspace_spent)
        if not shares:
            return line
        text = notice_text(shares, self._meta.spelled("aex.checkpoint"))
        try:
            edited = with_notice(line, text, shares if request.modern else ())
        except msgspec.DecodeError:
            return line
        if edited is None:
            return line  # the next answer can say it
        session.notice.tell(shares)
        session.notice.due(session.policy, session.task.ledger, session.workspace_spent)
        return edited


META_BUDGET = "dev.adjourn/budget"
_encode = msgspec.json.encode


def with_notice(line: bytes, text: str, shares: Collection[SpentShare]) -> bytes | None:
    """A response with `text` as its last content, and `shares` in its `_meta`. None for an error, for a result without a list of
    content, and for one whose content is the structured one alone.
    """
    body = object_of(line)
    if "result" not in body:
        return None
    result = object_of(body["result"])
    content = result.get("content")
    if content is None or bytes(content).lstrip()[:1] != b"[" or _value(result, "isError", default=False):
        return None
    if _value(result, "resultType", default="complete") != "complete":
        return None
    blocks = list_of(content)
    if not blocks and "structuredContent" in result:
        return None
    result["content"] = msgspec.Raw(_encode([*blocks, {"type": "text", "text": text}]))
    if shares:
        meta = object_of(result["_meta"]) if "_meta" in result else {}
        meta[META_BUDGET] = msgspec.Raw(_encode([share._asdict() for share in shares]))
        result["_meta"] = msgspec.Raw(_encode(meta))
    body["result"] = msgspec.Raw(_encode(result))
    return _encode(body) + b"\n"


def _value(result: dict[str, msgspec.Raw], name: str, *, default: Any) -> Any:
    return value_of(result[name]) if name in result else default


def _server_name(result: dict[str, Any]) -> str:
    """The name that a server gives itself in its answer to initialize or server/discover."""
    meta = result.get("_meta")
    info = result.get("serverInfo") or (meta.get(frames.META_SERVER) if isinstance(meta, dict) else None)
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


# --- what an answer says about its call


def _asks_for_input(reply: Reply) -> ResultHead | None:
    """The result that says that the request continues once the client has answered what is asked in it; None for any other."""
    raw = bytes(reply.result) if isinstance(reply.result, msgspec.Raw) else b""
    head = result_head(raw)
    return head if head.resultType == "input_required" else None


def _lost(request: Request, line: bytes) -> kinds.ToolSettled:
    """The outcome of a call whose answer is not delivered: an effect is in doubt, and only an error releases a claim
    that the upstream means.
    """
    lost = request.effectful or request.is_kept
    outcome: Literal["error", "no-answer"] = "no-answer" if lost else "error"
    message = "the answer was not delivered"
    return kinds.ToolSettled(call=request.call_id, outcome=outcome, answer=digest(line), message=message)


def _first_line(raw: bytes) -> str:
    """The first line of the text that a failed call was answered with, redacted and cut."""
    return next((line for text in failure_texts(raw) if (line := first_line(text))), "")


def _exit_code(request: Request, result: bytes) -> int:
    """The exit code that a shell's result states, although the server does not call it an error; 0 for any other.

    A call whose effect may happen only once keeps the outcome that its server means.
    """
    return exit_code_of(result) if not request.is_kept and is_shell(request.tool) else 0


def _settlement(request: Request, reply: Reply, now: int) -> kinds.ToolSettled:
    milliseconds = (now - request.started) // 1_000_000
    if isinstance(reply.error, msgspec.Raw):
        return kinds.ToolSettled(
            answer=digest(bytes(reply.error)),
            call=request.call_id,
            message=_first_line(reply.error),
            milliseconds=milliseconds,
            outcome="no-answer" if is_error(reply.error, frames.OUTCOME_UNKNOWN) else "error",
        )
    raw = bytes(reply.result) if isinstance(reply.result, msgspec.Raw) else b""
    outcome: Any = "ok"
    state = message = ""
    if b'"isError"' in raw or b'"resultType"' in raw or b"\\u" in raw:  # as it is, or with letters escaped
        head = result_head(raw)
        if head.resultType == "input_required":
            outcome = "input-required"
            state = digest(head.requestState.encode()) if isinstance(head.requestState, str) else ""
        elif head.isError is True:
            outcome = "tool-error"
            message = _first_line(raw)
    if outcome == "ok" and request.effectful and (exit_code := _exit_code(request, raw)):
        outcome, message = "tool-error", f"exit code {exit_code}"
    return kinds.ToolSettled(
        answer=sha256(raw).hexdigest(),
        call=request.call_id,
        message=message,
        milliseconds=milliseconds,
        outcome=outcome,
        state=state,
    )
