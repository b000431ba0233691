"""The links to a server: over Streamable HTTP, where each message is a request of its own, in either protocol era; or over the pipes of
a command, whose process ends with its link.

Owns: the server's session, and what its answers become. Must never: send a message again, but for one that was refused because a token
had expired.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

import msgspec

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
from adjourn.gateway.limits import Alarms
from adjourn.gateway.replies import ReplyStream, ServerMessage, head_of, server_line
from adjourn.host.executables import find
from adjourn.mcp import frames
from adjourn.relay.ports import NEVER, Outlet

MAX_ANSWER = 64 * 1024 * 1024
SESSION = b"mcp-session-id"
_POSTED = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))
_NO_POST = (404, 405)
"""How servers of before Streamable HTTP, and other addresses, refuse a message."""
NOT_KNOWN = "whether the call had an effect is not known"


class PipeUser(Protocol):
    """Whoever speaks to a server over the pipes of a command."""

    def hear(self, heard: ServerMessage, /) -> None:
        """The server said something."""

    def fail(self, request_id: Any, why: str, /, *, was_sent: bool) -> None:
        """A request has no answer. `was_sent`: the server may have acted on it."""

    def describe(self, error: UnreachableError, /) -> str:
        """The words for why a server cannot be reached."""

    def open_requests(self) -> list[Any]:
        """The ids of requests without an answer."""

    def ended(self, link: object, /) -> None:
        """The server can no longer be reached over a link. Each open request says so by itself."""
        del link


class LinkUser(PipeUser, Protocol):
    """Whoever speaks to a server over a link."""

    def headers_for(self, request_id: Any, /) -> Headers:
        """The headers of a message; `request_id` is None for one that is no request."""

    def answered_with(self, request_id: Any, status: int, /) -> None:
        """The answer to a request has this HTTP status."""
        del request_id, status

    def pass_event(self, about: Any, event: StreamEvent, /) -> None:
        """An event without a message came on the stream of a request."""

    def is_open(self, request_id: Any, /) -> bool:
        """Whether a request has no answer yet."""

    def break_stream(self, request_id: Any, /) -> None:
        """The server ended a stream before its answer, which can be continued."""

    def stream_ended(self, stream: ReplyStream, /) -> None:
        """A stream that continued another has ended."""

    def forgotten(self, link: object, request_id: Any, /) -> bool:
        """The server does not know the session any more, and refused a request. Returns whether that is taken care of.

        Else its answer says so, and the client starts another session.
        """
        del link, request_id
        return False


class ServerLink(Outlet, Protocol):
    """The way to a server."""

    def abandon(self, request_id: Any, /) -> None:
        """The client no longer waits for the answer to a request."""

    def listen(self, stream: ReplyStream, last_event: bytes, /) -> None:
        """Take what the server says that belongs to no request, or that a broken stream still owes (`last_event`)."""

    def leave(self, stream: ReplyStream, /) -> None:
        """The client no longer reads a stream that it listened on."""

    async def left(self, seconds: float, /) -> None:
        """Wait until a closed link's server has ended, or knows of the end."""


class BaseLink:
    """What links have in common where a link says nothing else: see `ServerLink`."""

    since = NEVER

    def abandon(self, request_id: Any) -> None:
        """Nothing takes long."""

    def listen(self, stream: ReplyStream, last_event: bytes) -> None:
        """All that the server says comes without being asked for."""

    def leave(self, stream: ReplyStream) -> None:
        """As above."""

    def lose(self) -> None:
        """Each request ends by itself."""

    def drain(self, seconds: float) -> None:
        """Nothing waits in a link, but in what it sends with."""

    def close(self) -> None:
        """Nothing is to be closed."""

    async def left(self, seconds: float) -> None:
        """The server needs to know of no end."""


Patience = Alarms[asyncio.Task[None]]
"""How long a server may take for an answer, and as long again for each part of a stream."""


def patience(seconds: float) -> Patience:
    """That of one server, for all links to it."""
    return Alarms(seconds, asyncio.Task.cancel)


class HttpLink(BaseLink):
    """See `ServerLink`."""

    def __init__(
        self, user: LinkUser, pool: HttpPool, patience: Patience, credentials: Credentials = NO_CREDENTIALS
    ) -> None:
        self._user = user
        self._pool = pool
        self._patience = patience
        self._credentials = credentials
        self._session = b""
        self._tasks: set[asyncio.Task[None]] = set()
        self._posts: dict[Any, asyncio.Task[None]] = {}
        self._unsent: dict[asyncio.Task[None], int] = {}
        """The bytes of messages that the server has not taken yet."""
        self._listening: dict[ReplyStream, asyncio.Task[None]] = {}
        self.size = 0

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        for line in data.split(b"\n"):
            if line:
                self.size += len(line)
                head = head_of(line)
                request_id = head.id if head.method is not None else None
                task = self._start(self._post(line, request_id))
                self._unsent[task] = len(line)
                task.add_done_callback(self._sent)  # one that is cancelled at once never runs
                if request_id is not None:
                    self._posts[request_id] = task

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _sent(self, task: asyncio.Task[None]) -> None:
        """The server has taken a message, or nobody waits for that any more."""
        self.size -= self._unsent.pop(task, 0)

    def abandon(self, request_id: Any) -> None:
        if (task := self._posts.pop(request_id, None)) is not None:
            task.cancel()

    async def _post(self, line: bytes, request_id: Any) -> None:
        headers = [*_POSTED, *self._own(), *self._user.headers_for(request_id)]
        task = cast("asyncio.Task[None]", asyncio.current_task())
        reply = None
        self._patience.begin(task)
        try:
            reply = await ask(self._pool, self._credentials, b"POST", headers, line)
            self._sent(task)
            await self._take(reply, request_id, task)
        except asyncio.CancelledError:
            if self._patience.end(task):  # it has not run out: nobody waits any more
                raise
            seconds = self._patience.seconds
            self._lost(request_id, f"the server said nothing for {seconds:g} seconds", was_sent=True)
        except UnreachableError as error:
            self._lost(request_id, self._user.describe(error), was_sent=error.was_sent)
        except (ValueError, msgspec.DecodeError) as error:
            self._lost(request_id, f"the server's answer cannot be read: {error}", was_sent=True)
        finally:
            self._patience.end(task)
            self._posts.pop(request_id, None)
            if reply is not None:
                reply.release()

    def _own(self) -> Headers:
        return [(SESSION, self._session)] if self._session else []

    async def _take(self, reply: HttpReply, request_id: Any, task: asyncio.Task[None]) -> None:
        """Read an answer, and hand over what it says."""
        if session := reply.headers.get(SESSION, b""):
            self._session = session
        elif reply.status == 404 and self._session and self._user.forgotten(self, request_id):
            return
        kind = reply.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind == b"text/event-stream":
            await self._read_events(reply, request_id, task)
            return
        body = await reply.body(MAX_ANSWER)
        if kind == b"application/json":
            self._user.answered_with(request_id, reply.status)
            self._user.hear(ServerMessage(server_line(body), request_id))
        if request_id is not None and self._user.is_open(request_id):
            here = ": it has to speak Streamable HTTP at this address" if reply.status in _NO_POST else ""
            self._lost(
                request_id,
                f"the server gave no answer to the request, only HTTP status {reply.status}{here}",
                was_sent=not 300 <= reply.status < 500,
            )

    async def _read_events(self, reply: HttpReply, request_id: Any, task: asyncio.Task[None]) -> None:
        reader, resumable = EventReader(), False
        try:
            async for part in reply.parts():
                for event in reader.feed(part):
                    resumable = resumable or bool(event.id)
                    if event.data:
                        self._user.hear(ServerMessage(server_line(event.data), request_id, event))
                    else:
                        self._user.pass_event(request_id, event)
                self._patience.extend(task)
        except UnreachableError:
            if not resumable:
                raise
        if request_id is None or not self._user.is_open(request_id):
            return
        if resumable:
            self._user.break_stream(request_id)
        else:
            self._lost(request_id, "the server ended its answer too early", was_sent=True)

    def _lost(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        text = f"{why}; {NOT_KNOWN}" if was_sent else why
        self._user.fail(request_id, text, was_sent=was_sent)

    # --- what belongs to no request

    def listen(self, stream: ReplyStream, last_event: bytes) -> None:
        """Open the server's own stream, if it has one."""
        self._listening[stream] = self._start(self._listen(stream, last_event))

    def leave(self, stream: ReplyStream) -> None:
        if (task := self._listening.pop(stream, None)) is not None:
            task.cancel()

    async def _listen(self, stream: ReplyStream, last_event: bytes) -> None:
        headers = [(b"accept", b"text/event-stream"), *self._own(), *stream.headers]
        if last_event:
            headers.append((b"last-event-id", last_event))
        reply = None
        try:
            reply = await ask(self._pool, self._credentials, b"GET", headers)
            if reply.status == 200:
                reader = EventReader()
                async for part in reply.parts():
                    for event in reader.feed(part):
                        if event.data:
                            self._user.hear(ServerMessage(server_line(event.data), None, event, stream))
                        else:
                            stream.put(event)
                if last_event:
                    self._user.stream_ended(stream)
        except (UnreachableError, ValueError):
            pass  # the client's stream stays: what is said later has its place
        finally:
            if reply is not None:
                reply.close()

    # --- the end

    def close(self) -> None:
        """End the server's session."""
        for task in list(self._tasks):
            task.cancel()
        if self._session:
            session = asyncio.get_running_loop().create_task(self._leave())
            self._tasks.add(session)

    async def answered(self, seconds: float) -> None:
        """Wait until nothing is on its way."""
        if posts := set(self._posts.values()):
            await asyncio.wait(posts, timeout=seconds)

    async def left(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def _leave(self) -> None:
        try:
            reply = await ask(self._pool, self._credentials, b"DELETE", self._own())
            reply.release()
        except UnreachableError:
            pass


# --- over the pipes of a command

MAX_LINE = 256 * 1024 * 1024
GRACE_SECONDS = 2.0
"""How long a server may take to end once its input is closed, and again once it was asked to."""
_GONE = "the server has ended; whether the call had an effect is not known"


class PipeLink(BaseLink):
    """See `ServerLink`. The command is started in `folder`."""

    def __init__(self, user: PipeUser, command: Sequence[str], environment: Mapping[str, str], folder: str) -> None:
        self._user = user
        self._command = command
        self._environment = environment
        self._folder = folder
        self._waiting: list[bytes] = []
        self._process: Process | None = None
        self._ending: asyncio.Task[None] | None = None
        self._is_lost = False
        self._running = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_running(self) -> bool:
        """Whether there is a process, or there will be one."""
        return not self._is_lost if self._process is None else self._process.returncode is None

    @property
    def size(self) -> int:
        process = self._process
        if process is None or process.stdin is None:
            return sum(map(len, self._waiting))
        return process.stdin.transport.get_write_buffer_size()

    async def _run(self) -> None:
        """The life of the process."""
        try:
            await self._start()
            assert self._process is not None
            assert self._process.stdout is not None
            while line := await self._process.stdout.readline():
                self._user.hear(ServerMessage(line))
        except (OSError, ValueError) as error:
            what = f"the server {self._command[0]!r} cannot be used: {error}"
            public = "the server cannot be started, or not be read"
            self._fail(self._user.describe(UnreachableError(what, was_sent=False, public=public)))
        else:
            self._fail(_GONE)

    async def _start(self) -> None:
        program = find(self._command[0])
        if program is None:
            raise OSError(f"{self._command[0]} is not on PATH")
        self._process = await asyncio.create_subprocess_exec(
            program,
            *self._command[1:],
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=self._environment,
            cwd=self._folder,
            limit=MAX_LINE,
            process_group=0,
        )
        waiting, self._waiting = self._waiting, []
        self._write(b"".join(waiting))

    def _fail(self, why: str) -> None:
        """Answer all that is open, and all that comes, with an error."""
        was_sent, self._is_lost = self._process is not None, True
        for request_id in self._user.open_requests():
            self._user.fail(request_id, why, was_sent=was_sent)
        self._user.ended(self)

    def _write(self, data: bytes) -> None:
        if data and self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):  # its end is noticed by the reader
                self._process.stdin.write(data)

    def send(self, data: bytes, about: Any = None) -> None:
        if self._is_lost:
            for request in about or ():
                self._user.fail(request.id, "the server has ended", was_sent=False)
        elif self._process is None:
            self._waiting.append(data)
        else:
            self._write(data)

    def abandon(self, request_id: Any) -> None:
        """Tell the server: a pipe has no stream of the request that could end."""
        about = {"requestId": request_id, "reason": "the client no longer waits"}
        self.send(frames.notification("notifications/cancelled", about))

    def close(self) -> None:
        self._is_lost = True
        self._running.cancel()
        if self._process is not None:
            self._ending = asyncio.get_running_loop().create_task(_end(self._process))

    async def left(self, seconds: float) -> None:
        if self._ending is not None:
            await asyncio.wait([self._ending], timeout=seconds)


async def _end(process: Process) -> None:
    """Close its input, ask it, kill it and what it has started."""
    if process.stdin is not None:
        process.stdin.close()
    for action in (None, process.terminate, None):
        with suppress(ProcessLookupError):
            if action is not None:
                action()
        try:
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
        except TimeoutError:
            continue
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, 9)
    await process.wait()
