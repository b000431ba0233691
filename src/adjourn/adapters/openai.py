"""OpenAI's chat completions, through the official SDK. OPENAI_API_KEY, OPENAI_MODEL, OPENAI_BASE_URL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec

from adjourn.adapters.models import (
    MAX_TOKENS,
    SECONDS,
    BoundedModel,
    Resumable,
    Service,
    WrappedResource,
    cut_off,
    declined,
    decoded,
    read,
    with_state,
)
from adjourn.knowledge.cognition.middleware import INTERVAL, Middleware, ModelReply, join_prompts
from adjourn.knowledge.cognition.store import CognitiveStore
from adjourn.runs.model import Completion

DEFAULT_MODEL = "gpt-5.5"
_SERVICE = Service("openai", "OpenAI", DEFAULT_MODEL)


class _ChatMessage(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _ChatMessage
    finish_reason: str | None = None


class _ChatUsage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Answer(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    model: str = ""
    usage: _ChatUsage | None = None


class OpenAI(BoundedModel):
    """One model of OpenAI's, or of a server that speaks its API. `seconds` bounds one answer."""

    def __init__(self, model: str = "", *, seconds: float = SECONDS) -> None:
        super().__init__(_SERVICE.model(model), seconds, _SERVICE.name)
        self._client = _SERVICE.connect(timeout=seconds)

    def _ask(self, system: str, prompt: str) -> Completion:
        raw = self._client.chat.completions.with_raw_response.create(
            model=self.model,
            max_completion_tokens=MAX_TOKENS,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": prompt}],
        )
        answer = decoded(raw.http_response.content, _Answer, str(self))
        choice, usage = answer.choices[0], answer.usage or _ChatUsage()
        if choice.finish_reason == "length":
            raise cut_off(str(self))
        if choice.message.refusal or choice.finish_reason == "content_filter":
            raise declined(str(self), choice.message.refusal or "")
        return Completion(
            text=choice.message.content or "",
            model=answer.model,
            input_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
        )


class ResumableOpenAI(Resumable):
    """A client of OpenAI's with memory: a cognitive session records each answer, and each request includes what it knows.

    `chat.completions.create` and `responses.create` take and return what the SDK's do. `client` is your `OpenAI` or
    `AsyncOpenAI`; call its other methods on it directly.
    """

    def __init__(
        self, memory: CognitiveStore, *, client: Any = None, model: str = "", auto_checkpoint_interval: int = INTERVAL
    ) -> None:
        self.client = client or _SERVICE.connect()
        interval = auto_checkpoint_interval
        responses = Middleware(memory, auto_checkpoint_interval=interval, dialect=_ResponsesDialect(), always=True)
        super().__init__(
            Middleware(memory, auto_checkpoint_interval=interval, dialect=_ChatDialect(), always=True),
            self.client.chat.completions.create,
            model=_SERVICE.model(model),
            limit="max_completion_tokens",
        )
        self.chat = SimpleNamespace(completions=self._kept)
        self.responses = WrappedResource(responses, self.client.responses.create)


class _ChatDialect:
    """`chat.completions.create`: the system prompt is the messages of the roles `system` and `developer`."""

    def prompts(self, request: Mapping[str, Any]) -> list[str]:
        return _system_texts(request["messages"])

    def with_prompts(
        self, request: Mapping[str, Any], prompts: Sequence[str], rules: str, state: str
    ) -> dict[str, Any]:
        messages = _with_system_texts(request["messages"], prompts)
        last = max((at for at, message in enumerate(messages, 1) if _is_system(message)), default=0)
        messages.insert(last, {"role": "system", "content": rules})
        return {**request, "messages": with_state(messages, state)}

    def said(self, response: Any) -> ModelReply:
        return read(lambda: (response.choices[0].message.content or "", _used(response)), "openai")


_KEPT_BY_PROVIDER = ("previous_response_id", "conversation", "prompt")
"""Options by which the provider keeps the input of a call. The state goes into the instructions then, which it does not keep: otherwise each
state that was ever sent would be sent again."""


class _ResponsesDialect:
    """`responses.create`: the system prompt is `instructions`, and items of the roles `system` and `developer`."""

    def prompts(self, request: Mapping[str, Any]) -> list[str]:
        return [_instructions(request), *_system_texts(_items(request))]

    def with_prompts(
        self, request: Mapping[str, Any], prompts: Sequence[str], rules: str, state: str
    ) -> dict[str, Any]:
        if any(request.get(name) for name in _KEPT_BY_PROVIDER):
            items = _with_system_texts(_items(request), prompts[1:]) if _items(request) else request.get("input")
            return {**request, "instructions": join_prompts(prompts[0], rules, state), "input": items}
        value = request.get("input")
        items = [{"role": "user", "content": value}] if isinstance(value, str) else _items(request)
        items = with_state(_with_system_texts(items, prompts[1:]), state, part="input_text")
        return {**request, "instructions": join_prompts(prompts[0], rules), "input": items}

    def said(self, response: Any) -> ModelReply:
        return read(lambda: (response.output_text, _used(response)), "openai")


def _used(response: Any) -> Any:
    return response.usage.total_tokens if response.usage else 0


def _instructions(request: Mapping[str, Any]) -> str:
    instructions = request.get("instructions")
    return instructions if isinstance(instructions, str) else ""


def _items(request: Mapping[str, Any]) -> Sequence[Any]:
    value = request.get("input")
    return value if isinstance(value, list | tuple) else ()


def _is_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


def _system_texts(messages: Sequence[Any]) -> list[str]:
    return [text for message in messages if _is_system(message) for text in _texts(message.get("content"))]


def _texts(content: Any) -> list[str]:
    """The texts of a content, which is one, or a list of parts."""
    return [content] if isinstance(content, str) else [part["text"] for part in content or () if "text" in part]


def _with_system_texts(messages: Sequence[Any], texts: Sequence[str]) -> list[Any]:
    """The messages with other texts in the places of `_system_texts`. One that has none left is left out."""
    left = iter(texts)
    return [told for message in messages if (told := _with_texts(message, left) if _is_system(message) else message)]


def _with_texts(message: Mapping[str, Any], texts: Iterator[str]) -> dict[str, Any]:
    content = message.get("content")
    if isinstance(content, str):
        value: Any = next(texts)
    else:
        parts = [{**part, "text": next(texts)} if "text" in part else part for part in content or ()]
        value = [part for part in parts if part.get("text", True)]
    return {**message, "content": value} if value else {}
