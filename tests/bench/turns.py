"""Subjects that take turns: what else the machine does hits all of them alike, so ratios hold where times do not.

Owns: the order of turns, which rounds count, the ratios of rounds. Must never: know what is measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

import machine
from tables import median

MOST_OTHERS = 0.05
"""How many processors other programs may use, on average over a round that counts."""
WAIT_SECONDS = 0.5
"""How long to wait after a round that does not count."""
Key = TypeVar("Key")
Value = TypeVar("Value")


class Rounds(NamedTuple, Generic[Key, Value]):
    """What each subject measured in the rounds that count, and how many rounds there were."""

    kept: list[dict[Key, Value]]
    tried: int

    def of(self, key: Key) -> list[Value]:
        """What one subject measured, by round."""
        return [values[key] for values in self.kept]

    @property
    def note(self) -> str:
        if len(self.kept) == self.tried:
            return "1 round" if self.tried == 1 else f"{self.tried} rounds"
        return f"{len(self.kept)} of {self.tried} rounds, in which the machine did nothing else"


def take_turns(subjects: Mapping[Key, Callable[[], Value]], rounds: int, idle_seconds: float = 0) -> Rounds[Key, Value]:
    """Run each subject once a round, every other round in reverse order.

    With `idle_seconds`, a round counts only when other programs used next to nothing of the machine during it. When so many
    seconds are over, the rounds that count so far must do. Raises `SystemExit` when there are none.
    """
    kept: list[dict[Key, Value]] = []
    end = time.monotonic() + idle_seconds
    tried = 0
    while len(kept) < rounds and not (idle_seconds and time.monotonic() > end):
        order = list(subjects)[:: -1 if tried % 2 else 1]
        tried += 1
        before = machine.usage()
        values = {key: subjects[key]() for key in order}
        if idle_seconds and machine.usage().others_since(before) > MOST_OTHERS:
            time.sleep(WAIT_SECONDS)
        else:
            kept.append(values)
    if not kept:
        raise SystemExit(f"the machine was never idle in {idle_seconds:.0f} s ({tried} rounds); leave --idle out")
    return Rounds(kept, tried)


class Ratio(NamedTuple):
    """The median of the ratios of all rounds, and half of its confidence interval of 95 %."""

    median: float
    error: float


def median_ratio(pairs: Iterable[tuple[float, float]]) -> Ratio | None:
    """Of (value, floor) by round. None where noise has made every floor meaningless.

    The interval lies between the ranks n/2 ± 0.98 √n, which needs no assumption about the noise.
    """
    ratios = sorted(value / floor for value, floor in pairs if floor > 0)
    if not ratios:
        return None
    middle, reach = (len(ratios) - 1) / 2, 0.98 * math.sqrt(len(ratios))
    low, high = max(0, math.floor(middle - reach)), min(len(ratios) - 1, math.ceil(middle + reach))
    return Ratio(median(ratios), (ratios[high] - ratios[low]) / 2)
