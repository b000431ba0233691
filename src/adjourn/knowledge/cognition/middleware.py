"""The middleware: puts a cognitive state before a model call, takes in its answer, and checkpoints every so many answers.

It goes round any callable that takes a request and gives a response, or an awaitable of one; what a request and a response look like, a
`Dialect` knows. `RESUME_FROM:<id>` counts in the system prompt only, where the program's author writes: anywhere else it is text.

Owns: the order of these steps. Must never: count a call that failed, or let a tag pass in silence.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol

from adjourn.errors import InvalidError, UsageError
from adjourn.knowledge.brief import MAX_TOKENS, REPLY_TAGS
from adjourn.knowledge.cognition.store import CognitiveStore

INTERVAL = 10
_TAG = re.compile(r"RESUME_FROM:([\w-]*)")

Request = Any
Response = Any
Call = Callable[[Request], Response]


class ModelReply(NamedTuple):
    """What a response says, and the tokens that it took (0: not reported)."""

    text: str
    tokens: int = 0


class Dialect(Protocol):
    """How requests and responses of one kind are read."""

    def prompts(self, request: Request) -> list[str]:
        """The texts of the system prompt."""
        ...

    def with_prompts(self, request: Request, prompts: Sequence[str], added: str) -> Request:
        """The request with other texts in their places, and one more at the end of the system prompt (empty: none)."""
        ...

    def said(self, response: Response) -> ModelReply:
        """What a response says."""
        ...


class Plain:
    """The simplest dialect: a request is a mapping whose `system` is a text, a response is a text."""

    def prompts(self, request: Mapping[str, Any]) -> list[str]:
        system = request.get("system")
        return [system] if isinstance(system, str) else []

    def with_prompts(self, request: Mapping[str, Any], prompts: Sequence[str], added: str) -> dict[str, Any]:
        return {**request, "system": join_prompts(*prompts, added)}

    def said(self, response: object) -> ModelReply:
        if not isinstance(response, str):
            raise UsageError(
                f"the answer is {type(response).__name__}, not a text", "pass a dialect that reads it"
            )
        return ModelReply(response)


def join_prompts(*texts: str) -> str:
    """Parts of a system prompt as one."""
    return "\n\n".join(text for text in texts if text)


def map_response(response: Response, function: Callable[[Any], Any]) -> Any:
    """`function` of a response; where the response is an awaitable, an awaitable of that."""
    if not isawaitable(response):
        return function(response)

    async def later(awaited: Awaitable[Any]) -> Any:
        return function(await awaited)

    return later(response)


class Middleware:
    """Called with a request and what is to be called with it; or `wrap` makes a callable of the two.

    `auto_checkpoint_interval`: after so many answers a checkpoint is taken; 0 means never. With `always`, each request tells the state of a
    session that goes on from earlier work, and asks for replies that can be read back; without it, only `RESUME_FROM` does.
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
        self.memory = memory
        self._interval = auto_checkpoint_interval
        self.dialect: Dialect = dialect or Plain()
        self._always = always
        self._max_tokens = max_tokens

    def __call__(self, request: Request, call: Call) -> Response:
        """The response of `call`; an awaitable of it where `call` gives one."""
        return map_response(call(self._prepared(request)), self._taken)

    def wrap(self, call: Call) -> Call:
        """`call` with the middleware round it."""

        @wraps(call)
        def wrapped(request: Request) -> Response:
            return self(request, call)

        return wrapped

    def _taken(self, response: Response) -> Response:
        said = self.dialect.said(response)
        self.memory.update_from_response(said.text, tokens=said.tokens, every=self._interval)
        return response

    def _prepared(self, request: Request) -> Request:
        """The request with the state in its system prompt, where it is asked for."""
        prompts = self.dialect.prompts(request)
        named = [name for prompt in prompts for name in _TAG.findall(prompt)]
        if named:
            self._resume(named)
        if not named and not self._always:
            return request
        told = self.memory.prompt(self._max_tokens) if self.memory.resumed else REPLY_TAGS
        return self.dialect.with_prompts(request, [_TAG.sub("", prompt).strip() for prompt in prompts], told)

    def _resume(self, named: Sequence[str]) -> None:
        """Restore the checkpoint that is named; once, though a program says it in each of its requests."""
        if len(set(named)) > 1 or not named[0]:
            shown = ", ".join(f"RESUME_FROM:{name}" for name in dict.fromkeys(named))
            raise InvalidError(
                f"the system prompt says {shown}",
                "name one checkpoint: RESUME_FROM:<id>",
            )
        self.memory.resume_from(named[0])
