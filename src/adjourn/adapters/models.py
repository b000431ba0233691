"""Which model is asked: the choice that `run`, `draft` and `review` share.

Owns: the table of providers, `choose`. Must never: import a provider that was not chosen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from adjourn.adapters.asking import MAX_TOKENS, SECONDS, BoundedModel, checked, cut_off
from adjourn.errors import UsageError
from adjourn.host.workspace_store import open_at
from adjourn.models import model as client_model
from adjourn.models.model import Completion, Model, ModelError, SamplingRequest
from adjourn.store.base import Store

PROVIDERS = {"anthropic": "adjourn.adapters.anthropic:Anthropic", "openai": "adjourn.adapters.openai:OpenAI"}
"""By the name that `--model` knows: a class that is made with a model's name, or "" for its default."""
CLIENT = "mcp"
"""Beside the providers: the model of the MCP client that is connected."""


def choose(name: str = "", handler: str = "", *, root: str = ".", store: str = "") -> Model:
    """The model that `--model` names (PROVIDER or PROVIDER:MODEL), else the handler (MODULE:FUNCTION), else AEX_MODEL.

    `root` and `store` are where a connected client is looked for. Raises `UsageError` where there is none, `ModelError` where
    its key, its SDK or its client is missing: before anything is asked.
    """
    if handler and not name:
        return FunctionModel(handler)
    named = name or os.environ.get("AEX_MODEL", "")
    if not named:
        raise UsageError(
            "no model is named", "give --model PROVIDER or --model-handler MODULE:FUNCTION, or set AEX_MODEL"
        )
    provider, _, model = named.partition(":")
    if provider == CLIENT:
        return ClientModel(model, root=root, store=store)
    if provider not in PROVIDERS:
        known = ", ".join((*PROVIDERS, CLIENT))
        raise UsageError(f"unknown model provider {provider!r}", f"use one of: {known}")
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
        raise ModelError(
            f"{self.model} returned {type(answer).__name__}, not a text", "return a str, or a Completion"
        )


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
            f"the model handler {place!r} cannot be loaded: {type(error).__name__}: {error}",
            "fix its module",
        ) from error
    if not callable(function):
        raise UsageError(
            f"{module} has no function {name!r}", "write MODULE:FUNCTION, such as my_model:answer"
        )
    return function  # type: ignore[no-any-return]


class ClientModel:
    """Any client whose proxy lives in the workspace `root`. `model` is a wish, which the client may ignore."""

    def __init__(
        self, model: str = "", *, root: str = ".", store: str = "", seconds: float = SECONDS
    ) -> None:
        self.model = model
        self._root = os.path.realpath(root)
        self._store = store
        self._seconds = seconds
        with self._opened() as opened:
            client_model.sampling_client(opened, self._root)  # says at once when there is nobody to ask

    def __str__(self) -> str:
        return f"mcp:{self.model}" if self.model else "mcp"

    def complete(self, system: str, prompt: str) -> Completion:
        """The answer of the connected client's model. Raises `ModelError`."""
        request = SamplingRequest(system=system, prompt=prompt, model=self.model, max_tokens=MAX_TOKENS)
        with self._opened() as opened:
            answer = client_model.ask(opened, self._root, request, seconds=self._seconds)
        if answer.stop == "maxTokens":
            raise cut_off(str(self))
        return checked(Completion(text=answer.text, model=answer.model), str(self))

    @contextmanager
    def _opened(self) -> Iterator[Store]:
        opened = open_at(self._root, self._store)
        try:
            yield opened
        finally:
            opened.close()
