"""The way to a server that speaks HTTP+SSE: a session after the other, each with what the client said of itself at first.

Owns: when a session is begun, and what its end means. Must never: send a message again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from contextlib import suppress
from secrets import token_hex
from typing import Any, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

import msgspec

from adjourn.gateway.http_link import NOT_KNOWN, BaseLink, LinkUser
from adjourn.gateway.http_pool import (
    NO_CREDENTIALS,
    Credentials,
    EventReader,
    Headers,
    HttpPool,
    HttpReply,
    StreamEvent,
    UnreachableError,
    ask,
)
from adjourn.gateway.replies import LineHead, ServerMessage, head_of, server_line
from adjourn.mcp import frames
from adjourn.mcp.lenient import object_of

GREET_SECONDS = 30.0
"""How long a server has to accept a session that follows a lost one."""
MAX_QUESTIONS = 1000
"""Requests of the server that are not answered: the answers to more are not passed on."""
_T = TypeVar("_T")


class SseLink(BaseLink):
    """See `ServerLink`. The server may be silent for `seconds` while it owes an answer. `link` is what `user` knows this one as."""

    def __init__(
        self,
        user: LinkUser,
        pool: HttpPool,
        seconds: float,
        credentials: Credentials = NO_CREDENTIALS,
        *,
        link: object = None,
    ) -> None:
        self._user = user
        self._pool = pool
        self._seconds = seconds
        self._credentials = credentials
        self._link = link or self
        self.is_met = False
        """Whether the last session that was tried could be begun."""
        self._hello = self._ready = b""
        """The client's `initialize` and `notifications/initialized`."""
        self._is_accepted = False
        self._greeting = ""
        self._greeted: asyncio.Future[bytes] | None = None
        """The answer to the request `_greeting`, by which a lost session is begun again."""
        self._session: SseSession | None = None
        self._beginning: asyncio.Task[SseSession] | None = None
        """Its result is `_session`, once that is open."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: set[Any] = set()
        """Requests that wait for a session."""
        self._posts: set[asyncio.Task[None]] = set()
        """Those of messages that are being sent in this session."""
        self._before: asyncio.Task[None] | None = None
        """That of the last message that was no request: what follows comes after it."""
        self._timer: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self.size = 0

    # --- to the server

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        for line in data.split(b"\n"):
            if line:
                self._send(line, head_of(line))

    def _send(self, line: bytes, head: LineHead) -> None:
        if head.method is None and not self._is_asked(head.id):
            return  # the question was one of a session that is over
        request_id = head.id if head.method is not None and frames.is_id(head.id) else None
        if head.method == "initialize":
            self._hello = line
        elif head.method == "notifications/initialized":
            self._ready = line
        self.size += len(line)
        task = self._start(self._post(line, request_id, self._before))
        if request_id is None:
            self._before = task
        else:
            self._waiting.add(request_id)

    def _is_asked(self, request_id: Any) -> bool:
        questions = self._session.questions if self._session is not None else set()
        if not frames.is_id(request_id) or request_id not in questions:
            return False
        questions.remove(request_id)
        return True

    def _start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _post(self, line: bytes, request_id: Any, before: asyncio.Task[None] | None) -> None:
        headers = self._user.headers_for(request_id)
        session, task = None, asyncio.current_task()
        try:
            if before is not None:
                await asyncio.wait([before])
            session = await self._begun()
            self._waiting.discard(request_id)
            if task is not None:
                self._posts.add(task)
            if request_id is not None:
                session.quiet_since = asyncio.get_running_loop().time()
                self._watch(self._seconds)
            await session.post(line, headers, self._seconds)
        except UnreachableError as error:
            reason = self._user.describe(error)
            why = f"{reason}; {NOT_KNOWN}" if error.was_sent else reason
            self._user.fail(request_id, why, was_sent=error.was_sent)
            self._news.set()
            if isinstance(error, ForgottenError) and session is not None:
                session.lose(reason)
        finally:
            self._waiting.discard(request_id)
            if task is not None:
                self._posts.discard(task)
            self.size -= len(line)

    def abandon(self, request_id: Any) -> None:
        """Tell the server: the request has no stream of its own that could end."""
        about = {"requestId": request_id, "reason": "the client no longer waits"}
        self.send(frames.notification("notifications/cancelled", about))

    # --- sessions

    async def _begun(self) -> SseSession:
        """The session, begun if there is none. Raises `UnreachableError`."""
        if self._beginning is None:
            self._beginning = self._start(self._begin())
        return await asyncio.shield(self._beginning)

    async def _begin(self) -> SseSession:
        session = self._session = SseSession(self._pool, self._credentials, self)
        try:
            await session.open()
            if self._is_accepted:
                await self._greet(session)
        except UnreachableError as error:
            session.close()
            self._session = self._beginning = None
            self.is_met = False
            raise UnreachableError(error.message, was_sent=False, public=error.public) from error
        self.is_met = True
        return session

    async def _greet(self, session: SseSession) -> None:
        """Have the server accept a session as it accepted the first one. Raises `UnreachableError`."""
        self._greeting = f"adjourn-{token_hex(6)}"
        answered = self._greeted = asyncio.get_running_loop().create_future()
        hello = msgspec.json.decode(self._hello) | {"id": self._greeting}
        await session.post(msgspec.json.encode(hello), (), GREET_SECONDS)
        try:
            answer = object_of(await asyncio.wait_for(answered, GREET_SECONDS))
        except TimeoutError as error:
            raise UnreachableError("the server does not answer initialize", was_sent=False) from error
        if "result" not in answer:
            raise UnreachableError("the server accepts no new session", was_sent=False)
        if self._ready:
            await session.post(self._ready, (), GREET_SECONDS)

    def heard(self, session: SseSession, line: bytes) -> None:
        """A message of the server."""
        head = head_of(line)
        if head.method is None and head.id is not None:
            if head.id == self._greeting and self._greeted is not None and not self._greeted.done():
                self._greeted.set_result(line)
                return
            if not self._is_accepted and head.id == head_of(self._hello).id:
                self._is_accepted = "result" in object_of(line)
        elif frames.is_id(head.id) and len(session.questions) < MAX_QUESTIONS:
            session.questions.add(head.id)
        self._user.hear(ServerMessage(line))
        self._news.set()

    def ended(self, session: SseSession, why: str) -> None:
        """A session is over: what the server owes, it will not answer."""
        if self._beginning is None or not self._beginning.done():
            if self._greeted is not None and not self._greeted.done():
                self._greeted.set_exception(UnreachableError(why, was_sent=False))
            return
        self._session = self._beginning = None
        for task in self._posts:
            task.cancel()
        for question in session.questions:
            about = {"requestId": question, "reason": why}
            self._user.hear(ServerMessage(frames.notification("notifications/cancelled", about)))
        for request_id in self._user.open_requests():
            if request_id not in self._waiting:
                self._user.fail(request_id, f"{why}; {NOT_KNOWN}", was_sent=True)
        self._news.set()
        self._user.ended(self._link)

    def _watch(self, seconds: float) -> None:
        """See whether the server has said something, in so many seconds."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._session is None or not self._user.open_requests():
            return
        left = self._session.quiet_since + self._seconds - asyncio.get_running_loop().time()
        if left > 0:
            self._watch(left)
        else:
            self._session.lose(f"the server said nothing for {self._seconds:g} seconds")

    # --- the end

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._session is not None:
            self._session.close()

    async def answered(self, seconds: float) -> None:
        """Wait until the server owes nothing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._user.open_requests():
                    self._news.clear()
                    await self._news.wait()


# --- one session with a server that speaks HTTP+SSE, the transport before Streamable HTTP

OPEN_SECONDS = 30.0
"""How long a server has to name the address for messages."""
_STREAM = b"text/event-stream"
_ADDRESS = re.compile(rb"[!-~]{1,8192}")
_PORTS = {"http": 80, "https": 443}


class ForgottenError(UnreachableError):
    """The server does not know the session any more."""


class SseSession:
    """Messages may be posted once it is open. `user` hears them, and once that an open session is over."""

    def __init__(self, pool: HttpPool, credentials: Credentials, user: SseLink) -> None:
        self._pool = pool
        self._credentials = credentials
        self._user = user
        self._reply: HttpReply | None = None
        self._reading: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._address: asyncio.Future[bytes] = self._loop.create_future()
        self._target = b""
        self.questions: set[Any] = set()
        """The ids of what the server has asked here."""
        self.quiet_since = self._loop.time()
        """When something came last (of the event loop's clock)."""

    async def open(self) -> None:
        """Start the session. Raises `UnreachableError`."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                reply = self._reply = await ask(self._pool, self._credentials, b"GET", [(b"accept", _STREAM)])
                kind = reply.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
                if reply.status != 200 or kind != _STREAM:
                    raise UnreachableError(
                        f"the server takes no message by POST, and has no event stream (HTTP status {reply.status}): check"
                        " the path of its address",
                        was_sent=False,
                    )
                self._reading = self._loop.create_task(self._read(reply))
                self._target = target_of(self._pool.url, await self._address)
        except TimeoutError as error:
            raise UnreachableError(
                f"the server's event stream names no address for messages in {OPEN_SECONDS:g} seconds", was_sent=False
            ) from error

    async def post(self, line: bytes, headers: Headers, seconds: float) -> None:
        """Send a message: its answer comes on the stream. Raises `UnreachableError`."""
        sent = [(b"content-type", b"application/json"), *headers]
        try:
            async with asyncio.timeout(seconds):
                reply = await ask(self._pool, self._credentials, b"POST", sent, line, target=self._target)
                try:
                    async for _ in reply.parts():  # what it says there is not for the client
                        pass
                finally:
                    reply.release()
        except TimeoutError as error:
            raise UnreachableError(
                f"the server did not take a message in {seconds:g} seconds", was_sent=True
            ) from error
        if not 200 <= reply.status < 300:
            kind = ForgottenError if reply.status in (404, 410) else UnreachableError
            raise kind(
                f"the server refuses the message (HTTP status {reply.status})", was_sent=not 300 <= reply.status < 500
            )

    async def _read(self, reply: HttpReply) -> None:
        reader, why = EventReader(), "the server has ended its event stream"
        try:
            async for part in reply.parts():
                self.quiet_since = self._loop.time()
                for event in reader.feed(part):
                    self._take(event)
        except UnreachableError:
            why = "the server has broken off its event stream"
        except (ValueError, msgspec.DecodeError) as error:
            why = f"the server's event stream cannot be read: {error}"
        self.lose(why)

    def _take(self, event: StreamEvent) -> None:
        if event.name == b"endpoint":
            if not self._address.done():
                self._address.set_result(event.data)
        elif not event.name and event.data and self._target:
            self._user.heard(self, server_line(event.data))

    def lose(self, why: str) -> None:
        """End the session, and say so."""
        self.close()
        if not self._address.done():
            self._address.set_exception(UnreachableError(why, was_sent=False))
        elif self._target:
            self._target = b""
            self._user.ended(self, why)

    def close(self) -> None:
        """End the session."""
        if self._reading is not None:
            self._reading.cancel()
        if self._reply is not None:
            self._reply.close()


def target_of(url: str, address: bytes) -> bytes:
    """What requests to an address name, if it has the origin of `url`. Raises `UnreachableError`."""
    own = _origin(urlsplit(url))
    try:
        target = urlsplit(urljoin(url, address.decode()))
        theirs = _origin(target)
    except ValueError:  # as of a port that is none
        theirs = ""
    if not theirs or not _ADDRESS.fullmatch(address):
        raise UnreachableError(
            f"the server at {own} names no address for messages: see whether the URL is that of its event stream",
            was_sent=False,
            public="the server names no address for messages",
        )
    if theirs != own:
        raise UnreachableError(
            f"the server at {own} wants messages at {theirs[:200]}, another origin: have it name an address of its"
            " own, or use the URL of the origin that it names",
            was_sent=False,
            public="the server wants messages at another origin",
        )
    return f"{target.path or '/'}{'?' + target.query if target.query else ''}".encode()


def _origin(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.hostname}:{parts.port or _PORTS.get(parts.scheme)}"
