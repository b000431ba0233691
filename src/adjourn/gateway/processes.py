"""The processes of a server that is a command: one for each session, or with `shared = true` the same one for all of them.

Sessions that share a process have their own ids of requests and progress tokens, which are others on the pipe. The handshake is the
gateway's own, with no capability of a client. What the server says reaches whoever asked: a server that asks back, logs, or says that a
resource changed says that to nobody, for nothing tells whom it means. Changed lists are for all.

Must never: let a session see an answer, an id or a progress of another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import msgspec

from adjourn.gateway.http_pool import UnreachableError
from adjourn.gateway.links import BaseLink, LinkUser, PipeLink, PipeUser, ServerLink
from adjourn.gateway.replies import LineHead, ServerMessage, head_of
from adjourn.gateway.request_headers import REVISIONS
from adjourn.gateway.settings import ServerSettings
from adjourn.mcp import frames

MAX_QUEUED = 1000
"""Messages that wait until a shared process has answered the handshake."""
_CLIENT = {"name": "adjourn", "version": "0"}
_REFUSED = ("logging/setLevel", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen", "tasks/")
"""Methods that change what a server does for all, or that show what others did."""
_LISTS = frozenset(f"notifications/{kind}/list_changed" for kind in ("prompts", "resources", "tools"))

_Members = dict[str, msgspec.Raw]
_members_of = msgspec.json.Decoder(_Members).decode


class ServerProcesses:
    """Of one server: the command starts in `folder`, with the variables `environment`, at most `settings.processes` times."""

    def __init__(self, name: str, settings: ServerSettings, environment: Mapping[str, str], folder: str) -> None:
        self._name = name
        self._settings = settings
        self._environment = environment
        self._folder = folder
        self._pipes: set[PipeLink] = set()
        self._shared: dict[str, SharedProcess] = {}

    def link(self, user: LinkUser) -> ServerLink:
        """A new way to the server."""
        return SharedLink(user, self) if self._settings.shared else self.start(user)

    def start(self, user: PipeUser) -> ServerLink:
        """A process; a link that fails all requests where there are as many as there may be."""
        self._pipes = {pipe for pipe in self._pipes if pipe.is_running}
        if len(self._pipes) >= self._settings.processes:
            return FullLink(user, f"the server {self._name} has {len(self._pipes)} processes, as many as it may have")
        pipe = PipeLink(user, self._settings.command, self._environment, self._folder)
        self._pipes.add(pipe)
        return pipe

    def shared(self, revision: str) -> SharedProcess:
        """The process for the sessions of a revision, "" for the stateless one."""
        if revision not in self._shared:
            self._shared[revision] = SharedProcess(revision, self.start)
        return self._shared[revision]

    def close(self) -> None:
        """End the shared processes. No session is left."""
        for process in self._shared.values():
            process.close()

    async def left(self, seconds: float) -> None:
        """Wait until the shared processes have ended."""
        if waited := [asyncio.ensure_future(process.left(seconds)) for process in self._shared.values()]:
            await asyncio.wait(waited)


class FullLink(BaseLink):
    """A link that reaches nothing: each request fails, and `why` says that it was not sent."""

    size = 0
    is_running = False

    def __init__(self, user: PipeUser, why: str) -> None:
        self._user = user
        self._why = f"{why}. End a session, or raise `processes` of the server in adjourn.toml"

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        for line in data.split(b"\n"):
            if line and (head := head_of(line)).method is not None and frames.is_id(head.id):
                error = UnreachableError(self._why, was_sent=False)
                asyncio.get_running_loop().call_soon(self._fail, head.id, self._user.describe(error))

    def _fail(self, request_id: Any, why: str) -> None:
        self._user.fail(request_id, why, was_sent=False)
        self._user.ended(self)  # the next request may find room


class SharedLink(BaseLink):
    """One session's part of a shared process. See `ServerLink`."""

    def __init__(self, user: LinkUser, processes: ServerProcesses) -> None:
        self._user = user
        self._processes = processes
        self._process: SharedProcess | None = None
        self._is_closed = False
        self.numbers: dict[Any, int] = {}
        """What the session's open requests are called on the pipe."""

    @property
    def size(self) -> int:
        return 0 if self._process is None else self._process.size

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        for line in data.split(b"\n"):
            if line:
                self._send(line, head_of(line))

    def _send(self, line: bytes, head: LineHead) -> None:
        if head.method == "initialize" or self._process is None:
            self._meet(line if head.method == "initialize" else b"")
        assert self._process is not None
        if head.method == "notifications/cancelled":
            self._process.cancel(self, line)
        elif head.method is None or not frames.is_id(head.id):
            return  # an answer to nobody's question, or about the session, which the server does not have
        elif head.method.startswith(_REFUSED):
            why = f"{head.method} is not available at a server that sessions share"
            refusal = ServerMessage(frames.error(head.id, frames.METHOD_NOT_FOUND, why), head.id)
            asyncio.get_running_loop().call_soon(self.hear, refusal)
        elif head.method == "initialize":
            self._process.greet(self, head.id)
        else:
            self._process.ask(self, head.id, line)

    def _meet(self, opening: bytes) -> None:
        """Take part in the process of the session's revision: a client may name any, so unknown ones are the newest."""
        revision = ""
        if opening:
            params = _inner(_members_of(opening), "params")
            wanted = params.get("protocolVersion", msgspec.Raw(b'""'))
            revision = next((each for each in REVISIONS if bytes(wanted) == b'"%b"' % each.encode()), REVISIONS[-1])
        if self._process is not None:
            self._process.leave(self)
        self._process = self._processes.shared(revision)
        self._process.links.add(self)

    def hear(self, heard: ServerMessage) -> None:
        """The server said something to this session."""
        if not self._is_closed:
            self._user.hear(heard)

    def fail(self, request_id: Any, why: str, *, was_sent: bool = False) -> None:
        """A request has no answer."""
        if not self._is_closed:
            self._user.fail(request_id, why, was_sent=was_sent)

    def describe(self, error: UnreachableError) -> str:
        """The words for why the server cannot be reached."""
        return self._user.describe(error)

    def abandon(self, request_id: Any) -> None:
        if self._process is not None and request_id in self.numbers:
            self._process.abandon(self.numbers[request_id])

    def close(self) -> None:
        self._is_closed = True
        if self._process is not None:
            self._process.leave(self)


class SharedProcess(PipeUser):
    """A process, begun again by the next request after it ended. `revision` is that of its handshake; "" for none."""

    def __init__(self, revision: str, start: Callable[[PipeUser], ServerLink]) -> None:
        self.links: set[SharedLink] = set()
        self._revision = revision
        self._start = start
        self._pipe: ServerLink | None = None
        self._count = count(1)
        self._open: dict[int, tuple[SharedLink, Any, bool]] = {}
        """The requests on the pipe: whose they are, their ids there, and whether they ask for the server's capabilities."""
        self._tokens: dict[int, msgspec.Raw] = {}
        """The progress tokens of the sessions, by those requests."""
        self._greeting: _Members | None = None
        self._handshake = 0
        self._to_greet: list[tuple[SharedLink, Any]] = []
        self._queue: list[tuple[SharedLink, Any, bytes]] = []

    @property
    def size(self) -> int:
        return sum(len(line) for *_, line in self._queue) + (0 if self._pipe is None else self._pipe.size)

    # --- from sessions

    def greet(self, link: SharedLink, request_id: Any) -> None:
        """Answer a session's `initialize`."""
        self._to_greet.append((link, request_id))
        self._connect()
        asyncio.get_running_loop().call_soon(self._say_greeting)

    def ask(self, link: SharedLink, request_id: Any, line: bytes) -> None:
        """Have a request answered."""
        self._connect()
        if self._pipe is not None and not self._handshake:
            self._pass(link, request_id, line)
        elif self._pipe is None or len(self._queue) >= MAX_QUEUED:
            asyncio.get_running_loop().call_soon(link.fail, request_id, "too much waits for the server")
        else:
            self._queue.append((link, request_id, line))

    def cancel(self, link: SharedLink, line: bytes) -> None:
        """A client no longer waits."""
        requested = _inner(_members_of(line), "params").get("requestId")
        if requested is not None:
            link.abandon(msgspec.json.decode(requested))

    def abandon(self, number: int) -> None:
        """Say so to the server. Its answer still counts, if it gives one."""
        if self._pipe is not None:
            self._pipe.abandon(number)

    def leave(self, link: SharedLink) -> None:
        """A session has ended."""
        self.links.discard(link)
        self._to_greet = [each for each in self._to_greet if each[0] is not link]
        self._queue = [each for each in self._queue if each[0] is not link]
        for number in link.numbers.values():
            self.abandon(number)
            self._open.pop(number, None)
            self._tokens.pop(number, None)
        link.numbers.clear()

    def _pass(self, link: SharedLink, request_id: Any, line: bytes) -> None:
        number, is_greeting = next(self._count), head_of(line).method == "server/discover"
        members = _members_of(line)
        members["id"] = msgspec.Raw(b"%d" % number)
        params = _inner(members, "params")
        meta = _inner(params, "_meta")
        # INVARIANT: no token of a session reaches the server, however its name is written: it could be the number of another's request
        if (token := meta.get("progressToken")) is not None:
            self._tokens[number] = token
            params["_meta"] = _raw(meta | {"progressToken": members["id"]})
            members["params"] = _raw(params)
        self._open[number], link.numbers[request_id] = (link, request_id, is_greeting), number
        assert self._pipe is not None
        self._pipe.send(_line(members))

    # --- the process

    def _connect(self) -> None:
        if self._pipe is not None:
            return
        self._pipe = self._start(self)
        if self._revision:
            self._handshake = next(self._count)
            hello = {"protocolVersion": self._revision, "capabilities": {}, "clientInfo": _CLIENT}
            opening = {"jsonrpc": "2.0", "id": self._handshake, "method": "initialize", "params": hello}
            self._pipe.send(msgspec.json.encode(opening) + b"\n")

    def hear(self, heard: ServerMessage) -> None:
        head = head_of(heard.line)
        try:
            members = _members_of(heard.line)
        except msgspec.DecodeError:
            return  # nobody's
        if head.method is None:
            self._answered(head.id, members)
        elif frames.is_id(head.id):
            self._refuse(head)
        elif head.method in _LISTS:
            for link in list(self.links):
                link.hear(heard)
        elif head.method == "notifications/progress":
            self._progress(members)

    def _answered(self, number: Any, members: _Members) -> None:
        if type(number) is not int:
            return
        if number and number == self._handshake:
            self._greeted(members)
        elif (owner := self._taken(number)) is not None:
            link, request_id, is_greeting = owner
            members["id"] = _raw(request_id)
            if is_greeting and "result" in members:
                members["result"] = _without(members["result"])
            link.hear(ServerMessage(_line(members), request_id))

    def _taken(self, number: int) -> tuple[SharedLink, Any, bool] | None:
        """The owner of a request that is open no longer."""
        owner = self._open.pop(number, None)
        self._tokens.pop(number, None)
        if owner is not None:
            owner[0].numbers.pop(owner[1], None)
        return owner

    def _greeted(self, members: _Members) -> None:
        self._handshake = 0
        if "result" not in members:
            self._lost("the server refuses the handshake")
            return
        members["result"] = _without(members["result"])
        self._greeting = members
        assert self._pipe is not None
        self._pipe.send(frames.notification("notifications/initialized"))
        self._say_greeting()
        queue, self._queue = self._queue, []
        for waiting in queue:
            self._pass(*waiting)

    def _say_greeting(self) -> None:
        if self._greeting is None or self._handshake:
            return
        to_greet, self._to_greet = self._to_greet, []
        for link, request_id in to_greet:
            link.hear(ServerMessage(_line(self._greeting | {"id": _raw(request_id)}), request_id))

    def _refuse(self, head: LineHead) -> None:
        assert self._pipe is not None
        if head.method == "ping":
            self._pipe.send(frames.result(head.id, {}))
        else:
            why = "nobody can be asked: this process is shared by several clients"
            self._pipe.send(frames.error(head.id, frames.METHOD_NOT_FOUND, why))

    def _progress(self, members: _Members) -> None:
        params = _inner(members, "params")
        try:
            number = int(bytes(params.get("progressToken", b"")))
        except ValueError:
            return
        if number in self._tokens:
            link, request_id, _ = self._open[number]
            members["params"] = _raw(params | {"progressToken": self._tokens[number]})
            link.hear(ServerMessage(_line(members), request_id))

    def open_requests(self) -> list[Any]:
        """Those on the pipe; the handshake is one."""
        return [*self._open, *filter(None, [self._handshake])]

    def fail(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        if request_id == self._handshake:
            self._handshake = 0
            self._lost(why)
        elif (owner := self._taken(request_id)) is not None:
            owner[0].fail(owner[1], why, was_sent=was_sent)

    def describe(self, error: UnreachableError) -> str:
        link = next(iter(self.links), None)
        return error.public if link is None else link.describe(error)

    def ended(self, link: object) -> None:
        if link is self._pipe and self._pipe is not None:
            self._pipe.close()
            self._pipe, self._handshake = None, 0

    def _lost(self, why: str) -> None:
        """No session can be begun, and nothing that waits for one be sent."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()
        waiting = [*self._to_greet, *((link, request_id) for link, request_id, _ in self._queue)]
        self._to_greet, self._queue = [], []
        for link, request_id in waiting:
            link.fail(request_id, why)

    def close(self) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()

    async def left(self, seconds: float) -> None:
        """Wait until it has ended."""
        if self._pipe is not None:
            await self._pipe.left(seconds)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _line(members: _Members) -> bytes:
    return msgspec.json.encode(members) + b"\n"


def _inner(members: _Members, name: str) -> _Members:
    """The members of an object among members; none if there is no object."""
    try:
        return _members_of(members[name])
    except (KeyError, msgspec.DecodeError):
        return {}


def _without(result: msgspec.Raw) -> msgspec.Raw:
    """A greeting without the capabilities that need a session of its own; any other result as it is."""
    if b'"capabilities"' not in bytes(result):
        return result
    members = _inner({"": result}, "")
    capabilities = {
        name: each for name, each in _inner(members, "capabilities").items() if name not in ("logging", "tasks")
    }
    if "resources" in capabilities:
        resources = _inner(capabilities, "resources")
        capabilities["resources"] = _raw({name: each for name, each in resources.items() if name != "subscribe"})
    return _raw(members | {"capabilities": _raw(capabilities)})
