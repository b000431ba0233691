"""Which model is asked: the choice that `run`, `draft` and `review` share.

Owns: the table of providers, `choose`. Must never: import a provider that was not chosen.
"""

from __future__ import annotations

import os
from importlib import import_module

from adjourn.errors import UsageError
from adjourn.models import Model

PROVIDERS = {
    "anthropic": "adjourn.adapters.anthropic:Anthropic",
    "openai": "adjourn.adapters.openai:OpenAI",
}
"""By the name that `--model` knows: a class that is made with a model's name, or "" for its default."""
CLIENT = "mcp"
"""Beside the providers: the model of the MCP client that is connected."""


def choose(name: str = "", handler: str = "", *, root: str = ".", store: str = "") -> Model:
    """The model that `--model` names (PROVIDER or PROVIDER:MODEL), else the handler (MODULE:FUNCTION), else AEX_MODEL.

    `root` and `store` are where a connected client is looked for. Raises `UsageError` where there is none, `ModelError` where
    its key, its SDK or its client is missing: before anything is asked.
    """
    if handler and not name:
        from adjourn.adapters.handler import Handler  # noqa: PLC0415  # only what was chosen

        return Handler(handler)
    named = name or os.environ.get("AEX_MODEL", "")
    if not named:
        raise UsageError(
            "no model is named", "give --model PROVIDER or --model-handler MODULE:FUNCTION, or set AEX_MODEL"
        )
    provider, _, model = named.partition(":")
    if provider == CLIENT:
        from adjourn.adapters.sampling import Sampling  # noqa: PLC0415  # as above

        return Sampling(model, root=root, store=store)
    if provider not in PROVIDERS:
        known = ", ".join((*PROVIDERS, CLIENT))
        raise UsageError(f"no provider is called {provider!r}", f"there are: {known}")
    module, _, kind = PROVIDERS[provider].partition(":")
    chosen: Model = getattr(import_module(module), kind)(model)
    return chosen
