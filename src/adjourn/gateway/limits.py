"""How much work a gateway takes on: rates, requests at the same time, and none that is new while it drains.

    [limits]
    rate = 2000             # messages a second, all clients together
    client_rate = 50        # of one client
    client_requests = 64    # of one client at the same time

`Alarms` are the time-outs of many requests with one timer. Must never: know what a message says, or grow with the number of clients.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Annotated, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from adjourn.mcp import frames

MAX_BUCKETS = 10_000
"""Clients whose rates are known: beyond that the one that was silent longest starts with a full one."""
RETRY_SECONDS = 1
"""When a client may come again that was refused for another reason than a rate."""

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Rate = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]


class LoadLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[limits]`. A rate of 0 is none; a burst of 0 is what a second allows.

    `header_seconds`, `body_seconds`: how long a request's headers and its body may take to arrive. `stalled_seconds`: how long a client may
    take nothing of its answer. `session_seconds`: how long a session is kept that nobody uses. `notice_seconds`: how long a gateway that is
    to end still takes new requests, while `/readyz` tells a load balancer to send them elsewhere. `drain_seconds`: how long open requests
    may take after that.
    """

    body_bytes: Annotated[int, Meta(ge=1024, le=frames.MAX_MESSAGE_BYTES)] = frames.MAX_MESSAGE_BYTES
    header_seconds: Seconds = 10.0
    body_seconds: Seconds = 60.0
    stalled_seconds: Seconds = 60.0
    session_seconds: Seconds = 1800.0
    notice_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    drain_seconds: Seconds = 20.0
    connections: Count = 20_000
    requests: Count = 8192
    client_requests: Count = 1024
    rate: Rate = 0.0
    burst: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    client_rate: Rate = 0.0
    client_burst: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class LoadRefusal(NamedTuple):
    """Why a message is not taken now: the HTTP status, for people, and the seconds after which it may come again.

    `reason` is one of few words, for counting.
    """

    status: int
    reason: str
    why: str
    seconds: int = RETRY_SECONDS

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Those of the answer."""
        return ((b"retry-after", b"%d" % self.seconds),)


class TokenBucket:
    """Fills by `rate` a second up to `burst`; each message takes one."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate, self._at = rate, now
        self._burst = self._tokens = float(burst or max(1, math.ceil(rate)))

    def take(self, now: float) -> float:
        """Take one. Returns 0, or in how many seconds there will be one."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate

    def give_back(self) -> None:
        """What was taken was not used."""
        self._tokens = min(self._burst, self._tokens + 1)


class Throttle:
    """Says of each message whether it may start. One thread uses it."""

    def __init__(self, limits: LoadLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.change(limits)
        self.is_leaving = self.is_draining = False
        """Whether others are to send nothing more, and whether nothing more is taken."""
        self.ends = 0.0
        """When the time of what is still open is over, once the gateway ends (`time.monotonic`)."""
        self.refusals: defaultdict[str, int] = defaultdict(int)
        """How often something was refused, by the reason."""
        self.open = 0
        """Requests that are being answered."""
        self._lasting = 0
        """Of these, those that last as long as the client likes."""
        self._open: dict[str, int] = {}
        """Of these, by client."""

    def change(self, limits: LoadLimits) -> None:
        """Other limits from now on. All rates start again."""
        self.limits = limits
        self._all = TokenBucket(limits.rate, limits.burst, self._clock()) if limits.rate else None
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def message(self, client: str) -> LoadRefusal | None:
        """A client sent something."""
        limits = self.limits
        if self._all is None and not limits.client_rate:
            return None
        now = self._clock()
        if self._all is not None and (seconds := self._all.take(now)):
            return self._too_fast("rate", "the gateway gets too many messages. Send fewer a second.", seconds)
        if limits.client_rate and (seconds := self._bucket(client, now).take(now)):
            if self._all is not None:
                self._all.give_back()
            return self._too_fast("client-rate", "this client sends too many messages. Send fewer a second.", seconds)
        return None

    def _bucket(self, client: str, now: float) -> TokenBucket:
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = TokenBucket(self.limits.client_rate, self.limits.client_burst, now)
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(client)
        return bucket

    @property
    def is_busy(self) -> bool:
        """Whether a request is open that will be answered by itself."""
        return self.open > self._lasting

    def begin(self, client: str, *, lasts: bool = False) -> LoadRefusal | None:
        """A client's request starts: a subscription `lasts`. Unless it is refused, `end` has to follow."""
        if self.is_draining:
            return self._refused(503, "draining", "the gateway is shutting down. Try again.")
        if self.open >= self.limits.requests:
            return self._refused(503, "requests", "the gateway has too many open requests. Try again later.")
        mine = self._open.get(client, 0)
        if mine >= self.limits.client_requests:
            return self._refused(
                429, "client-requests", "this client has too many open requests. Wait until some are answered."
            )
        self._open[client] = mine + 1
        self.open += 1
        self._lasting += lasts
        return None

    def end(self, client: str, *, lasts: bool = False) -> None:
        """It is over."""
        self.open -= 1
        self._lasting -= lasts
        left = self._open[client] - 1
        if left:
            self._open[client] = left
        else:
            del self._open[client]

    def _refused(self, status: int, reason: str, why: str, seconds: int = RETRY_SECONDS) -> LoadRefusal:
        self.refusals[reason] += 1
        return LoadRefusal(status, reason, why, seconds)

    def _too_fast(self, reason: str, why: str, seconds: float) -> LoadRefusal:
        return self._refused(429, reason, why, max(RETRY_SECONDS, math.ceil(seconds)))


# --- time-outs of one length for many

Key = TypeVar("Key")


class Alarms(Generic[Key]):
    """Calls `ring` with each key that began `seconds` ago and has not ended since. For the thread of the event loop."""

    def __init__(self, seconds: float, ring: Callable[[Key], object]) -> None:
        self.seconds = seconds
        self._ring = ring
        self._due: dict[Key, float] = {}
        """In the order in which they ring."""
        self._is_set = False

    def begin(self, key: Key) -> None:
        """Have a key ring, unless it ends before."""
        loop = asyncio.get_running_loop()
        self._due[key] = loop.time() + self.seconds
        if not self._is_set:
            self._is_set = True
            loop.call_later(self.seconds, self._look)

    def extend(self, key: Key) -> None:
        """Have a key that has not rung yet ring later: as if it began now."""
        if self.end(key):
            self.begin(key)

    def end(self, key: Key) -> bool:
        """Whether a key had neither rung nor ended. It no longer rings."""
        return self._due.pop(key, None) is not None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        over = []
        self._is_set = False
        for key, due in self._due.items():
            if due > now:
                self._is_set = True
                loop.call_at(due, self._look)
                break
            over.append(key)
        for key in over:
            if self.end(key):  # what rang before it may have ended it
                self._ring(key)
