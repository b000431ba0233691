"""What every way of asking a model has in common: a key, an SDK, a bound on time and size, one kind of error.

Owns: those bounds, and reporting any failure as a `ModelError`. Must never: know one provider's messages.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import msgspec

from adjourn.models import Completion, ModelError

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
        raise ModelError(
            f"the package {name} is not installed: {error}", f"pip install 'adjourn[{name}]'"
        ) from error


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
            f"{who} did not answer with a completion: {error}",
            "check the base URL, or update adjourn",
        ) from error


def cut_off(who: str) -> ModelError:
    """The error for an answer that ended at the limit of tokens."""
    return ModelError(
        f"the answer of {who} was cut off at {MAX_TOKENS:,} tokens", "ask for less, or for one part at a time"
    )


def declined(who: str, why: str = "") -> ModelError:
    """The error for an answer that the model refused to give."""
    return ModelError(
        f"{who} declined to answer" + (f": {why[:_SHOWN]}" if why else ""), "rephrase the request"
    )


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
        raise ModelError(
            f"{who} gave no answer within {seconds:g} seconds", "try again, or ask a faster model"
        )
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
