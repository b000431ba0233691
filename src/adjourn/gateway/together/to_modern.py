"""A client of the handshake revisions in front of a server of the stateless one.

The server asks for input by its answer; the client is asked by requests, and the server's request is made again with what it said.

Owns: these translations, and the requests that the server has meanwhile. Must never: change the arguments of a call.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from adjourn.gateway.replies import Heard, LineHead
from adjourn.gateway.together.crossing import RawObject, ServerSession
from adjourn.gateway.together.merging import REVISIONS, greeting_of, with_id
from adjourn.gateway.together.task_handles import without
from adjourn.mcp import frames, value_of

Raw = msgspec.Raw
_decode, _encode = msgspec.json.decode, msgspec.json.encode
MAX_ROUNDS = 10
"""How often a server may ask for input before it has an answer."""
AGAIN_SECONDS = 0.1


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


class ToModern:
    """A client with a handshake, a server of the stateless revision."""

    def __init__(self, upstream: ServerSession) -> None:
        self._upstream = upstream
        self._level = ""
        self._open: dict[Any, _Open] = {}
        """By the id that the server has."""
        self._of_client: dict[str, _Open] = {}
        """By the ids of the questions that the client has not answered."""

    def greeting(self, result: RawObject, version: str) -> Any:
        whole = {key: value_of(value) for key, value in result.items()}
        greeting = greeting_of(whole)
        meta = whole.get("_meta")
        info = whole.get("serverInfo") or (meta.get(frames.META_SERVER) if isinstance(meta, dict) else None)
        resources = greeting.capabilities.get("resources")
        capabilities = without(greeting.capabilities, modern=True)
        if isinstance(resources, dict):
            capabilities["resources"] = {"subscribe": True} | resources
        told: dict[str, Any] = {
            "protocolVersion": REVISIONS[-1],
            "capabilities": capabilities,
            "serverInfo": info or {"name": "", "version": version},
        }
        return told | ({"instructions": greeting.instructions} if greeting.instructions else {})

    # --- from the client

    def outgoing(self, line: bytes, head: LineHead) -> None:
        body: RawObject = _decode(line, type=RawObject)
        params: RawObject = _decode(body["params"], type=RawObject) if "params" in body else {}
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
        meta: RawObject = (
            _decode(request.params["_meta"], type=RawObject) if "_meta" in request.params else {}
        )
        meta |= {key: Raw(_encode(value)) for key, value in self._upstream.meta(self._level).items()}
        params: dict[str, Any] = request.params | {"_meta": meta}
        if request.rounds:
            params |= {"inputResponses": request.given}
            params |= {"requestState": request.state} if request.state is not None else {}
        line = _encode({"jsonrpc": "2.0", "id": server_id, "method": request.method, "params": params})
        self._upstream.pass_on(line, LineHead(server_id, request.method))

    def _server_id(self, client_id: Any) -> Any:
        return next((one for one, open_ in self._open.items() if open_.client_id == client_id), client_id)

    def abandon(self, request_id: Any) -> None:
        server_id = self._server_id(request_id)
        self._open.pop(server_id, None)
        if self._upstream.link is not None:
            self._upstream.link.abandon(server_id)

    # --- from the server

    def incoming(self, heard: Heard, head: LineHead) -> None:
        exchange = self._upstream.exchange
        if head.method is not None:
            request = self._open.get(heard.about)
            about = request.client_id if request is not None else heard.about
            if head.id is None:
                exchange.hear(Heard(heard.line, about))
            return
        request = self._open.pop(head.id, None)
        if request is None:
            exchange.hear(Heard(heard.line, heard.about))
            return
        if b'"input_required"' in heard.line or b"\\u" in heard.line:
            result = value_of(heard.line).get("result")
            if isinstance(result, dict) and result.get("resultType") == "input_required":
                self._ask(request, result)
                return
        if request.method == "tools/list":
            self._upstream.headers.listed(value_of(heard.line).get("result"))
        line = heard.line if head.id == request.client_id else with_id(heard.line, request.client_id)
        exchange.hear(Heard(line, request.client_id))

    def _ask(self, request: _Open, result: dict[str, Any]) -> None:
        """Ask the client for the input that an answer wants."""
        asked = result.get("inputRequests")
        asked = asked if isinstance(asked, dict) else {}
        request.rounds += 1
        request.state, request.given, request.wanted, request.methods = result.get("requestState"), {}, {}, {}
        if request.rounds > MAX_ROUNDS:
            why = f"the server asked for input more than {MAX_ROUNDS} times"
            self._upstream.exchange.fail(request.client_id, why, was_sent=True)
            return
        if not asked:
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._send, self._upstream.new_id(), request)
            return
        questions = []
        for name, one in asked.items():
            method = one.get("method") if isinstance(one, dict) else None
            question = self._upstream.new_id()
            request.wanted[question], request.methods[question] = name, str(method)
            self._of_client[question] = request
            questions.append(frames.request(question, str(method), one.get("params") or {}))
        for line in questions:
            self._upstream.exchange.hear(Heard(line, request.client_id))

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
        """The status of the other era says nothing in this one."""

    def failed(self, request_id: Any, why: str, *, was_sent: bool) -> None:
        request = self._open.pop(request_id, None)
        client_id = request.client_id if request is not None else request_id
        self._upstream.exchange.fail(client_id, why, was_sent=was_sent)

    def is_open(self, request_id: Any) -> bool:
        return request_id in self._open

    def open_requests(self) -> list[Any]:
        return list(self._open)

    def resumed(self) -> None:
        """The server knows nothing of sessions."""
