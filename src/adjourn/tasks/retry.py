"""Appending to a stream that other processes append to as well: try, lose, read again, try again.

A store appends only where the head is the one that the writer has seen (`Store.append`, `expect`). A writer that lost that
compare-and-swap decides again on the new head.

Owns: how often a writer tries, and how long it waits in between. Must never: know what is written, or read a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from os import urandom
from time import sleep
from typing import TypeVar

from adjourn.errors import ConflictError

MAX_ATTEMPTS = 200
MAX_WAIT_S = 0.05

_T = TypeVar("_T")


class PermanentConflictError(ConflictError):
    """A conflict that another attempt cannot resolve, so that it is raised at once."""


def append_with_retry(attempt: Callable[[], _T], stream: str) -> _T:
    """Return what `attempt()` returns. It reads a head, decides, and appends to that head; a failed attempt leaves nothing behind.

    Calls `attempt` again while it raises `ConflictError`: another process appended first. `stream` names what is written, for the
    error. Raises what `wait_for_turn` raises, and at once whatever else `attempt` raises.
    """
    for number in count():
        try:
            return attempt()
        except ConflictError as error:
            wait_for_turn(error, number, stream)
    raise AssertionError("unreachable: attempts are unlimited")


def wait_for_turn(error: ConflictError, attempt: int, stream: str) -> None:
    """Make ready for another attempt after attempt number `attempt` (from 0) was lost. From the fourth lost one on, sleep a random
    time of up to `MAX_WAIT_S`, so that other writers get their turn.

    Raises the `error` if it is a `PermanentConflictError`, and `ConflictError` when `MAX_ATTEMPTS` were lost.
    """
    if isinstance(error, PermanentConflictError):
        raise error
    if attempt + 1 >= MAX_ATTEMPTS:
        raise ConflictError(f"too many concurrent writers on {stream}", "retry")
    if attempt > 2:
        sleep(urandom(1)[0] / 255 * min(MAX_WAIT_S, 0.001 * 2**attempt))
