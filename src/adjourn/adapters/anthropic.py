"""Anthropic's messages, through the official SDK. ANTHROPIC_API_KEY, ANTHROPIC_MODEL, ANTHROPIC_BASE_URL.

Owns: the request, and reading its answer. Must never: import the SDK before a model is asked for.
"""

from __future__ import annotations

import os

import msgspec

from adjourn.adapters.asking import MAX_TOKENS, SECONDS, bounded, credential, cut_off, declined, decoded, sdk
from adjourn.engine.models import Completion

DEFAULT_MODEL = "claude-sonnet-5-5"


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


class Anthropic:
    """One model of Anthropic's. `seconds` bounds one answer; the SDK tries again after 429, 5xx and lost connections."""

    def __init__(self, model: str = "", *, seconds: float = SECONDS) -> None:
        self.model = model or os.environ.get("ANTHROPIC_MODEL", "") or DEFAULT_MODEL
        self._seconds = seconds
        key = credential("ANTHROPIC_API_KEY")
        self._client = sdk("anthropic").Anthropic(api_key=key, timeout=seconds)

    def __str__(self) -> str:
        return f"anthropic:{self.model}"

    def complete(self, system: str, prompt: str) -> Completion:
        return bounded(lambda: self._ask(system, prompt), str(self), self._seconds)

    def _ask(self, system: str, prompt: str) -> Completion:
        raw = self._client.messages.with_raw_response.create(
            model=self.model,
            max_tokens=MAX_TOKENS,
            system=system,
            messages=[{"role": "user", "content": prompt}],
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
