"""Between the era of a client and that of a server: what each side needs of the other, and the way for two of one era.

Owns: these forms. Must never: change a message.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from adjourn.gateway.exchange import Exchange, ServerLink
from adjourn.gateway.replies import Heard, LineHead
from adjourn.gateway.request_headers import RequestHeaders

RawObject = dict[str, msgspec.Raw]


class Watch(Protocol):
    """What a session wants to hear of a server's resources."""

    def watch(self, uri: str, /) -> None:
        """Hear of changes of a resource."""

    def unwatch(self, uri: str, /) -> None:
        """Hear of them no longer."""

    def note(self, uri: str, /, *, is_wanted: bool) -> None:
        """The client itself has asked for them, or asks for them no longer."""


class ServerSession(Protocol):
    """What a crossing uses of the gateway's session with a server."""

    @property
    def exchange(self) -> Exchange:
        """Whoever the client's side is."""

    @property
    def link(self) -> ServerLink | None:
        """The way to the server; None while there is none."""

    @property
    def watching(self) -> Watch:
        """Its subscriptions."""

    @property
    def headers(self) -> RequestHeaders:
        """Headers of requests in the stateless revision."""

    @property
    def offered(self) -> dict[str, Any]:
        """The capabilities of the client."""

    @property
    def is_stateless(self) -> bool:
        """Whether the client speaks the stateless revision."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """Those of the server."""

    def new_id(self) -> str:
        """An id for a request of the gateway's own."""

    def meta(self, level: str, /) -> dict[str, Any]:
        """What the stateless revision wants to know of the client with each request."""

    def pass_on(self, line: bytes, head: LineHead, /) -> None:
        """Send the server a message, in its own era."""

    def tell(self, method: str, params: dict[str, Any], /) -> None:
        """Ask the server something whose answer does not matter."""

    def say(self, line: bytes, about: Any, /) -> None:
        """Answer the client, once what is being done is done."""


class Crossing(Protocol):
    """What an upstream has in the middle. Ids are those of the server's side where the server speaks, else of the client's."""

    def greeting(self, result: RawObject, version: str, /) -> Any:
        """The result of the handshake as the client knows it."""

    def outgoing(self, line: bytes, head: LineHead, /) -> None:
        """A message of the client."""

    def incoming(self, heard: Heard, head: LineHead, /) -> None:
        """A message of the server."""

    def abandon(self, request_id: Any, /) -> None:
        """The client no longer waits."""

    def answered_with(self, request_id: Any, status: int, /) -> None:
        """The HTTP status of an answer."""

    def failed(self, request_id: Any, why: str, /, *, was_sent: bool) -> None:
        """A request has no answer."""

    def is_open(self, request_id: Any, /) -> bool:
        """Whether a request has no answer yet."""

    def open_requests(self) -> list[Any]:
        """The ids of those."""

    def resumed(self) -> None:
        """A lost session was begun again."""


class SameEra:
    """Both speak the same: each message passes as it is."""

    def __init__(self, upstream: ServerSession) -> None:
        self._upstream = upstream
        self._level: dict[str, Any] = {}
        """The client's last request for a level of log messages."""

    def greeting(self, result: RawObject, version: str) -> Any:
        del version
        return result

    def outgoing(self, line: bytes, head: LineHead) -> None:
        upstream = self._upstream
        if head.method == "notifications/cancelled" and upstream.is_stateless:
            return
        if head.method == "logging/setLevel":
            self._level = msgspec.json.decode(line).get("params") or {}
        elif head.method in ("resources/subscribe", "resources/unsubscribe"):
            self._note(line, head)
        upstream.pass_on(line, head)

    def _note(self, line: bytes, head: LineHead) -> None:
        uri = msgspec.json.decode(line).get("params", {}).get("uri")
        if isinstance(uri, str):
            self._upstream.watching.note(uri, is_wanted=head.method == "resources/subscribe")

    def incoming(self, heard: Heard, head: LineHead) -> None:
        del head
        self._upstream.exchange.hear(heard)

    def abandon(self, request_id: Any) -> None:
        if self._upstream.link is not None:
            self._upstream.link.abandon(request_id)

    def answered_with(self, request_id: Any, status: int) -> None:
        self._upstream.exchange.answered_with(request_id, status)

    def failed(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        self._upstream.exchange.fail(request_id, why, was_sent=was_sent)

    def is_open(self, request_id: Any) -> bool:
        return self._upstream.exchange.is_open(request_id)

    def open_requests(self) -> list[Any]:
        return self._upstream.exchange.open_requests()

    def resumed(self) -> None:
        if self._level:
            self._upstream.tell("logging/setLevel", self._level)
