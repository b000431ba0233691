"""What the clients that remember have in common, whichever provider's SDK they go round.

Owns: that. Must never: know a provider's messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from adjourn.adapters.asking import MAX_TOKENS
from adjourn.errors import UsageError
from adjourn.knowledge.cognition import CognitiveStore, Middleware, ModelReply, map_response
from adjourn.models import ModelError

MAX_TOKENS_TOLD = 10**9
"""Tokens of one answer. A provider's larger number is not believed."""


def read(parts: Callable[[], tuple[Any, Any]], who: str) -> ModelReply:
    """The text and the tokens of an answer, which `parts` finds. Raises `ModelError` for what is no answer."""
    try:
        text, tokens = parts()
    except (AttributeError, IndexError, TypeError) as error:
        raise _no_answer(who, str(error)) from error
    if not isinstance(text, str):
        raise _no_answer(who, f"the text is {type(text).__name__}")
    return ModelReply(text, tokens if isinstance(tokens, int) and 0 <= tokens <= MAX_TOKENS_TOLD else 0)


def _no_answer(who: str, why: str) -> ModelError:
    return ModelError(f"{who} did not answer with a completion: {why}", "check the base URL")


def with_state(messages: Sequence[Any], state: str, *, part: str = "text") -> list[Any]:
    """The messages with the state at their end: behind the text of the last one if that is a user's, else as another one of the user.

    An answer that the program began (a last message of the assistant) stays the last one. `part` is the type of a text in a content.
    """
    told = list(messages)
    begun = [told.pop()] if told and _role(told[-1]) == "assistant" else []
    if not told or _role(told[-1]) != "user":
        return [*told, {"role": "user", "content": state}, *begun]
    said = told.pop()
    content = said.get("content") or ""
    content = (
        f"{content}\n\n{state}" if isinstance(content, str) else [*content, {"type": part, "text": state}]
    )
    return [*told, {**said, "content": content}, *begun]


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else None


class WrappedResource:
    """One resource of an SDK, with the middleware round its `create`."""

    def __init__(self, middleware: Middleware, create: Callable[..., Any]) -> None:
        self._middleware = middleware
        self._create = create

    def create(self, **request: Any) -> Any:
        """What the SDK's `create` returns. Raises what it raises; a call that failed leaves the session as it was."""
        if request.get("stream"):
            raise UsageError(
                "a streamed answer cannot be read", "call without `stream`, or use the SDK's own client"
            )
        given = {
            name: list(value) if isinstance(value, Iterator) else value for name, value in request.items()
        }
        return self._middleware(given, lambda told: self._create(**told))


class Resumable:
    """A client with a cognitive session. `create` answers what `ask` asks; `limit` is its argument for the most tokens of an answer."""

    def __init__(self, middleware: Middleware, create: Callable[..., Any], *, model: str, limit: str) -> None:
        self.middleware = middleware
        self.model = model
        self._kept = WrappedResource(middleware, create)
        self._limit = limit

    def ask(self, message: str, **options: Any) -> Any:
        """The text of an answer to one message, without any before it: what came before is in the session."""
        request = {"model": self.model, self._limit: MAX_TOKENS, **options}
        response = self._kept.create(messages=[{"role": "user", "content": message}], **request)
        return map_response(response, lambda answered: self.middleware.dialect.said(answered).text)

    @property
    def memory(self) -> CognitiveStore:
        """The session."""
        return self.middleware.memory

    def save_checkpoint(self, label: str) -> str:
        """Take a checkpoint; its id is what `restore_checkpoint` and `RESUME_FROM` take."""
        made: str = self.memory.create_checkpoint(label)["id"]
        return made

    def restore_checkpoint(self, checkpoint_id: str) -> list[str]:
        """Continue from a checkpoint, of this session or another. Returns what to check first."""
        return self.memory.restore_from_checkpoint(checkpoint_id).warnings
