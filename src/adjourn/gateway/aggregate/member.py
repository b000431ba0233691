"""One server's part in a client's session: its exchange, how the client is introduced to it, and what it asks the client."""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Any, NamedTuple, Protocol

from adjourn.clients.client import ClientContext
from adjourn.gateway.aggregate import task_handles
from adjourn.gateway.aggregate.merging import with_id, with_param
from adjourn.gateway.exchange import Exchange, ExchangeParts
from adjourn.gateway.http_pool import Headers, StreamEvent
from adjourn.gateway.replies import Heard, LineHead, ReplyStream, head_of
from adjourn.mcp import frames
from adjourn.mcp.frames import Message
from adjourn.mcp.lenient import value_of


class WholeSession(Protocol):
    """The session of which a member is a part."""

    def outgoing(self, member: Member, head: LineHead, line: bytes, /) -> bytes:
        """What the client gets of a request or notification; nothing, where it gets it otherwise or not at all."""


class Member(Exchange):
    """See above. `name` is the server's, as rules have it; "" for the gateway's own."""

    def __init__(self, parts: ExchangeParts, context: ClientContext, name: str) -> None:
        self.name = name
        self._label = f"{name}:".encode()
        self.session: WholeSession | None = None
        super().__init__(parts, context)

    def hear(self, heard: Heard) -> None:
        event = heard.event
        if event is not None and event.id:
            heard = heard._replace(event=self._labelled(event))
        super().hear(heard)

    def pass_event(self, about: Any, event: StreamEvent) -> None:
        super().pass_event(about, self._labelled(event) if event.id else event)

    def _labelled(self, event: StreamEvent) -> StreamEvent:
        """An event whose id says which server has it."""
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
        """The client begins."""
        if message.method == "initialize":
            self._hello, self._headers = message, stream.headers

    def finished(self, message: Message) -> None:
        """The client has begun: it takes notifications."""
        self._finished = message.raw

    def to(self, member: Member) -> None:
        """Begin with a server that joins the session."""
        if self._hello is None:
            return
        member.relay.gate.sampling = None  # the own member asks the client's model
        finished = self._finished  # else it comes, and goes to all servers

        def answered(line: bytes) -> None:
            if line and finished:
                member.receive(finished, ReplyStream(self._headers), None)

        request_id = f"adjourn-{token_hex(6)}"
        line = frames.request(request_id, "initialize", self._hello.params)
        member.receive(line, Collector(self._headers, None, answered), request_id)


# --- requests of several servers to one client

MAX_OPEN = 10_000


class AskedQuestion(NamedTuple):
    """An open request of a server: its own id, and the token under which it hears of progress."""

    member: Member
    question: Any
    token: Any


class ServerQuestions:
    """Of one client's session."""

    def __init__(self) -> None:
        self._open: dict[int, AskedQuestion] = {}
        self._count = 0

    def asked(self, member: Member, line: bytes) -> bytes:
        """A server's request as the client gets it."""
        body = value_of(line)
        params = body.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        self._count += 1
        self._open[self._count] = AskedQuestion(member, body.get("id"), token)
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        return with_id(line, self._count)

    def answered(self, request_id: object) -> AskedQuestion | None:
        """Whose request the client answers. It is over."""
        return self._open.pop(request_id, None) if type(request_id) is int else None

    def taken_back(self, member: Member, line: bytes) -> bytes:
        """A server takes a request back; nothing where the client has none."""
        params = value_of(line).get("params")
        question = params.get("requestId") if isinstance(params, dict) else None
        for number, asked in self._open.items():
            if asked.member is member and asked.question == question and frames.is_id(question):
                del self._open[number]
                return with_param(line, "requestId", number)
        return b""

    def of_token(self, token: object) -> Member | None:
        """Who hears of progress under a token."""
        if not frames.is_id(token):
            return None
        return next((one.member for one in self._open.values() if one.token == token), None)
