"""Clients of one protocol era in front of servers of the other: requests, answers and questions translated, in either direction.

A stateless server asks for input by its answer: its client of a handshake revision is asked by requests, and the call is made again
with what it said. A server of a handshake revision asks by requests: its stateless client is asked by the answer, and comes again.

Must never: change the arguments of a call.
"""

from __future__ import annotations

import asyncio
from secrets import token_urlsafe
from typing import Any

import msgspec

from adjourn.gateway.aggregate.handshake import EraBridge, RawObject, ServerSession
from adjourn.gateway.aggregate.merging import complete, greeting_of, with_id
from adjourn.gateway.aggregate.task_handles import without
from adjourn.gateway.replies import LineHead, ServerMessage
from adjourn.gateway.request_headers import REVISIONS, STATELESS
from adjourn.mcp import frames
from adjourn.mcp.lenient import object_of, value_of

# --- a client of the handshake revisions in front of a server of the stateless one

Raw = msgspec.Raw
_decode, _encode = msgspec.json.decode, msgspec.json.encode
MAX_ROUNDS = 10
"""How often a server may ask for input before it has an answer."""
AGAIN_SECONDS = 0.1


def _object_in(body: RawObject, member: str) -> RawObject:
    return _decode(body[member], type=RawObject) if member in body else {}


class _Open(msgspec.Struct):
    """A request that a server of the stateless revision has. `client_id` is the client's."""

    client_id: Any
    method: str
    params: RawObject
    rounds: int = 0
    wanted: dict[str, str] = {}
    """What the client is asked: the names of the inputs, by the ids of the questions."""
    methods: dict[str, str] = {}
    given: dict[str, Any] = {}
    state: Any = None


class ToModern(EraBridge):
    """A client with a handshake, a server of the stateless revision."""

    passes_events = False

    def __init__(self, upstream: ServerSession) -> None:
        super().__init__(upstream)
        self._level = ""
        self._open: dict[Any, _Open] = {}
        """By the id that the server has."""
        self._of_client: dict[str, _Open] = {}
        """By the ids of the questions that the client has not answered."""

    def greeting(self, result: RawObject, version: str) -> Any:
        members = {key: value_of(value) for key, value in result.items()}
        greeting = greeting_of(members)
        meta = members.get("_meta")
        info = members.get("serverInfo") or (meta.get(frames.META_SERVER) if isinstance(meta, dict) else None)
        resources = greeting.capabilities.get("resources")
        capabilities = without(greeting.capabilities, modern=True)
        if isinstance(resources, dict):
            capabilities["resources"] = {"subscribe": True} | resources
        hello: dict[str, Any] = {
            "protocolVersion": REVISIONS[-1],
            "capabilities": capabilities,
            "serverInfo": info or {"name": "", "version": version},
        }
        return hello | ({"instructions": greeting.instructions} if greeting.instructions else {})

    # --- from the client

    def outgoing(self, line: bytes, head: LineHead) -> None:
        body: RawObject = _decode(line, type=RawObject)
        params = _object_in(body, "params")
        if head.method is None:
            self._answered(head.id, body)
        elif not frames.is_id(head.id):
            if head.method == "notifications/cancelled" and "requestId" in params:
                self.abandon(_decode(params["requestId"]))
        elif head.method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
            self._own(head, params)
        else:
            self._send(head.id, _Open(head.id, head.method, params))

    def _own(self, head: LineHead, params: RawObject) -> None:
        """A request that the stateless revision does not have."""
        if head.method == "logging/setLevel" and "level" in params:
            level = _decode(params["level"])
            self._level = level if isinstance(level, str) else ""
        elif "uri" in params and isinstance(uri := _decode(params["uri"]), str):
            watching = self._upstream.watching
            (watching.watch if head.method == "resources/subscribe" else watching.unwatch)(uri)
        self._upstream.say(frames.result(head.id, {}), head.id)

    def _send(self, server_id: Any, request: _Open) -> None:
        self._open[server_id] = request
        meta = _object_in(request.params, "_meta")
        meta |= {key: Raw(_encode(value)) for key, value in self._upstream.meta(self._level).items()}
        params: dict[str, Any] = request.params | {"_meta": meta}
        if request.rounds:
            params |= {"inputResponses": request.given}
            params |= {"requestState": request.state} if request.state is not None else {}
        line = _encode({"jsonrpc": "2.0", "id": server_id, "method": request.method, "params": params})
        self._upstream.pass_on(line, LineHead(server_id, request.method))

    def abandon(self, request_id: Any) -> None:
        asked = (server_id for server_id, sent in self._open.items() if sent.client_id == request_id)
        server_id = next(asked, request_id)
        self._open.pop(server_id, None)
        if self._upstream.link is not None:
            self._upstream.link.abandon(server_id)

    # --- from the server

    def incoming(self, heard: ServerMessage, head: LineHead) -> None:
        exchange = self._upstream.exchange
        if head.method is not None:
            request = self._open.get(heard.about)
            about = request.client_id if request is not None else heard.about
            if head.id is None:
                exchange.hear(ServerMessage(heard.line, about))
            return
        request = self._open.pop(head.id, None)
        if request is None:
            exchange.hear(ServerMessage(heard.line, heard.about))
            return
        if b'"input_required"' in heard.line or b"\\u" in heard.line:
            result = value_of(heard.line).get("result")
            if isinstance(result, dict) and result.get("resultType") == "input_required":
                self._ask(request, result)
                return
        if request.method == "tools/list":
            self._upstream.headers.listed(value_of(heard.line).get("result"))
        line = heard.line if head.id == request.client_id else with_id(heard.line, request.client_id)
        exchange.hear(ServerMessage(line, request.client_id))

    def _ask(self, request: _Open, result: dict[str, Any]) -> None:
        """Ask the client for the input that an answer wants."""
        wanted = result.get("inputRequests")
        wanted = wanted if isinstance(wanted, dict) else {}
        request.rounds += 1
        request.state, request.given, request.wanted, request.methods = result.get("requestState"), {}, {}, {}
        if request.rounds > MAX_ROUNDS:
            why = f"the server asked for input more than {MAX_ROUNDS} times"
            self._upstream.exchange.fail(request.client_id, why, was_sent=True)
            return
        if not wanted:
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._send, self._upstream.new_id(), request)
            return
        questions = []
        for name, question_asked in wanted.items():
            method = question_asked.get("method") if isinstance(question_asked, dict) else None
            question = self._upstream.new_id()
            request.wanted[question], request.methods[question] = name, str(method)
            self._of_client[question] = request
            questions.append(frames.request(question, str(method), question_asked.get("params") or {}))
        for line in questions:
            self._upstream.exchange.hear(ServerMessage(line, request.client_id))

    def _answered(self, question: Any, body: RawObject) -> None:
        """The client has answered a question."""
        request = self._of_client.pop(question, None)
        if request is None:
            return
        name = request.wanted.pop(question)
        if "result" in body:
            request.given[name] = body["result"]
        elif request.methods[question] == "elicitation/create":
            request.given[name] = {"action": "cancel"}
        elif request.methods[question] == "roots/list":
            request.given[name] = {"roots": []}
        else:
            for other in request.wanted:
                self._of_client.pop(other, None)
            request.wanted = {"": ""}  # it waits for nothing any more
            error = {"jsonrpc": "2.0", "id": request.client_id, "error": body.get("error")}
            self._upstream.say(_encode(error) + b"\n", request.client_id)
            return
        if not request.wanted and self._upstream.exchange.is_open(request.client_id):
            self._send(self._upstream.new_id(), request)

    def answered_with(self, request_id: Any, status: int) -> None:
        """It says nothing in the client's era."""

    def failed(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        request = self._open.pop(request_id, None)
        client_id = request.client_id if request is not None else request_id
        self._upstream.exchange.fail(client_id, why, was_sent=was_sent)

    def is_open(self, request_id: Any) -> bool:
        return request_id in self._open

    def open_requests(self) -> list[Any]:
        return list(self._open)


# --- a client of the stateless revision in front of a server of the handshake revisions

_CACHED = (
    "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover",
)  # fmt: skip
_OF_STATELESS = (
    frames.META_VERSION, frames.META_CLIENT, frames.META_CAPABILITIES, frames.META_LOG_LEVEL,
)  # fmt: skip
HELD_SECONDS = 900.0
"""How long a server's question waits for a client that has to come again with its answer."""
MAX_HELD = 1000
_CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


class _Held(msgspec.Struct):
    """A call that the server has, and that the client has to come again for. `question` is the id of the server's request."""

    server_id: Any
    question: Any
    timer: asyncio.TimerHandle
    late: bytes = b""
    """The server's answer, where it did not wait for the client's."""


class ToLegacy(EraBridge):
    """A client of the stateless revision, a server with a handshake."""

    passes_events = False

    def __init__(self, upstream: ServerSession) -> None:
        super().__init__(upstream)
        self._level = ""
        self._client_ids: dict[Any, Any] = {}
        """Of calls that were continued: the id that the client gave last, by the server's."""
        self._held: dict[str, _Held] = {}
        """By the state that the client comes again with."""
        self._questions: dict[Any, list[bytes]] = {}
        """Questions that wait until the client has come again with the answer to one before, by the call's id."""

    def greeting(self, result: RawObject, version: str) -> Any:
        members = {key: value_of(value) for key, value in result.items()}
        greeting = greeting_of(members)
        discovery: dict[str, Any] = {
            "supportedVersions": list(STATELESS),
            "capabilities": without(greeting.capabilities, modern=False),
            "_meta": {frames.META_SERVER: members.get("serverInfo") or {"name": "", "version": version}},
        }
        if greeting.instructions:
            discovery["instructions"] = greeting.instructions
        return complete(discovery, is_cached=True)

    # --- from the client

    def outgoing(self, line: bytes, head: LineHead) -> None:
        if head.method is None or not frames.is_id(head.id):
            return  # the revision has no answers and no notifications of clients
        body: RawObject = _decode(line, type=RawObject)
        params = _object_in(body, "params")
        state = _decode(params["requestState"]) if "requestState" in params else None
        if isinstance(state, str):
            self._continue(head.id, state, params)
            return
        meta = _object_in(params, "_meta")
        level = _decode(meta[frames.META_LOG_LEVEL]) if frames.META_LOG_LEVEL in meta else ""
        if isinstance(level, str) and level and level != self._level:
            self._level = level
            self._say_level()
        own_meta = {key: value for key, value in meta.items() if key not in _OF_STATELESS}
        params.pop("_meta", None)
        params.pop("task", None)  # it makes a task in the server's era, and says nothing in the client's
        if own_meta:
            params["_meta"] = Raw(_encode(own_meta))
        body["params"] = Raw(_encode(params))
        self._upstream.pass_on(_encode(body), head)

    def _say_level(self) -> None:
        if "logging" in self._upstream.capabilities:
            self._upstream.tell("logging/setLevel", {"level": self._level})

    def _continue(self, request_id: Any, state: str, params: RawObject) -> None:
        """The client has come again with answers for the server."""
        held = self._held.pop(state, None)
        if held is None:
            error = frames.error(request_id, frames.INVALID_PARAMS, "the server no longer waits for this input")
            self._upstream.say(error, request_id)
            return
        held.timer.cancel()
        self._client_ids[held.server_id] = request_id
        if held.late:
            self._answer(held.late, held.server_id)
            return
        answers = _object_in(params, "inputResponses")
        self._reply(held.question, answers.get("input"))
        if waiting := self._questions.get(held.server_id):
            self._ask(waiting.pop(0), held.server_id)

    def _reply(self, question: Any, result: Raw | None) -> None:
        """Answer a question of the server."""
        if self._upstream.link is not None:
            self._upstream.link.send(
                frames.error(question, frames.INVALID_REQUEST, "the client gave no answer")
                if result is None
                else frames.result(question, result)
            )

    def abandon(self, request_id: Any) -> None:
        server_id = next((server for server, id_ in self._client_ids.items() if id_ == request_id), request_id)
        if self._upstream.link is not None:
            about = {"requestId": server_id, "reason": "the client no longer waits"}
            self._upstream.link.send(frames.notification("notifications/cancelled", about))

    # --- from the server

    def incoming(self, heard: ServerMessage, head: LineHead) -> None:
        upstream = self._upstream
        if head.method is None:
            for held in self._held.values():
                if held.server_id == head.id:
                    held.late = heard.line
                    return
            self._answer(heard.line, head.id)
        elif head.id is not None:
            owner = heard.about if heard.about is not None else self._newest()
            self._ask(heard.line, owner)
        elif head.method != "notifications/message" or self._level:
            upstream.exchange.hear(ServerMessage(heard.line, self._client_ids.get(heard.about, heard.about)))

    def _answer(self, line: bytes, server_id: Any) -> None:
        """An answer, as the stateless revision has it."""
        request_id = self._client_ids.pop(server_id, server_id)
        self._questions.pop(server_id, None)
        body = object_of(line)
        request = self._upstream.exchange.connection.requests.get(request_id)
        if "result" in body:
            result = object_of(body["result"])
            method = request.method if request is not None else ""
            body["result"] = Raw(_encode(complete(dict(result), is_cached=method in _CACHED)))
        body["id"] = Raw(_encode(request_id))
        self._upstream.exchange.hear(ServerMessage(_encode(body) + b"\n", request_id))

    def _newest(self) -> Any:
        """The call that was made last: over a pipe a question does not say which one it belongs to."""
        requests = self._upstream.exchange.connection.requests
        request_id = next(
            (open_id for open_id in reversed(requests) if requests[open_id].method in frames.ASKING), None
        )
        return next((server for server, id_ in self._client_ids.items() if id_ == request_id), request_id)

    def _ask(self, line: bytes, server_id: Any) -> None:
        """Have the client answer a question of the server, by coming again."""
        body = value_of(line)
        method, question = body.get("method"), body.get("id")
        if method == "ping":
            self._reply(question, Raw(b"{}"))
            return
        request_id = self._client_ids.get(server_id, server_id)
        if any(held.server_id == server_id for held in self._held.values()):
            self._questions.setdefault(server_id, []).append(line)
            return
        request = self._upstream.exchange.connection.requests.get(request_id)
        is_able = _CAPABILITY.get(method, "") in self._upstream.offered
        if request is None or request.method not in frames.ASKING or not is_able or len(self._held) >= MAX_HELD:
            self._reply(question, None)
            return
        state = token_urlsafe(24)
        timer = asyncio.get_running_loop().call_later(HELD_SECONDS, self._forget, state)
        self._held[state] = _Held(server_id, question, timer)
        self._client_ids.pop(server_id, None)
        inputs = {"input": {"method": method, "params": body.get("params") or {}}}
        result = {"resultType": "input_required", "inputRequests": inputs, "requestState": state}
        self._upstream.exchange.hear(ServerMessage(frames.result(request_id, result), request_id))

    def _forget(self, state: str) -> None:
        """The client did not come again."""
        if (held := self._held.pop(state, None)) is not None:
            self._reply(held.question, None)
            self.abandon(held.server_id)

    def answered_with(self, request_id: Any, status: int) -> None:
        """It says nothing in the client's era."""

    def failed(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        for held in self._held.values():
            if held.server_id == request_id:
                held.late = frames.error(request_id, frames.UPSTREAM_GONE, why)
                return
        client_id = self._client_ids.pop(request_id, request_id)
        self._upstream.exchange.fail(client_id, why, was_sent=was_sent)

    def is_open(self, request_id: Any) -> bool:
        if any(held.server_id == request_id and not held.late for held in self._held.values()):
            return True
        return self._upstream.exchange.is_open(self._client_ids.get(request_id, request_id))

    def open_requests(self) -> list[Any]:
        ids = {client_id: server_id for server_id, client_id in self._client_ids.items()}
        opened = [ids.get(request_id, request_id) for request_id in self._upstream.exchange.open_requests()]
        return opened + [held.server_id for held in self._held.values() if not held.late]

    def resumed(self) -> None:
        if self._level:
            self._say_level()
