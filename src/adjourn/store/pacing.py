"""Long work on a store that others use: in small steps, with pauses.

Owns: `paced`. Must never: know what a step does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

LONGEST_PAUSE: Final = 1.0

_T = TypeVar("_T")


def paced(steps: Iterable[_T]) -> Iterator[_T]:
    """The steps. Between two, a pause of as long as the one before took: others have the server for half of the time at least."""
    began = time.monotonic()
    for number, step in enumerate(steps):
        if number:
            time.sleep(min(time.monotonic() - began, LONGEST_PAUSE))
        began = time.monotonic()
        yield step
