"""What the syntax says of places in a file: is this in a comment, a string, an import?

Owns: `Marks`, and the compact form in which the index keeps them. Must never: look at the text.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, Self

from adjourn.code.index.outline import REGIONS, Region

_BITS = {kind: 1 << number for number, kind in enumerate(REGIONS)}
_KINDS = [frozenset(kind for kind, bit in _BITS.items() if mask & bit) for mask in range(1 << len(REGIONS))]
_TYPE: Final = "I"
_WIDTH = array(_TYPE).itemsize


class Marks:
    """The places in a file where the kinds of region around them change, in order, and the kinds from each on, as bits."""

    def __init__(self, places: Sequence[int], masks: bytes) -> None:
        self._places = places
        self._masks = masks

    @classmethod
    def of(cls, regions: Iterable[Region]) -> Self:
        changes: list[tuple[int, int, int]] = []
        for kind, start, end in ((_BITS[region.kind], region.start, region.end) for region in regions):
            changes += ((start, 1, kind), (end, -1, kind))
        changes.sort()
        depth = dict.fromkeys(_BITS.values(), 0)
        places, masks, mask = array(_TYPE), bytearray(), 0
        for place, step, kind in changes:
            depth[kind] += step
            mask = mask | kind if depth[kind] else mask & ~kind
            if places and places[-1] == place:
                masks[-1] = mask
            else:
                places.append(place)
                masks.append(mask)
        return cls(places, bytes(masks))

    def packed(self) -> bytes:
        places = array(_TYPE, self._places)
        if sys.byteorder == "big":
            places.byteswap()
        return places.tobytes() + self._masks

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        size = len(data) // (_WIDTH + 1) * _WIDTH
        places: Sequence[int] = memoryview(data)[:size].cast(_TYPE)
        if sys.byteorder == "big":
            places = array(_TYPE, places)
            places.byteswap()
        return cls(places, data[size:])

    def at(self, place: int) -> frozenset[str]:
        """The kinds of region that a place is in."""
        last = bisect_right(self._places, place) - 1
        return _KINDS[self._masks[last]] if last >= 0 else _KINDS[0]
