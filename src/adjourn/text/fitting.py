"""Cutting a text, or a list, to a size, and sharing a size among several.

Must never: cut a secret into a piece that is not known for one (`redact.beginning` and `redact.preview` remove secrets
before they cut).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

ELLIPSIS = "…"

_T = TypeVar("_T")


def fit_text(
    text: str, limit: int, *, measure: Callable[[str], int] = len, mark: str = ELLIPSIS, trim: bool = False
) -> str:
    """Return the text if its size is at most `limit`, else its longest beginning that fits together with `mark` behind it.

    `measure` returns the size of a text; by default, characters. The size of a beginning must not exceed that of the text. `trim`
    removes white space before the mark. Empty if not even the mark fits.
    """
    if measure(text) <= limit:
        return text
    room = limit - measure(mark)
    if measure("") > room:
        return ""
    length = room if measure is len else bisect_right(range(1, len(text)), room, key=lambda n: measure(text[:n]))
    word = text[:length]
    return (word.rstrip() if trim else word) + mark


def fit_items(items: Sequence[_T], room: int, measure: Callable[[_T], int]) -> Sequence[_T]:
    """Return as many items, from the first on, as have a total size of at most `room`. Measures no item after the first that is too much."""
    for count, item in enumerate(items):
        room -= measure(item)
        if room < 0:
            return items[:count]
    return items


class Share(NamedTuple):
    """What one of several wants of a room, and which part of the room, in percent, it gets in any case if it wants it."""

    wanted: int
    floor: int


def share_room(shares: Sequence[Share], room: int) -> list[int]:
    """Divide `room`: each share gets its floor, or less if it wants less; what is left goes to the highest floor first.

    The sum is at most `room`, and each gets at most what it wants. The floors must not exceed 100 % together.
    """
    numbers = [min(share.wanted, share.floor * room // 100) for share in shares]
    left = room - sum(numbers)
    for number in sorted(range(len(shares)), key=lambda number: -shares[number].floor):
        more = min(shares[number].wanted - numbers[number], left)
        numbers[number] += more
        left -= more
    return numbers
