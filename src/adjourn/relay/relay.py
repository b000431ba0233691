"""The parts of a relay, put together for one client and one server.

Owns: `Relay`. Must never: know how lines come and go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from adjourn.clients.client import ClientContext
from adjourn.errors import AdjournError, sentences
from adjourn.log import kinds
from adjourn.mcp import frames
from adjourn.mcp.frames import FrameError
from adjourn.policy.protected.calls import protected_path
from adjourn.relay.admission import Admission
from adjourn.relay.answers import Answers
from adjourn.relay.confirmation import Confirmations
from adjourn.relay.meta import MetaTools, is_preview
from adjourn.relay.ports import MAX_WAITING, EventLoop, StderrLog
from adjourn.relay.request import MAX_NOTED, MAX_SAMPLED, BatchAnswers, Connection, Request, ToolPlan, is_noted
from adjourn.relay.server_requests import ServerRequests
from adjourn.relay.tools import ToolList
from adjourn.tasks.call_events import MAX_SHOWN_TOOL
from adjourn.tasks.methods import OF_CLIENT, judge, method_refusal, rule_name
from adjourn.text.redact import beginning


class RelayOptions(NamedTuple):
    """What a person chose: the values of --errors, --tool-names, --meta-tools, --confirm-timeout (None: no call can wait) and
    --no-budget-notice.
    """

    errors: str = "tool"
    tool_names: str = "auto"
    meta_tools: str = "once"
    confirm_seconds: int | None = 50
    has_notices: bool = True


NOT_KNOWN = "whether the call had an effect is not known"


class Relay:
    """`gate` takes lines of the client, `answers` those of the server, each only while it `may_read` that side.

    The edge that has it tidies up soon after lines came, and lets it beat as often as a session has to show that it lives.
    """

    def __init__(self, loop: EventLoop, context: ClientContext, report: StderrLog, options: RelayOptions) -> None:
        self.is_tidy_due = False
        """Whether a `tidy` is to come."""
        self._context, self._report = context, report
        self.connection = connection = Connection(loop, context, report, errors=options.errors)
        meta = MetaTools(context, report, errors=options.errors, style=options.tool_names, listing=options.meta_tools)
        requests = ServerRequests(connection)
        confirmations = Confirmations(connection, seconds=options.confirm_seconds)
        self.tools = ToolList(connection, meta)
        self.gate = Gate(connection, meta, self.tools, confirmations, requests)
        self.answers = Answers(connection, meta, self.tools, requests, has_notices=options.has_notices)

    def may_read_client(self) -> bool:
        """Whether another line of the client may be given to the gate."""
        connection = self.connection
        return (
            not self.gate.admission.busy
            and connection.server.size <= MAX_WAITING
            and connection.client.size <= MAX_WAITING
        )

    def may_read_server(self) -> bool:
        """Whether another line of the server may be given to the answers."""
        answers = self.answers
        return not (answers.is_writing or answers.greetings) and self.connection.client.size <= MAX_WAITING

    def tidy(self) -> None:
        """Write what waits to be written, and no call has taken along. A failing store is reported, as by all of these."""
        self.is_tidy_due = False
        for session in self._context.sessions:
            try:
                if session.task.deferred:
                    session.task.commit((), durable=False)
            except AdjournError as error:
                self._report.event("store.error", str(error))
        self._report.flush()

    def beat(self) -> None:
        """Show that the sessions live, and take in an edited policy and what the servers have listed."""
        for session in self._context.sessions:
            try:
                session.heartbeat()
            except AdjournError as error:
                self._report.event("store.error", str(error))
        self.tools.look()
        self.tools.compare()

    def leave_unanswered(self, why: str) -> None:
        """Refuse what is held, and answer all other open requests with an error."""
        self.gate.refuse_held(why)
        for request in list(self.connection.requests.values()):
            text = f"{why}; {NOT_KNOWN}" if request.is_sent else why
            self.connection.fail(request, text, "no-answer")

    def end_sessions(self, reason: str) -> None:
        """End each session with a checkpoint."""
        options = self._context.options
        for session in self._context.sessions:
            from adjourn.checkpoints.save import close_session  # most proxies end without a session

            try:
                if path := close_session(session, reason, options.root, tree=options.tree):
                    self._report.event("checkpoint", f"{path} (calls used: {session.task.ledger.calls_used})")
            except AdjournError as error:
                self._report.event("checkpoint.failed", str(error))


# --- from the client

SAMPLE, MAX_NAME, MAX_REASON = 120, 80, 500
"""Characters that are kept of a refused message, of its tool name, and of the reason."""
GIVEN_UP = "the client stopped waiting for the answer"
_KINDS = {"initialize": "initialize", "server/discover": "discover", "tools/list": "list"}


class Gate:
    """Handles the client's lines. It is to be given none while its `admission` is busy."""

    def __init__(
        self,
        connection: Connection,
        meta: MetaTools,
        tool_list: ToolList,
        confirmations: Confirmations,
        server_requests: ServerRequests,
    ) -> None:
        self._connection = connection
        self._context = connection.context
        self._options = connection.context.options
        self._sessions = connection.sessions
        self._watch = connection.context.watch
        self._tool_list = tool_list
        self._confirmations = confirmations
        self._server_requests = server_requests
        self.admission = Admission(connection, meta, tool_list, confirmations, self.handle)
        self._waiting: deque[bytes | tuple[bytes, BatchAnswers] | Request | BatchAnswers] = deque()
        """Lines, elements of a batch, its end; and requests that have to wait for what came before them."""
        self._refusals = 0

    def handle(self, lines: Iterable[bytes] = ()) -> None:  # noqa: C901, PLR0912  # one pass, on the path of every call
        """Process a batch of lines, after any queued ones. Their intents are one transaction, their forwarding one write."""
        waiting, admission, requests = self._waiting, self.admission, self._connection.requests
        waiting.extend(lines)
        while not admission.busy:
            try:
                if not waiting:
                    admission.flush()
                    return
                item = waiting.popleft()
                if isinstance(item, BatchAnswers):
                    self._end_batch(item)
                    continue
                if isinstance(item, Request):
                    request = item
                else:
                    line, batch = (item, None) if isinstance(item, bytes) else item  # an oversize line is a subclass
                    try:
                        read = frames.read(line, Request)
                        if isinstance(read, list):
                            self._begin_batch(read, batch)
                            continue
                    except FrameError as error:
                        if not line.isspace():
                            self._refuse(error, line, batch)
                        continue
                    request = read
                    if request.method and request.id is not None:
                        request.batch = batch
                        if batch is not None:
                            batch.due += 1
                        if request.id in requests:
                            in_use = frames.error(request.id, frames.INVALID_REQUEST, "this id is still in use")
                            admission.answer(request, in_use)
                            continue
                        requests[request.id] = request
                if request.method == "":
                    self._response(request)
                elif request.id is None:
                    self._notification(request)
                elif request.method == "tools/call":
                    self._tools_call(request)
                else:
                    self._other(request)
            except Exception as error:  # one odd message must not end the session
                self._connection.report.event("proxy.bug", f"{type(error).__name__}: {error}")
                admission.give_up()

    # --- one message

    def _is_first(self, request: Request) -> bool:
        """Whether all that came before a request has been decided on and sent. Else it waits, and is taken up again."""
        self.admission.flush()
        if self.admission.busy:
            self._waiting.appendleft(request)
        return not self.admission.busy

    def _begin_batch(self, elements: list[bytes], outer: BatchAnswers | None) -> None:
        modern = self._context.era == "modern"
        revision = self._connection.upstream.revision
        if outer is not None or modern or (revision and revision not in frames.BATCH_REVISIONS):
            raise FrameError(
                frames.INVALID_REQUEST, "this protocol revision has no batches", remedy="send one message a line"
            )
        batch = BatchAnswers(due=1)  # keeps it open until every element has been handled
        self._waiting.appendleft(batch)
        self._waiting.extendleft((element + b"\n", batch) for element in reversed(elements))

    def _end_batch(self, batch: BatchAnswers) -> None:
        self.admission.flush()
        if self.admission.busy:
            self._waiting.appendleft(batch)
        elif line := batch.add(b""):
            self._connection.client.send(line)

    def _response(self, message: Request) -> None:
        if self._confirmations.has_asked(message.id):
            if self._is_first(message):  # the held call goes after what came before its answer
                self.admission.answered(self._confirmations.answered_by(message))
        elif self._server_requests.may_answer(message.id):
            self.admission.pass_on(message.raw)
        else:
            self._refused("an answer to a request of the server that was refused", message.raw)

    def _notification(self, message: Request) -> None:
        if message.method == "tools/call":
            self._refused("a tools/call without id", message.raw)
            return
        if message.method == "notifications/cancelled":
            if not self._is_first(message):  # what it is about may be among the lines that have just come
                return
            if self.gave_up(message.params.get("requestId")):
                return
        policy, automatic = self._sessions.policy, self._options.auto_confirm
        if (block := method_refusal(policy, message.method, OF_CLIENT, auto_confirm=automatic)) is not None:
            if not policy.observe:
                self._refused(block.message[:500], message.raw)
                return
            tool = rule_name(message.method)[:MAX_SHOWN_TOOL]
            observed = kinds.PolicyObserved(decision="block", reason=block.reason, rule=block.rule, tool=tool)
            self._connection.note(observed)
        self.admission.pass_on(message.raw)

    def gave_up(self, request_id: object) -> bool:
        """The client gave up a request. Returns whether the server need not know, since it was only held here."""
        if not frames.is_id(request_id):
            return False
        if self._confirmations.cancelled(request_id):
            return True
        request = self._connection.requests.get(request_id)
        if request is not None and not request.cancelled:
            self._connection.give_up(request)
            self._connection.settle(request, "no-answer", GIVEN_UP)
        return False

    def _other(self, request: Request) -> None:
        kind = _KINDS.get(request.method, "other")
        name = rule_name(request.method)
        place = (
            protected_path(request.params, self._watch.places, self._options.start, reads=True)
            if kind == "other"
            else None
        )
        verdict = judge(self._sessions.policy, request.method, OF_CLIENT)
        if place or verdict.effect != "allow" or verdict.confirm is not None:
            plan = ToolPlan(name, is_named_only=True, is_vendors=request.method not in OF_CLIENT)
            if not self.admission.queue(request, plan, place or ""):
                self._waiting.appendleft(request)
            return
        if kind == "initialize":
            self._greeted(request.params.get("clientInfo"), "legacy")
            self._confirmations.legacy_capabilities(request.params.get("capabilities"))
        elif request.modern:
            self._greeted(request.meta.get(frames.META_CLIENT), "modern")
        if request.method == "subscriptions/listen":
            self._tool_list.subscribe(request)
        self.admission.track(request, kind)

    def _greeted(self, info: object, era: str) -> None:
        name = info.get("name") if isinstance(info, dict) else None
        version = info.get("version") if isinstance(info, dict) else None
        client = name if isinstance(name, str) else ""
        if client and isinstance(version, str) and version:
            client = f"{client} {version}"
        self._context.identify(client[:100], era)

    # --- calls

    def _tools_call(self, request: Request) -> None:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        upstream = self._connection.upstream
        if upstream.changes != upstream.hints.changes:  # another session of a gateway has listed the tools
            upstream.forget_plans()
        plan = upstream.plans.get(name) if type(name) is str else None
        if plan is None and type(name) is str:
            plan = upstream.plan(name)
        if plan is None:
            sample = beginning(repr(name), MAX_NAME)
            error = frames.error(
                request.id,
                frames.INVALID_PARAMS,
                sentences(f"not a tool name: {sample}", "pass one that tools/list shows as params.name"),
            )
            self.admission.answer(request, error)
            self._refused("not a tool name", request.raw, sample=sample)
            return
        if arguments is not None and type(arguments) is not dict:
            error = frames.error(
                request.id,
                frames.INVALID_PARAMS,
                sentences(f'the arguments of "{plan.tool}" must be an object', "pass {} for none"),
            )
            self.admission.answer(request, error)
            return
        if request.modern:
            self._greeted(request.meta.get(frames.META_CLIENT), "modern")
        place = None
        if plan.is_named_only:
            verdict = self._sessions.policy.judge_open(plan.tool)
            is_free = verdict.confirm is None or is_preview(plan.tool, arguments)
            if verdict.effect == "allow" and is_free:
                if self._is_first(request):
                    self.admission.call_meta_tool(request, plan.tool)
                return
        else:
            place = protected_path(
                arguments if "inputResponses" not in request.params else request.params,
                self._watch.places,
                self._options.start,
                tool=plan.tool,
                reads=plan.only_reads,
            )
        if not self.admission.queue(request, plan, place or ""):
            self._waiting.appendleft(request)

    # --- small things

    def _refuse(self, error: FrameError, line: bytes, batch: BatchAnswers | None) -> None:
        # an error with the id of an open request would be the answer to that one
        about = None if error.id in self._connection.requests else error.id
        answer = frames.error(about, error.code, error.text)
        if batch is not None:
            batch.parts.append(answer.rstrip(b"\n"))
        else:
            self.admission.say(answer)
        self._connection.report.event("message.refused", error.reason)
        self._refused(error.reason, line, sample=beginning(line[:MAX_SAMPLED].decode(errors="replace"), SAMPLE))

    def _refused(self, reason: str, line: bytes, sample: str = "") -> None:
        """Record that a message was dropped. A flood of them must not fill the store."""
        self._refusals += 1
        if not is_noted(self._refusals):
            return
        if self._refusals > MAX_NOTED:
            reason += f" (number {self._refusals:,} of those refused)"
        self._connection.note(kinds.MessageRefused(reason=beginning(reason, MAX_REASON), sample=sample, size=len(line)))

    def refuse_held(self, why: str) -> None:
        """Hold no call any longer."""
        self.admission.answered(self._confirmations.give_up(why))
