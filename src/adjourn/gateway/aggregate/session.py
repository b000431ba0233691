"""One client's session with all servers at once: each message goes to the server that it is for, and what concerns all is put together.

Must never: decide, or change arguments.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from secrets import token_hex
from typing import Any

from adjourn import __version__
from adjourn.aex.match import meta_tool
from adjourn.gateway.aggregate import merging, task_handles
from adjourn.gateway.aggregate.backends import (
    Backend,
    Backends,
    BackendSession,
    Collector,
    Introduction,
    OwnLink,
    ServerQuestions,
)
from adjourn.gateway.aggregate.listings import SILENT, Changes, Gathering, Items, Listings, resources_of, tasks_of
from adjourn.gateway.aggregate.watching import MAX_WATCHED
from adjourn.gateway.http_pool import StreamEvent
from adjourn.gateway.replies import LineHead, ReplyStream
from adjourn.gateway.request_headers import Problem, RequestHeaders, problem_of, status_of
from adjourn.gateway.routing import GatewayUpstream
from adjourn.mcp import frames
from adjourn.mcp.frames import FrameError, Message
from adjourn.relay.ports import StderrLog

GREET_SECONDS, GREET_FAILED_SECONDS = 5.0, 0.5
"""How long a client's first answer waits for the servers; and for those that could not be reached a moment ago."""
LIST_SECONDS = 15.0
RESOURCE_NOT_FOUND = -32002
"""The code of the handshake revisions for a resource that nobody has."""
_UNDOTTED = ("claude-ai", "claude desktop", "copilot")


class AggregateSession:
    """Of one `client`. `upstreams` are in the order of the settings; `begin` makes the backend of one of them."""

    def __init__(
        self,
        upstreams: Iterable[GatewayUpstream],
        begin: Callable[[GatewayUpstream], Backend],
        own: BackendSession,
        report: StderrLog,
        client: str,
    ) -> None:
        self._own = own
        self._backends = Backends(own, begin)
        self._listings = Listings(report, has_dots=not client.lower().startswith(_UNDOTTED))
        self._introduction = Introduction()
        self._changes = Changes(own)
        self._questions = ServerQuestions()
        self._headers = RequestHeaders()
        self._routed: dict[Any, BackendSession] = {}
        """Where the client's open requests went to."""
        self._gathered: dict[Any, Gathering] = {}
        self._prefix, self._count = f"adjourn-{token_hex(6)}-", 0
        self.is_accepted = False
        self.used = time.monotonic()
        self.who = ""
        """The client that the rate limits apply to."""
        own.connect(OwnLink(own, self._listened))
        own.session = self
        self._have(upstreams, 0.0)
        self._handlers: dict[str, Callable[[Message, ReplyStream], None]] = {
            "initialize": self._greet,
            "server/discover": self._greet,
            "tools/call": self._call,
            "prompts/get": self._prompt,
            "completion/complete": self._complete,
            **dict.fromkeys(("resources/read", "resources/subscribe", "resources/unsubscribe"), self._resource),
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._subscribe,
            **dict.fromkeys(merging.LISTS, self._list),
            **dict.fromkeys(task_handles.METHODS, self._task),
        }

    # --- the servers

    def _have(self, upstreams: Iterable[GatewayUpstream], end: float) -> list[Backend]:
        """Have backends of these servers. Returns those that are new."""
        new = self._backends.change(upstreams, end)
        self._listings.change(self._backends.by_name)
        for backend in new:
            backend.session.session = self
            backend.upstream.on_return = self._changes.all_lists
        return new

    def change(self, upstreams: Iterable[GatewayUpstream], end: float) -> None:
        """Have other servers from now on. What is open at one that is left out finishes, until a time (`time.monotonic`)."""
        before = self._backends.by_name
        for backend in self._have(upstreams, end):
            self._introduction.introduce(backend.session)
            if (stream := self.listener) is not None:
                backend.session.listen(stream, b"")
            if (replaced := before.get(backend.session.name)) is not None:
                backend.upstream.watching.follow(replaced.upstream.watching)
            elif self._changes.is_subscribed:
                backend.upstream.watching.watch_lists()
        self._changes.all_lists()

    def end_idle(self, now: float) -> bool:
        """Leave servers that are in force no longer, once nothing is open there. Returns whether some are left."""
        return self._backends.end_idle(now, self.listener)

    # --- what the endpoint calls

    def receive(self, line: bytes, stream: ReplyStream, request_id: Any) -> None:
        self.used = time.monotonic()
        try:
            message = frames.read(line, Message)
        except FrameError:
            self._route(self._own, line, stream, request_id)  # it is refused there, and written down
            return
        if isinstance(message, list):
            why = "this address takes no batches. Send one message a request."
            stream.put(StreamEvent(frames.error(None, frames.INVALID_REQUEST, why).rstrip()), is_last=True)
        elif not message.method:
            self._answered(message, stream)
        elif message.id is None:
            self._notified(message, stream)
        elif (problem := problem_of(message, stream.headers)) is not None:
            self._refuse(message, stream, problem)
        elif (handler := self._handlers.get(message.method)) is not None:
            handler(message, stream)
        else:
            self._route(self._own, line, stream, message.id)

    def listen(self, stream: ReplyStream, last_event: bytes) -> None:
        self.used = time.monotonic()
        for session in self._backends.sessions:
            own = session.own_event(last_event)
            if own or not last_event:
                session.listen(stream, own)

    def leave(self, request_id: Any, stream: ReplyStream) -> None:
        if request_id is None:
            for session in self._backends.sessions:
                session.leave(None, stream)
            return
        if (gathering := self._gathered.pop(request_id, None)) is not None:
            gathering.cancel()
        if self._changes.leave(request_id):
            self._watch()
        if request_id in self._routed:
            self._routed.pop(request_id).leave(request_id, stream)

    def in_use(self, request_id: Any) -> bool:
        return request_id in self.waiting or any(session.in_use(request_id) for session in self._backends.sessions)

    @property
    def waiting(self) -> list[Any]:
        return [*self._routed, *self._gathered]

    @property
    def listener(self) -> ReplyStream | None:
        return self._own.listener

    @property
    def is_busy(self) -> bool:
        return bool(self._gathered) or any(session.is_busy for session in self._backends.sessions)

    def close(self, why: str) -> None:
        for gathering in self._gathered.values():
            gathering.cancel()
        self._changes.close()
        for session in self._backends.sessions:
            session.close(why)

    def recovered(self) -> None:
        """A server that could not be reached can be: its lists are there again."""
        for backend in self._backends.by_name.values():
            backend.upstream.watch_again()
        self._changes.all_lists()

    def connect(self, name: str) -> None:
        """Try to reach a server."""
        if (backend := self._backends.by_name.get(name)) is not None:
            backend.upstream.connect()

    # --- to one server

    def _route(self, session: BackendSession, line: bytes, stream: ReplyStream, request_id: Any) -> None:
        if request_id is not None:
            self._routed[request_id] = session
        session.receive(line, stream, request_id)

    def _route_named(
        self, message: Message, stream: ReplyStream, name: object, param: str, about: dict[str, Any] | None = None
    ) -> bool:
        """Send a request to the server that a joined name says, with the name that it has there.

        `about` is the value of `param` where the name is a member of it. False for a name of no server.
        """
        names = self._listings.names.split(name) if isinstance(name, str) else None
        if names is None:
            return False
        server, own_name = names
        value = own_name if about is None else about | {"name": own_name}
        line = merging.with_param(message.raw, param, value)
        self._route(self._backends.by_name[server].session, line, stream, message.id)
        return True

    def _call(self, message: Message, stream: ReplyStream) -> None:
        name = message.params.get("name")
        is_meta = isinstance(name, str) and meta_tool(name)
        if is_meta or not self._route_named(message, stream, name, "name"):
            self._route(self._own, message.raw, stream, message.id)

    def _prompt(self, message: Message, stream: ReplyStream) -> None:
        if not self._route_named(message, stream, message.params.get("name"), "name"):
            self._refuse_params(
                message, stream, "no server has a prompt of that name. Use one that prompts/list shows."
            )

    def _complete(self, message: Message, stream: ReplyStream) -> None:
        ref = message.params.get("ref")
        ref = ref if isinstance(ref, dict) else {}
        if ref.get("type") == "ref/prompt":
            if self._route_named(message, stream, ref.get("name"), "ref", ref):
                return
        elif isinstance(ref.get("uri"), str):
            self._at_owner(message, stream, ref["uri"])
            return
        self._refuse_params(
            message, stream, "no server has what ref names. Use a prompt or a resource that a list shows."
        )

    def _resource(self, message: Message, stream: ReplyStream) -> None:
        uri = message.params.get("uri")
        if isinstance(uri, str):
            self._at_owner(message, stream, uri)
        else:
            self._refuse_params(message, stream, "uri must be a string. Use one that resources/list shows.")

    def _at_owner(self, message: Message, stream: ReplyStream, uri: str) -> None:
        """Send a request to the server of a resource; where none is known, once they have listed theirs."""

        def route() -> None:
            if (owner := self._listings.owners.of(uri)) is not None:
                self._route(owner, message.raw, stream, message.id)
                return
            code = frames.INVALID_PARAMS if message.modern else RESOURCE_NOT_FOUND
            self._refuse(
                message,
                stream,
                Problem(code, "no server lists this resource. Use one that resources/list shows.", {"uri": uri}),
            )

        self._find_owners(message, stream, [uri], route)

    def _find_owners(
        self, message: Message, stream: ReplyStream, uris: Sequence[str], then: Callable[[], None]
    ) -> None:
        """Find the servers of these resources, by asking for their lists if one is unknown."""

        def gather(method: str, take: Callable[[Items], None]) -> None:
            self._gather(message, stream, method, lambda gathering: take(self._of_now(gathering)))

        def finish() -> None:
            self._gathered.pop(message.id, None)
            then()

        self._listings.owners.find(uris, gather, finish)

    def _subscribe(self, message: Message, stream: ReplyStream) -> None:
        """The client subscribes, in the stateless revision: the gateway's own backend is asked whether it may."""
        wanted = message.params.get("notifications")
        is_about_tasks = tasks_of(wanted) and self._backends.may_have_tasks(modern=message.modern)
        if is_about_tasks and (problem := task_handles.undeclared(message)) is not None:
            self._refuse(message, stream, problem)
            return
        uris = resources_of(wanted)[:MAX_WATCHED]
        route = partial(self._route, self._own, message.raw, stream, message.id)
        self._find_owners(message, stream, uris, route)

    def _task(self, message: Message, stream: ReplyStream) -> None:
        """A request about a task goes to the server that made it."""
        server, task = task_handles.split(message.params.get("taskId")) or ("", "")
        if (backend := self._backends.by_name.get(server)) is not None:
            line = merging.with_param(message.raw, "taskId", task)
            self._route(backend.session, line, stream, message.id)
        elif self._backends.may_have_tasks(modern=message.modern):
            self._refuse(message, stream, task_handles.problem_of(message))
        else:
            self._route(self._own, message.raw, stream, message.id)

    def _refuse_params(self, message: Message, stream: ReplyStream, why: str) -> None:
        self._refuse(message, stream, Problem(frames.INVALID_PARAMS, why))

    def _refuse(self, message: Message, stream: ReplyStream, problem: Problem) -> None:
        is_stateless = message.modern or message.method == "server/discover"
        stream.status = status_of(problem.code) if is_stateless else 200
        answer = frames.error(message.id, problem.code, problem.text, problem.data)
        stream.put(StreamEvent(answer.rstrip()), is_last=True)

    # --- to all of them

    def _gather(
        self, message: Message, stream: ReplyStream, method: str, then: Callable[[Gathering], None]
    ) -> Gathering:
        """Ask all servers that may have something to say to a method."""
        kind, is_greeting = method.partition("/")[0], method in ("initialize", "server/discover")
        sessions = [
            session for session, backend in self._backends.by_session.items() if is_greeting or backend.may_have(kind)
        ]
        if is_greeting or kind == "tools":
            sessions.append(self._own)
        meta = {key: value for key, value in message.meta.items() if key != "progressToken"}
        version = meta.get(frames.META_VERSION)

        def ask(
            session: BackendSession, method: str, params: dict[str, Any], answered: Callable[[bytes], None]
        ) -> None:
            self._count += 1
            request_id = f"{self._prefix}{self._count}"
            params = params | ({"_meta": meta} if meta else {})
            headers = stream.headers
            if isinstance(version, str):
                headers = self._headers.of(version, method, params)
            line = frames.request(request_id, method, params)
            session.receive(line, Collector(headers, stream, answered), request_id)

        gathering = Gathering(sessions, then, self._changes.all_lists)
        self._gathered[message.id] = gathering
        params = message.params if method == message.method else {}
        gathering.ask(ask, method, {key: value for key, value in params.items() if key != "_meta"})
        gathering.wait(LIST_SECONDS)
        return gathering

    def _answer(self, message: Message, stream: ReplyStream, result: dict[str, Any]) -> None:
        self._gathered.pop(message.id, None)
        stream.put(StreamEvent(frames.result(message.id, result).rstrip()), is_last=True)

    def _greet(self, message: Message, stream: ReplyStream) -> None:
        self._introduction.met(message, stream)

        def greeted(gathering: Gathering) -> None:
            sessions = (self._own, *self._backends.by_session)
            greetings = {
                session.name: merging.greeting_of(merging.result_of(gathering.answers[session]))
                for session in sessions
                if session in gathering.answers
            }
            greeting = merging.merged(greetings, gathering.missing)
            if message.method == "initialize":
                self.is_accepted = True
                revision = merging.negotiated(message.params.get("protocolVersion"))
                self._answer(message, stream, merging.initialized(greeting, revision, __version__))
            else:
                self._answer(message, stream, merging.discovered(greeting, __version__))

        def failed_before(session: BackendSession) -> str:
            backend = self._backends.by_session.get(session)
            return backend.health.why if backend is not None else SILENT

        gathering = self._gather(message, stream, message.method, greeted)
        gathering.wait(GREET_FAILED_SECONDS, failed_before)
        gathering.wait(GREET_SECONDS)

    def _list(self, message: Message, stream: ReplyStream) -> None:
        if message.params.get("cursor") is not None:
            self._refuse_params(message, stream, "there is no such page of the list. Ask for it without a cursor.")
            return

        def listed(gathering: Gathering) -> None:
            kind = merging.LISTS[message.method]
            if kind == "tasks" and not (gathering.items or gathering.missing):
                self._gathered.pop(message.id, None)
                self._route(self._own, message.raw, stream, message.id)
                return
            items = self._listings.joined(kind, self._of_now(gathering))
            result = merging.listing(kind, items, gathering.missing, modern=message.modern)
            self._answer(message, stream, result)

        self._gather(message, stream, message.method, listed)

    def _of_now(self, gathering: Gathering) -> dict[BackendSession, list[merging.Raw]]:
        """What was listed by servers that are still there, in the order of the settings."""
        sessions, items = (*self._backends.by_session, self._own), gathering.items
        return {session: items[session] for session in sessions if session in items}

    def _set_level(self, message: Message, stream: ReplyStream) -> None:
        if any(backend.may_have("logging") for backend in self._backends.by_name.values()):
            self._gather(message, stream, message.method, lambda _: self._answer(message, stream, {}))
        else:
            self._route(self._own, message.raw, stream, message.id)

    # --- what is no request

    def _answered(self, message: Message, stream: ReplyStream) -> None:
        """The client answers a question of a server."""
        if (question := self._questions.answered(message.id)) is not None:
            line = task_handles.own(message.raw, question.backend.name)
            question.backend.receive(merging.with_id(line, question.question), stream, None)

    def _notified(self, message: Message, stream: ReplyStream) -> None:
        about = message.params.get("requestId")
        sessions: list[BackendSession | None] = [self._own, *self._backends.by_session]
        if message.method == "notifications/cancelled":
            if frames.is_id(about) and about in self._gathered:
                self._gathered.pop(about).cancel()
            sessions = [self._routed.get(about) if frames.is_id(about) else None]
        elif message.method == "notifications/initialized":
            self._introduction.finished(message)
        elif message.method == "notifications/progress":
            sessions = [self._questions.of_token(message.params.get("progressToken"))]
        for session in sessions:
            if session is not None:
                session.receive(message.raw, stream, None)

    def outgoing(self, backend: BackendSession, head: LineHead, line: bytes) -> bytes:
        """What the client gets of a server's request or notification."""
        if frames.is_id(head.id):
            if head.method not in task_handles.REQUESTS:
                return self._questions.asked(backend, line)
            # a server asks for a task of the client, which may have made it for another server
            error = frames.error(head.id, frames.METHOD_NOT_FOUND, "the client has no tasks here")
            asyncio.get_running_loop().call_soon(backend.receive, error, ReplyStream(), None)
            return b""
        if head.method == "notifications/cancelled":
            return self._questions.taken_back(backend, line)
        return self._changes.noted(head.method, line)

    def _listened(self, request_id: Any, wanted: dict[str, Any]) -> None:
        """The client subscribes, in the stateless revision."""
        if (stream := self._own.waiting.get(request_id)) is not None:
            self._changes.subscribe(request_id, stream, wanted, self._backends.may_have_task)
            self._watch()

    def _watch(self) -> None:
        self._backends.watch(self._changes.resources, self._changes.tasks, self._listings.owners.of)
