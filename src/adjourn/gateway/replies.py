"""What a client is answered: the events that each of its requests waits for, and errors without what only the operator should see."""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from time import monotonic, monotonic_ns
from typing import Any, NamedTuple, cast

import msgspec

from adjourn.errors import ConflictError, StoreError
from adjourn.gateway.http_pool import Headers, StreamEvent, UnreachableError
from adjourn.gateway.monitoring.tracing import Trace
from adjourn.host import clock, folders
from adjourn.mcp import server_lines
from adjourn.mcp.frames import FrameError
from adjourn.mcp.lenient import UNREADABLE
from adjourn.relay.stderr_log import StderrLog
from adjourn.store.base import Store

SUBSCRIBE = "subscriptions/listen"
"""The request of the stateless revision whose answer lasts as long as the client likes."""
MAX_KEPT, MAX_KEPT_BYTES = 1000, 64 * 1024 * 1024
"""Events that wait for a client that does not read, and their bytes: beyond that the oldest are dropped, the last one is not."""


class ReplyStream:
    """One answer. `headers` are those of the client's request that go to the server, too."""

    def __init__(self, headers: Headers = (), tokens: Sequence[object] = (), number: str = "") -> None:
        self.begun = monotonic_ns()
        self.number = number
        """The id of the HTTP request."""
        self.trace: Trace | None = None
        self.headers = headers
        self.tokens = tokens
        """The progress tokens of the request."""
        self.status = 200
        self.is_whole = False
        """Whether no more events come."""
        self._events: deque[StreamEvent] = deque()
        self._bytes = 0
        self._more: asyncio.Future[None] | None = None

    def put(self, event: StreamEvent, *, is_last: bool = False) -> None:
        """Add an event."""
        self._events.append(event)
        self._bytes += len(event.data)
        while len(self._events) > MAX_KEPT or (self._bytes > MAX_KEPT_BYTES and len(self._events) > 1):
            self._first()
        self.is_whole = self.is_whole or is_last
        self._wake()

    def end(self) -> None:
        """No more events come."""
        self.is_whole = True
        self._wake()

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    @property
    def size(self) -> int:
        """Events that wait."""
        return len(self._events)

    async def next(self) -> StreamEvent | None:
        """The next event; None at the end."""
        while not self._events:
            if self.is_whole:
                return None
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        return self._first()

    def _first(self) -> StreamEvent:
        event = self._events.popleft()
        self._bytes -= len(event.data)
        return event


class LineHead(msgspec.Struct):
    """What is read of a line to see where it belongs."""

    id: Any = None
    method: Any = None


_decoded = msgspec.json.Decoder(LineHead).decode


def head_of(line: bytes) -> LineHead:
    """The head of a line; of one that is no message by itself, as a batch, a head that belongs to no request."""
    try:
        return _decoded(line)
    except msgspec.ValidationError:
        return LineHead(method="")
    except UNREADABLE:
        pass
    try:
        reply = server_lines.read(line)[1]
    except FrameError:
        return LineHead(method="")
    method, message_id = reply.method, reply.id
    return LineHead(
        None if message_id is msgspec.UNSET else message_id, None if method is msgspec.UNSET else method
    )


def as_line(body: bytes) -> bytes:
    """A message as one line. Raises `msgspec.DecodeError` for a text of several lines that is no JSON."""
    return (msgspec.json.format(body, indent=-1) if b"\n" in body or b"\r" in body else body) + b"\n"


def server_line(body: bytes) -> bytes:
    """What a server says as one line. Raises `msgspec.DecodeError` for a text of several lines that is no message."""
    try:
        return as_line(body)
    except UNREADABLE as error:
        line = body.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
        if head_of(line).method == "" and not server_lines.elements(line):
            raise msgspec.DecodeError(str(error)) from None
        return line


class Heard(NamedTuple):
    """A line of the server: `about` is the id of the request on whose stream it came, `event` how it came.

    `stream` is the client's stream that was opened for what comes so, if one was.
    """

    line: bytes
    about: Any = None
    event: StreamEvent | None = None
    stream: ReplyStream | None = None


# --- errors as clients are shown them

SAME_SECONDS = 1.0
"""How long a text has the same id, so that a store that is away does not fill the log."""
_STORE = "the store of the gateway failed"
_REMEDY = "retry later; the operator finds the reason in the gateway's log by the id"


class Incidents:
    """Of one gateway that works in the folder `root`. `places` are folders and files of its own, elsewhere."""

    def __init__(self, report: StderrLog, root: str, places: Sequence[str]) -> None:
        self._report = report
        self._root = f"{root.rstrip('/')}/"
        elsewhere = {place.rstrip("/") for place in places if not f"{place}/".startswith(self._root)}
        named = "|".join(sorted(map(re.escape, filter(None, elsewhere)), reverse=True))
        self._places = re.compile(rf"(?:{named})[^\s'\",;:()]*") if named else None
        self._last = ("", 0.0, "")

    def id_of(self, text: str) -> str:
        """The id under which a text is in the log."""
        last, since, number = self._last
        if text != last or monotonic() - since > SAME_SECONDS:
            number = clock.short(8)
            self._last = (text, monotonic(), number)
            self._report.event("client.error", f"error {number}: {text}")
        return number

    def told(self, error: UnreachableError) -> str:
        """Why a server cannot be reached, for a client."""
        if error.public == error.message:
            return error.message
        return f"{error.public} (error {self.id_of(error.message)})"

    def words(self, text: str) -> str:
        """A text for a client: files of the workspace are named from there, others of the gateway not at all."""
        if self._places is not None and self._places.search(text):
            text = f"{self._places.sub('a file of the gateway', text)} (error {self.id_of(text)})"
        return text.replace(self._root, "") if self._root in text else text

    def store(self, store: Store) -> Store:
        """The same store, whose failures do not say where it is."""
        return cast("Store", _DiscreetStore(store, self._discreet))

    def _discreet(self, error: StoreError) -> StoreError:
        if isinstance(error, ConflictError):
            return error
        told = type(error)(f"{_STORE} (error {self.id_of(str(error))})", _REMEDY)
        told.__cause__ = error
        return told


class _DiscreetStore:
    """Passes everything on. Each method is wrapped when it is first used."""

    def __init__(self, store: Store, discreet: Callable[[StoreError], StoreError]) -> None:
        self._store = store
        self._discreet = discreet

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found) or name.startswith("_"):
            return found
        wrapped = self._wrapped(found)
        setattr(self, name, wrapped)
        return wrapped

    def _wrapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        discreet = self._discreet

        @wraps(method)
        def called(*given: Any, **named: Any) -> Any:
            try:
                outcome = method(*given, **named)
            except StoreError as error:
                raise discreet(error) from error
            if isinstance(outcome, Iterator):
                return self._read(outcome)
            if isinstance(outcome, list):  # of appends that were made together: some may have failed
                return [discreet(one) if isinstance(one, StoreError) else one for one in outcome]
            return outcome

        return called

    def _read(self, entries: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from entries
        except StoreError as error:
            raise self._discreet(error) from error


def places_of_gateway(url: str, files: Sequence[str]) -> list[str]:
    """The places that no client needs to know of: the file of the store, the settings, and the folders of the keys."""
    path = url.removeprefix("sqlite:")
    store = [os.path.abspath(path)] if path and ":" not in path else []
    own = (folders.config(), folders.account())
    return [place for place in (*store, *files, *own) if len(place) > 1]
