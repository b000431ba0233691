"""The interface to a language model: one prompt, one answer. Providers are in `adjourn.adapters`."""

from __future__ import annotations

from typing import Protocol

import msgspec

from adjourn.errors import AdjournError


class ModelError(AdjournError):
    """The model gave no usable answer: no credentials, refused, timed out, or an answer of another form."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `model` is the provider's name of the model; tokens are 0 if the provider does not report them."""

    text: str
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class Model(Protocol):
    """Answers one question at a time. May block; must bound its own time."""

    def complete(self, system: str, prompt: str) -> Completion:
        """The model's answer to `prompt`, under the instructions in `system`. Raises `ModelError`."""
        ...
