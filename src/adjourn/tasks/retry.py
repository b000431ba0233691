"""Appending to a stream that other processes append to as well: try, lose, read again, try again.

A store appends only where the head is the one that the writer has seen (`Store.append`, `expect`). A writer that lost that
compare-and-swap decides again on the new head.

Owns: how often a writer tries, and how long it waits in between. Must never: know what is written, or read a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from os import urandom
from time import sleep
from typing import TypeVar

from adjourn.errors import ConflictError

MAX_ATTEMPTS = 200
MAX_WAIT_S = 0.05

_T = TypeVar("_T")


class PermanentConflictError(ConflictError):
    """A conflict that another attempt cannot resolve, so `append_with_retry` raises it at once."""


def append_with_retry(
    attempt: Callable[[], _T], stream: str, *, catch_up: Callable[[], object] | None = None
) -> _T:
    """Return what `attempt()` returns. It reads a head, decides, and appends to that head; a failed attempt leaves nothing behind.

    Calls `attempt` again, at most `MAX_ATTEMPTS` times, while it raises `ConflictError`: another process appended first. Before
    each new attempt, waits (`wait_turn`) and calls `catch_up`, which reads what the other process appended. `stream` names what
    is written, for the error.

    Raises `ConflictError` when every attempt lost, and at once whatever else `attempt` or `catch_up` raises, a
    `PermanentConflictError` included.
    """
    for number in range(MAX_ATTEMPTS):
        try:
            return attempt()
        except PermanentConflictError:
            raise
        except ConflictError:
            wait_turn(number)
        if catch_up is not None:
            catch_up()
    raise ConflictError(f"too many concurrent writers on {stream}", "retry")


def wait_turn(attempt: int) -> None:
    """From the fourth lost attempt on, sleep a random time of up to `MAX_WAIT_S`, so that other writers get their turn."""
    if attempt > 2:
        sleep(urandom(1)[0] / 255 * min(MAX_WAIT_S, 0.001 * 2**attempt))
