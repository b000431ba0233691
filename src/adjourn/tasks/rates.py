"""The calls that count for a limit, by slices of its period."""

from collections.abc import Mapping
from types import MappingProxyType

from adjourn.errors import InvalidError
from adjourn.log.event import milliseconds

MAX_RATES = 1000
SLICES = 60
Rates = dict[str, list[list[int]]]
"""By the key of a limit, the calls that count for it, as [slice of the period, calls]."""
NONE_SPENT: Mapping[str, int] = MappingProxyType({})


def rate_key(amount: float, seconds: int, pattern: str) -> str:
    """The name under which the calls of a limit are counted: `10/60 network.fetch`."""
    return f"{amount:.0f}/{seconds} {pattern}"


def rate_used(rates: Rates, key: str, now: int) -> int:
    """The calls of a limit in the period that ends `now`. Counted in sixtieths of it: never too few."""
    oldest = _slice(key, now) - SLICES
    return sum(count for at, count in rates.get(key, ()) if at >= oldest)


def rate_of(key: str) -> tuple[int, int, str]:
    """The calls, the seconds and the tools of a limit. Raises `ValueError` for what names none."""
    limit, _, pattern = key.partition(" ")
    amount, _, seconds = limit.partition("/")
    if not int(seconds) > 0:
        raise ValueError(key)
    return int(amount), int(seconds), pattern


def _slice(key: str, now: int) -> int:
    return now * SLICES // (rate_of(key)[1] * 1000)


def count_rates(rates: Rates, timestamp: str, keys: list[str]) -> None:
    for key in keys[:MAX_RATES]:
        try:
            now = milliseconds(timestamp)
            at = _slice(key, now)
        except (ValueError, InvalidError):  # an event made elsewhere
            continue
        if key not in rates and len(rates) >= MAX_RATES:
            _forget(rates, now)
        slices = rates[key] = rates.pop(key, [])  # the last to be counted stands last
        if slices and slices[-1][0] >= at:
            slices[-1][1] += 1
        else:
            slices.append([at, 1])
            del slices[: -SLICES - 1]


def _forget(rates: Rates, now: int) -> None:
    """Make room: the limits whose period is over, else the one that has counted nothing for longest."""
    for key in [key for key, slices in rates.items() if slices[-1][0] < _slice(key, now) - SLICES]:
        del rates[key]
    if len(rates) >= MAX_RATES:
        del rates[next(iter(rates))]
