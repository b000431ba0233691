"""The calls of all tasks of a store in a period: of everybody, of some, or of one principal. Each count is a ref, swapped together
with the events that it counts.

A new task, another client or a restart finds them spent, since no task owns them. They are counted in sixtieths of the period, as rates are.

Owns: these refs and their form. Must never: decide, or write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from adjourn.aex import Rule
from adjourn.errors import IntegrityError
from adjourn.store import Store, Swap
from adjourn.tasks.ledger import SLICES

Counts = Mapping[str, str | None]
"""The values of the refs, by the counter of the rule."""
NO_COUNTS: Counts = MappingProxyType({})
_Slices = list[tuple[int, int]]


def name_of(counter: str) -> str:
    """The ref of a count; its first part is the seconds of the period."""
    return f"budget/calls/{counter}"


def counts_of(store: Store, budgets: Sequence[Rule]) -> Counts:
    """The refs that count for these budgets, by the counter of each."""
    return {counter: store.ref(name_of(counter)) for counter in {rule.counter: None for rule in budgets}}


def spent(counts: Counts, now: int) -> dict[str, int]:
    """How many calls each counter counts in its period that ends `now` (milliseconds).

    Raises `IntegrityError` where a count cannot be read: how much is left is not known then.
    """
    return {
        counter: sum(calls for _, calls in _recent(text, _seconds(counter), now))
        for counter, text in counts.items()
    }


def workspace_spent(store: Store, budgets: Sequence[Rule], now: int) -> dict[str, int]:
    """`spent` of what the store says."""
    return spent(counts_of(store, budgets), now)


def counted(counts: Counts, now: int, calls: int) -> dict[str, Swap]:
    """The swaps by which some calls are counted, if nobody else counts any meanwhile. Raises as `spent`."""
    swaps = {}
    for counter, before in counts.items():
        seconds = _seconds(counter)
        slices = _recent(before, seconds, now)
        at = _slice(seconds, now)
        if slices and slices[-1][0] >= at:  # the clock may have been set back
            at, already = slices.pop()
            slices.append((at, already + calls))
        else:
            slices.append((at, calls))
        swaps[name_of(counter)] = Swap(before, msgspec.json.encode(slices).decode())
    return swaps


def _seconds(counter: str) -> int:
    return int(counter.partition("/")[0])


def _recent(text: str | None, seconds: int, now: int) -> _Slices:
    """The slices that are not older than the period."""
    if text is None:
        return []
    try:
        slices = msgspec.json.decode(text, type=_Slices)
    except msgspec.DecodeError as error:
        raise IntegrityError(
            f"the count of calls per {seconds} s in the store is unreadable: {error}",
            "restore the store from a backup, or take `budget calls=… per …` out of the policy",
        ) from error
    oldest = _slice(seconds, now) - SLICES
    return [one for one in slices if one[0] >= oldest]


def _slice(seconds: int, now: int) -> int:
    return now * SLICES // (seconds * 1000)
