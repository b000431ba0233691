"""The model of the MCP client that is connected here: by sampling, through the `adjourn proxy` that it has started.

Owns: choosing that way, bounds on the answer. Must never: start a client, or ask one that did not offer it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from adjourn.adapters.asking import MAX_TOKENS, SECONDS, checked, cut_off
from adjourn.host import open_at
from adjourn.models import Completion, SamplingRequest, client_model
from adjourn.store import Store


class Sampling:
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
