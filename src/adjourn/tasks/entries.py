"""What a ledger keeps of calls, questions and sessions that still matter, and of the calls that count for a limit."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from adjourn.errors import InvalidError
from adjourn.log.event import milliseconds


class OpenCall(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True):
    """A forwarded call that has no settlement yet, or whose answer its client may not have. `legs` counts how often the client has
    answered what it asked for; `ended` is when it was settled, `answer` the SHA-256 of its answer, `by` the person who says that it happened,
    `before` the checkpoint that was made before it as it may destroy something.
    """

    call: str
    tool: str
    digest: str
    effectful: bool
    session: str
    since: str
    arguments: str = ""
    once: str = ""
    legs: int = 0
    params: str = ""
    server: str = ""
    ended: str = ""
    answer: str = ""
    by: str = ""
    before: str = ""


class FailedStep(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A destructive call that failed, and why, until the same succeeds, the work is rolled back, or a person settles it."""

    call: OpenCall
    why: str = ""


AFTER_NO = "do not repeat it, and do not reach the same effect another way"
"""What an agent does after a person's no."""


class Approval(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True):
    """A question to a person that may still be answered, or an answer that may still be used, until `expires`.

    `refused` is where a no came from, `reason` what a person said with the answer; `document` has what `arguments` leave out.
    """

    id: str
    tool: str
    digest: str
    expires: str
    cause: str
    asked: str
    arguments: str = ""
    doubt: str = ""
    approved: bool = False
    refused: str = ""
    who: str = ""
    otherwise: str = "deny"
    params: str = ""
    definition: str = ""
    server: str = ""
    reason: str = ""
    document: str = ""


class NotableCall(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True):
    """A call that did not simply succeed, or that a person approved with a reason, however long ago: the event that says so, its kind,
    what it says (`why`, `by`), and a person's reason (`said`).
    """

    seq: int
    event: str
    tool: str
    arguments: str = ""
    why: str = ""
    by: str = ""
    server: str = ""
    said: str = ""


class Sitting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the client that opened the task last has spent since: `calls`, and those `carried` from clients before it that got nowhere.

    `since` is the position of its first session, `got_on` whether an effect of it succeeded or its agent made a checkpoint.
    """

    group: str = ""
    since: int = -1
    calls: int = 0
    carried: int = 0
    got_on: bool = False

    @property
    def used(self) -> int:
        """The calls that count for the budget of the session."""
        return self.calls + self.carried

    def followed_by(self, group: str, seq: int) -> "Sitting":
        """The sitting of the next client. Calls without any progress count for the next one: ending a session gains none."""
        return Sitting(group, seq, carried=0 if self.got_on else self.used)


class OpenSession(msgspec.Struct, kw_only=True, frozen=True, rename="camel", omit_defaults=True):
    """A session that has not ended."""

    id: str
    group: str
    host: str
    pid: int
    started: int
    since: str
    client: str = ""
    era: str = ""


# --- the calls that count for a limit, by slices of its period

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
