"""The seam to a language model: one question, one answer. What `make` steps and drafting need of a provider, no more.

Owns: the Protocol and what crosses it. Must never: know a provider (`adjourn.adapters` does), or keep a conversation.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from adjourn.errors import AdjournError


class ModelError(AdjournError):
    """The model gave no usable answer: no credentials, refused, timed out, or not what was asked for."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `model` is the name the provider gives the model that made it; tokens are 0 if the provider does not report them."""

    text: str
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class Model(Protocol):
    """Answers one question at a time. May block; must bound its own time."""

    def complete(self, system: str, prompt: str) -> Completion:
        """The model's answer to `prompt`, under the instructions in `system`. Raises `ModelError`."""
        ...
