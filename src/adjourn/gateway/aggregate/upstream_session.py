"""The gateway's own session with one of several servers: begun in the era that the server speaks, and begun again when it was lost.

A link to the server (`HttpLink`, `PipeLink`) lies behind it, an exchange before it; between the eras a bridge translates.

Owns: the handshake, which link is in use, what waits for it. Must never: send a call again that the server may have acted on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import Any

import msgspec

from adjourn.gateway.aggregate.era_bridge import ToLegacy, ToModern
from adjourn.gateway.aggregate.handshake import ClientFacts, Era, EraBridge, NoSessionError, ServerHealth, greet
from adjourn.gateway.aggregate.merging import Greeting, greeting_of, params_of
from adjourn.gateway.aggregate.watching import AGAIN_SECONDS, Watching
from adjourn.gateway.exchange import Exchange
from adjourn.gateway.http_pool import Headers, StreamEvent, UnreachableError
from adjourn.gateway.links import BaseLink, LinkUser, ServerLink
from adjourn.gateway.replies import LineHead, ReplyStream, ServerMessage, head_of
from adjourn.gateway.request_headers import NAME, NAMED, STATELESS, VERSION, RequestHeaders, encoded
from adjourn.mcp import frames
from adjourn.mcp.lenient import value_of

HANDSHAKE_SECONDS = 30.0
PROBE_SECONDS = 5.0
"""How long a server has for `server/discover` before the handshake is tried: servers of earlier revisions need not answer it."""
MAX_WAITING_LINES = 1000
_GREETINGS = ("initialize", "server/discover")


class UpstreamSession(BaseLink):
    """A `ServerLink` to its exchange, a `LinkUser` to its link. `on_return` is called when a lost session was begun again."""

    def __init__(self, exchange: Exchange, make: Callable[[LinkUser], ServerLink], health: ServerHealth) -> None:
        self.exchange = exchange
        self._make = make
        self._health = health
        self.on_return: Callable[[], None] = lambda: None
        self.client = ClientFacts()
        self.era: Era | None = None
        """The server's, once the session has started."""
        self.version = ""
        self.link: ServerLink | None = None
        self.headers = RequestHeaders()
        self.watching = Watching(self)
        self._bridge = EraBridge(self)
        self._result: dict[str, msgspec.Raw] = {}
        """What the server answered to the handshake."""
        self._said: Greeting | None = None
        """That, as it is in either era."""
        self._waiting: list[tuple[bytes, LineHead]] = []
        self._again: list[bytes] = []
        """Requests that the server refused since it did not know the session."""
        self._connecting: asyncio.Task[None] | None = None
        self._asked: dict[str, asyncio.Future[bytes]] = {}
        self._given: dict[Any, Headers] = {}
        self._sent: dict[Any, bytes] = {}
        self._streams: dict[ReplyStream, None] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._left: list[ServerLink] = []
        self._prefix, self._count = f"adjourn-{token_hex(6)}-", 0
        self._is_closed = self._was_ready = False

    @property
    def size(self) -> int:
        waiting = sum(len(line) for line, _ in self._waiting)
        return waiting + (self.link.size if self.link is not None else 0)

    @property
    def offered(self) -> dict[str, Any]:
        return self.client.offered

    @property
    def is_stateless(self) -> bool:
        return self.client.is_modern

    @property
    def _client_era(self) -> Era:
        return "modern" if self.client.is_modern else "legacy"

    @property
    def capabilities(self) -> dict[str, Any]:
        return (self._said or self._health.greeting).capabilities

    # --- from the exchange

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        for line in data.split(b"\n"):
            if line:
                self._take(line, head_of(line))

    def _take(self, line: bytes, head: LineHead) -> None:
        if head.method == "notifications/initialized":
            self.client.is_ready = True
            self._say_ready()
            return
        is_stateless = not self.client.is_met and frames.META_VERSION.encode() in line
        if head.method in _GREETINGS or is_stateless:
            self.client.meet(params_of(line), is_modern=head.method != "initialize")
        self.connect()
        if self.era is not None:
            self._pass(line, head)
        elif self._connecting is None or len(self._waiting) >= MAX_WAITING_LINES:
            self._fail_one(head, self._health.why or "too much waits for the server")
        else:
            self._waiting.append((line, head))

    def _say_ready(self) -> None:
        if self.era == "legacy" and self.client.is_ready and self.link is not None:
            self.link.send(frames.notification("notifications/initialized"))

    def _pass(self, line: bytes, head: LineHead) -> None:
        if head.method in _GREETINGS:
            greeting = self._bridge.greeting(self._result, self.version)
            self.say(frames.result(head.id, greeting), head.id)
        else:
            self._bridge.outgoing(line, head)

    def _fail_one(self, head: LineHead, why: str) -> None:
        if head.method is not None and frames.is_id(head.id):
            self.exchange.fail(head.id, why, was_sent=False)

    # --- the handshake

    def connect(self) -> None:
        """Start the session, unless it has started, or the server failed a moment ago."""
        if self.era is not None or self._connecting is not None or self._is_closed or not self._health.begin():
            return
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        why = ""
        try:
            await self._shake_hands()
        except UnreachableError as error:
            why = self.describe(error)
        except (NoSessionError, TimeoutError) as error:
            why = str(error) or "it does not answer"
        except Exception as error:  # whatever a server says must not leave its requests waiting
            what = f"{type(error).__name__}: {error}"
            why = self.describe(UnreachableError(what, was_sent=False, public="the server cannot be used"))
        self._connecting = None
        if why:
            self._health.failed(why)
            self._drop()
        waiting, self._waiting = self._waiting, []
        again, self._again = self._again, []
        for line in again:
            self._resend(line, why)
        for line, head in waiting:
            if why:
                self._fail_one(head, why)
            else:
                self._pass(line, head)
        if not why:
            self._resume()

    def _resend(self, line: bytes, why: str) -> None:
        head = head_of(line)
        if why:
            self._bridge.failed(head.id, why, was_sent=False)
        else:
            self.pass_on(line, head)

    async def _shake_hands(self) -> None:
        self._drop()
        failure: Exception | None = None
        for era in self._health.eras_for(self._client_era):
            self.link = self.link or self._make(self)  # a process may end at a message that it does not know
            is_probe = era == "modern" and not self._health.has(era)
            try:
                self.version = ""
                self.version, result = await greet(
                    self.ask, self.client, era, PROBE_SECONDS if is_probe else HANDSHAKE_SECONDS
                )
            except (NoSessionError, TimeoutError, UnreachableError) as error:
                failure = failure or error
            else:
                self._accepted(era, result)
                return
        raise failure or NoSessionError("the server accepts no session")

    def _accepted(self, era: Era, result: dict[str, msgspec.Raw]) -> None:
        self.era, self._result = era, result
        self._said = greeting_of({key: value_of(value) for key, value in result.items()})
        self._health.answered(era, self._client_era, self._said)
        kind = EraBridge if era == self._client_era else ToModern if era == "modern" else ToLegacy
        if type(self._bridge) is not kind:
            self._bridge = kind(self)
        self._say_ready()

    def _resume(self) -> None:
        """Have again what a lost session had."""
        was_ready, self._was_ready = self._was_ready, True
        for stream in self._streams:
            self._listen(stream, b"")
        self._bridge.resumed()
        self.watching.update(is_new=True)
        if was_ready:
            self.on_return()

    def meta(self, level: str = "") -> dict[str, Any]:
        return self.client.meta(level)

    # --- to the server

    async def ask(
        self, method: str, params: dict[str, Any], seconds: float, version: str = "", *, request_id: str = ""
    ) -> bytes:
        request_id = request_id or self.new_id()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = answer
        if version := version or (STATELESS[0] if self.era == "modern" else ""):
            self._given[request_id] = self.headers.of(version, method, params)
        try:
            if self.link is None:
                raise UnreachableError("the server has ended", was_sent=False)
            self.link.send(frames.request(request_id, method, params))
            return await asyncio.wait_for(answer, seconds)
        finally:
            self._asked.pop(request_id, None)
            self._given.pop(request_id, None)

    def tell(self, method: str, params: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._tell(method, params))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, method: str, params: dict[str, Any]) -> None:
        with suppress(UnreachableError, TimeoutError):
            await self.ask(method, params, HANDSHAKE_SECONDS)

    def say(self, line: bytes, about: Any) -> None:
        asyncio.get_running_loop().call_soon(self.exchange.hear, ServerMessage(line, about))

    def new_id(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count}"

    def pass_on(self, line: bytes, head: LineHead) -> None:
        if self.link is None:
            self._fail_one(head, "the server has ended")
            return
        if head.method is not None and frames.is_id(head.id):
            if self.era == "modern":
                self._given[head.id] = self._stateless(line, head)
            else:
                self._sent[head.id] = line
        self.link.send(line if line.endswith(b"\n") else line + b"\n")

    def _stateless(self, line: bytes, head: LineHead) -> Headers:
        if not self.client.is_modern:
            return self.headers.of(self.version, head.method, params_of(line))
        headers = [pair for pair in self.exchange.headers_for(head.id) if pair[0] != NAME]
        if head.method in NAMED:
            name = params_of(line).get(NAMED[head.method])
            if isinstance(name, str):
                headers.append((NAME, encoded(name)))
        return headers

    def abandon(self, request_id: Any) -> None:
        if self.link is not None:
            self._bridge.abandon(request_id)

    # --- from the link

    def headers_for(self, request_id: Any) -> Headers:
        headers = self._given.get(request_id)
        if headers is not None:
            return headers
        version = self.version.encode()
        return [(VERSION, version)] if version else []

    def hear(self, heard: ServerMessage) -> None:
        head = head_of(heard.line)
        if head.method is None:
            self._given.pop(head.id, None)
            self._sent.pop(head.id, None)
            if head.id in self._asked:
                if not (answer := self._asked[head.id]).done():
                    answer.set_result(heard.line)
                return
        elif head.method == frames.ACKNOWLEDGED:  # only the gateway subscribes here
            self.watching.acknowledged(heard.line)
            return
        self._bridge.incoming(heard, head)

    def answered_with(self, request_id: Any, status: int) -> None:
        if request_id not in self._asked:
            self._bridge.answered_with(request_id, status)

    def pass_event(self, about: Any, event: StreamEvent) -> None:
        if self._bridge.passes_events:
            self.exchange.pass_event(about, event)

    def is_open(self, request_id: Any) -> bool:
        return request_id in self._asked or self._bridge.is_open(request_id)

    def break_stream(self, request_id: Any) -> None:
        if self._bridge.passes_events and request_id not in self._asked:
            self.exchange.break_stream(request_id)
        else:
            self.fail(request_id, "the server ended its answer too early", was_sent=True)

    def stream_ended(self, stream: ReplyStream) -> None:
        self.exchange.stream_ended(stream)

    def fail(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        self._given.pop(request_id, None)
        self._sent.pop(request_id, None)
        if (answer := self._asked.get(request_id)) is None:
            self._bridge.failed(request_id, why, was_sent=was_sent)
        elif not answer.done():
            answer.set_exception(UnreachableError(why, was_sent=was_sent))

    def describe(self, error: UnreachableError) -> str:
        return self.exchange.describe(error)

    def open_requests(self) -> list[Any]:
        return [*self._asked, *self._bridge.open_requests()]

    def ended(self, link: object) -> None:
        """The next message starts another session, or what the client waits to hear of."""
        if link is self.link:
            self._drop()
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.watch_again)

    def watch_again(self) -> None:
        """Start a lost session if the client wants to hear of changes."""
        if self.watching.is_wanted:
            self.connect()

    def forgotten(self, link: object, request_id: Any) -> bool:
        """The server has lost the session: start another one, and send again what it refused."""
        line = self._sent.pop(request_id, b"")
        if not line or self.era == "modern":
            return False
        if link is not self.link or self.era is None:
            if self.era is not None:
                self._resend(line, "")
                return True
        elif self.link is not None:
            self._left.append(self.link)
            self.link, self.era = None, None
        self._again.append(line)
        self.connect()
        return True

    def _drop(self) -> None:
        """Leave the link as it is."""
        link, self.link, self.era = self.link, None, None
        if link is not None:
            link.close()
            self._left = [link, *self._left[:3]]

    # --- streams and the end

    def listen(self, stream: ReplyStream, last_event: bytes) -> None:
        if not last_event:
            self._streams[stream] = None
        self._listen(stream, last_event)

    def _listen(self, stream: ReplyStream, last_event: bytes) -> None:
        if self.link is not None and self.era == "legacy":
            self.link.listen(stream, last_event)
        if self.era == "modern" and not last_event:
            self.watching.watch_lists()

    def leave(self, stream: ReplyStream) -> None:
        self._streams.pop(stream, None)
        if self.link is not None:
            self.link.leave(stream)

    def close(self) -> None:
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            self._health.is_tried = False
        self.watching.close()
        self._drop()

    async def left(self, seconds: float) -> None:
        if waited := [asyncio.ensure_future(link.left(seconds)) for link in self._left]:
            await asyncio.wait(waited, timeout=seconds)
