"""A model of your own: a function `answer(system, prompt)` in a module that can be imported from the working folder.

Owns: finding it and taking its answer. Must never: load a module that was not named on the command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from adjourn.adapters.asking import SECONDS, Bounded
from adjourn.errors import UsageError
from adjourn.models import Completion, ModelError


class Handler(Bounded):
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
            "start where its module is, or install it",
        ) from error
    except Exception as error:  # its own code ran
        raise ModelError(
            f"the model handler {place!r} cannot be loaded: {type(error).__name__}: {error}",
            "mend its module",
        ) from error
    if not callable(function):
        raise UsageError(
            f"{module} has no function {name!r}", "write MODULE:FUNCTION, such as my_model:answer"
        )
    return function  # type: ignore[no-any-return]
