"""`adjourn connect`: a server that is reached over HTTP, for whoever starts servers as commands.

Lines from stdin become requests, what the server says becomes lines on stdout. Broken streams are continued, sessions kept, and the
headers made that the protocol wants of a client.

Owns: those headers, and the client's side of the transport. Must never: change a message.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from adjourn.gateway.http_pool import Credentials, Headers, HttpPool, StreamEvent, UnreachableError
from adjourn.gateway.links import HttpLink, LinkUser, patience
from adjourn.gateway.network_path import NetworkPath
from adjourn.gateway.replies import ReplyStream, ServerMessage
from adjourn.gateway.request_headers import RequestHeaders, encoded
from adjourn.mcp import frames
from adjourn.mcp.lenient import UNREADABLE, value_of
from adjourn.mcp.unreadable import unread_id

MAX_LINE = frames.MAX_MESSAGE_BYTES
RETRY_SECONDS = 1.0
"""How long to wait before a broken stream is continued, where the server does not say."""
LEAVE_SECONDS = 5.0


class Bridge(LinkUser):
    """One server's. `credentials` go with every request; `say` gets each line for the client."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        seconds: float,
        say: Callable[[bytes], None] | None = None,
        path: NetworkPath | None = None,
    ) -> None:
        self._say = say or _print
        self._version = b""
        self._open: dict[Any, str] = {}
        """Requests without an answer: their methods, by id."""
        self._given: dict[Any, Headers] = {}
        self._last: dict[Any, StreamEvent] = {}
        """The last event of each request's stream that had an id."""
        self._resumed: dict[ReplyStream, Any] = {}
        self._of_stateless = RequestHeaders()
        self._pool = HttpPool(url, path)
        self._link = HttpLink(self, self._pool, patience(seconds), credentials)

    async def run(self) -> None:
        """Until the end of stdin."""
        reader = asyncio.StreamReader(MAX_LINE)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while True:
            try:
                line = await reader.readline()
            except ValueError:  # what follows is no message either, up to the next line
                self._say(frames.error(None, frames.PARSE_ERROR, f"a message is longer than {MAX_LINE:,} bytes"))
                continue
            if not line:
                break
            if not line.isspace():
                self.take(line)
        await self.end()

    async def end(self) -> None:
        """Wait for the answers, for a moment, and leave the server."""
        await self._link.answered(LEAVE_SECONDS)
        self._link.close()
        await self._link.left(LEAVE_SECONDS)
        self._pool.close()

    # --- from the client

    def take(self, line: bytes) -> None:
        """Send a message to the server."""
        try:
            body = msgspec.json.decode(line)
        except UNREADABLE as error:
            about = unread_id(line)
            self._say(frames.error(None if about in self._open else about, frames.PARSE_ERROR, f"not JSON: {error}"))
            return
        message: Mapping[str, Any] = body if isinstance(body, dict) else {}
        method, request_id = message.get("method"), message.get("id")
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        assert isinstance(params, dict)
        meta = params.get("_meta")
        version = meta.get(frames.META_VERSION) if isinstance(meta, dict) else None
        if version is None and method == "notifications/cancelled" and not self._version:
            self._link.abandon(params.get("requestId"))  # the end of the stream says so there
            return
        if isinstance(version, str):
            headers = self._of_stateless.of(version, method, params)
        else:
            headers = [(b"mcp-protocol-version", self._version)] if self._version else []
        if isinstance(method, str) and frames.is_id(request_id):
            self._open[request_id], self._given[request_id] = method, headers
        else:
            self._given[None] = headers
        self._link.send(line)
        if method == "notifications/initialized":
            self._link.listen(ReplyStream(headers), b"")

    # --- what the link asks and says

    def headers_for(self, request_id: Any) -> Headers:
        return self._given.get(request_id, ())

    def is_open(self, request_id: Any) -> bool:
        return request_id in self._open

    def hear(self, heard: ServerMessage) -> None:
        if heard.event is not None and heard.event.id:
            self._mark(heard.about, heard.event, heard.stream)
        self._say(heard.line)
        try:
            body = value_of(heard.line)
        except msgspec.DecodeError:
            return
        if isinstance(body, dict) and "method" not in body:
            self._settle(body)

    def _settle(self, body: Mapping[str, Any]) -> None:
        """Take note of an answer."""
        request_id = body.get("id")
        if not frames.is_id(request_id):
            return
        method = self._open.pop(request_id, "")
        self._given.pop(request_id, None)
        self._last.pop(request_id, None)
        result = body.get("result")
        if not isinstance(result, dict):
            return
        if method == "initialize" and isinstance(result.get("protocolVersion"), str):
            self._version = encoded(result["protocolVersion"])
        elif method == "tools/list":
            self._of_stateless.listed(result)

    def pass_event(self, about: Any, event: StreamEvent) -> None:
        if event.id:
            self._mark(about, event, None)

    def _mark(self, about: Any, event: StreamEvent, stream: ReplyStream | None) -> None:
        request_id = self._resumed.get(stream, about) if stream is not None else about
        if request_id is not None:
            self._last[request_id] = event

    def break_stream(self, request_id: Any) -> None:
        """The server ended a stream before its answer: continue it."""
        event = self._last.get(request_id)
        if event is None:
            self.fail(request_id, "the server ended its answer too early", was_sent=True)
            return
        seconds = int(event.retry) / 1000 if event.retry else RETRY_SECONDS
        asyncio.get_running_loop().call_later(min(seconds, 60.0), self._resume, request_id, event.id)

    def _resume(self, request_id: Any, last: bytes) -> None:
        if self.is_open(request_id):
            stream = ReplyStream(self.headers_for(request_id))
            self._resumed[stream] = request_id
            self._link.listen(stream, last)

    def stream_ended(self, stream: ReplyStream) -> None:
        """A stream that continued a request's ended: continue again, if the answer is still missing."""
        request_id = self._resumed.pop(stream, None)
        if request_id is not None and self.is_open(request_id):
            self.break_stream(request_id)

    def open_requests(self) -> list[Any]:
        return list(self._open)

    def describe(self, error: UnreachableError) -> str:
        """The words for why the server cannot be reached: whoever started this may know all of it."""
        return error.message

    def fail(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        if self._open.pop(request_id, None) is not None:
            self._say(frames.error(request_id, frames.OUTCOME_UNKNOWN if was_sent else frames.UPSTREAM_GONE, why))


def _print(line: bytes) -> None:
    sys.stdout.buffer.write(line if line.endswith(b"\n") else line + b"\n")
    sys.stdout.buffer.flush()


def connect(url: str, credentials: Credentials, seconds: float, path: NetworkPath | None = None) -> None:
    """Connect stdin and stdout to a server, until stdin ends."""
    asyncio.run(Bridge(url, credentials, seconds, path=path).run())
