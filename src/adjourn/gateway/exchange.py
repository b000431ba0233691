"""One client's session with one server: a relay between HTTP requests of the client, and a link to the server.

Each request waits in a stream of its own for its answer, and for what the server says on the way. What belongs to no request waits for
the stream that the client opened by GET.

Owns: which line goes to which stream. Must never: decide, or send to the server what the relay did not let through.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from adjourn.checkpoints.triggers import GuardedSession
from adjourn.clients.client import ClientContext
from adjourn.gateway.group_commit import GroupCommit
from adjourn.gateway.http_pool import Headers, StreamEvent, UnreachableError
from adjourn.gateway.incidents import Incidents
from adjourn.gateway.links import LinkUser, ServerLink
from adjourn.gateway.metrics import CallWatch, Metrics
from adjourn.gateway.replies import SUBSCRIBE, ReplyStream, ServerMessage, head_of
from adjourn.mcp.lenient import UNREADABLE
from adjourn.relay.ports import NEVER, Outcome, Settled, StderrLog
from adjourn.relay.relay import Relay, RelayOptions

SettledThen = Callable[[Mapping[GuardedSession, Exception]], None]
MAX_BACKLOG = 100
"""Lines that are kept for a client that has no stream open."""


class _Token(msgspec.Struct, rename="camel"):
    progress_token: Any = None


class _Progress(msgspec.Struct):
    params: _Token = msgspec.field(default_factory=_Token)


_progress_of = msgspec.json.Decoder(_Progress).decode


class ExchangeResources(NamedTuple):
    """What exchanges of a gateway share."""

    workers: ThreadPoolExecutor
    report: StderrLog
    options: RelayOptions
    commits: GroupCommit
    incidents: Incidents
    metrics: Metrics | None = None


class Exchange(LinkUser):
    """It has to `connect` before its first message."""

    link: ServerLink

    def __init__(self, resources: ExchangeResources, context: ClientContext) -> None:
        self.context = context
        principal = context.options.principal
        about = {"client": context.group.rpartition("/")[2], "server": context.options.server}
        about |= {"principal": principal.id, "principalName": principal.name} if principal is not None else {}
        self._report = resources.report.about(**about)
        self._incidents = resources.incidents
        self._loop = AsyncioLoop(resources.workers, self._failed)
        self.relay = Relay(self._loop, context, self._report, resources.options)
        self.connection = self.relay.connection
        self.connection.client = _ToClient(self)
        self._commits = resources.commits
        self.connection.commits = _ExchangeCommits(self, resources.commits)
        self.waiting: dict[Any, ReplyStream] = {}
        """The streams of requests, by the requests' ids."""
        if resources.metrics is not None:
            listed = context.served.hints.read_only
            self.connection.observer = CallWatch(about, listed, self.waiting, resources.metrics, self._report)
        self.used = time.monotonic()
        self.who = ""
        """The client that the rate limits apply to."""
        self.on_use: Callable[[], None] = lambda: None
        """Called before each message of the client."""
        self.on_close: Callable[[], None] = lambda: None
        self._listener: ReplyStream | None = None
        self._backlog: list[StreamEvent] = []
        self._actions: deque[Callable[[], None]] = deque()
        """What the server said and did, and is not handled yet."""
        self._now = ServerMessage(b"")
        """What is being handled, so that what it leads to finds its stream."""
        self._client_stream: ReplyStream | None = None
        """The stream of the client's message that is being handled."""

    def connect(self, link: ServerLink) -> None:
        """Have this way to the server."""
        self.link = self.connection.server = link

    def _failed(self, error: Exception) -> None:
        self._report.event("gateway.bug", f"{type(error).__name__}: {error}")

    # --- the client

    def receive(self, line: bytes, stream: ReplyStream, request_id: Any) -> None:
        self.used = time.monotonic()
        self.on_use()
        if request_id is not None:
            self.waiting[request_id] = stream
        self._client_stream = stream
        try:
            self.relay.gate.handle([line])
        finally:
            self._client_stream = None

    def listen(self, stream: ReplyStream, last_event: bytes) -> None:
        self.used = time.monotonic()
        if not last_event:
            self._listener = stream
            backlog, self._backlog = self._backlog, []
            for event in backlog:
                stream.put(event)
        self.link.listen(stream, last_event)

    def leave(self, request_id: Any, stream: ReplyStream) -> None:
        """The client no longer reads a stream. In the stateless revision that gives up the request, unless it will repeat it with its key."""
        if self.waiting.get(request_id) is stream:
            del self.waiting[request_id]
            request = self.connection.requests.get(request_id)
            if request is not None and not request.is_keyed and self.context.era == "modern":
                self.relay.gate.gave_up(request_id)
                self.link.abandon(request_id)
        if self._listener is stream:
            self._listener = None
        self.link.leave(stream)

    @property
    def is_accepted(self) -> bool:
        return self.connection.upstream.revision != ""

    @property
    def listener(self) -> ReplyStream | None:
        return self._listener

    @property
    def is_busy(self) -> bool:
        requests = self.connection.requests
        return any(request.method != SUBSCRIBE for request in requests.values()) or any(
            request_id not in requests for request_id in self.waiting
        )

    def passed(self, request_ids: Sequence[Any]) -> None:
        """These requests may pass, or the message that is being handled, to where nobody hears of their answers."""
        streams = [self.waiting.pop(request_id, None) for request_id in request_ids] or [self._client_stream]
        for request_id in request_ids:
            request = self.connection.requests.pop(request_id, None)
            if request is not None and self.connection.observer is not None and request.call_id:
                self.connection.observer.settled(request, "no-answer", time.monotonic_ns())
        for stream in streams:
            if stream is not None:
                stream.is_passed = True
                stream.end()

    def in_use(self, request_id: Any) -> bool:
        return request_id in self.waiting or request_id in self.connection.requests

    def compare_tools(self) -> None:
        """Have the client list tools again if the policy as it is now permits others than it knows."""
        self.relay.tools.compare()

    # --- the server, in the order in which it spoke and ended

    def hear(self, message: ServerMessage) -> None:
        self._in_turn(partial(self._take, message))

    def _in_turn(self, action: Callable[[], None]) -> None:
        """Do something once all that came before is done."""
        self._actions.append(action)
        self._handle()

    def _handle(self) -> None:
        while self._actions:
            if not self.relay.may_read_server():
                self._loop.after(0.005, self._handle)
                return
            self._actions.popleft()()

    def _take(self, message: ServerMessage) -> None:
        self._now = message
        try:
            self.relay.answers.handle([message.line])
        finally:
            self._now = ServerMessage(b"")

    def settle(self, settled: Mapping[GuardedSession, Settled], then: SettledThen) -> None:
        """Have the outcome of calls committed; what follows is about the line that is being handled now."""
        self._commits.settle(settled, partial(self._settled, self._now, then))

    def _settled(self, message: ServerMessage, then: SettledThen, failed: Mapping[GuardedSession, Exception]) -> None:
        self._now = message
        try:
            then(failed)
        finally:
            self._now = ServerMessage(b"")
        self._handle()

    def pass_event(self, about: Any, event: StreamEvent) -> None:
        if (stream := self.waiting.get(about) or self._listener) is not None:
            stream.put(event)

    def break_stream(self, about: Any) -> None:
        """The server ended a stream before its answer: the client continues it by GET."""
        self._in_turn(partial(self._break, about))

    def _break(self, about: Any) -> None:
        if (stream := self.waiting.pop(about, None)) is not None:
            stream.end()

    def describe(self, error: UnreachableError) -> str:
        return self._incidents.describe(error)

    def fail(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        self._in_turn(partial(self._fail, request_id, why, "no-answer" if was_sent else "error"))

    def _fail(self, request_id: Any, why: str, outcome: Literal["error", "no-answer"]) -> None:
        request = self.connection.requests.get(request_id)
        if request is not None:
            self.connection.fail(request, why, outcome)

    def answered_with(self, request_id: Any, status: int) -> None:
        if (stream := self.waiting.get(request_id)) is not None:
            stream.status = status

    def stream_ended(self, stream: ReplyStream) -> None:
        stream.end()

    def is_open(self, request_id: Any) -> bool:
        return request_id in self.connection.requests

    def open_requests(self) -> list[Any]:
        return list(self.connection.requests)

    def headers_for(self, request_id: Any) -> Headers:
        stream = self.waiting.get(request_id) or self._client_stream
        return stream.headers if stream is not None else ()

    def deliver(self, line: bytes, about: Any) -> None:
        """Give a line to the stream that it belongs to."""
        event = self._now.event
        reply = StreamEvent(line, event.id, event.retry) if event is not None else StreamEvent(line)
        head = head_of(line)
        if head.method is None:
            stream = self.waiting.pop(head.id, None) or self._client_stream
            if stream is not None:
                stream.put(reply, is_last=True)
            elif (listener := self._now.stream or self._listener) is not None:
                listener.put(reply)
            return
        owner = (
            self.waiting.get(about)
            or self._now.stream
            or self._by_token(line)
            or self._listener
            or next(reversed(self.waiting.values()), None)
        )
        if owner is None:
            self._backlog.append(reply)
            del self._backlog[:-MAX_BACKLOG]
        else:
            owner.put(reply)

    def _by_token(self, line: bytes) -> ReplyStream | None:
        if b"progressToken" not in line:
            return None
        try:
            token = _progress_of(line).params.progress_token
        except UNREADABLE:
            return None
        return next((stream for stream in self.waiting.values() if token in stream.tokens), None)

    @property
    def about(self) -> Any:
        """The id of the request on which stream the current line arrived."""
        return self._now.about

    # --- the end

    def close(self, why: str) -> None:
        """Answer what is open with an error, and leave the server. What the server has answered is settled as such."""
        self.relay.answers.close()
        while self._actions:
            self._actions.popleft()()
        self.relay.gate.refuse_held(why)
        for request in list(self.connection.requests.values()):
            self.connection.fail(request, why, "no-answer")
        for stream in self.waiting.values():
            stream.end()
        if self._listener is not None:
            self._listener.end()
        self.link.close()
        self._loop.close()
        self.on_close()


class _ExchangeCommits:
    """What the relay commits, it commits with those of the other exchanges."""

    def __init__(self, exchange: Exchange, commits: GroupCommit) -> None:
        self.admit = commits.admit
        self.settle = exchange.settle


class _ToClient:
    """The relay's outlet to the client."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.size = 0
        self.since = NEVER

    def send(self, data: bytes, about: Any = None) -> None:
        exchange = self._exchange
        of = about.id if about is not None else exchange.about
        for line in data.split(b"\n"):
            if line:
                exchange.deliver(line, of)

    def lose(self) -> None:
        """Streams end by themselves."""

    def drain(self, seconds: float) -> None:
        """Streams are written by their requests."""

    def close(self) -> None:
        """Streams end by themselves."""


# --- the event loop of a relay over asyncio

_T = TypeVar("_T")


class AsyncioLoop:
    """See `relay.EventLoop`. `on_error` is called with what an action raises."""

    def __init__(self, workers: ThreadPoolExecutor, on_error: Callable[[Exception], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._workers = workers
        self._on_error = on_error
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._jobs: list[Callable[[], None]] = []
        self._is_working = False
        self._is_closed = False

    def time(self) -> float:
        return self._loop.time()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        if (earlier := self._timers.pop(action, None)) is not None:
            earlier.cancel()
        if not self._is_closed:
            self._timers[action] = self._loop.call_later(seconds, self._due, action)

    def _due(self, action: Callable[[], None]) -> None:
        self._timers.pop(action, None)
        self._call(action)

    def soon(self, action: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(self._call, action)

    def work(self, job: Callable[[], _T], then: Callable[[Outcome[_T]], None]) -> None:
        def run() -> None:
            outcome = Outcome(job)
            self._loop.call_soon_threadsafe(self._worked, lambda: then(outcome))

        self._jobs.append(run)
        self._begin()

    def _begin(self) -> None:
        if self._jobs and not self._is_working:
            self._is_working = True
            self._workers.submit(self._jobs.pop(0))

    def _worked(self, then: Callable[[], None]) -> None:
        self._is_working = False
        self._call(then)
        self._begin()

    def _call(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # one failure must not end the gateway
            self._on_error(error)

    def close(self) -> None:
        """Cancel what is to happen later."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
