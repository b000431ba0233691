"""One client connected to one MCP server: what all parts of a proxy share.

Owns: the two outlets, the table of open requests (no answer without its request), the form of refusals, notes in the
history that a failing store may lose. Must never: decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic_ns
from typing import Any, Literal

from adjourn.aex.policy import Policy
from adjourn.aex.rule_names import unmatched_rules
from adjourn.clients.client import ClientContext
from adjourn.errors import AdjournError
from adjourn.log import kinds
from adjourn.mcp import frames
from adjourn.policy.tool_effects import shared_words
from adjourn.relay.ports import MAX_WAITING, CallObserver, EventLoop, Outlet, SharedCommits, Unread
from adjourn.relay.request import Request, ToolPlan
from adjourn.relay.stderr_log import StderrLog
from adjourn.relay.tools import DEFINITIONS, ListEdit
from adjourn.tasks.decision import Block
from adjourn.tasks.task import SYSTEM, NewEvent
from adjourn.text.quoting import first_line
from adjourn.text.redact import visible_lines

MAX_GIVEN_UP = 1000
MAX_NOTED = 100
"""Odd messages of one side that are noted in the history one by one."""
MAX_SAMPLED = 1024
"""Bytes of an odd message that are searched for secrets before a part of it is shown."""
UNREAD = "the MCP server no longer reads its input: it has exited, or it hangs"


def is_noted(number: int) -> bool:
    """Whether the odd message of this number is noted: each of the first, then only powers of ten."""
    return number <= MAX_NOTED or str(number).strip("0") == "1"


class UpstreamFacts:
    """What the server's answers say of it: the protocol revision, and the hints of its tools by name."""

    def __init__(self) -> None:
        self.revision = ""
        """As answered to `initialize`; empty in protocol revisions without it (2026-07-28 and later)."""
        self.read_only: dict[str, bool] = {}
        self.destructive: set[str] = set()
        self._shared: int | None = None
        self.plans: dict[str, ToolPlan] = {}
        """What the calls of each tool have in common, by the name that the client gives."""

    def negotiated(self, revision: str) -> None:
        """The server answered `initialize` with this protocol revision."""
        self.revision = revision

    def listed(self, edit: ListEdit) -> None:
        """The server listed tools. What it said of them earlier no longer counts."""
        self.read_only.update(edit.read_only)
        self.destructive.difference_update(edit.names)
        self.destructive |= edit.destructive
        self._shared = None
        self.plans.clear()

    @property
    def shared_words(self) -> int:
        """The number of words that the names of all its tools begin with."""
        if self._shared is None:
            self._shared = shared_words(self.read_only)
        return self._shared


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
        self.report = report
        self.upstream = UpstreamFacts()
        self.permitted = PermittedTools(context)
        self.rules = RuleCheck(context, report)
        self.requests: dict[Any, Request] = {}
        """Requests of the client without an answer, by id."""
        self.observer: CallObserver | None = None
        self.subscriptions: set[Any] = set()
        """Open requests of a client in the stateless era that subscribe to changes of the tools."""
        self._given_up: list[Any] = []
        self._errors = errors
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
        text = (
            f"{block.message}. {block.remedy[:1].upper()}{block.remedy[1:]}."
            if block.remedy
            else block.message
        )
        text = visible_lines(self.context.options.words(text))
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
            forgotten = self._given_up.pop(0)
            if (old := self.requests.get(forgotten)) is not None and old.cancelled:
                del self.requests[forgotten]

    def compare_tools(self) -> None:
        """Tell the client that tools/list has another answer now, if other tools are permitted than it knows."""
        if self.permitted.changed():
            self.tools_changed()

    def look_at_tools(self) -> None:
        """Take in which tools the servers of the workspace have listed. A failing store is reported, not raised."""
        try:
            self.context.look_at_tools()
        except AdjournError as error:
            self.report.event("store.error", str(error))

    def tools_changed(self) -> None:
        """Tell the client that tools/list has another answer now, in the way of its era."""
        method = "notifications/tools/list_changed"
        if self.upstream.revision:  # 2025-11-25 or earlier
            self.client.send(frames.notification(method))
        self.subscriptions.intersection_update(self.requests)
        for subscription in self.subscriptions:
            about = {"_meta": {frames.META_SUBSCRIPTION: subscription}}
            self.client.send(frames.notification(method, about))

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
            self.context.session().note(data)
        except AdjournError as error:
            self.report.event("store.error", str(error))


# --- what follows once a server has listed its tools

MAX_LINES = 20
"""Rules that are named; more are in `adjourn doctor`."""


class PermittedTools:
    """The tools of one server and ours, as far as the client has asked for the list."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._known: set[str] = set()
        self._is_whole = True
        self._told: set[str] | None = None
        self._under: Policy | None = None

    def listed(self, names: Iterable[str], *, is_last: bool) -> None:
        """A page of the server's list goes to the client; `names` are the tools on it, also those that it is not shown."""
        if self._is_whole:
            self._known.clear()
        self._known.update(names)
        self._is_whole = is_last
        self._under = self._context.policy
        self._told = self._permitted(self._under)

    def changed(self) -> bool:
        """Whether other tools are permitted than the client knows; once for each change."""
        policy = self._context.policy
        if self._told is None or policy is self._under:
            return False
        before, self._told, self._under = self._told, self._permitted(policy), policy
        return before != self._told

    def _permitted(self, policy: Policy) -> set[str]:
        shown = {name for name in self._known if policy.observe or policy.visible(name)}
        return shown.union(name for name in DEFINITIONS if policy.judge_open(name).effect == "allow")


class RuleCheck:
    """Says which rules name no known tool, once the tools are listed, and again when policy or tools change. One per proxy."""

    def __init__(self, context: ClientContext, report: StderrLog) -> None:
        self._context = context
        self._report = report
        self._told: set[str] = set()

    def tell(self) -> None:
        """Report the findings about the rules that were not reported yet."""
        found = unmatched_rules(self._context.contract.policy, self._context.served.known)
        for one in found[:MAX_LINES]:
            line = f"{one.code} {one.source}:{one.span.line} {one.message} ({one.help})"
            if line not in self._told:
                self._told.add(line)
                self._report.event("rule", line)
