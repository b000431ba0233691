"""Asking the client's model for a run: questions that are left in the store go to the client, and its answers back.

Made only for a client that uses protocol 2025-11-25 or earlier and declares `sampling`: the client shows the question to its person as it does with
any server's, and may refuse. In the era after it a server may only ask within an open call, and so there is nothing here.

Owns: these requests and their answers. Must never: let a client's answer through to the upstream, or ask what nobody waits for.
"""

from __future__ import annotations

from os import urandom
from typing import Any

import msgspec

from adjourn.errors import AdjournError
from adjourn.mcp import frames
from adjourn.mcp.frames import Message
from adjourn.models import model as client_model
from adjourn.models.model import SamplingAnswer, SamplingRequest
from adjourn.relay.connection import Connection

MAX_OPEN = 8
POLL_SECONDS = 0.5
"""How long a question may wait."""
MAX_ANSWER = 4_000_000
"""Characters of an answer."""
_SHOWN = 300


class ClientSampling:
    """One per proxy whose client offers it."""

    def __init__(self, connection: Connection) -> None:
        self._client = connection.client
        self._loop = connection.loop
        self._report = connection.report
        self._context = connection.context
        self._nonce = f"adjourn-{urandom(6).hex()}-"
        self._count = 0
        self._begun = False
        self._offered = False
        self._open: dict[str, str] = {}
        """What the client was asked: the question's name in the store, by the request's id."""

    def begin(self) -> None:
        """The client may be asked from now on."""
        if not self._begun:
            self._begun = True
            self._loop.after(0, self._poll)

    def _poll(self) -> None:
        """Put new questions to the client, take back those that nobody waits for."""
        self._loop.after(POLL_SECONDS, self._poll)
        store, root, own = self._context.store, self._context.options.root, self._context.process
        try:
            if not self._offered:
                client_model.offer(
                    store, root, client_model.SamplingClient(own, self._context.group, self._context.client)
                )
                self._offered = True
            waiting = client_model.questions(store, root, own, self._context.clock())
            for request_id, name in list(self._open.items()):
                if name not in waiting:
                    del self._open[request_id]
                    self._client.send(
                        frames.notification("notifications/cancelled", {"requestId": request_id})
                    )
            for name in [name for name in waiting if name not in self._open.values()][
                : MAX_OPEN - len(self._open)
            ]:
                self._put(name)
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def _put(self, name: str) -> None:
        request = client_model.take(self._context.store, name)
        if request is None:
            client_model.reply(self._context.store, name, SamplingAnswer(error="the question cannot be read"))
            return
        self._count += 1
        request_id = f"{self._nonce}{self._count}"
        self._open[request_id] = name
        self._report.event("sampling.asked", "a run asks the client's model")
        self._client.send(frames.request(request_id, "sampling/createMessage", _params(request)))

    def answered_by(self, message: Message) -> bool:
        """Whether a client's answer was to one of these questions."""
        if not isinstance(message.id, str) or not message.id.startswith(self._nonce):
            return False
        name = self._open.pop(message.id, "")
        if name:
            self._reply(name, _answer(message.body))
        return True

    def _reply(self, name: str, answer: SamplingAnswer) -> None:
        self._report.event("sampling.answered", answer.error or "the client's model has answered")
        try:
            client_model.reply(self._context.store, name, answer)
        except AdjournError as error:
            self._report.event("store.error", str(error))

    def close(self) -> None:
        """The client exits: it can no longer be asked."""
        if self._offered:
            try:
                client_model.withdraw(self._context.store, self._context.options.root, self._context.process)
            except AdjournError as error:
                self._report.event("store.error", str(error))


def _params(request: SamplingRequest) -> dict[str, Any]:
    content = {"type": "text", "text": request.prompt}
    params: dict[str, Any] = {
        "messages": [{"role": "user", "content": content}],
        "systemPrompt": request.system,
        "maxTokens": request.max_tokens,
    }
    if request.model:
        params["modelPreferences"] = {"hints": [{"name": request.model}]}
    return params


class _ContentBlock(msgspec.Struct):
    type: str
    text: str = ""


class _Result(msgspec.Struct):
    content: _ContentBlock | list[_ContentBlock]
    model: str = ""
    stopReason: str = ""  # noqa: N815  # the wire's name


def _answer(body: dict[str, Any]) -> SamplingAnswer:
    """What a client's answer says, read strictly."""
    if "result" not in body:
        error = body.get("error")
        why = error.get("message") if isinstance(error, dict) else None
        return SamplingAnswer(error=why[:_SHOWN] if isinstance(why, str) and why else "it was refused")
    try:
        result = msgspec.convert(body["result"], _Result)
    except msgspec.ValidationError as error:
        return SamplingAnswer(error=f"what it answered is no message: {error}"[:_SHOWN])
    blocks = result.content if isinstance(result.content, list) else [result.content]
    text = "".join(block.text for block in blocks if block.type == "text")
    if len(text) > MAX_ANSWER:
        return SamplingAnswer(error=f"the answer has more than {MAX_ANSWER:,} characters")
    return SamplingAnswer(text=text, model=result.model[:_SHOWN], stop=result.stopReason[:_SHOWN])
