"""What the syntax says of places in a file: is this in a comment, a string, an import?

Owns: `Marks`, and the compact form in which the index keeps them. Must never: look at the text.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Self

import msgspec

from adjourn.code.outline import COMMENT, STRING, Region

_NEAR = 3
_TYPE = "I"


class Marks:
    """Stretches of bytes by kind, each kind as its starts and its ends, in the order of the starts."""

    def __init__(self, stretches: dict[str, tuple[array[int], array[int]]]) -> None:
        self._stretches = stretches

    @classmethod
    def of(cls, regions: Iterable[Region]) -> Self:
        stretches: dict[str, tuple[array[int], array[int]]] = {}
        for region in regions:
            starts, ends = stretches.setdefault(region.kind, (array(_TYPE), array(_TYPE)))
            starts.append(region.start)
            ends.append(region.end)
        return cls(stretches)

    def packed(self) -> bytes:
        return msgspec.msgpack.encode(
            {kind: (_packed(starts), _packed(ends)) for kind, (starts, ends) in self._stretches.items()}
        )

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        raw = msgspec.msgpack.decode(data, type=dict[str, tuple[bytes, bytes]])
        return cls({kind: (_unpacked(starts), _unpacked(ends)) for kind, (starts, ends) in raw.items()})

    def at(self, place: int, kind: str) -> bool:
        """Whether a place is in a stretch of that kind."""
        if kind not in self._stretches:
            return False
        starts, ends = self._stretches[kind]
        last = bisect_right(starts, place)
        # Types hold types: the one that begins last before the place need not be the one around it.
        return any(place < ends[i] for i in range(last - 1, max(last - 1 - _NEAR, -1), -1))

    def mention(self, place: int) -> str | None:
        """`comment` or `string` where a place is only spoken of."""
        return next((kind for kind in (COMMENT, STRING) if self.at(place, kind)), None)


def _packed(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _unpacked(data: bytes) -> array[int]:
    numbers = array(_TYPE)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
