"""A client of the stateless revision in front of a server of the handshake revisions.

The server asks its client by requests of its own; the client is asked by the answer to its call, and comes again with what is wanted.

Owns: these translations, and the calls that the server has meanwhile. Must never: change the arguments of a call.
"""

from __future__ import annotations

import asyncio
from secrets import token_urlsafe
from typing import Any

import msgspec

from adjourn.gateway.replies import Heard, LineHead
from adjourn.gateway.together.crossing import RawObject, ServerSession
from adjourn.gateway.together.merging import STATELESS, complete, greeting_of
from adjourn.gateway.together.task_handles import without
from adjourn.mcp import frames, object_of, value_of

Raw = msgspec.Raw
_decode, _encode = msgspec.json.decode, msgspec.json.encode
_CACHED = (
    "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read", "server/discover",
)  # fmt: skip
_OF_STATELESS = (
    frames.META_VERSION, frames.META_CLIENT, frames.META_CAPABILITIES, frames.META_LOG_LEVEL,
)  # fmt: skip
HELD_SECONDS = 900.0
"""How long a server's question waits for a client that has to come again with its answer."""
MAX_HELD = 1000
_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class _Held(msgspec.Struct):
    """A call that the server has, and that the client has to come again for. `question` is the id of the server's request."""

    server_id: Any
    question: Any
    timer: asyncio.TimerHandle
    late: bytes = b""
    """The server's answer, where it did not wait for the client's."""


class ToLegacy:
    """A client of the stateless revision, a server with a handshake."""

    def __init__(self, upstream: ServerSession) -> None:
        self._upstream = upstream
        self._level = ""
        self._client_ids: dict[Any, Any] = {}
        """Of calls that were continued: the id that the client gave last, by the server's."""
        self._held: dict[str, _Held] = {}
        """By the state that the client comes again with."""
        self._questions: dict[Any, list[bytes]] = {}
        """Questions that wait until the client has come again with the answer to one before, by the call's id."""

    def greeting(self, result: RawObject, version: str) -> Any:
        whole = {key: value_of(value) for key, value in result.items()}
        greeting = greeting_of(whole)
        told: dict[str, Any] = {
            "supportedVersions": list(STATELESS),
            "capabilities": without(greeting.capabilities, modern=False),
            "_meta": {frames.META_SERVER: whole.get("serverInfo") or {"name": "", "version": version}},
        }
        if greeting.instructions:
            told["instructions"] = greeting.instructions
        return complete(told, is_cached=True)

    # --- from the client

    def outgoing(self, line: bytes, head: LineHead) -> None:
        if head.method is None or not frames.is_id(head.id):
            return  # the revision has no answers and no notifications of clients
        body: RawObject = _decode(line, type=RawObject)
        params: RawObject = _decode(body["params"], type=RawObject) if "params" in body else {}
        state = _decode(params["requestState"]) if "requestState" in params else None
        if isinstance(state, str):
            self._continue(head.id, state, params)
            return
        meta: RawObject = _decode(params["_meta"], type=RawObject) if "_meta" in params else {}
        self._set_level(meta)
        kept = {key: value for key, value in meta.items() if key not in _OF_STATELESS}
        params.pop("_meta", None)
        params.pop("task", None)  # it makes a task in the server's era, and says nothing in the client's
        if kept:
            params["_meta"] = Raw(_encode(kept))
        body["params"] = Raw(_encode(params))
        self._upstream.pass_on(_encode(body), head)

    def _set_level(self, meta: RawObject) -> None:
        level = _decode(meta[frames.META_LOG_LEVEL]) if frames.META_LOG_LEVEL in meta else ""
        if isinstance(level, str) and level and level != self._level:
            self._level = level
            self._say_level()

    def _say_level(self) -> None:
        if "logging" in self._upstream.capabilities:
            self._upstream.tell("logging/setLevel", {"level": self._level})

    def _continue(self, request_id: Any, state: str, params: RawObject) -> None:
        """The client has come again with answers for the server."""
        held = self._held.pop(state, None)
        if held is None:
            error = frames.error(
                request_id, frames.INVALID_PARAMS, "the server no longer waits for this input"
            )
            self._upstream.say(error, request_id)
            return
        held.timer.cancel()
        self._client_ids[held.server_id] = request_id
        if held.late:
            self._answer(held.late, held.server_id)
            return
        answers: RawObject = (
            _decode(params["inputResponses"], type=RawObject) if "inputResponses" in params else {}
        )
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
        server_id = next((one for one, id_ in self._client_ids.items() if id_ == request_id), request_id)
        if self._upstream.link is not None:
            about = {"requestId": server_id, "reason": "the client no longer waits"}
            self._upstream.link.send(frames.notification("notifications/cancelled", about))

    # --- from the server

    def incoming(self, heard: Heard, head: LineHead) -> None:
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
            upstream.exchange.hear(Heard(heard.line, self._client_ids.get(heard.about, heard.about)))

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
        self._upstream.exchange.hear(Heard(_encode(body) + b"\n", request_id))

    def _newest(self) -> Any:
        """The call that was made last: over a pipe a question does not say which one it belongs to."""
        requests = self._upstream.exchange.connection.requests
        request_id = next((one for one in reversed(requests) if requests[one].method in frames.ASKING), None)
        return next((one for one, id_ in self._client_ids.items() if id_ == request_id), request_id)

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
        if (
            request is None
            or request.method not in frames.ASKING
            or not is_able
            or len(self._held) >= MAX_HELD
        ):
            self._reply(question, None)
            return
        state = token_urlsafe(24)
        timer = asyncio.get_running_loop().call_later(HELD_SECONDS, self._forget, state)
        self._held[state] = _Held(server_id, question, timer)
        self._client_ids.pop(server_id, None)
        asked = {"input": {"method": method, "params": body.get("params") or {}}}
        result = {"resultType": "input_required", "inputRequests": asked, "requestState": state}
        self._upstream.exchange.hear(Heard(frames.result(request_id, result), request_id))

    def _forget(self, state: str) -> None:
        """The client did not come again."""
        if (held := self._held.pop(state, None)) is not None:
            self._reply(held.question, None)
            self.abandon(held.server_id)

    def answered_with(self, request_id: Any, status: int) -> None:
        """The status of the other era says nothing in this one."""

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
        opened = [ids.get(one, one) for one in self._upstream.exchange.open_requests()]
        return opened + [held.server_id for held in self._held.values() if not held.late]

    def resumed(self) -> None:
        if self._level:
            self._say_level()
