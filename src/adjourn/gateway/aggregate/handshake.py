"""The era that a server speaks: how a session with it starts, what all sessions know of it, and what lies between a client and it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from adjourn.gateway.aggregate.merging import Greeting
from adjourn.gateway.aggregate.task_handles import without
from adjourn.gateway.exchange import Exchange
from adjourn.gateway.links import ServerLink
from adjourn.gateway.replies import LineHead, ServerMessage
from adjourn.gateway.request_headers import REVISIONS, STATELESS, RequestHeaders
from adjourn.mcp import frames
from adjourn.mcp.lenient import object_of, value_of
from adjourn.relay.ports import StderrLog

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
    """What a bridge between eras, and subscriptions, use of the gateway's session with a server."""

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
    def era(self) -> Era | None:
        """The server's; None while there is no session."""

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
        """Send the server a request, and ignore its answer."""

    async def ask(self, method: str, params: dict[str, Any], seconds: float, /, *, request_id: str = "") -> bytes:
        """Ask the server. Raises `UnreachableError`, `TimeoutError`."""

    def say(self, line: bytes, about: Any, /) -> None:
        """Tell the client, once what is being done is done."""


class EraBridge:
    """Between a client and a server of the same era: each message passes as it is. Ids are those of the server's side where the server
    speaks, else of the client's.
    """

    passes_events = True
    """Whether the client continues broken streams of the server itself."""

    def __init__(self, upstream: ServerSession) -> None:
        self._upstream = upstream
        self._level_params: dict[str, Any] = {}
        """The client's last request for a level of log messages."""

    def greeting(self, result: RawObject, version: str) -> Any:
        """The result of the handshake as the client knows it."""
        del version
        return result

    def outgoing(self, line: bytes, head: LineHead) -> None:
        """A message of the client."""
        upstream = self._upstream
        if head.method == "notifications/cancelled" and upstream.is_stateless:
            return
        if head.method == "logging/setLevel":
            self._level_params = msgspec.json.decode(line).get("params") or {}
        elif head.method in ("resources/subscribe", "resources/unsubscribe"):
            uri = msgspec.json.decode(line).get("params", {}).get("uri")
            if isinstance(uri, str):
                upstream.watching.note(uri, is_wanted=head.method == "resources/subscribe")
        upstream.pass_on(line, head)

    def incoming(self, heard: ServerMessage, head: LineHead) -> None:
        """A message of the server."""
        del head
        self._upstream.exchange.hear(heard)

    def abandon(self, request_id: Any) -> None:
        """The client no longer waits."""
        if self._upstream.link is not None:
            self._upstream.link.abandon(request_id)

    def answered_with(self, request_id: Any, status: int) -> None:
        """The HTTP status of an answer; that of the other era says nothing in this one."""
        self._upstream.exchange.answered_with(request_id, status)

    def failed(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        """A request has no answer."""
        self._upstream.exchange.fail(request_id, why, was_sent=was_sent)

    def is_open(self, request_id: Any) -> bool:
        """Whether a request has no answer yet."""
        return self._upstream.exchange.is_open(request_id)

    def open_requests(self) -> list[Any]:
        """The ids of those."""
        return self._upstream.exchange.open_requests()

    def resumed(self) -> None:
        """A lost session was begun again."""
        if self._level_params:
            self._upstream.tell("logging/setLevel", self._level_params)


# --- what all sessions with one server know of it

Era = Literal["legacy", "modern"]
FIRST_SECONDS, MOST_SECONDS = 0.5, 15.0
"""How long a server that failed is left alone: doubled each time, up to the second."""
MAX_WHY = 300


class ServerHealth:
    """One per server of the settings."""

    def __init__(self, name: str, report: StderrLog) -> None:
        self.name = name
        self._report = report
        self.is_met = False
        """Whether it has ever answered."""
        self._lacks: Era | None = None
        self.greeting = Greeting()
        self.why = ""
        """Why it cannot be reached; "" while it can, as far as is known."""
        self.recoveries = 0
        """How often it came back."""
        self.is_tried = False
        self._delay = FIRST_SECONDS
        self._next = 0.0

    @property
    def may_try(self) -> bool:
        """Whether it may be reached for now: one session at a time tries a server that failed."""
        return not self.why or (not self.is_tried and time.monotonic() >= self._next)

    def begin(self) -> bool:
        """Whether a session may be begun; then it either `failed` or `answered`."""
        if not self.may_try:
            return False
        self.is_tried = self.why != ""
        return True

    def eras_for(self, client: Era) -> tuple[Era, Era]:
        """In which era a session is begun for a client of one, and in which else: its own first, unless the server lacks that."""
        other: Era = "legacy" if client == "modern" else "modern"
        return (other, client) if self._lacks == client else (client, other)

    def has(self, era: Era) -> bool:
        """Whether it is known to lack the other era."""
        return self._lacks not in (None, era)

    def failed(self, why: str) -> None:
        """A session could not be begun."""
        if not self.why:
            self._report.event("upstream.down", f"server {self.name} is not available: {why[:MAX_WHY]}")
        self.why, self.is_tried, self._lacks = why[:MAX_WHY], False, None
        self._next = time.monotonic() + self._delay
        self._delay = min(self._delay * 2, MOST_SECONDS)

    def answered(self, era: Era, wanted: Era, greeting: Greeting) -> None:
        """A session was begun in an era, `wanted` in the client's."""
        self.is_met, self.greeting = True, greeting
        self._lacks = wanted if era != wanted else None if self._lacks == era else self._lacks
        if self.why:
            self.recoveries += 1
            self._report.event("upstream.up", f"server {self.name} is available again")
        self.why, self.is_tried, self._delay = "", False, FIRST_SECONDS


# --- how the gateway starts a session of its own with a server, for a client

Ask = Callable[[str, dict[str, Any], float, str], Awaitable[bytes]]
"""Asks the server: the method, its params, the seconds that it has, the revision that its headers name ("": none)."""


class NoSessionError(Exception):
    """The server accepted no session."""


class ClientFacts(msgspec.Struct):
    """What the client says of itself, for the server's eyes."""

    info: Any = None
    capabilities: Any = None
    revision: str = REVISIONS[-1]
    is_modern: bool = False
    is_met: bool = False
    is_ready: bool = False
    """Whether it has finished its own handshake."""

    def meet(self, params: Mapping[str, Any], *, is_modern: bool) -> None:
        """Take note of what a first message says."""
        meta = params.get("_meta") if is_modern else None
        self.is_modern = self.is_ready = is_modern
        self.is_met = True
        if isinstance(meta, dict):
            self.info, self.capabilities = meta.get(frames.META_CLIENT), meta.get(frames.META_CAPABILITIES)
        elif not is_modern:
            self.info, self.capabilities = params.get("clientInfo"), params.get("capabilities")
            revision = params.get("protocolVersion")
            self.revision = revision if isinstance(revision, str) else REVISIONS[-1]

    @property
    def offered(self) -> dict[str, Any]:
        """Its capabilities, but for tasks of its own: one server could ask for those that were made for another."""
        return without(self.capabilities, modern=False) if isinstance(self.capabilities, dict) else {}

    @property
    def _shown(self) -> Any:
        return self.info if isinstance(self.info, dict) else {"name": "adjourn", "version": "0"}

    def meta(self, level: str = "") -> dict[str, Any]:
        """What the stateless revision wants to know of it with each request."""
        meta: dict[str, Any] = {
            frames.META_VERSION: STATELESS[0],
            frames.META_CLIENT: self._shown,
            frames.META_CAPABILITIES: self.offered,
        }
        return meta | ({frames.META_LOG_LEVEL: level} if level else {})

    def hello(self) -> dict[str, Any]:
        """The params of initialize."""
        revision = REVISIONS[-1] if self.is_modern else self.revision
        return {"protocolVersion": revision, "capabilities": self.offered, "clientInfo": self._shown}


async def greet(ask: Ask, client: ClientFacts, era: Era, seconds: float) -> tuple[str, dict[str, msgspec.Raw]]:
    """The revision and the result of a handshake in an era. Raises `NoSessionError`, and what `ask` raises."""
    if era == "modern":
        line = await ask("server/discover", {"_meta": client.meta()}, seconds, STATELESS[0])
    else:
        line = await ask("initialize", client.hello(), seconds, "")
    body = object_of(line)
    if "result" not in body:
        error = value_of(body["error"]) if "error" in body else {}
        text = error.get("message") if isinstance(error, dict) else ""
        raise NoSessionError(f"the server accepts no session: {text}")
    result = object_of(body["result"])
    member = "supportedVersions" if era == "modern" else "protocolVersion"
    value = value_of(result[member]) if member in result else None
    named = value if isinstance(value, list) else [value]
    version = next((revision for revision in (STATELESS if era == "modern" else REVISIONS) if revision in named), "")
    if not version:
        raise NoSessionError("the server speaks no revision of the protocol that the gateway speaks")
    return version, result
