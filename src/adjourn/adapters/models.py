"""Which model is asked, and what all providers' models have in common: a key, an SDK, bounds on time and size, one kind of error, and
clients that remember.

Must never: import a provider that was not chosen, or know one provider's messages.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import msgspec

from adjourn.errors import UsageError
from adjourn.knowledge.cognition.middleware import Middleware, ModelReply, map_response
from adjourn.knowledge.cognition.store import CognitiveStore
from adjourn.runs.model import Completion, Model, ModelError

SECONDS = 300.0
"""For one answer, the SDK's own retries included."""
MAX_TOKENS = 16_384
"""Of one answer, reasoning included."""
MAX_TEXT = 1_000_000
"""Characters of one answer."""
_SHOWN = 300
_T = TypeVar("_T")
_REMEDIES = {
    401: "check the key and its account",
    403: "check what the key may do",
    404: "check the name of the model and the base URL",
    429: "wait, then try again",
}


def credential(variable: str) -> str:
    """The key in an environment variable. Raises `ModelError` that names the variable."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ModelError(f"{variable} is not set", f"export {variable}=… with your key, then try again")
    return key


def sdk(name: str) -> Any:
    """A provider's SDK, which is an extra of the same name. Raises `ModelError` that says how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ModelError(f"the package {name} is not installed: {error}", f"pip install 'adjourn[{name}]'") from error


class Service(NamedTuple):
    """A provider: its name, that of the client in its SDK, and the model where none is named."""

    name: str
    client: str
    default_model: str

    def model(self, named: str) -> str:
        """The name of the model that is asked."""
        return named or os.environ.get(f"{self.name.upper()}_MODEL", "") or self.default_model

    def connect(self, **options: Any) -> Any:
        """A client of the SDK's, which tries again after 429, 5xx and lost connections. Raises `ModelError` without key or SDK."""
        key = credential(f"{self.name.upper()}_API_KEY")
        return getattr(sdk(self.name), self.client)(api_key=key, **options)


class BoundedModel:
    """A model that `_ask` asks. `provider` is shown before its name; `seconds` is the time limit of one answer."""

    def __init__(self, model: str, seconds: float, provider: str = "") -> None:
        self.model = model
        self._provider = provider
        self._seconds = seconds

    def __str__(self) -> str:
        return f"{self._provider}:{self.model}" if self._provider else self.model

    def complete(self, system: str, prompt: str) -> Completion:
        """The answer of the model, within a time. Raises `ModelError`."""
        return bounded(lambda: self._ask(system, prompt), str(self), self._seconds)

    def _ask(self, system: str, prompt: str) -> Completion:
        raise NotImplementedError


def decoded(body: bytes, shape: type[_T], who: str) -> _T:
    """A provider's answer, read strictly. Raises `ModelError`."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(
            f"{who} did not answer with a completion: {error}", "check the base URL, or update adjourn"
        ) from error


def cut_off(who: str) -> ModelError:
    """The error for an answer that ended at the limit of tokens."""
    return ModelError(
        f"the answer of {who} was cut off at {MAX_TOKENS:,} tokens", "ask for less, or for one part at a time"
    )


def declined(who: str, why: str = "") -> ModelError:
    """The error for an answer that the model refused to give."""
    return ModelError(f"{who} declined to answer" + (f": {why[:_SHOWN]}" if why else ""), "rephrase the request")


def bounded(ask: Callable[[], Completion], who: str, seconds: float) -> Completion:
    """What `ask` returns, if it does so in time and it is a text of sensible size. Raises nothing but `ModelError`.

    A provider's time-outs are for one silence, and a handler may have none: so it runs in a thread of its own, which is
    left behind when the time is over and ends with the process.
    """
    outcome: list[Completion | BaseException] = []

    def run() -> None:
        try:
            outcome.append(ask())
        except BaseException as error:  # also SystemExit of a handler, which would end the thread in silence
            outcome.append(error)

    worker = threading.Thread(target=run, name=f"ask {who}", daemon=True)
    worker.start()
    worker.join(seconds)
    if not outcome:
        raise ModelError(f"{who} gave no answer within {seconds:g} seconds", "try again, or ask a faster model")
    answer = outcome[0]
    if isinstance(answer, BaseException):
        raise _model_error(answer, who) from answer
    return checked(answer, who)


def checked(answer: Completion, who: str) -> Completion:
    """The answer, if it is a text of sensible size. Raises `ModelError`."""
    if not answer.text.strip():
        raise ModelError(f"{who} gave an empty answer", "try again")
    if len(answer.text) > MAX_TEXT:
        raise ModelError(f"{who} answered with more than {MAX_TEXT:,} characters", "ask for less")
    return answer


def _model_error(error: BaseException, who: str) -> ModelError:
    if isinstance(error, ModelError):
        return error
    message = str(getattr(error, "message", "") or error)[:_SHOWN]
    status = getattr(error, "status_code", None)  # what both SDKs call it
    if isinstance(status, int):
        return ModelError(f"{who} answered {status}: {message}", _REMEDIES.get(status, "try again later"))
    return ModelError(f"{who} failed: {type(error).__name__}: {message}", "try again")


# --- clients that remember, around a provider's SDK

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
    values = list(messages)
    begun = [values.pop()] if values and _role(values[-1]) == "assistant" else []
    if not values or _role(values[-1]) != "user":
        return [*values, {"role": "user", "content": state}, *begun]
    pop = values.pop()
    content = pop.get("content") or ""
    content = f"{content}\n\n{state}" if isinstance(content, str) else [*content, {"type": part, "text": state}]
    return [*values, {**pop, "content": content}, *begun]


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
            raise UsageError("a streamed answer cannot be read", "call without `stream`, or use the SDK's own client")
        given = {name: list(value) if isinstance(value, Iterator) else value for name, value in request.items()}
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
        return self.memory.create_checkpoint(label).id

    def restore_checkpoint(self, checkpoint_id: str) -> list[str]:
        """Continue from a checkpoint, of this session or another. Returns what to check first."""
        return self.memory.restore_from_checkpoint(checkpoint_id).warnings


PROVIDERS = {"anthropic": "adjourn.adapters.anthropic:Anthropic", "openai": "adjourn.adapters.openai:OpenAI"}
"""By the name that `--model` knows: a class that is made with a model's name, or "" for its default."""


def choose(name: str = "", handler: str = "") -> Model:
    """The model that `--model` names (PROVIDER or PROVIDER:MODEL), else the handler (MODULE:FUNCTION), else AEX_MODEL.

    Raises `UsageError` where there is none, `ModelError` where its key or its SDK is missing: before anything is asked.
    """
    if handler and not name:
        return FunctionModel(handler)
    named = name or os.environ.get("AEX_MODEL", "")
    if not named:
        raise UsageError(
            "no model is named", "give --model PROVIDER or --model-handler MODULE:FUNCTION, or set AEX_MODEL"
        )
    provider, _, model = named.partition(":")
    if provider not in PROVIDERS:
        raise UsageError(f"unknown model provider {provider!r}", f"use one of: {', '.join(PROVIDERS)}")
    module, _, kind = PROVIDERS[provider].partition(":")
    chosen: Model = getattr(import_module(module), kind)(model)
    return chosen


class FunctionModel(BoundedModel):
    """The function that `MODULE:FUNCTION` names. It returns the text, or a `Completion`."""

    def __init__(self, place: str, *, seconds: float = SECONDS) -> None:
        super().__init__(place, seconds)
        self._function = _load(place)

    def _ask(self, system: str, prompt: str) -> Completion:
        answer = self._function(system, prompt)
        if isinstance(answer, str):
            return Completion(text=answer, model=self.model)
        if isinstance(answer, Completion):
            return answer
        raise ModelError(f"{self.model} returned {type(answer).__name__}, not a text", "return a str, or a Completion")


def _load(place: str) -> Callable[[str, str], Any]:
    module, _, name = place.partition(":")
    if not module or not name:
        raise UsageError(f"no model handler: {place!r}", "write MODULE:FUNCTION, such as my_model:answer")
    if os.getcwd() not in sys.path:
        # last: a file of the workspace must not stand in for an installed module
        sys.path.append(os.getcwd())
    try:
        function = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the model handler {place!r} cannot be imported: {error}",
            "start in the folder of its module, or install it",
        ) from error
    except Exception as error:  # its own code ran
        raise ModelError(
            f"the model handler {place!r} cannot be loaded: {type(error).__name__}: {error}", "fix its module"
        ) from error
    if not callable(function):
        raise UsageError(f"{module} has no function {name!r}", "write MODULE:FUNCTION, such as my_model:answer")
    return function  # type: ignore[no-any-return]
