"""The middleware: adds the cognitive state to a model call, reads its reply, and creates checkpoints at an interval of replies.

A request gets two texts. The first never changes and stands in the system prompt; the second is the current state and ends the request. So
all that is before it, the conversation included, is what a provider's prefix cache has seen before.

It wraps any callable that takes a request and returns a response, or an awaitable of one. A `Dialect` reads requests and responses.
`RESUME_FROM:<id>` counts in the system prompt only, which the program's author writes; elsewhere it is plain text.

Must never: count a call that failed, or ignore a tag silently.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol

from adjourn.errors import InvalidError, UsageError
from adjourn.knowledge.brief.compose import MAX_TOKENS, STATE_RULES
from adjourn.knowledge.cognition.store import CognitiveStore

INTERVAL = 10
_TAG = re.compile(r"RESUME_FROM:([\w-]*)")

Request = Any
Response = Any
Call = Callable[[Request], Response]


class ModelReply(NamedTuple):
    """The text of a response, and the tokens that it took (0: not reported)."""

    text: str
    tokens: int = 0


class Dialect(Protocol):
    """Reads requests and responses of one kind."""

    def prompts(self, request: Request) -> list[str]:
        """The texts of the system prompt."""
        ...

    def with_prompts(self, request: Request, prompts: Sequence[str], rules: str, state: str) -> Request:
        """The request with the texts replaced, `rules` at the end of the system prompt, and `state` at the end of the request."""
        ...

    def said(self, response: Response) -> ModelReply:
        """The reply in a response."""
        ...


class Plain:
    """The simplest dialect: a request is a mapping whose `system` is a text, a response is a text."""

    def prompts(self, request: Mapping[str, Any]) -> list[str]:
        system = request.get("system")
        return [system] if isinstance(system, str) else []

    def with_prompts(
        self, request: Mapping[str, Any], prompts: Sequence[str], rules: str, state: str
    ) -> dict[str, Any]:
        return {**request, "system": join_prompts(*prompts, rules, state)}

    def said(self, response: object) -> ModelReply:
        if not isinstance(response, str):
            raise UsageError(f"the response is {type(response).__name__}, not text", "pass a dialect that reads it")
        return ModelReply(response)


def join_prompts(*texts: str) -> str:
    """Join the parts of a system prompt."""
    return "\n\n".join(text for text in texts if text)


def map_response(response: Response, function: Callable[[Any], Any]) -> Any:
    """`function` of a response; an awaitable of it if the response is an awaitable."""
    if not isawaitable(response):
        return function(response)

    async def later(awaited: Awaitable[Any]) -> Any:
        return function(await awaited)

    return later(response)


class Middleware:
    """Call it with a request and the callable for it, or `wrap` the callable.

    `auto_checkpoint_interval`: replies between automatic checkpoints; 0 disables them. With `always`, each request includes the current state,
    with what other processes added to it; without it, only a request with `RESUME_FROM` does. `max_tokens` bounds the state.

    >>> memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
    >>> ask = Middleware(memory).wrap(lambda request: "FACT: the port is 8080")
    >>> ask({"messages": [{"role": "user", "content": "Which port?"}]})
    'FACT: the port is 8080'
    """

    def __init__(
        self,
        memory: CognitiveStore,
        *,
        auto_checkpoint_interval: int = INTERVAL,
        dialect: Dialect | None = None,
        always: bool = False,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        if auto_checkpoint_interval < 0:
            raise UsageError("the checkpoint interval is negative", "pass 0 to disable automatic checkpoints")
        if max_tokens < 1:
            raise UsageError(f"max_tokens is {max_tokens}", "pass the number of tokens that the state may take")
        self.memory = memory
        self._interval = auto_checkpoint_interval
        self.dialect: Dialect = dialect or Plain()
        self._always = always
        self._max_tokens = max_tokens

    def __call__(self, request: Request, call: Call) -> Response:
        """The response of `call`, or the awaitable that `call` returns."""
        return map_response(call(self._prepared(request)), self._taken)

    def wrap(self, call: Call) -> Call:
        """Wrap `call` with the middleware."""

        @wraps(call)
        def wrapped(request: Request) -> Response:
            return self(request, call)

        return wrapped

    def _taken(self, response: Response) -> Response:
        reply = self.dialect.said(response)
        self.memory.update_from_response(reply.text, tokens=reply.tokens, every=self._interval)
        return response

    def _prepared(self, request: Request) -> Request:
        """The request with the state in its system prompt, if it is wanted."""
        prompts = self.dialect.prompts(request)
        named = [name for prompt in prompts for name in _TAG.findall(prompt)]
        if named:
            self._resume(named)
        if not named and not self._always:
            return request
        self.memory.refresh()
        texts = [_TAG.sub("", prompt).strip() for prompt in prompts]
        return self.dialect.with_prompts(request, texts, STATE_RULES, self.memory.told(self._max_tokens))

    def _resume(self, named: Sequence[str]) -> None:
        """Restore the named checkpoint, once, even if every request of the program names it."""
        if len(set(named)) > 1 or not named[0]:
            text = ", ".join(f"RESUME_FROM:{name}" for name in dict.fromkeys(named))
            raise InvalidError(
                f"the system prompt does not name exactly one checkpoint: {text}",
                "name one checkpoint: RESUME_FROM:<id>",
            )
        self.memory.resume_from(named[0])
