"""The gateway's own session with one of several servers: begun in the era that the server speaks, and begun again when it was lost.

A link to the server (`UrlLink`, `PipeLink`) lies behind it, an exchange before it; between the eras a crossing translates.

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
from adjourn.gateway.aggregate.handshake import (
    ClientFacts,
    Crossing,
    Era,
    NoSessionError,
    SameEra,
    ServerHealth,
    greet,
)
from adjourn.gateway.aggregate.merging import STATELESS, Greeting, greeting_of, params_of
from adjourn.gateway.aggregate.watching import AGAIN_SECONDS, Watching
from adjourn.gateway.exchange import Exchange, ServerLink
from adjourn.gateway.http_link import LinkUser
from adjourn.gateway.http_pool import Headers, StreamEvent, UnreachableError
from adjourn.gateway.replies import Heard, LineHead, ReplyStream, head_of
from adjourn.gateway.request_headers import NAME, NAMED, VERSION, RequestHeaders, encoded
from adjourn.mcp import frames
from adjourn.mcp.lenient import value_of
from adjourn.relay.ports import NEVER

HANDSHAKE_SECONDS = 30.0
PROBE_SECONDS = 5.0
"""How long a server has for `server/discover` before the handshake is tried: servers of earlier revisions need not answer it."""
MAX_WAITING_LINES = 1000
_GREETINGS = ("initialize", "server/discover")


class UpstreamSession:
    """See above: a `ServerLink` to its exchange, a `LinkUser` to its link. `on_return` is called when a lost session was begun again."""

    def __init__(
        self, exchange: Exchange, make: Callable[[LinkUser], ServerLink], health: ServerHealth
    ) -> None:
        self.exchange = exchange
        self._make = make
        self._health = health
        self.on_return: Callable[[], None] = _nothing
        self.client = ClientFacts()
        self.era: Era | None = None
        """The server's, once the session has begun."""
        self.version = ""
        self.link: ServerLink | None = None
        self.headers = RequestHeaders()
        self.watching = Watching(self)
        self._crossing: Crossing = SameEra(self)
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
        self.since = NEVER

    @property
    def size(self) -> int:
        """Bytes that the server has not taken yet."""
        waiting = sum(len(line) for line, _ in self._waiting)
        return waiting + (self.link.size if self.link is not None else 0)

    @property
    def offered(self) -> dict[str, Any]:
        """The capabilities of the client."""
        return self.client.offered

    @property
    def is_stateless(self) -> bool:
        """Whether the client speaks the stateless revision."""
        return self.client.is_modern

    @property
    def _client_era(self) -> Era:
        return "modern" if self.client.is_modern else "legacy"

    @property
    def capabilities(self) -> dict[str, Any]:
        """Those of the server."""
        return (self._said or self._health.greeting).capabilities

    @property
    def is_ready(self) -> bool:
        """Whether the session has begun, and is not lost."""
        return self.era is not None

    # --- from the exchange

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        for line in data.split(b"\n"):
            if line:
                self._take(line, head_of(line))

    def _take(self, line: bytes, head: LineHead) -> None:
        if head.method in _GREETINGS:
            self._meet(line, is_modern=head.method != "initialize")
        elif head.method == "notifications/initialized":
            self._client_is_ready(line)
            return
        elif not self.is_ready:
            self.meet(line)
        if self.is_ready:
            self._pass(line, head)
        elif self._connecting is None or len(self._waiting) >= MAX_WAITING_LINES:
            self._fail_one(head, self._health.why or "too much waits for the server")
        else:
            self._waiting.append((line, head))

    def meet(self, line: bytes) -> None:
        """Begin the session, unless it has begun; `line` is a message of the client."""
        if not self.client.is_met and frames.META_VERSION.encode() in line:
            self._meet(line, is_modern=True)
        else:
            self.connect()

    def _meet(self, line: bytes, *, is_modern: bool) -> None:
        """Take note of the client, and begin the session."""
        self.client.meet(params_of(line), is_modern=is_modern)
        self.connect()

    def _client_is_ready(self, line: bytes) -> None:
        del line
        self.client.is_ready = True
        if self.era == "legacy" and self.link is not None:
            self.link.send(frames.notification("notifications/initialized"))

    def _pass(self, line: bytes, head: LineHead) -> None:
        if head.method in _GREETINGS:
            self.say(self._greeting(head.id), head.id)
        else:
            self._crossing.outgoing(line, head)

    def _greeting(self, request_id: Any) -> bytes:
        return frames.result(request_id, self._crossing.greeting(self._result, self.version))

    def _fail_one(self, head: LineHead, why: str) -> None:
        if head.method is not None and frames.is_id(head.id):
            self.exchange.fail(head.id, why, was_sent=False)

    # --- the handshake

    def connect(self) -> None:
        """Begin the session, unless it has begun, or the server failed a moment ago."""
        if self.is_ready or self._connecting is not None or self._is_closed or not self._health.begin():
            return
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        why = ""
        try:
            await self._shake_hands()
        except UnreachableError as error:
            why = self.told(error)
        except (NoSessionError, TimeoutError) as error:
            why = str(error) or "it does not answer"
        except Exception as error:  # whatever a server says must not leave its requests waiting
            what = f"{type(error).__name__}: {error}"
            why = self.told(UnreachableError(what, was_sent=False, public="the server cannot be used"))
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
            self._crossing.failed(head.id, why, was_sent=False)
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
            except (NoSessionError, TimeoutError) as error:
                failure = failure or error
            except UnreachableError as error:
                failure = failure or error
            else:
                self._accepted(era, result)
                return
        raise failure or NoSessionError("the server accepts no session")

    def _accepted(self, era: Era, result: dict[str, msgspec.Raw]) -> None:
        self.era, self._result = era, result
        whole = {key: value_of(value) for key, value in result.items()}
        self._said = greeting_of(whole)
        self._health.answered(era, self._client_era, self._said)
        is_modern = era == "modern"
        if is_modern == self.client.is_modern:
            self._crossing = self._crossing if isinstance(self._crossing, SameEra) else SameEra(self)
        elif is_modern:
            self._crossing = self._crossing if isinstance(self._crossing, ToModern) else ToModern(self)
        else:
            self._crossing = self._crossing if isinstance(self._crossing, ToLegacy) else ToLegacy(self)
        if era == "legacy" and self.client.is_ready and self.link is not None:
            self.link.send(frames.notification("notifications/initialized"))

    def _resume(self) -> None:
        """Have again what a lost session had."""
        was_ready, self._was_ready = self._was_ready, True
        for stream in self._streams:
            self._listen(stream, b"")
        self._crossing.resumed()
        self.watching.update(is_new=True)
        if was_ready:
            self.on_return()

    def meta(self, level: str = "") -> dict[str, Any]:
        """What the stateless revision wants to know of the client with each request."""
        return self.client.meta(level)

    # --- to the server

    async def ask(
        self, method: str, params: dict[str, Any], seconds: float, version: str = "", *, request_id: str = ""
    ) -> bytes:
        """Ask the server something of the gateway's own. Raises `UnreachableError`, `TimeoutError`."""
        request_id = request_id or self.new_id()
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = found
        if version := version or (STATELESS[0] if self.era == "modern" else ""):
            self._given[request_id] = self.headers.of(version, method, params)
        try:
            if self.link is None:
                raise UnreachableError("the server has ended", was_sent=False)
            self.link.send(frames.request(request_id, method, params))
            return await asyncio.wait_for(found, seconds)
        finally:
            self._asked.pop(request_id, None)
            self._given.pop(request_id, None)

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Ask the server something whose answer does not matter."""
        task = asyncio.get_running_loop().create_task(self._tell(method, params))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, method: str, params: dict[str, Any]) -> None:
        with suppress(UnreachableError, TimeoutError):
            await self.ask(method, params, HANDSHAKE_SECONDS)

    def say(self, line: bytes, about: Any) -> None:
        """Answer the client, once what is being done is done."""
        asyncio.get_running_loop().call_soon(self.exchange.hear, Heard(line, about))

    def new_id(self) -> str:
        """An id for a request of the gateway's own."""
        self._count += 1
        return f"{self._prefix}{self._count}"

    def pass_on(self, line: bytes, head: LineHead) -> None:
        """Send the server a message, in its own era."""
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
        given = [pair for pair in self.exchange.headers_for(head.id) if pair[0] != NAME]
        if head.method in NAMED:
            name = params_of(line).get(NAMED[head.method])
            if isinstance(name, str):
                given.append((NAME, encoded(name)))
        return given

    def abandon(self, request_id: Any) -> None:
        if self.link is not None:
            self._crossing.abandon(request_id)

    # --- from the link

    def headers_for(self, request_id: Any) -> Headers:
        """The headers of a message."""
        given = self._given.get(request_id)
        if given is not None:
            return given
        version = self.version.encode()
        return [(VERSION, version)] if version else []

    def hear(self, heard: Heard) -> None:
        """A message of the server."""
        head = head_of(heard.line)
        if head.method is None:
            self._given.pop(head.id, None)
            self._sent.pop(head.id, None)
            if head.id in self._asked:
                if not (found := self._asked[head.id]).done():
                    found.set_result(heard.line)
                return
        elif head.method == frames.ACKNOWLEDGED:  # only the gateway subscribes here
            self.watching.acknowledged(heard.line)
            return
        self._crossing.incoming(heard, head)

    def answered_with(self, request_id: Any, status: int) -> None:
        """The answer to a request has this HTTP status."""
        if request_id not in self._asked:
            self._crossing.answered_with(request_id, status)

    def pass_event(self, about: Any, event: StreamEvent) -> None:
        """An event without a message."""
        if isinstance(self._crossing, SameEra):
            self.exchange.pass_event(about, event)

    def is_open(self, request_id: Any) -> bool:
        """Whether a request has no answer yet."""
        return request_id in self._asked or self._crossing.is_open(request_id)

    def break_stream(self, request_id: Any) -> None:
        """The server ended a stream before its answer, which can be continued."""
        if isinstance(self._crossing, SameEra) and request_id not in self._asked:
            self.exchange.break_stream(request_id)
        else:
            self.fail(request_id, "the server ended its answer too early", was_sent=True)

    def stream_ended(self, stream: ReplyStream) -> None:
        """A stream that continued another has ended."""
        self.exchange.stream_ended(stream)

    def fail(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        """A request has no answer."""
        self._given.pop(request_id, None)
        self._sent.pop(request_id, None)
        if (found := self._asked.get(request_id)) is None:
            self._crossing.failed(request_id, why, was_sent=was_sent)
        elif not found.done():
            found.set_exception(UnreachableError(why, was_sent=was_sent))

    def told(self, error: UnreachableError) -> str:
        """The words for why the server cannot be reached."""
        return self.exchange.told(error)

    def open_requests(self) -> list[Any]:
        """The ids of requests without an answer."""
        return [*self._asked, *self._crossing.open_requests()]

    def ended(self, link: object) -> None:
        """The server's process or session has ended: the next message begins another one, or what the client waits to hear of."""
        if link is self.link:
            self._drop()
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.watch_again)

    def watch_again(self) -> None:
        """Begin a lost session if the client wants to hear of changes."""
        if self.watching.is_wanted:
            self.connect()

    def forgotten(self, link: object, request_id: Any) -> bool:
        """The server has lost the session: begin another one, and send again what it refused."""
        line = self._sent.pop(request_id, b"")
        if not line or self.era == "modern":
            return False
        if link is not self.link or not self.is_ready:
            if self.is_ready:
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

    def lose(self) -> None:
        """Each request ends by itself."""

    def drain(self, seconds: float) -> None:
        """Nothing waits here."""

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


def _nothing() -> None:
    """Nobody wants to know."""
