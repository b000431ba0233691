"""Anthropic's messages, through the official SDK. ANTHROPIC_API_KEY, ANTHROPIC_MODEL, ANTHROPIC_BASE_URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from adjourn.adapters.models import (
    MAX_TOKENS,
    SECONDS,
    BoundedModel,
    Resumable,
    Service,
    cut_off,
    declined,
    decoded,
    read,
    with_state,
)
from adjourn.knowledge.cognition.middleware import INTERVAL, Middleware, ModelReply
from adjourn.knowledge.cognition.store import CognitiveStore
from adjourn.runs.model import Completion

DEFAULT_MODEL = "claude-sonnet-5-5"
_SERVICE = Service("anthropic", "Anthropic", DEFAULT_MODEL)


class _Block(msgspec.Struct):
    type: str
    text: str = ""


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Message(msgspec.Struct):
    content: list[_Block]
    model: str = ""
    stop_reason: str | None = None
    usage: _Usage = msgspec.field(default_factory=_Usage)


class Anthropic(BoundedModel):
    """One model of Anthropic's. `seconds` bounds one answer."""

    def __init__(self, model: str = "", *, seconds: float = SECONDS) -> None:
        super().__init__(_SERVICE.model(model), seconds, _SERVICE.name)
        self._client = _SERVICE.connect(timeout=seconds)

    def _ask(self, system: str, prompt: str) -> Completion:
        raw = self._client.messages.with_raw_response.create(
            model=self.model, max_tokens=MAX_TOKENS, system=system, messages=[{"role": "user", "content": prompt}]
        )
        answer = decoded(raw.http_response.content, _Message, str(self))
        if answer.stop_reason in ("max_tokens", "model_context_window_exceeded"):
            raise cut_off(str(self))
        if answer.stop_reason == "refusal":
            raise declined(str(self))
        return Completion(
            text="".join(block.text for block in answer.content if block.type == "text"),
            model=answer.model,
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
        )


class ResumableAnthropic(Resumable):
    """A client of Anthropic's with memory: a cognitive session records each answer, and each request includes what it knows.

    `messages.create` takes and returns what the SDK's does. `client` is an `Anthropic` or an `AsyncAnthropic` of your own; what it offers
    beside, call on it.
    """

    def __init__(
        self, memory: CognitiveStore, *, client: Any = None, model: str = "", auto_checkpoint_interval: int = INTERVAL
    ) -> None:
        self.client = client or _SERVICE.connect()
        interval = auto_checkpoint_interval
        super().__init__(
            Middleware(memory, auto_checkpoint_interval=interval, dialect=_Dialect(), always=True),
            self.client.messages.create,
            model=_SERVICE.model(model),
            limit="max_tokens",
        )
        self.messages = self._kept


class _Dialect:
    """`messages.create`: the system prompt is a text, or a list of blocks with a text."""

    def prompts(self, request: Mapping[str, Any]) -> list[str]:
        return [block["text"] for block in _blocks(request)]

    def with_prompts(
        self, request: Mapping[str, Any], prompts: Sequence[str], rules: str, state: str
    ) -> dict[str, Any]:
        pairs = zip(_blocks(request), prompts, strict=True)
        blocks = [{**block, "text": text} for block, text in pairs if text]
        cached = {} if _is_cached(request) else {"cache_control": {"type": "ephemeral"}}
        system = [*blocks, {"type": "text", "text": rules, **cached}]
        return {**request, "system": system, "messages": with_state(request.get("messages", ()), state)}

    def said(self, response: Any) -> ModelReply:
        def parts() -> tuple[Any, Any]:
            text = "".join(block.text for block in response.content if block.type == "text")
            return text, response.usage.input_tokens + response.usage.output_tokens

        return read(parts, "anthropic")


def _blocks(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    system = request.get("system")
    if isinstance(system, str):
        return [{"type": "text", "text": system}]
    return [dict(block) for block in system] if isinstance(system, Sequence) else []


def _is_cached(request: Mapping[str, Any]) -> bool:
    """Whether the program says itself what to cache. The API takes four marks, in an order of their own: then none is added."""
    contents = [message.get("content") for message in request.get("messages", ()) if isinstance(message, Mapping)]
    parts = [part for content in contents if isinstance(content, list | tuple) for part in content]
    marked = [request, *_blocks(request), *(request.get("tools") or ()), *parts]
    return any(isinstance(block, Mapping) and "cache_control" in block for block in marked)
