"""A client's request from its line to its answer: the plan of its tool, the call that it makes, and the table of all that are open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from hashlib import sha256
from time import monotonic_ns
from typing import Any, Literal

import msgspec

from adjourn.aex.match import meta_tool, tool_name_ok
from adjourn.checkpoints.triggers import GuardedSession
from adjourn.clients.client import ClientContext
from adjourn.clients.served_tools import ServedTools
from adjourn.errors import AdjournError, sentences
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import SYSTEM
from adjourn.mcp import frames
from adjourn.mcp.frames import Message
from adjourn.policy.calls import READING_VERBS, arguments_digest, encode_sorted
from adjourn.policy.tool_effects import reading_of, shared_words
from adjourn.relay.ports import MAX_WAITING, CallObserver, EventLoop, Outlet, SharedCommits, StderrLog, Unread
from adjourn.tasks.decision import Block, ToolRequest
from adjourn.tasks.task import NewEvent
from adjourn.text.quoting import first_line
from adjourn.text.redact import READ_PREVIEW, preview, visible_lines

MAX_GIVEN_UP = 1000
MAX_NOTED = 100
"""Odd messages of one side that are noted in the history one by one."""
MAX_SAMPLED = 1024
"""Bytes of an odd message that are searched for secrets before a part of it is shown."""
UNREAD = "the MCP server no longer reads its input: it has exited, or it hangs"


def is_noted(number: int) -> bool:
    """Whether the odd message of this number is noted: each of the first, then only powers of ten."""
    return number <= MAX_NOTED or str(number).strip("0") == "1"


class ToolPlan(msgspec.Struct, frozen=True):
    """What all calls of one tool have in common until the server lists its tools again.

    `tool` is its name as rules have it. `is_named_only`: no rule need allow it, since it is a meta-tool or a method of the protocol;
    `is_vendors`: a method that the protocol does not have. `only_reads`: it may name all places but the private ones.
    """

    tool: str
    is_named_only: bool = False
    is_vendors: bool = False
    effectful: bool = False
    destructive: bool = False
    only_reads: bool = False
    definition: str = ""


class BatchAnswers:
    """The answers to one JSON-RPC batch, sent as one line when the last is there."""

    __slots__ = ("due", "parts")

    def __init__(self, due: int) -> None:
        self.due = due
        """How many of its requests have no answer yet."""
        self.parts: list[bytes] = []

    def add(self, line: bytes) -> bytes:
        """Take an answer, or nothing in its place. Returns all answers as one line when this was the last, else nothing."""
        if line:
            self.parts.append(line.rstrip(b"\n"))
        self.due -= 1
        return b"[" + b",".join(self.parts) + b"]\n" if self.due == 0 and self.parts else b""


class Request(Message, eq=False):
    """A message of the client, and its outcome if it is a request.

    `kind` says what its answer is examined for: `call`, `list`, `initialize`, `discover`, or `other`. `call` is what is decided
    on, `task` the task it names, `place` its place among the lines that go to the server. Once it is admitted, `session` and `call_id` say where the history has it. `is_kept`: the answer
    is stored, since the effect may happen only once. `is_keyed`: the client will repeat it with its idempotency key if it gets no
    answer. `is_sent`: the server may answer it. `cancelled`: the client does not wait for it; an answer may still arrive, and then
    says the outcome of the call. `started` is when it was sent, in nanoseconds. `tool` is its name once it is admitted, `watched`
    what an observer keeps with it.
    """

    batch: BatchAnswers | None = None
    kind: str = "other"
    call: ToolRequest | None = None
    task: str = ""
    place: int = 0
    session: GuardedSession | None = None
    call_id: str = ""
    tool: str = ""
    effectful: bool = False
    is_kept: bool = False
    is_keyed: bool = False
    is_sent: bool = False
    cancelled: bool = False
    started: int = 0
    watched: Any = None


NOTHING: dict[str, Any] = {}


# --- from a request's params to the call that is decided on: its arguments, and the members that an approval is bound to as well

TASK_META = "dev.adjourn/task"
KEY_META = "dev.adjourn/idempotencyKey"
"""With the same key in `_meta`, a client repeats a call of which it got no answer."""
MAX_KEY = 255
GIVEN_BACK = ("inputResponses", "requestState")
"""Members with which a client continues with a request that asked for input."""
TRANSPORT = frozenset((
    "progressToken", frames.META_VERSION, frames.META_CLIENT, frames.META_CAPABILITIES, frames.META_LOG_LEVEL,
    "traceparent", "tracestate", "baggage", TASK_META, KEY_META,
    "claudecode/toolUseId", "vscode.conversationId", "vscode.requestId", "x-codex-turn-metadata",
))  # fmt: skip
"""Members of `_meta` that say how a request travels, or in which turn of its client it was made. They differ when the very
same call is repeated."""
OF_CODEX = "x-codex-turn-metadata"
BESIDE_CODEX = TRANSPORT | {"callId", "itemId", "sessionId", "threadId", "windowId"}
"""The same where that member is: names that another client may use for what matters to the server."""
PLAIN = frozenset(("name", "arguments"))
"""The members of nearly every call. A request that has no others says nothing beside them."""
_OWN = frozenset(("name", "arguments", "_meta", *GIVEN_BACK))
_BESIDE_THE_REQUEST = frozenset(("_meta", *GIVEN_BACK))
STATE_PREFIX = "adjourn1."
"""How a requestState starts that this program has sealed."""
MAX_PLANS = 1000
SHORT = 2048
"""Bytes of a request whose arguments may be encoded whole, to be shown in part."""


def key_of(meta: Mapping[str, Any]) -> str | None:
    """The idempotency key of a request; "" if it has none, None if it cannot be one."""
    if KEY_META not in meta:
        return ""
    key = meta[KEY_META]
    return key if isinstance(key, str) and 0 < len(key) <= MAX_KEY else None


def is_ours(state: str) -> bool:
    """Whether a requestState was sealed by this program rather than made by the server."""
    return state.startswith(STATE_PREFIX)


READ_NAMES = frozenset(
    ("path", "file_path", "filename", "file", "uri", "url", "query", "pattern", "command", "name", "id")
)
"""Arguments of a call without effect that are kept, the first of them."""


@lru_cache(maxsize=1024)
def _read(name: str, value: str) -> str:
    return preview({name: value})


def call_of(plan: ToolPlan, request: Request, connection: Connection, protected: str) -> ToolRequest:
    """The call that a request makes; `protected` is the protected place that it would touch."""
    params = request.params
    if request.method == "tools/call":
        arguments = params.get("arguments") or {}
    else:
        arguments = {key: value for key, value in params.items() if key not in _BESIDE_THE_REQUEST}
    beside: dict[str, Any] = {}
    if not params.keys() <= PLAIN:
        beside = beside_request(params)
        if not plan.is_named_only and not params.keys() <= _OWN:
            beside |= {key: value for key, value in params.items() if key not in _OWN}
    key = key_of(request.meta) if request.meta else ""
    state = params.get("requestState", "" if "inputResponses" in params else None)
    ours = isinstance(state, str) and is_ours(state)
    is_short = len(request.raw) <= SHORT
    if plan.effectful or plan.is_named_only or beside:
        preview_text = preview(arguments, is_short=is_short)
    else:
        preview_text = ""
        for name, value in arguments.items():  # written out: no call of ours for what was read before
            if name in READ_NAMES and type(value) is str:
                preview_text = _read(name, value[:READ_PREVIEW])
                break
    return ToolRequest(
        tool=plan.tool,
        digest=sha256(encode_sorted(arguments)).hexdigest() if request.plain else arguments_digest(arguments),
        effectful=plan.effectful,
        arguments=f"{preview_text} with {preview(beside)}" if beside else preview_text,
        state=digest(state.encode()) if isinstance(state, str) and not ours else "",
        named_only=plan.is_named_only,
        vendor=plan.is_vendors,
        destructive=plan.destructive,
        params=arguments_digest(beside) if beside else "",
        given_back="" if state is None or ours else given_back(params),
        server="" if plan.is_named_only else connection.served.name,
        command=connection.served.command,
        definition=plan.definition,
        given=arguments,
        protected=protected,
        behind=connection.client.size > 0,
        may_clash=request.may_clash,
        key=digest(f"{connection.context.group} {key}".encode(errors="surrogatepass"))
        if key and plan.effectful
        else "",
    )


def beside_request(params: Mapping[str, Any]) -> dict[str, Any]:
    """`_meta` without what is transport; nothing where nothing is left of it."""
    meta = params.get("_meta")
    if not meta or type(meta) is not dict:
        return {"_meta": meta} if meta else {}
    transport = BESIDE_CODEX if OF_CODEX in meta else TRANSPORT
    significant = {name: value for name, value in meta.items() if name not in transport}
    return {"_meta": significant} if significant else {}


def given_back(params: Mapping[str, Any]) -> str:
    """The digest of what a client gives back to the server; "" for nothing."""
    members = {key: params[key] for key in GIVEN_BACK if key in params}
    return arguments_digest(members) if members else ""


# --- the server, and all requests to it


class ServerFacts:
    """What the server's answers say of it: the protocol revision, and the plan of each tool, by its hints."""

    def __init__(self, served: ServedTools) -> None:
        self._served = served
        self.revision = ""
        """As answered to `initialize`; empty in protocol revisions without it (2026-07-28 and later)."""
        self.hints = served.hints
        self.changes = 0
        """How often the hints had changed before these plans were made."""
        self._shared: int | None = None
        """The number of words that the names of all its tools start with, once it is counted."""
        self.plans: dict[str, ToolPlan] = {}
        """What the calls of each tool have in common, by the name that the client gives."""

    def listed(self, read_only: Mapping[str, bool], destructive: Collection[str]) -> None:
        """The server listed these tools, as they are defined now."""
        self.hints.listed(read_only, destructive)
        self.forget_plans()

    def forget_plans(self) -> None:
        """Make them again: tools have other hints, or are defined otherwise."""
        self.changes = self.hints.changes
        self._shared = None
        self.plans.clear()

    def plan(self, name: str) -> ToolPlan | None:
        """Make the plan of a tool by the name that a client gives; it is kept in `plans`. None for what no tool may be named."""
        if not tool_name_ok(name):
            return None
        if self._shared is None:
            self._shared = shared_words(tuple(self.hints.read_only))
        own = meta_tool(name)
        reading = reading_of(name, self._shared) if self.hints.read_only.get(name) else None
        is_verb = name in READING_VERBS
        plan = ToolPlan(
            tool=own or name,
            is_named_only=bool(own),
            effectful=not (own or is_verb or reading),
            destructive=name in self.hints.destructive,
            only_reads=is_verb or (reading is not None and reading.named),
            definition="" if own else self._served.definitions.get(name, ""),
        )
        if len(self.plans) >= MAX_PLANS:
            self.plans.clear()
        self.plans[name] = plan
        return plan


class Connection:
    """The outlets, the open requests, the client's store and sessions, and the server's facts. `errors` is the value of --errors."""

    client: Outlet
    server: Outlet
    """The edge sets both before the first line."""
    commits: SharedCommits | None = None
    """Set where several relays commit together; else each commits by itself."""

    def __init__(self, loop: EventLoop, context: ClientContext, report: StderrLog, *, errors: str) -> None:
        self.loop = loop
        self.context = context
        self.served = context.served
        self.sessions = context.sessions
        self.report = report
        self.upstream = ServerFacts(context.served)
        self.requests: dict[Any, Request] = {}
        """Requests of the client without an answer, by id."""
        self.observer: CallObserver | None = None
        self._given_up: list[Any] = []
        self._errors, self._words = errors, context.options.words
        self.why_unread: Callable[[], str] = lambda: UNREAD
        """Returns why the server no longer reads its input."""

    # --- answers

    def answer(self, request: Request, line: bytes) -> bytes:
        """What goes to the client for the answer to a request, which is over: the line, or nothing until its batch is whole."""
        if self.requests.get(request.id) is request:
            del self.requests[request.id]
        batch, request.batch = request.batch, None
        return line if batch is None else batch.add(line)

    def refusal(self, request: Request, block: Block) -> bytes:
        """The answer to a refused request, in the form that --errors names. Requests other than tools/call get errors."""
        text = visible_lines(self._words(sentences(block.message, block.remedy)))
        if self._errors == "jsonrpc" or request.method != "tools/call":
            return frames.error(request.id, frames.INVALID_REQUEST, text)
        return frames.result(request.id, frames.tool_result(text, modern=request.modern, is_error=True))

    def give_up(self, request: Request) -> None:
        """The client no longer waits for this request: its batch is answered without it, and a late answer is dropped."""
        request.cancelled = True
        batch, request.batch = request.batch, None
        if batch is not None and (line := batch.add(b"")):
            self.client.send(line)
        self._given_up.append(request.id)
        if len(self._given_up) > MAX_GIVEN_UP:  # a server need not answer these, ever
            oldest = self._given_up.pop(0)
            if (given_up := self.requests.get(oldest)) is not None and given_up.cancelled:
                del self.requests[oldest]

    def answer_server(self, line: bytes) -> None:
        """Answer a request of the server, unless it does not read its answers."""
        if self.server.size <= MAX_WAITING:
            self.server.send(line)

    def not_read(self, unread: list[Unread]) -> None:
        """The server no longer reads: answer the requests of which it has read a part at most."""
        why = self.why_unread()
        self.report.event("upstream.gone", why)
        for about, begun in unread:
            for request in about or ():
                self.fail(request, why, "no-answer" if begun else "error")

    def fail(self, request: Request, why: str, outcome: Literal["error", "no-answer"]) -> None:
        """Answer a request with an error. `outcome` is what that says of its call."""
        if request.cancelled:  # settled, and nobody waits
            self.requests.pop(request.id, None)
            return
        self.settle(request, outcome, why)
        if out := self.answer(request, frames.error(request.id, frames.UPSTREAM_GONE, why)):
            self.client.send(out)

    # --- the history

    def settle(self, request: Request, outcome: Literal["error", "no-answer"], why: str) -> None:
        """Write the outcome of a request's call, and why, if the history has it. What a failing store does not take waits for the next
        commit of its task.
        """
        session = request.session
        if session is not None and request.call_id:
            if self.observer is not None:
                self.observer.settled(request, outcome, monotonic_ns())
            settled = kinds.ToolSettled(call=request.call_id, message=first_line(why), outcome=outcome)
            try:
                session.settle([settled])
            except AdjournError as error:
                self.report.event("store.error", str(error))
                session.task.deferred.append(NewEvent(settled, SYSTEM, session.id))

    def note(self, data: kinds.Data) -> None:
        """Write an event into the client's session. A failing store is reported, not raised."""
        try:
            self.sessions.open().note(data)
        except AdjournError as error:
            self.report.event("store.error", str(error))
