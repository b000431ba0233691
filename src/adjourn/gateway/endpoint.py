"""The HTTP endpoint of one server: which session a request belongs to, and the form of the answer.

A client of the handshake revisions gets a session id with its first answer. A client of the stateless revision has none: its requests are
those of one client by its name, and several with one id at the same time have an exchange each.

Owns: sessions, and HTTP's side of the protocol. Must never: pass on what the relay did not see.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sized
from contextlib import AbstractContextManager, nullcontext
from secrets import token_urlsafe
from typing import Any, NamedTuple, Protocol

import msgspec

from adjourn.gateway.limits import Alarms, LoadLimits, Throttle
from adjourn.gateway.replies import (
    SUBSCRIBE,
    WATCH_AFTER_SECONDS,
    ClientWatch,
    OpenStreams,
    Receive,
    ReplyStream,
    Scope,
    Send,
    answer,
    answer_with,
    as_line,
    body_of,
    problem,
    send_events,
)
from adjourn.gateway.tracing import TRACEPARENT, TRACESTATE, Tracer, with_context
from adjourn.mcp import frames
from adjourn.mcp.unreadable import unread_id
from adjourn.policy.principal import Principal


class ClientSession(Protocol):
    """`Exchange`: with one server. `AggregateSession`: with all."""

    used: float
    """When the client last used it (`time.monotonic`)."""
    who: str
    """The client that the rate limits apply to."""

    @property
    def waiting(self) -> Sized:
        """The client's open requests."""

    @property
    def is_accepted(self) -> bool:
        """Whether the server has accepted the session, in the revisions that have one."""

    @property
    def listener(self) -> ReplyStream | None:
        """The stream that the client has open for what belongs to no request."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is open that will be answered by itself: a subscription lasts as long as the client likes."""

    def receive(self, line: bytes, stream: ReplyStream, request_id: Any, /) -> None:
        """Handle a message of the client. `request_id` is the id of a request, and its answer ends the stream; None for any other message."""

    def listen(self, stream: ReplyStream, last_event: bytes, /) -> None:
        """The client opened a stream for what belongs to no request, or to continue a broken one."""

    def leave(self, request_id: Any, stream: ReplyStream, /) -> None:
        """The client no longer reads a stream."""

    def in_use(self, request_id: Any, /) -> bool:
        """Whether a request with this id is open."""

    def close(self, why: str, /) -> None:
        """Answer what is open with an error, and leave the server."""


MAX_EXCHANGES = 20_000
SESSION = b"mcp-session-id"
NO_SESSION = "there is no such session. Send initialize to begin one."
_FORWARDED = (b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"last-event-id", TRACEPARENT, TRACESTATE)
_PARAMETER = b"mcp-param-"
_MODERN = frames.META_VERSION.encode()


class Sender(NamedTuple):
    """On whose behalf a request comes, None where nobody authenticates, and the task that it names ("": the client's own)."""

    principal: Principal | None
    task: str


NewExchange = Callable[[str, Sender], ClientSession]
"""Makes an exchange for a client's name and who is behind it."""


class _Meta(msgspec.Struct):
    client: Any = msgspec.field(name=frames.META_CLIENT, default=None)
    token: Any = msgspec.field(name="progressToken", default=None)
    traceparent: Any = None


class _Params(msgspec.Struct):
    client: Any = msgspec.field(name="clientInfo", default=None)
    meta: _Meta = msgspec.field(name="_meta", default_factory=_Meta)


class Opening(msgspec.Struct):
    """What is read of a message to see whose it is."""

    id: Any = None
    method: Any = None
    params: _Params = msgspec.field(default_factory=_Params)


class _PostedMessage(NamedTuple):
    """A message of a client, as it came and as one line."""

    opening: Opening
    headers: dict[bytes, bytes]
    body: bytes
    line: bytes
    sender: Sender
    scope: Scope


opening_of = msgspec.json.Decoder(Opening).decode


class Endpoint:
    """One server's. `new` makes an exchange; `throttle` says what may start, `tracer` has the traces of requests, `streams` what clients keep
    open.
    """

    def __init__(
        self,
        new: NewExchange,
        throttle: Throttle | None = None,
        tracer: Tracer | None = None,
        streams: OpenStreams | None = None,
    ) -> None:
        self._streams = streams
        self._tracer = tracer
        self._new = new
        self._throttle = throttle or Throttle(LoadLimits())
        self.sessions: dict[tuple[str, Principal | None], ClientSession] = {}
        """Each is only found by whoever began it: to others its id is one of no session."""
        self.lanes: dict[tuple[str, Sender], list[ClientSession]] = {}
        """Exchanges of clients of the stateless revision, by client and who is behind it."""
        self._is_closed = False
        self._is_ending = False
        """Whether a session takes only what belongs to its open calls."""
        self._slow: Alarms[ClientWatch] = Alarms(WATCH_AFTER_SECONDS, ClientWatch.begin)

    async def handle(self, scope: Scope, receive: Receive, send: Send, sender: Sender) -> None:
        """Answer a request."""
        method = scope["method"]
        if method == "POST":
            await self._post(scope, receive, send, sender)
        elif method == "GET":
            await self._get(scope, receive, send, sender)
        elif method == "DELETE":
            await self._delete(dict(scope["headers"]), send, sender)
        else:
            await answer(send, 405, problem("use POST, GET or DELETE"), ((b"allow", b"POST, GET, DELETE"),))

    # --- messages

    async def _post(self, scope: Scope, receive: Receive, send: Send, sender: Sender) -> None:
        headers = dict(scope["headers"])
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json":
            await answer(send, 415, problem("send application/json"))
            return
        accepted = headers.get(b"accept", b"*/*")
        if not (b"*/*" in accepted or (b"application/json" in accepted and b"text/event-stream" in accepted)):
            await answer(send, 406, problem("accept application/json and text/event-stream"))
            return
        body = await body_of(headers, receive, self._throttle.limits.body_bytes)
        if body is None:
            await answer(
                send,
                413,
                problem(f"the message has more than {self._throttle.limits.body_bytes:,} bytes. Send less."),
                ((b"connection", b"close"),),
            )
            return
        is_batch = False
        try:
            opening = opening_of(body)
            line = as_line(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            opening, line = await self._odd(body, send)
            if not line:
                return
            is_batch = True
        throttle, who = self._throttle, self._who(opening, headers, sender)
        begins = is_batch or (opening.method is not None and frames.is_id(opening.id))
        lasts = opening.method == SUBSCRIBE
        refusal = throttle.message(who) or (throttle.begin(who, lasts=lasts) if begins else None)
        if refusal is not None:
            await answer(send, refusal.status, problem(refusal.why), refusal.headers)
            return
        try:
            await self._take(_PostedMessage(opening, headers, body, line, sender, scope), receive, send)
        finally:
            if begins:
                throttle.end(who, lasts=lasts)

    def _who(self, opening: Opening, headers: dict[bytes, bytes], sender: Sender) -> str:
        """The client that the rate limits apply to."""
        if (session := headers.get(SESSION)) is not None:
            exchange = self.sessions.get((session.decode(errors="replace"), sender.principal))
            return exchange.who if exchange is not None else ""
        return _limited(opening.params.meta.client or opening.params.client, sender)

    async def _take(self, posted: _PostedMessage, receive: Receive, send: Send) -> None:
        """Hand a message over, and pass the answer on."""
        opening, headers, body, line, sender, scope = posted
        exchange, session = self._exchange(opening, headers, body, sender)
        if exchange is None and (self.is_full or self._is_closed):
            why = (
                "the gateway or the connection to this server is ending. Try again."
                if self._is_closed
                else "too many sessions are open. Try again later."
            )
            await answer(send, 503, problem(why))
            return
        if exchange is None:
            why = NO_SESSION if session else "the session id is missing. Send the Mcp-Session-Id of initialize."
            await answer(send, 404 if session else 400, problem(why))
            return
        headers_sent = [pair for pair in headers.items() if pair[0] in _FORWARDED or pair[0].startswith(_PARAMETER)]
        token = opening.params.meta.token
        stream = ReplyStream(headers_sent, () if token is None else (token,), scope.get("request_id", ""))
        trace = None
        if self._tracer is not None:
            trace = stream.trace = self._tracer.begin(headers, opening.params.meta.traceparent)
        if trace is not None:
            context = trace.context(of_call=opening.method == "tools/call")
            headers_sent[:] = [
                (TRACEPARENT, context.encode()),
                *(pair for pair in headers_sent if pair[0] != TRACEPARENT),
            ]
            line = with_context(line, trace.given, context)
        if opening.method is None or not frames.is_id(opening.id):
            exchange.receive(line, stream, None)
            event = await stream.next() if stream.size else None
            await answer(send, 202 if event is None else 400, b"" if event is None else event.data)
            return
        answer_headers = ((SESSION, session.encode()),) if opening.method == "initialize" else ()
        exchange.receive(line, stream, opening.id)
        try:
            with self._watched(scope, sender, stream) if opening.method == SUBSCRIBE else nullcontext():
                await answer_with(stream, send, answer_headers, receive, self._slow)
        finally:
            exchange.leave(opening.id, stream)
            if trace is not None and self._tracer is not None:
                self._tracer.end(trace, opening.method, stream.status)
        if opening.method == "initialize" and not exchange.is_accepted:
            self._forget((session, sender.principal), "the server did not accept the session")

    async def _odd(self, body: bytes, send: Send) -> tuple[Opening, bytes]:
        """A body that is no message of the usual form: a batch, or nothing that can be read."""
        try:
            line = as_line(body)
            msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            text = frames.error(unread_id(body), frames.PARSE_ERROR, "the body is not JSON. Send one JSON-RPC message.")
            await answer(send, 400, text.rstrip())
            return Opening(), b""
        return Opening(), line

    def _exchange(
        self, opening: Opening, headers: dict[bytes, bytes], body: bytes, sender: Sender
    ) -> tuple[ClientSession | None, str]:
        """The exchange that a message belongs to, and its session id, if it has one."""
        if self._is_closed:
            return None, ""
        session = headers.get(SESSION, b"").decode(errors="replace")
        if session:
            is_late = self._is_ending and opening.method is not None and frames.is_id(opening.id)
            return None if is_late else self.sessions.get((session, sender.principal)), session
        if _MODERN in body or opening.method == "server/discover":
            return self._lane(opening, sender), ""
        if opening.method != "initialize" or self.is_full:
            return None, ""
        session = token_urlsafe(18)
        exchange = self._new(_name(opening.params.client), sender)
        exchange.who = _limited(opening.params.client, sender)
        self.sessions[session, sender.principal] = exchange
        return exchange, session

    @property
    def is_full(self) -> bool:
        """Whether there may be no more exchanges."""
        return len(self.sessions) + sum(map(len, self.lanes.values())) >= MAX_EXCHANGES

    def _lane(self, opening: Opening, sender: Sender) -> ClientSession | None:
        name = _name(opening.params.meta.client)
        lanes = self.lanes.get((name, sender), [])
        for exchange in lanes:
            if not exchange.in_use(opening.id):
                return exchange
        if self.is_full:
            return None
        self.lanes[name, sender] = [*lanes, exchange := self._new(name, sender)]
        exchange.who = _limited(opening.params.meta.client, sender)
        return exchange

    # --- streams and the end

    def _watched(self, scope: Scope, sender: Sender, stream: ReplyStream) -> AbstractContextManager[None]:
        """While this lasts, the stream ends when its client is let in no longer."""
        if self._streams is None:
            return nullcontext()
        return self._streams.watched(scope, sender.principal, stream.end)

    async def _get(self, scope: Scope, receive: Receive, send: Send, sender: Sender) -> None:
        headers = dict(scope["headers"])
        if b"text/event-stream" not in headers.get(b"accept", b""):
            await answer(send, 406, problem("accept text/event-stream"))
            return
        session = headers.get(SESSION, b"").decode(errors="replace")
        exchange = self.sessions.get((session, sender.principal))
        last_event = headers.get(b"last-event-id", b"")
        if exchange is None or (self._is_ending and not last_event):
            await answer(send, 404 if session else 405, problem(NO_SESSION))
            return
        version = [pair for pair in headers.items() if pair[0] == b"mcp-protocol-version"]
        stream = ReplyStream(version)
        exchange.listen(stream, last_event)
        try:
            with self._watched(scope, sender, stream):
                await send_events(stream, send, (), receive)
        finally:
            exchange.leave(None, stream)

    async def _delete(self, headers: dict[bytes, bytes], send: Send, sender: Sender) -> None:
        session = headers.get(SESSION, b"").decode(errors="replace")
        if (session, sender.principal) not in self.sessions:
            await answer(send, 404, problem(NO_SESSION))
            return
        self._forget((session, sender.principal), "the client ended the session")
        await answer(send, 200, b"")

    def _forget(self, session: tuple[str, Principal | None], why: str) -> None:
        if (exchange := self.sessions.pop(session, None)) is not None:
            exchange.close(why)

    def expire(self, seconds: float) -> None:
        """End what nobody has used for so long, and has nothing open."""
        since = time.monotonic() - seconds
        self._end(
            lambda session: session.used < since and not session.waiting and session.listener is None,
            "the session was not used",
        )

    def end_idle(self, why: str) -> None:
        """End what has no call open. Sessions take no other from now on: their clients have to start new ones, elsewhere."""
        self._is_ending = True
        self._end(lambda session: not session.is_busy, why)

    def _end(self, is_over: Callable[[ClientSession], bool], why: str) -> None:
        for session, exchange in list(self.sessions.items()):
            if is_over(exchange):
                self._forget(session, why)
        for key, lanes in list(self.lanes.items()):
            for exchange in [lane for lane in lanes if is_over(lane)]:
                lanes.remove(exchange)
                exchange.close(why)
            if not lanes:
                del self.lanes[key]

    def close(self, why: str) -> None:
        """End all sessions, and accept no new ones."""
        self._is_closed = True
        for session in list(self.sessions):
            self._forget(session, why)
        for lanes in self.lanes.values():
            for exchange in lanes:
                exchange.close(why)
        self.lanes.clear()


def _limited(info: object, sender: Sender) -> str:
    """The key of the rate limits: the principal if there is one, else the client's name."""
    return _name(info) if sender.principal is None else sender.principal.id


def _name(info: object) -> str:
    name = info.get("name") if isinstance(info, dict) else None
    return name[:100] if isinstance(name, str) else ""
