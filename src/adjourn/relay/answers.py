"""From the upstream: every answer finds its request, is written down, and passes byte for byte unless it must be edited.

Owns: settling calls, the edits of tools/list and of capabilities. Must never: hand over an answer that nobody asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.aex.match import KnownTool
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.errors import AdjournError, StoreError
from adjourn.host import process
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.mcp import frames, server_lines
from adjourn.mcp.frames import FrameError
from adjourn.mcp.lenient import UNREADABLE, object_of, value_of
from adjourn.mcp.server_lines import Reply
from adjourn.policy.calls import imitates_meta_tool
from adjourn.relay.connection import MAX_SAMPLED, Connection, is_noted
from adjourn.relay.notices import BudgetNotices, Greetings
from adjourn.relay.ports import NEVER, Outcome, Settled
from adjourn.relay.request import Request
from adjourn.relay.server_requests import ServerRequests
from adjourn.relay.tools import MetaTools, edit_tools, own_list
from adjourn.tasks.idempotency import MAX_ANSWER
from adjourn.tasks.task import SYSTEM, NewEvent
from adjourn.text.quoting import first_line
from adjourn.text.redact import beginning

UNSET = msgspec.UNSET
LISTER_SECONDS = 1.0
"""How often it is looked whether the proxy that lists the meta-tools still runs."""
MAX_PAGED = 10_000
"""Tools of a list in pages that are kept until it is whole."""
MAX_LINE = 200
"""Characters that are kept of a line that is not JSON."""
SETTLE_SECONDS, AGAIN_SECONDS = 60.0, 0.25
"""How long an answer waits for a store that cannot take its settlement, and how often that is tried. Then it is delivered without."""
MAX_BLOCKS = 10
"""Blocks of a failed call's answer in which a text is looked for."""


class ResultHead(msgspec.Struct):
    """What is read of a result."""

    isError: Any = False  # noqa: N815  # the wire's name
    resultType: Any = "complete"  # noqa: N815
    requestState: Any = ""  # noqa: N815
    inputRequests: Any = None  # noqa: N815


class _TextBlock(msgspec.Struct):
    text: Any = ""


class _Failure(msgspec.Struct):
    """What a failed call is answered with: the content of a result, or the message of an error."""

    content: list[_TextBlock] = []
    message: Any = ""


class _Unwritten(NamedTuple):
    """Lines for the client that are not delivered before their settlements are written, at most until a time (`time.monotonic`)."""

    out: list[bytes]
    later: list[tuple[Request, Reply]]
    settled: Mapping[GuardedSession, Settled]
    until: float


class Answers:
    """Handles the server's lines. While it is `busy`, it is not to be given any."""

    def __init__(
        self,
        connection: Connection,
        meta: MetaTools,
        server_requests: ServerRequests,
        notices: BudgetNotices | None = None,
    ) -> None:
        self._connection = connection
        self._notices = notices
        self._context = connection.context
        self._report = connection.report
        self._meta = meta
        self._server_requests = server_requests
        self._not_json = 0
        self._listed: set[str] = set()
        self._pages: list[KnownTool] = []
        """The tools of the pages of a list that is not whole yet."""
        self._settled: dict[GuardedSession, Settled] = {}
        """What is to be written before the lines that are being handled are delivered."""
        self._later: list[tuple[Request, Reply]] = []
        """Calls without effect, whose settlements are written with the next commit."""
        self._now = 0
        self._waiting: tuple[_Unwritten, Mapping[GuardedSession, Exception]] | None = None
        """What the store could not take, and why."""
        self._is_closed = False
        self._is_writing = False
        self._greetings = Greetings(connection, meta)

    @property
    def busy(self) -> bool:
        """Whether lines wait: for the store, for a checkpoint, or for the notice of pending work."""
        return self._is_writing or self._greetings.busy

    def handle(self, lines: list[bytes]) -> None:
        """Take lines that arrived together: effects are settled in one transaction before any is delivered."""
        out: list[bytes] = []
        self._now = time.monotonic_ns()
        for line in lines:
            try:
                out += self._line(line)
            except Exception as error:  # one odd message must not take others along
                self._report.event("proxy.bug", f"{type(error).__name__}: {error}")
        later, self._later = self._later, []
        settled, self._settled = self._settled, {}
        if settled and self._connection.commits is not None:
            until = time.monotonic() + SETTLE_SECONDS
            self._commit(_Unwritten(out, later, settled, until), settled)
            return
        failed: dict[GuardedSession, Exception] = {}
        for session, one in settled.items():
            try:
                session.settling(one.facts, answers=one.answers).alone()
            except AdjournError as error:
                failed[session] = error
        if failed:
            self._defer(settled, failed)
        self._deliver(out, later, settled)

    def _commit(self, waiting: _Unwritten, settled: Mapping[GuardedSession, Settled]) -> None:
        """Write settlements together with those of others, before lines are delivered."""
        if (commits := self._connection.commits) is not None:
            self._is_writing = True
            is_first = settled is waiting.settled
            commits.settle(settled, partial(self._committed, waiting, is_first))

    def _committed(
        self, waiting: _Unwritten, is_first: bool, failed: Mapping[GuardedSession, Exception]
    ) -> None:
        """Deliver lines whose settlements are written. While the store is away, they wait for it."""
        may_wait = not self._is_closed and time.monotonic() < waiting.until
        again = {one: error for one, error in failed.items() if may_wait and isinstance(error, StoreError)}
        if is_first:
            for error in again.values():
                self._report.event("answer.waits", str(error))
        self._defer(waiting.settled, {one: error for one, error in failed.items() if one not in again})
        if again:
            self._waiting = waiting, again
            self._connection.loop.after(AGAIN_SECONDS, self._try_again)
        else:
            self._deliver(waiting.out, waiting.later, waiting.settled)

    def _try_again(self) -> None:
        if (found := self._waiting) is not None:
            self._waiting = None
            waiting, failed = found
            self._commit(waiting, {session: waiting.settled[session] for session in failed})

    def close(self) -> None:
        """Wait for the store no longer: what is answered is delivered, and written with the next commit of its task."""
        self._is_closed = True
        if (found := self._waiting) is not None:
            self._waiting = None
            waiting, failed = found
            self._defer(waiting.settled, failed)
            self._deliver(waiting.out, waiting.later, waiting.settled)

    def _defer(
        self, settled: Mapping[GuardedSession, Settled], failed: Mapping[GuardedSession, Exception]
    ) -> None:
        """Have what could not be written wait for the next commit of its task."""
        for session, error in failed.items():
            self._report.event("store.error", str(error))
            session.task.deferred.extend(
                NewEvent(fact, SYSTEM, session.id) for fact in settled[session].facts
            )

    def _deliver(
        self,
        out: list[bytes],
        later: list[tuple[Request, Reply]],
        settled: Mapping[GuardedSession, Settled],
    ) -> None:
        """Hand lines to the client, after the checkpoints that are due."""
        self._is_writing = False
        looks = bool(settled)
        for request, _ in later:
            looks = looks or (request.session is not None and request.session.policy.counts)
        due = _due(later, settled) if looks else []
        data = out[0] if len(out) == 1 else b"".join(out)
        if due:
            self._is_writing = True
            self._connection.loop.work(partial(self._make_checkpoints, due), partial(self._made, data))
        elif data:
            self._connection.client.send(data)
        observer = self._connection.observer
        for request, reply in later:  # not before the client has its answer
            if request.session is not None:
                fact = _settlement(request, reply, self._now)
                request.session.task.deferred.append(NewEvent(fact, SYSTEM, request.session.id))
                if observer is not None:
                    observer.settled(request, fact.outcome, self._now)

    def _made(self, data: bytes, outcome: Outcome[None]) -> None:
        """Hand over what waited for checkpoints."""
        self._is_writing = False
        if data:
            self._connection.client.send(data)
        outcome.get()

    def _make_checkpoints(self, due: list[tuple[GuardedSession, list[kinds.ToolSettled]]]) -> None:
        """Make what checkpoints are due. In the worker."""
        for session, facts in due:
            try:
                for note in session.checkpoint_after(facts):
                    self._report.event("page", note)
            except AdjournError as error:
                self._report.event("checkpoint.failed", str(error))

    def _line(self, line: bytes) -> Iterable[bytes]:
        try:
            line, reply = server_lines.read(line)
        except FrameError as error:
            elements = server_lines.elements(line)
            if elements:
                return [out for element in elements for out in self._line(element)]
            return self._unread(line, error)
        if reply.method is not UNSET:
            return (line,) if self._server_requests.pass_on(line, reply.method, reply.id) else ()
        request_id = reply.id
        is_id = type(request_id) is int or type(request_id) is str
        request = self._connection.requests.get(request_id) if is_id else None
        if request is None or not request.is_sent:
            return self._unasked(request_id)
        try:
            if request.kind in ("initialize", "discover") and reply.error is UNSET:
                self._greetings.take(request, line)
                return ()
            line = self._answered(request, reply, line)
            session = request.session
            if session is not None and session.task.ledger.calls_used >= session.notice.at:
                line = self._noticed(session, request, line)
        except Exception as error:  # one odd answer must not leave its request without any
            self._report.event("proxy.bug", f"{type(error).__name__}: {error}")
            line = frames.error(reply.id, frames.INTERNAL_ERROR, "the upstream's answer could not be handled")
        if request.batch is not None or request.cancelled:
            return (self._connection.answer(request, line),)
        del self._connection.requests[request_id]
        return (line,)

    def _answered(self, request: Request, reply: Reply, line: bytes) -> bytes:
        """Take note of an answer. Returns what the client gets."""
        asks = _asks_for_input(reply) if b'"input_required"' in line or b"\\u" in line else None
        if asks and (block := self._server_requests.in_answer(asks.inputRequests)):
            if request.session is not None and request.call_id:
                self._settle(request, _lost(request, line))
            return self._connection.refusal(request, block)
        if request.kind == "call" and request.session is not None:
            if request.effectful or request.kept or asks:  # the client may continue with it at once
                fact = _settlement(request, reply, self._now)
                self._settle(request, fact)
                result = reply.result if request.kept and fact.outcome == "ok" else UNSET
                if isinstance(result, msgspec.Raw) and len(result) <= MAX_ANSWER:
                    self._settled[request.session].answers[request.call_id] = bytes(result)
            else:
                self._later.append((request, reply))
        elif request.kind == "withheld":
            return b""
        elif request.kind == "list" and reply.error is UNSET:
            line = self._listed_as(request, line)
        elif (
            request.kind == "list" and self._meta.names() and _is_error(reply.error, frames.METHOD_NOT_FOUND)
        ):
            added = self._meta.to_list()
            self._register(self._meta.names())
            self._keep_tools((), is_last=True)
            self._connection.permitted.listed((), is_last=True)
            self._watch_lister()
            line = frames.result(request.id, own_list(added, modern=request.modern))
        return line

    def _noticed(self, session: GuardedSession, request: Request, line: bytes) -> bytes:
        """An answer with the line about the budget that is due, if it is one to a call."""
        if self._notices is None:
            session.notice.at = NEVER
        elif request.kind == "call" and request.method == "tools/call":
            return self._notices.add(session, line, modern=request.modern)
        return line

    def _settle(self, request: Request, fact: kinds.ToolSettled) -> None:
        """Write a fact before anything is delivered."""
        if request.session is not None:
            if (observer := self._connection.observer) is not None:
                observer.settled(request, fact.outcome, self._now)
            self._settled.setdefault(request.session, Settled()).facts.append(fact)

    def _unasked(self, request_id: object) -> Iterable[bytes]:
        text = f"dropped an answer to a request that is not open: {str(request_id)[:40]}"
        self._report.event("answer.unasked", text)
        return ()

    def _unread(self, line: bytes, error: FrameError) -> Iterable[bytes]:
        """Drop a line that can be read in more than one way. Whoever waits for it gets an error."""
        if line.isspace():
            return ()
        shown = beginning(line[:MAX_SAMPLED].decode(errors="replace"), MAX_LINE)
        self._report.event("upstream.non_jsonrpc", f"dropped: {error.reason}: {shown!r}")
        self._not_json += 1
        if is_noted(self._not_json):
            self._connection.note(kinds.UpstreamNonJson(line=shown))
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
                self._settle(request, _lost(request, line))
            text = f"the upstream's answer cannot be read: {error.reason}"
            answer = frames.error(request_id, frames.INTERNAL_ERROR, text)
            out.append(self._connection.answer(request, answer))
        return out

    def _listed_as(self, request: Request, line: bytes) -> bytes:
        """The list of tools that the client gets."""
        try:
            return self._edit_list(line)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            self._report.event("upstream.odd", f"the answer to {request.kind} is malformed: {error}")
            text = "the upstream's list of tools is malformed"
            return frames.error(request.id, frames.INTERNAL_ERROR, text)

    def _edit_list(self, line: bytes) -> bytes:
        self._connection.look_at_tools()
        policy = self._context.policy
        shadowed = imitates_meta_tool

        def visible(tool: str) -> bool:
            return (policy.observe or policy.visible(tool)) and not shadowed(tool)

        added: list[dict[str, Any]] = []
        is_last = False

        def additions() -> list[dict[str, Any]]:
            nonlocal is_last
            is_last = True
            added.extend(self._meta.to_list())
            self._watch_lister()
            return added

        edit = edit_tools(line, visible, additions)
        self._context.listed(edit.definitions)
        self._connection.upstream.listed(edit)
        listed = (name for name in (*edit.names, *edit.removed) if not shadowed(name))
        self._connection.permitted.listed(listed, is_last=is_last)
        for name in edit.removed:
            if shadowed(name):
                self._report.event(
                    "tool.shadowed", f"the server also has a tool named {name}, too; it is hidden"
                )
        flat: dict[str, str] = {}
        for name in edit.names:
            other = flat.setdefault(name.replace(".", "_").replace("-", "_"), name)
            if other != name:
                self._report.event(
                    "tool.collision", f"clients that rewrite names cannot tell {other} from {name}"
                )
        self._register([*edit.names, *self._meta.names()])
        self._keep_tools((tool for tool in edit.listed if not shadowed(tool.name)), is_last=is_last)
        self._report.event(
            "tools.filtered",
            total=len(edit.names) + len(edit.removed),
            allowed=len(edit.names),
            removed=len(edit.removed),
            metaTools=len(added),
        )
        return edit.line or line

    def _watch_lister(self) -> None:
        """While another proxy of this client lists the meta-tools: have the client list tools again once that one has exited."""
        if self._meta.lister is not None:
            if process.lives(self._meta.lister) is not True:
                self._meta.lister = None
                self._report.event(
                    "tools.lister", "another proxy of this client listed the meta-tools, and ended"
                )
                self._connection.tools_changed()
            else:
                self._connection.loop.after(LISTER_SECONDS, self._watch_lister)

    def _register(self, names: Iterable[str]) -> None:
        """Before the client learns of tools, its hooks do: they decide themselves on what no proxy has listed."""
        before = len(self._listed)
        self._listed.update(names)
        if len(self._listed) == before:
            return
        try:
            self._context.register(self._listed)
        except AdjournError as error:
            self._report.event(
                "store.error", f"{error}; the client's hooks decide on this server's tools, too"
            )

    def _keep_tools(self, tools: Iterable[KnownTool], *, is_last: bool) -> None:
        """Keep what the server lists, for the rules of all servers and for those who check rules: once the list is whole."""
        self._pages.extend(islice(tools, MAX_PAGED - len(self._pages)))
        if not is_last:
            return
        whole, self._pages = self._pages, []
        try:
            self._context.keep_tools(whole)
            self._connection.rules.tell()
        except AdjournError as error:
            self._report.event("store.error", f"{error}; the server's tools are not known to others")


def _due(
    later: list[tuple[Request, Reply]], settled: Mapping[GuardedSession, Settled]
) -> list[tuple[GuardedSession, list[kinds.ToolSettled]]]:
    """The sessions with a checkpoint due before anything is delivered, and what was settled of them."""
    facts_of: dict[GuardedSession, list[kinds.ToolSettled]] = {}
    for request, _ in later:
        if request.session is not None and request.session.policy.counts:
            facts_of[request.session] = []
    for session, one in settled.items():
        facts_of[session] = one.facts
    return [(session, facts) for session, facts in facts_of.items() if session.is_due_after(facts)]


def _asks_for_input(reply: Reply) -> ResultHead | None:
    """The result that says that the request continues once the client has answered what is asked in it; None for any other."""
    raw = bytes(reply.result) if isinstance(reply.result, msgspec.Raw) else b""
    head = _head(raw)
    return head if head.resultType == "input_required" else None


def _lost(request: Request, line: bytes) -> kinds.ToolSettled:
    """The outcome of a call whose answer is not delivered: an effect is in doubt, and only an error releases a claim
    that the upstream means.
    """
    lost = request.effectful or request.kept
    outcome: Literal["error", "no-answer"] = "no-answer" if lost else "error"
    message = "the answer was not delivered"
    return kinds.ToolSettled(call=request.call_id, outcome=outcome, answer=digest(line), message=message)


def _head(raw: bytes) -> ResultHead:
    try:
        return msgspec.json.decode(raw, type=ResultHead)
    except msgspec.ValidationError:
        return ResultHead()
    except UNREADABLE:
        return _lenient_head(raw)


def _lenient_head(raw: bytes) -> ResultHead:
    """The same of a result that strict readers refuse. What cannot be read even so is no request for input, and no state."""
    head = ResultHead()
    try:
        members = object_of(raw)
    except msgspec.DecodeError:
        return head
    for name in members.keys() & set(ResultHead.__struct_fields__):
        try:
            setattr(head, name, value_of(members[name]))
        except msgspec.DecodeError:
            setattr(head, name, "unreadable")
    return head


def _is_error(error: msgspec.Raw | msgspec.UnsetType, code: int) -> bool:
    """Whether an upstream's error has this code."""
    try:
        body = value_of(error) if isinstance(error, msgspec.Raw) else None
    except msgspec.DecodeError:
        return False
    return isinstance(body, dict) and body.get("code") == code


def _message(raw: bytes) -> str:
    """The first line of the text that a failed call was answered with, redacted and cut."""
    try:
        failure = msgspec.json.decode(raw, type=_Failure)
    except msgspec.ValidationError:
        return ""
    except UNREADABLE:
        try:
            failure = msgspec.convert(value_of(raw), _Failure)
        except msgspec.DecodeError:
            return ""
    texts = [failure.message, *(block.text for block in failure.content[:MAX_BLOCKS])]
    return next((line for text in texts if isinstance(text, str) and (line := first_line(text))), "")


def _settlement(request: Request, reply: Reply, now: int) -> kinds.ToolSettled:
    milliseconds = (now - request.started) // 1_000_000
    if isinstance(reply.error, msgspec.Raw):
        return kinds.ToolSettled(
            answer=digest(bytes(reply.error)),
            call=request.call_id,
            message=_message(reply.error),
            milliseconds=milliseconds,
            outcome="no-answer" if _is_error(reply.error, frames.OUTCOME_UNKNOWN) else "error",
        )
    raw = bytes(reply.result) if isinstance(reply.result, msgspec.Raw) else b""
    outcome: Any = "ok"
    state = message = ""
    if b'"isError"' in raw or b'"resultType"' in raw or b"\\u" in raw:  # as it is, or with letters escaped
        head = _head(raw)
        if head.resultType == "input_required":
            outcome = "input-required"
            state = digest(head.requestState.encode()) if isinstance(head.requestState, str) else ""
        elif head.isError is True:
            outcome = "tool-error"
            message = _message(raw)
    return kinds.ToolSettled(
        answer=sha256(raw).hexdigest(),
        call=request.call_id,
        message=message,
        milliseconds=milliseconds,
        outcome=outcome,
        state=state,
    )
