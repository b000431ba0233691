"""One client's session with all servers at once: each message goes to the server that it is for, and what concerns all is put together.

Each server has a member: a relay that decides and records, and the gateway's own session with that server. One more is the gateway's own,
whose relay has the meta-tools.

Owns: which server a message is for, ids that servers give, answers of several servers as one. Must never: decide, or change arguments.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex
from typing import Any

from adjourn import __version__
from adjourn.gateway.aggregate import merging, task_handles
from adjourn.gateway.aggregate.backends import OwnPart, Parts, Server
from adjourn.gateway.aggregate.listings import SILENT, Gathering, Listings
from adjourn.gateway.aggregate.member import Collector, Introduction, Member, ServerQuestions
from adjourn.gateway.aggregate.watching import MAX_WATCHED, Changes, resources_of, tasks_of
from adjourn.gateway.http_pool import StreamEvent
from adjourn.gateway.replies import LineHead, ReplyStream
from adjourn.gateway.request_headers import Problem, RequestHeaders, problem_of, status_of
from adjourn.gateway.routing import GatewayUpstream
from adjourn.mcp import frames
from adjourn.mcp.frames import FrameError, Message
from adjourn.policy.calls import meta_tool
from adjourn.relay.stderr_log import StderrLog

GREET_SECONDS, GREET_FAILED_SECONDS = 5.0, 0.5
"""How long a client's first answer waits for the servers; and for those that could not be reached a moment ago."""
LIST_SECONDS = 15.0
_UNDOTTED = ("claude-ai", "claude desktop", "copilot")


class Combined:
    """See above. `upstreams` are in the order of the settings; `begin` makes the part that is with one of them."""

    def __init__(
        self,
        upstreams: Iterable[GatewayUpstream],
        begin: Callable[[GatewayUpstream], Server],
        own: OwnPart,
        report: StderrLog,
        client: str,
    ) -> None:
        self._own = own.member
        self._parts = Parts(own.member, begin)
        self._listings = Listings(report, has_dots=not client.lower().startswith(_UNDOTTED))
        self._introduction = Introduction()
        self._changes = Changes(own.member)
        self._questions = ServerQuestions()
        self._headers = RequestHeaders()
        self._routed: dict[Any, Member] = {}
        """The members that the client's open requests went to."""
        self._gathered: dict[Any, Gathering] = {}
        self._prefix, self._count = f"adjourn-{token_hex(6)}-", 0
        self.is_accepted = False
        self.used = time.monotonic()
        self.who = ""
        """The client whose limits count."""
        own.link.on_listen = self._listened
        own.member.session = self
        self._have(upstreams, 0.0)
        self._handlers: dict[str, Callable[[Message, ReplyStream], None]] = {
            "initialize": self._greet,
            "server/discover": self._greet,
            "tools/call": self._call,
            "prompts/get": self._prompt,
            "completion/complete": self._complete,
            "resources/read": self._resource,
            "resources/subscribe": self._resource,
            "resources/unsubscribe": self._resource,
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._subscribe,
            **dict.fromkeys(merging.LISTS, self._list),
            **dict.fromkeys(task_handles.METHODS, self._task),
        }

    # --- the servers

    def _have(self, upstreams: Iterable[GatewayUpstream], end: float) -> list[Server]:
        """Have parts with these servers. Returns those that are new."""
        new = self._parts.change(upstreams, end)
        self._listings.change(self._parts.by_name)
        for server in new:
            server.member.session = self
            server.upstream.on_return = self._changes.all_lists
        return new

    def change(self, upstreams: Iterable[GatewayUpstream], end: float) -> None:
        """Have other servers from now on. What is open at one that is left out finishes, until a time (`time.monotonic`)."""
        before = self._parts.by_name
        for server in self._have(upstreams, end):
            self._introduction.to(server.member)
            if (stream := self.listener) is not None:
                server.member.listen(stream, b"")
            if (replaced := before.get(server.member.name)) is not None:
                server.upstream.watching.follow(replaced.upstream.watching)
            elif self._changes.is_subscribed:
                server.upstream.watching.watch_lists()
        self._changes.all_lists()

    def end_idle(self, now: float) -> bool:
        """Leave servers that are in force no longer, once nothing is open there. Returns whether some are left."""
        return self._parts.end_idle(now, self.listener)

    # --- what the endpoint calls

    def receive(self, line: bytes, stream: ReplyStream, request_id: Any) -> None:
        """Take a message of the client."""
        self.used = time.monotonic()
        try:
            message = frames.read(line, Message)
        except FrameError:
            self._route(self._own, line, stream, request_id)  # it is refused there, and written down
            return
        if isinstance(message, list):
            why = "this address takes one message a request, and no batches"
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
        """The client opened a stream for what belongs to no request, or to continue a broken one."""
        self.used = time.monotonic()
        for member in self._parts.members:
            own = member.own_event(last_event)
            if own or not last_event:
                member.listen(stream, own)

    def leave(self, request_id: Any, stream: ReplyStream) -> None:
        """The client no longer reads a stream."""
        if request_id is None:
            for member in self._parts.members:
                member.leave(None, stream)
            return
        if (gathering := self._gathered.pop(request_id, None)) is not None:
            gathering.cancel()
        if self._changes.leave(request_id):
            self._watch()
        if request_id in self._routed:
            self._routed.pop(request_id).leave(request_id, stream)

    def in_use(self, request_id: Any) -> bool:
        """Whether a request with this id is open."""
        return (
            request_id in self._routed
            or request_id in self._gathered
            or any(member.in_use(request_id) for member in self._parts.members)
        )

    @property
    def waiting(self) -> list[Any]:
        """The ids of the client's open requests."""
        return [*self._routed, *self._gathered]

    @property
    def listener(self) -> ReplyStream | None:
        """The stream that the client has open for what belongs to no request."""
        return self._own.listener

    @property
    def is_busy(self) -> bool:
        """Whether a request is open that will be answered by itself."""
        return bool(self._gathered) or any(member.is_busy for member in self._parts.members)

    def close(self, why: str) -> None:
        """Answer what is open with an error, and leave the servers."""
        for gathering in self._gathered.values():
            gathering.cancel()
        self._changes.close()
        for member in self._parts.members:
            member.close(why)

    def recovered(self) -> None:
        """A server that could not be reached can be: its lists are there again."""
        for server in self._parts.by_name.values():
            server.upstream.watch_again()
        self._changes.all_lists()

    def connect(self, name: str) -> None:
        """Try to reach a server."""
        if (server := self._parts.by_name.get(name)) is not None:
            server.upstream.connect()

    # --- to one server

    def _route(self, member: Member, line: bytes, stream: ReplyStream, request_id: Any) -> None:
        if request_id is not None:
            self._routed[request_id] = member
        member.receive(line, stream, request_id)

    def _call(self, message: Message, stream: ReplyStream) -> None:
        name = message.params.get("name")
        found = self._listings.names.split(name) if isinstance(name, str) and not meta_tool(name) else None
        if found is None:
            self._route(self._own, message.raw, stream, message.id)
        else:
            line = merging.with_param(message.raw, "name", found[1])
            self._route(self._parts.by_name[found[0]].member, line, stream, message.id)

    def _prompt(self, message: Message, stream: ReplyStream) -> None:
        name = message.params.get("name")
        found = self._listings.names.split(name) if isinstance(name, str) else None
        if found is None:
            self._refuse(
                message, stream, Problem(frames.INVALID_PARAMS, "no server has a prompt of that name")
            )
        else:
            line = merging.with_param(message.raw, "name", found[1])
            self._route(self._parts.by_name[found[0]].member, line, stream, message.id)

    def _complete(self, message: Message, stream: ReplyStream) -> None:
        ref = message.params.get("ref")
        ref = ref if isinstance(ref, dict) else {}
        if ref.get("type") == "ref/prompt" and isinstance(ref.get("name"), str):
            found = self._listings.names.split(ref["name"])
            if found is not None:
                line = merging.with_param(message.raw, "ref", ref | {"name": found[1]})
                self._route(self._parts.by_name[found[0]].member, line, stream, message.id)
                return
        elif isinstance(ref.get("uri"), str):
            self._at_owner(message, stream, ref["uri"])
            return
        self._refuse(message, stream, Problem(frames.INVALID_PARAMS, "no server has what this refers to"))

    def _resource(self, message: Message, stream: ReplyStream) -> None:
        uri = message.params.get("uri")
        if isinstance(uri, str):
            self._at_owner(message, stream, uri)
        else:
            self._refuse(message, stream, Problem(frames.INVALID_PARAMS, "uri must be a text"))

    def _at_owner(self, message: Message, stream: ReplyStream, uri: str) -> None:
        """Send a request to the server of a resource; where none is known, once they have listed theirs."""

        def found() -> None:
            if (owner := self._listings.owners.of(uri)) is not None:
                self._route(owner, message.raw, stream, message.id)
                return
            code = frames.INVALID_PARAMS if message.modern else -32002
            self._refuse(message, stream, Problem(code, "no server lists this resource", {"uri": uri}))

        self._find_owners(message, stream, [uri], found)

    def _find_owners(
        self, message: Message, stream: ReplyStream, uris: Sequence[str], then: Callable[[], None]
    ) -> None:
        """Learn whose resources these are, by the lists of the servers where one of them is not known."""

        def are_known() -> bool:
            return all(self._listings.owners.of(uri) is not None for uri in uris)

        def found() -> None:
            self._gathered.pop(message.id, None)
            then()

        def listed(gathering: Gathering) -> None:
            self._listings.owners.listed(self._of_now(gathering))
            if are_known():
                found()
            else:
                self._gather(message, stream, "resources/templates/list", templates)

        def templates(gathering: Gathering) -> None:
            self._listings.owners.listed_templates(self._of_now(gathering))
            found()

        if are_known():
            found()
        else:
            self._gather(message, stream, "resources/list", listed)

    def _subscribe(self, message: Message, stream: ReplyStream) -> None:
        """The client subscribes, in the stateless revision: the gateway's own member is asked whether it may."""
        wanted = message.params.get("notifications")
        problem = (
            task_handles.undeclared(message) if tasks_of(wanted) and self._may_have_tasks(message) else None
        )
        if problem is not None:
            self._refuse(message, stream, problem)
            return
        self._find_owners(
            message,
            stream,
            resources_of(wanted)[:MAX_WATCHED],
            lambda: self._route(self._own, message.raw, stream, message.id),
        )

    def _task(self, message: Message, stream: ReplyStream) -> None:
        """A request about a task goes to the server that made it."""
        found = task_handles.split(message.params.get("taskId"))
        server = self._parts.by_name.get(found[0]) if found is not None else None
        if found is not None and server is not None:
            line = merging.with_param(message.raw, "taskId", found[1])
            self._route(server.member, line, stream, message.id)
        elif self._may_have_tasks(message):
            self._refuse(message, stream, task_handles.problem_of(message))
        else:
            self._route(self._own, message.raw, stream, message.id)

    def _may_have_tasks(self, message: Message) -> bool:
        """Whether a server may make tasks for a client of this era."""
        return any(one.may_have_tasks(modern=message.modern) for one in self._parts.by_name.values())

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
        asked = [
            member for member, server in self._parts.by_member.items() if is_greeting or server.may_have(kind)
        ]
        if is_greeting or kind == "tools":
            asked.append(self._own)

        def ask(
            member: Member, method: str, params: dict[str, Any], answered: Callable[[bytes], None]
        ) -> None:
            self._count += 1
            request_id = f"{self._prefix}{self._count}"
            meta = {key: value for key, value in message.meta.items() if key != "progressToken"}
            whole = params | ({"_meta": meta} if meta else {})
            version = meta.get(frames.META_VERSION)
            headers = self._headers.of(version, method, whole) if isinstance(version, str) else stream.headers
            line = frames.request(request_id, method, whole)
            member.receive(line, Collector(headers, stream, answered), request_id)

        gathering = Gathering(asked, then, self._changes.all_lists)
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
            greetings = {}
            for name, member in (
                ("", self._own),
                *((name, one.member) for name, one in self._parts.by_name.items()),
            ):
                if (line := gathering.answers.get(member)) is not None:
                    greetings[name] = merging.greeting_of(merging.result_of(line))
            all_of_them = merging.merged(greetings, gathering.missing)
            if message.method == "initialize":
                self.is_accepted = True
                revision = merging.negotiated(message.params.get("protocolVersion"))
                self._answer(message, stream, merging.initialized(all_of_them, revision, __version__))
            else:
                self._answer(message, stream, merging.discovered(all_of_them, __version__))

        gathering = self._gather(message, stream, message.method, greeted)
        gathering.wait(GREET_FAILED_SECONDS, self._why)
        gathering.wait(GREET_SECONDS)
        for member in self._parts.by_member:
            member.relay.gate.sampling = None  # the own member asks the client's model

    def _why(self, member: Member) -> str:
        server = self._parts.by_member.get(member)
        return server.health.why if server is not None else SILENT

    def _list(self, message: Message, stream: ReplyStream) -> None:
        if message.params.get("cursor") is not None:
            self._refuse(message, stream, Problem(frames.INVALID_PARAMS, "there is no such page of the list"))
            return

        def listed(gathering: Gathering) -> None:
            kind = merging.LISTS[message.method]
            if kind == "tasks" and not (gathering.items or gathering.missing):
                self._gathered.pop(message.id, None)
                self._route(self._own, message.raw, stream, message.id)
                return
            items = self._listings.joined(kind, self._of_now(gathering))
            self._answer(
                message, stream, merging.listing(kind, items, gathering.missing, modern=message.modern)
            )

        self._gather(message, stream, message.method, listed)

    def _of_now(self, gathering: Gathering) -> dict[Member, list[merging.Raw]]:
        """What was listed by servers that are still there, in the order of the settings."""
        members, items = (*self._parts.by_member, self._own), gathering.items
        return {member: items[member] for member in members if member in items}

    def _set_level(self, message: Message, stream: ReplyStream) -> None:
        if self._may_have("logging"):
            self._gather(
                message, stream, message.method, lambda _gathering: self._answer(message, stream, {})
            )
        else:
            self._route(self._own, message.raw, stream, message.id)

    def _may_have(self, kind: str) -> bool:
        """Whether one of the servers may offer something."""
        return any(server.may_have(kind) for server in self._parts.by_name.values())

    # --- what is no request

    def _answered(self, message: Message, stream: ReplyStream) -> None:
        """The client answers a question of a server."""
        if (asked := self._questions.answered(message.id)) is not None:
            line = task_handles.own(message.raw, asked.member.name)
            asked.member.receive(merging.with_id(line, asked.question), stream, None)

    def _notified(self, message: Message, stream: ReplyStream) -> None:
        about = message.params.get("requestId")
        members: list[Member] = [self._own, *self._parts.by_member]
        if message.method == "notifications/cancelled":
            if frames.is_id(about) and about in self._gathered:
                self._gathered.pop(about).cancel()
            found = self._routed.get(about) if frames.is_id(about) else None
            members = [found] if found is not None else []
        elif message.method == "notifications/initialized":
            self._introduction.finished(message)
        elif message.method == "notifications/progress":
            found = self._questions.of_token(message.params.get("progressToken"))
            members = [found] if found is not None else []
        for member in members:
            member.receive(message.raw, stream, None)

    def outgoing(self, member: Member, head: LineHead, line: bytes) -> bytes:
        """What the client gets of a server's request or notification."""
        if frames.is_id(head.id):
            if head.method in task_handles.REQUESTS:
                self._no_tasks_of_client(member, head.id)
                return b""
            return self._questions.asked(member, line)
        if head.method == "notifications/cancelled":
            return self._questions.taken_back(member, line)
        return self._changes.noted(head.method, line)

    def _no_tasks_of_client(self, member: Member, question: Any) -> None:
        """A server asks for a task of the client, which may have made it for another server."""
        line = frames.error(question, frames.METHOD_NOT_FOUND, "the client has no tasks here")
        asyncio.get_running_loop().call_soon(member.receive, line, ReplyStream(), None)

    def _listened(self, request_id: Any, wanted: dict[str, Any]) -> None:
        """The client subscribes, in the stateless revision."""
        stream = self._own.waiting.get(request_id)
        if stream is None:
            return
        self._changes.subscribe(request_id, stream, wanted, self._may_have_task)
        self._watch()

    def _may_have_task(self, task: str) -> bool:
        """Whether there is a server that may have this task, for clients of the stateless revision."""
        found = task_handles.split(task)
        server = self._parts.by_name.get(found[0]) if found is not None else None
        return server is not None and server.may_have_tasks(modern=True)

    def _watch(self) -> None:
        """Have each server tell of what the client subscribes to there."""
        owned: dict[str, list[str]] = {}
        unowned: list[str] = []
        for uri in self._changes.resources:
            owner = self._listings.owners.of(uri)
            (owned.setdefault(owner.name, []) if owner is not None else unowned).append(uri)
        tasks: dict[str, list[str]] = {}
        for server_name, task in filter(None, map(task_handles.split, self._changes.tasks)):
            tasks.setdefault(server_name, []).append(task)
        for name, server in self._parts.by_name.items():
            watching = server.upstream.watching
            # A server that was away may have what nobody else lists.
            more = [uri for uri in unowned if server.health.why or watching.is_watched(uri)]
            watching.want([*owned.get(name, ()), *more], tasks.get(name, ()))
