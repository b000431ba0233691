"""From the upstream: every answer finds its request, is written down, and passes byte for byte unless it must be edited.

Owns: settling calls, the edits of tools/list and of capabilities. Must never: hand over an answer that nobody asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from adjourn.checkpoints import GuardedSession
from adjourn.errors import AdjournError
from adjourn.log import digest, kinds
from adjourn.mcp import FrameError, Reply, frames, ids_in, server_lines
from adjourn.policy import meta_tool
from adjourn.proxy.connection import MAX_SAMPLED, Connection, is_noted
from adjourn.proxy.lists import edit_tools, greeting, own_list
from adjourn.proxy.meta import MetaTools
from adjourn.proxy.pipes import Pending
from adjourn.proxy.requests import ServerRequests
from adjourn.tasks import MAX_ANSWER
from adjourn.text import beginning

UNSET = msgspec.UNSET
MAX_LINE = 200
"""Characters that are kept of a line that is not JSON."""


class ResultHead(msgspec.Struct):
    """What is read of a result."""

    isError: Any = False  # noqa: N815  # the wire's name
    resultType: Any = "complete"  # noqa: N815
    requestState: Any = ""  # noqa: N815
    inputRequests: Any = None  # noqa: N815


class Settled(NamedTuple):
    """What came of a session's calls, and the results that are kept, by call."""

    facts: list[kinds.ToolSettled]
    answers: dict[str, bytes]


class Answers:
    """Handles the upstream's lines, in one thread."""

    def __init__(self, connection: Connection, meta: MetaTools, requests: ServerRequests) -> None:
        self._connection = connection
        self._wire = connection.wire
        self._context = connection.context
        self._meta = meta
        self._requests = requests
        self._not_json = 0
        self._listed: set[str] = set()

    def handle(self, lines: list[bytes]) -> None:
        """Take lines that arrived together: effects are settled in one transaction before any is handed over."""
        out: list[bytes] = []
        settled: dict[GuardedSession, Settled] = {}
        later: list[tuple[Pending, Reply]] = []
        for line in lines:
            try:
                out += self._line(line, settled, later)
            except Exception as error:  # one odd message must not take others along
                self._wire.report.event("proxy.bug", f"{type(error).__name__}: {error}")
        for session, (facts, answers) in settled.items():
            try:
                session.settle(facts, answers=answers)
            except AdjournError as error:
                self._wire.report.event("store.error", str(error))
                session.settle(facts, later=True)
        now = time.monotonic_ns()
        for session in {*settled, *(pending.session for pending, _ in later if pending.session)}:
            self._make_checkpoints(session, settled[session].facts if session in settled else [])
        if out:
            self._wire.to_client(out[0] if len(out) == 1 else b"".join(out))
        for pending, reply in later:
            if pending.session is not None:
                pending.session.settle([_settlement(pending, reply, now)], later=True)

    def _make_checkpoints(self, session: GuardedSession, facts: list[kinds.ToolSettled]) -> None:
        try:
            for note in session.checkpoint_after(facts):
                self._wire.report.event("page", note)
        except AdjournError as error:
            self._wire.report.event("checkpoint.failed", str(error))

    def _line(
        self,
        line: bytes,
        settled: dict[GuardedSession, Settled],
        later: list[tuple[Pending, Reply]],
    ) -> list[bytes]:
        try:
            line, reply = server_lines.read(line)
        except FrameError as error:
            elements = server_lines.elements(line)
            if elements:
                return [out for element in elements for out in self._line(element, settled, later)]
            return self._unread(line, error, settled)
        if reply.method is not UNSET:
            return [line] if self._requests.pass_on(line, reply.method, reply.id) else []
        pending = self._pop(reply.id)
        if pending is None:
            return self._unasked(reply.id)
        try:
            line = self._answered(pending, reply, line, settled, later)
        except Exception as error:  # one odd answer must not leave its request without any
            self._wire.report.event("proxy.bug", f"{type(error).__name__}: {error}")
            line = frames.error(reply.id, frames.INTERNAL_ERROR, "the upstream's answer could not be handled")
        out = self._wire.reply(pending, line)
        return [out] if out else []

    def _answered(
        self,
        pending: Pending,
        reply: Reply,
        line: bytes,
        settled: dict[GuardedSession, Settled],
        later: list[tuple[Pending, Reply]],
    ) -> bytes:
        """Take note of an answer. Returns what the client gets."""
        asks = _asks_for_input(reply) if b'"input_required"' in line or b"\\u" in line else None
        if asks and (block := self._requests.in_answer(asks.inputRequests)):
            if pending.session is not None and pending.call:
                settled.setdefault(pending.session, Settled([], {})).facts.append(_lost(pending, line))
            is_call = pending.kind == "call"
            return self._connection.refusal_of(reply.id, block, is_call=is_call, modern=pending.modern)
        if pending.kind == "call" and pending.session is not None:
            if pending.effectful or pending.kept or asks:  # the client may go on with it at once
                facts, answers = settled.setdefault(pending.session, Settled([], {}))
                facts.append(fact := _settlement(pending, reply, time.monotonic_ns()))
                result = reply.result if pending.kept and fact.outcome == "ok" else UNSET
                if isinstance(result, msgspec.Raw) and len(result) <= MAX_ANSWER:
                    answers[pending.call] = bytes(result)
            else:
                later.append((pending, reply))
        elif reply.error is UNSET:
            line = self._edited(pending, reply.id, line)
        elif pending.kind == "list" and self._meta.listed() and _is_unknown_method(reply.error):
            added = self._meta.listed()
            self._register(tool["name"] for tool in added)
            line = frames.result(reply.id, own_list(added, modern=pending.modern))
        return line

    def _pop(self, request_id: Any) -> Pending | None:
        return self._wire.pending.pop(request_id, None) if frames.is_id(request_id) else None

    def _unasked(self, request_id: object) -> list[bytes]:
        text = f"dropped an answer to a request that is not open: {str(request_id)[:40]}"
        self._wire.report.event("answer.unasked", text)
        return []

    def _unread(self, line: bytes, error: FrameError, settled: dict[GuardedSession, Settled]) -> list[bytes]:
        """A line that cannot be read in one way, and so reaches nobody. Whoever waits for it is told."""
        if line.isspace():
            return []
        shown = beginning(line[:MAX_SAMPLED].decode(errors="replace"), MAX_LINE)
        self._wire.report.event("upstream.non_jsonrpc", f"dropped: {error.reason}: {shown!r}")
        self._not_json += 1
        if is_noted(self._not_json):
            self._connection.note(kinds.UpstreamNonJson(line=shown))
        out = []
        for request_id in ids_in(line):
            pending = self._pop(request_id)
            if pending is None:
                self._unasked(request_id)
                continue
            if pending.session is not None and pending.call:
                settled.setdefault(pending.session, Settled([], {})).facts.append(_lost(pending, line))
            text = f"the upstream's answer cannot be read: {error.reason}"
            out.append(self._wire.reply(pending, frames.error(request_id, frames.INTERNAL_ERROR, text)))
        return [answer for answer in out if answer]

    def _edited(self, pending: Pending, request_id: object, line: bytes) -> bytes:
        try:
            if pending.kind == "list":
                return self._edit_list(line)
            if pending.kind in ("initialize", "discover"):
                return self._greeting(pending, line)
        except (msgspec.DecodeError, KeyError, TypeError, RecursionError) as error:
            self._wire.report.event("upstream.odd", f"the answer to {pending.kind} is malformed: {error}")
            if pending.kind == "list":
                return frames.error(
                    request_id, frames.INTERNAL_ERROR, "the upstream's list of tools is malformed"
                )
        return line

    def _edit_list(self, line: bytes) -> bytes:
        policy = self._context.policy
        shadowed = meta_tool

        def visible(tool: str) -> bool:
            return (policy.observe or policy.visible(tool)) and not shadowed(tool)

        added = self._meta.listed()
        edit = edit_tools(line, visible, added)
        self._context.listed(edit.definitions)
        self._connection.upstream.listed(edit)
        for name in edit.removed:
            if shadowed(name):
                self._wire.report.event(
                    "tool.shadowed", f"the upstream has a tool named {name}, too; it is hidden"
                )
        flat: dict[str, str] = {}
        for name in edit.names:
            other = flat.setdefault(name.replace(".", "_").replace("-", "_"), name)
            if other != name:
                self._wire.report.event(
                    "tool.collision", f"clients that rewrite names cannot tell {other} from {name}"
                )
        self._register([*edit.names, *(tool["name"] for tool in added)])
        self._wire.report.event(
            "tools.filtered",
            total=len(edit.names) + len(edit.removed),
            allowed=len(edit.names),
            removed=len(edit.removed),
            metaTools=len(added),
        )
        return edit.line or line

    def _register(self, names: Iterable[str]) -> None:
        """Before the client learns of tools, its hooks do: they decide themselves on what no proxy has listed."""
        before = len(self._listed)
        self._listed.update(names)
        if len(self._listed) == before:
            return
        try:
            self._context.register(self._listed)
        except AdjournError as error:
            self._wire.report.event(
                "store.error", f"{error}; the client's hooks decide on this server's tools, too"
            )

    def _greeting(self, pending: Pending, line: bytes) -> bytes:
        if pending.kind == "initialize":
            result = msgspec.json.decode(line)["result"]
            revision = result.get("protocolVersion") if isinstance(result, dict) else None
            self._connection.upstream.negotiated(revision if isinstance(revision, str) else "")
        return greeting(line, self._meta.notice()) or line


def _asks_for_input(reply: Reply) -> ResultHead | None:
    """The result that says that the request goes on once the client has answered what is asked in it; None for any other."""
    raw = bytes(reply.result) if isinstance(reply.result, msgspec.Raw) else b""
    head = _head(raw)
    return head if head.resultType == "input_required" else None


def _lost(pending: Pending, line: bytes) -> kinds.ToolSettled:
    """What becomes of a call whose answer is not handed over: an effect is in doubt, and a claim is only given up by an error
    that the upstream means.
    """
    lost = pending.effectful or pending.kept
    outcome: Literal["error", "no-answer"] = "no-answer" if lost else "error"
    return kinds.ToolSettled(call=pending.call, outcome=outcome, answer=digest(line))


def _head(raw: bytes) -> ResultHead:
    try:
        return msgspec.json.decode(raw, type=ResultHead)
    except msgspec.DecodeError:
        return ResultHead()


def _is_unknown_method(error: msgspec.Raw | msgspec.UnsetType) -> bool:
    """Whether an upstream says that it has no such method, as those without tools do."""
    try:
        body = msgspec.json.decode(error) if isinstance(error, msgspec.Raw) else None
    except msgspec.DecodeError:
        return False
    return isinstance(body, dict) and body.get("code") == frames.METHOD_NOT_FOUND


def _settlement(pending: Pending, reply: Reply, now: int) -> kinds.ToolSettled:
    milliseconds = (now - pending.started) // 1_000_000
    if isinstance(reply.error, msgspec.Raw):
        return kinds.ToolSettled(
            answer=digest(bytes(reply.error)), call=pending.call, milliseconds=milliseconds, outcome="error"
        )
    raw = bytes(reply.result) if isinstance(reply.result, msgspec.Raw) else b""
    outcome: Any = "ok"
    state = ""
    if b'"isError"' in raw or b'"resultType"' in raw or b"\\u" in raw:  # as it is, or with letters escaped
        head = _head(raw)
        if head.resultType == "input_required":
            outcome = "input-required"
            state = digest(head.requestState.encode()) if isinstance(head.requestState, str) else ""
        elif head.isError is True:
            outcome = "tool-error"
    return kinds.ToolSettled(
        answer=digest(raw), call=pending.call, milliseconds=milliseconds, outcome=outcome, state=state
    )
