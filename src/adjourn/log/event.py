"""The event: one fact about a task, as an envelope with canonical bytes (spec/events.md, sections 1-3)."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from time import gmtime
from typing import Any, Literal

import msgspec

from adjourn.errors import InvalidError

VERSION = 2
"""The newest format that is read. An event says the version that it needs (`Data.V`), so that an older reader stops at it."""
GENESIS = "0" * 64
"""What the first event of a stream names as its predecessor."""
MAX_EVENT_BYTES = 64 * 1024


class Actor(msgspec.Struct, frozen=True):
    """Who caused an event."""

    id: str
    type: Literal["agent", "human", "system"]


SYSTEM = Actor("adjourn", "system")


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """One fact, about to be written. Its stored bytes are its fields in this (alphabetical) order, so they start with
    `{"after":"`.

    `after` is the hash of the event before it, `data` of a type in `kinds`, `seq` its 0-based position, `session` the
    session that caused it (empty for a person at a terminal), `timestamp` UTC with milliseconds, `v` the format version.
    """

    after: str
    by: Actor
    data: Any
    event: str
    seq: int
    session: str
    task: str
    timestamp: str
    v: int = 1


class Event(Envelope, frozen=True, kw_only=True):
    """One fact, as it was read. `data` is kept as it was written."""

    data: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode_event = msgspec.json.Decoder(Event).decode


def encode(event: Envelope) -> tuple[str, bytes]:
    """`(hash, bytes)` of an event. The type of its data declares its fields in alphabetical order (see `kinds`)."""
    try:
        stored = _encode(event)
    except UnicodeEncodeError as error:
        raise InvalidError(f"event {event.event} cannot be written as UTF-8: {error}") from error
    if len(stored) > MAX_EVENT_BYTES:
        raise InvalidError(f"event {event.event} has {len(stored)} bytes, more than {MAX_EVENT_BYTES}")
    return sha256(stored).hexdigest(), stored


def decode(stored: bytes) -> Event:
    """The event in stored bytes. Raises `InvalidError` for what is no event of a version known here."""
    try:
        event = _decode_event(stored)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"not an event: {error}") from error
    if event.v > VERSION:
        raise InvalidError(f"event {event.seq} has format version {event.v}", "update adjourn")
    return event


_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z: the years that RFC 3339 can write."""
_latest = (0, "1970-01-01T00:00:00")


def timestamp(milliseconds: int) -> str:
    """RFC 3339 UTC with milliseconds: `2026-05-02T15:30:12.345Z`. `InvalidError` outside the years 1 to 9999."""
    global _latest  # noqa: PLW0603  # most events of a burst fall into one second
    seconds, number = divmod(milliseconds, 1000)
    latest = _latest  # read once: another thread may replace the pair, but never half of it
    if latest[0] != seconds:
        if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
            raise InvalidError("not a time: outside the years 1 to 9999")
        latest = _latest = (seconds, "{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}".format(*gmtime(seconds)[:6]))
    return f"{latest[1]}.{number:03d}Z"


@lru_cache(maxsize=64)  # a fold asks for the time of each event twice
def milliseconds(stamp: str) -> int:
    """The inverse of `timestamp`. Raises `InvalidError` for any other spelling of a time."""
    try:
        # days since 1970-01-01 in the Gregorian calendar; without `datetime`, which a hook does not load
        year, month, day = int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10])
        years = year - (month < 3)
        since_march = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
        days = years * 365 + years // 4 - years // 100 + years // 400 + since_march - 719_468
        minutes = days * 1440 + int(stamp[11:13]) * 60 + int(stamp[14:16])
        result = (minutes * 60 + int(stamp[17:19])) * 1000 + int(stamp[20:23])
        if timestamp(result) == stamp:  # int() takes more than one spelling, and no month has 31 days too many
            return result
    except (ValueError, InvalidError):
        pass
    raise InvalidError(f"not a time stamp: {stamp[:40]!r}")
