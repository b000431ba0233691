"""OpenAI's chat completions, through the official SDK. OPENAI_API_KEY, OPENAI_MODEL, OPENAI_BASE_URL.

Owns: the request, and reading its answer. Must never: import the SDK before a model is asked for.
"""

from __future__ import annotations

import os
from typing import Annotated

import msgspec

from adjourn.adapters.asking import MAX_TOKENS, SECONDS, bounded, credential, cut_off, declined, decoded, sdk
from adjourn.engine.models import Completion

DEFAULT_MODEL = "gpt-5.5"


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Answer(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    model: str = ""
    usage: _Usage | None = None


class OpenAI:
    """One model of OpenAI's, or of a server that speaks its API. `seconds` bounds one answer; the SDK tries again after
    429, 5xx and lost connections.
    """

    def __init__(self, model: str = "", *, seconds: float = SECONDS) -> None:
        self.model = model or os.environ.get("OPENAI_MODEL", "") or DEFAULT_MODEL
        self._seconds = seconds
        key = credential("OPENAI_API_KEY")
        self._client = sdk("openai").OpenAI(api_key=key, timeout=seconds)

    def __str__(self) -> str:
        return f"openai:{self.model}"

    def complete(self, system: str, prompt: str) -> Completion:
        return bounded(lambda: self._ask(system, prompt), str(self), self._seconds)

    def _ask(self, system: str, prompt: str) -> Completion:
        raw = self._client.chat.completions.with_raw_response.create(
            model=self.model,
            max_completion_tokens=MAX_TOKENS,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": prompt}],
        )
        answer = decoded(raw.http_response.content, _Answer, str(self))
        choice, usage = answer.choices[0], answer.usage or _Usage()
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
