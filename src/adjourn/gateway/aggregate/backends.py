"""The backends of one client's session: its own session with each server, and the gateway's own part, which has the meta-tools.

Here stand, too, what the client said of itself, for servers that join later, and what servers ask the client.

Must never: look into a message, or end a backend with an open call before its time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from secrets import token_hex
from typing import Any, NamedTuple, Protocol

import msgspec

from adjourn import __version__
from adjourn.clients.client import ClientContext
from adjourn.gateway.aggregate import task_handles
from adjourn.gateway.aggregate.handshake import ServerHealth
from adjourn.gateway.aggregate.merging import (
    Greeting,
    complete,
    discovered,
    initialized,
    negotiated,
    with_id,
    with_param,
)
from adjourn.gateway.aggregate.upstream_session import UpstreamSession
from adjourn.gateway.exchange import Exchange, ExchangeResources
from adjourn.gateway.http_pool import Headers, StreamEvent
from adjourn.gateway.links import BaseLink
from adjourn.gateway.replies import LineHead, ReplyStream, ServerMessage, head_of
from adjourn.gateway.routing import NOT_SERVED, GatewayUpstream
from adjourn.mcp import frames
from adjourn.mcp.frames import Message
from adjourn.mcp.lenient import value_of
from adjourn.text.redact import beginning


class OwningSession(Protocol):
    """The client's session with all servers."""

    def outgoing(self, backend: BackendSession, head: LineHead, line: bytes, /) -> bytes:
        """What the client gets of a request or notification; nothing, where it gets it otherwise or not at all."""


class BackendSession(Exchange):
    """An exchange that is a part of a client's session. `name` is the server's, as rules have it; "" for the gateway's own."""

    def __init__(self, resources: ExchangeResources, context: ClientContext, name: str) -> None:
        self.name = name
        self._label = f"{name}:".encode()
        self.session: OwningSession | None = None
        super().__init__(resources, context)

    def hear(self, message: ServerMessage) -> None:
        event = message.event
        if event is not None and event.id:
            message = message._replace(event=self._labelled(event))
        super().hear(message)

    def pass_event(self, about: Any, event: StreamEvent) -> None:
        super().pass_event(about, self._labelled(event) if event.id else event)

    def _labelled(self, event: StreamEvent) -> StreamEvent:
        """An event with its server in the id."""
        return event._replace(id=self._label + event.id)

    def own_event(self, last_event: bytes) -> bytes:
        """The server's own id of an event; nothing for one of another server."""
        return last_event[len(self._label) :] if last_event.startswith(self._label) else b""

    def deliver(self, line: bytes, about: Any) -> None:
        head = head_of(line)
        if self.name:
            line = task_handles.shown(line, head.method, self.name)
        if head.method is not None and self.session is not None:
            line = self.session.outgoing(self, head, line).rstrip()
        if line:
            super().deliver(line, about)

    def compare_tools(self) -> None:
        if self.relay.tools.is_outdated():  # the client subscribes to the lists of all servers, not to this one's
            self.deliver(frames.notification("notifications/tools/list_changed").rstrip(), None)

    def tell(self, line: bytes) -> None:
        """Say something that belongs to no request."""
        super().deliver(line, None)


class Collector(ReplyStream):
    """Takes the answer to a request of the gateway's own; what comes on the way goes through to the client's stream."""

    def __init__(self, headers: Headers, through: ReplyStream | None, then: Callable[[bytes], None]) -> None:
        super().__init__(headers)
        self._through = through
        self._then: Callable[[bytes], None] | None = then

    def put(self, event: StreamEvent, *, is_last: bool = False) -> None:
        if is_last:
            self._finish(event.data)
        elif self._through is not None and not self._through.is_whole:
            self._through.put(event)

    def end(self) -> None:
        self._finish(b"")

    def _finish(self, line: bytes) -> None:
        then, self._then = self._then, None
        self.is_whole = True
        if then is not None:
            then(line)


# --- what a client has said of itself at the beginning of its session, for servers that join it later


class Introduction:
    """Of one client's session. In the stateless revision there is none: each message says who sends it."""

    def __init__(self) -> None:
        self._hello: Message | None = None
        self._headers: Headers = ()
        self._finished: bytes = b""

    def met(self, message: Message, stream: ReplyStream) -> None:
        """The client opens its session."""
        if message.method == "initialize":
            self._hello, self._headers = message, stream.headers

    def finished(self, message: Message) -> None:
        """The client has started: it takes notifications."""
        self._finished = message.raw

    def introduce(self, backend: BackendSession) -> None:
        """Start with a server that joins the session."""
        if self._hello is None:
            return
        finished = self._finished  # else it comes, and goes to all servers

        def answered(line: bytes) -> None:
            if line and finished:
                backend.receive(finished, ReplyStream(self._headers), None)

        request_id = f"adjourn-{token_hex(6)}"
        line = frames.request(request_id, "initialize", self._hello.params)
        backend.receive(line, Collector(self._headers, None, answered), request_id)


# --- requests of several servers to one client

MAX_OPEN = 10_000


class AskedQuestion(NamedTuple):
    """An open request of a server: its own id, and the token under which it hears of progress."""

    backend: BackendSession
    question: Any
    token: Any


class ServerQuestions:
    """Of one client's session."""

    def __init__(self) -> None:
        self._open: dict[int, AskedQuestion] = {}
        self._count = 0

    def asked(self, backend: BackendSession, line: bytes) -> bytes:
        """A server's request as the client gets it."""
        body = value_of(line)
        params = body.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        self._count += 1
        self._open[self._count] = AskedQuestion(backend, body.get("id"), token)
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        return with_id(line, self._count)

    def answered(self, request_id: object) -> AskedQuestion | None:
        """Remove an answered request to the client, and return it; None if it is not open."""
        return self._open.pop(request_id, None) if type(request_id) is int else None

    def taken_back(self, backend: BackendSession, line: bytes) -> bytes:
        """A server takes a request back; nothing where the client has none."""
        params = value_of(line).get("params")
        question = params.get("requestId") if isinstance(params, dict) else None
        for number, asked_question in self._open.items():
            if asked_question.backend is backend and asked_question.question == question and frames.is_id(question):
                del self._open[number]
                return with_param(line, "requestId", number)
        return b""

    def of_token(self, token: object) -> BackendSession | None:
        """Who hears of progress under a token."""
        if not frames.is_id(token):
            return None
        return next((question.backend for question in self._open.values() if question.token == token), None)


# --- the gateway's own part, which has the meta-tools

_OFFERED = Greeting({"tools": {"listChanged": True}})
MAX_SHOWN = 80


class _Line(msgspec.Struct):
    id: Any = None
    method: str = ""
    params: dict[str, Any] = {}


_line_of = msgspec.json.Decoder(_Line).decode


class OwnLink(BaseLink):
    """See `ServerLink`. `on_listen` gets a `subscriptions/listen` that was let through: its id, and what it wants."""

    def __init__(self, exchange: Exchange, on_listen: Callable[[Any, dict[str, Any]], None]) -> None:
        self._exchange = exchange
        self._on_listen = on_listen
        self.size = 0

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        for line in data.split(b"\n"):
            if line:
                self._answer(_line_of(line))

    def _answer(self, line: _Line) -> None:
        if not frames.is_id(line.id) or not line.method:
            return
        if line.method == "subscriptions/listen":
            wanted = line.params.get("notifications")
            self._on_listen(line.id, wanted if isinstance(wanted, dict) else {})
            return
        meta = line.params.get("_meta")
        result = _result(line, is_modern=isinstance(meta, dict) and frames.META_VERSION in meta)
        if result is not None:
            answer = frames.result(line.id, result)
        elif line.method == "tools/call":
            name = beginning(str(line.params.get("name")), MAX_SHOWN)
            answer = frames.error(
                line.id, frames.INVALID_PARAMS, f"no server has a tool named {name}. Use one that tools/list shows."
            )
        else:
            what = beginning(line.method, MAX_SHOWN)
            answer = frames.error(
                line.id,
                frames.METHOD_NOT_FOUND,
                f"there is no method {what} here. Send it to the address of its server.",
            )
            self._exchange.answered_with(line.id, 404)
        asyncio.get_running_loop().call_soon(self._exchange.hear, ServerMessage(answer, line.id))


def _result(line: _Line, *, is_modern: bool) -> dict[str, Any] | None:
    if line.method == "initialize":
        return initialized(_OFFERED, negotiated(line.params.get("protocolVersion")), __version__)
    if line.method == "server/discover":
        return discovered(_OFFERED, __version__)
    if line.method == "tools/list":
        return complete({"tools": []}, is_cached=True) if is_modern else {"tools": []}
    if line.method == "ping" and not is_modern:
        return {}
    return None


# --- all of them


class Backend(NamedTuple):
    """The part that is with one server: the client's side, and the gateway's own session there."""

    session: BackendSession
    upstream: UpstreamSession
    health: ServerHealth

    def may_have(self, kind: str) -> bool:
        """Whether it may offer something: it says so, or has not said anything yet."""
        return not self.health.is_met or kind in self.upstream.capabilities

    def may_have_tasks(self, *, modern: bool) -> bool:
        """Whether it may make tasks, for clients of an era."""
        return not self.health.is_met or task_handles.offers(self.upstream.capabilities, modern=modern)


class Backends:
    """Those of one client. `begin` makes the one that is with a server; there is only the gateway's `own` at first."""

    def __init__(self, own: BackendSession, begin: Callable[[GatewayUpstream], Backend]) -> None:
        self._own = own
        self._begin = begin
        self._of: dict[GatewayUpstream, Backend] = {}
        self.by_name: dict[str, Backend] = {}
        """By the servers' names in rules, in the order of the settings."""
        self.by_session: dict[BackendSession, Backend] = {}
        self._ending: dict[BackendSession, float] = {}
        """Of servers that are in force no longer, and when what is open there is ended (`time.monotonic`)."""

    @property
    def sessions(self) -> tuple[BackendSession, ...]:
        """All of them, also those that are ending."""
        return (self._own, *self.by_session, *self._ending)

    def change(self, upstreams: Iterable[GatewayUpstream], end: float) -> list[Backend]:
        """Have a backend for each of these servers; others end, at a time at the latest. Returns those that are new."""
        before = self._of
        self._of = {upstream: before.get(upstream) or self._begin(upstream) for upstream in upstreams}
        self.by_name = {backend.session.name: backend for backend in self._of.values()}
        self.by_session = {backend.session: backend for backend in self._of.values()}
        self._ending |= {backend.session: end for upstream, backend in before.items() if upstream not in self._of}
        return [backend for upstream, backend in self._of.items() if upstream not in before]

    def end_idle(self, now: float, listener: ReplyStream | None) -> bool:
        """End backends of servers that are in force no longer, once nothing is open there. Returns whether some are left.

        `listener` is the client's stream, which the other backends still use.
        """
        for session, end in list(self._ending.items()):
            if not session.is_busy or now >= end:
                del self._ending[session]
                if listener is not None:
                    session.leave(None, listener)
                session.close(NOT_SERVED)
        return bool(self._ending)

    # --- what they may have, and tell

    def may_have_tasks(self, *, modern: bool) -> bool:
        """Whether a server may make tasks for a client of an era."""
        return any(backend.may_have_tasks(modern=modern) for backend in self.by_name.values())

    def may_have_task(self, task: str) -> bool:
        """Whether there is a server that may have this task, for clients of the stateless revision."""
        server, _ = task_handles.split(task) or ("", "")
        return server in self.by_name and self.by_name[server].may_have_tasks(modern=True)

    def watch(
        self, resources: Iterable[str], tasks: Iterable[str], owner_of: Callable[[str], BackendSession | None]
    ) -> None:
        """Have each server tell of what the client subscribes to there."""
        owned, unowned = defaultdict[str, list[str]](list), list[str]()
        for uri in resources:
            owner = owner_of(uri)
            (owned[owner.name] if owner is not None else unowned).append(uri)
        tasks_of = defaultdict[str, list[str]](list)
        for server, task in filter(None, map(task_handles.split, tasks)):
            tasks_of[server].append(task)
        for name, backend in self.by_name.items():
            watching = backend.upstream.watching
            # A server that was away may have what nobody else lists.
            more = [uri for uri in unowned if backend.health.why or watching.is_watched(uri)]
            watching.want([*owned[name], *more], tasks_of[name])
