"""The part of a client's session that is with one of several servers: an exchange whose other messages go through the whole session.

Owns: which messages those are. Must never: decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from adjourn.clients import ClientContext
from adjourn.gateway.event_stream import StreamEvent
from adjourn.gateway.exchange import Exchange, ExchangeParts
from adjourn.gateway.http_pool import Headers
from adjourn.gateway.replies import Heard, LineHead, ReplyStream, head_of
from adjourn.gateway.together import task_handles


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
