"""Events have canonical bytes, and time stamps have one spelling."""

from __future__ import annotations

import calendar
import json
import threading
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import example, given

from adjourn.errors import InvalidError
from adjourn.log import event as module
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import GENESIS, MAX_EVENT_BYTES, Actor, Event, decode, encode, timestamp
from support.cases import for_each
from support.clock import NOON
from support.strategies import actors, data, integers, milliseconds, texts


def an_event(item: kinds.Data, **changes: Any) -> Event:
    members: dict[str, Any] = {
        "after": GENESIS,
        "by": Actor("ann", "human"),
        "data": msgspec.Raw(msgspec.json.encode(item)),
        "event": item.KIND,
        "seq": 0,
        "session": "s",
        "task": "t",
        "timestamp": timestamp(NOON),
        "v": item.V,
    }
    return Event(**(members | changes))


@given(data, actors, texts, integers, milliseconds)
def test_stored_bytes_are_canonical_json(item: kinds.Data, by: Actor, session: str, seq: int, now: int) -> None:
    """The bytes of an event of any kind are the RFC 8785 form of what they decode to."""
    event = an_event(item, by=by, session=session, seq=seq, timestamp=timestamp(now))
    event_hash, stored = encode(event)
    assert stored == rfc8785.dumps(json.loads(stored))
    assert event_hash == digest(stored)
    assert stored.startswith(b'{"after":"' + GENESIS.encode() + b'"')


@given(data, actors, texts)
def test_events_come_back_as_they_were(item: kinds.Data, by: Actor, session: str) -> None:
    """Decoding gives the envelope and the typed data that were encoded, and the same bytes again."""
    event_hash, stored = encode(an_event(item, by=by, session=session))
    event = decode(stored)
    assert (event.by, event.session, event.v) == (by, session, item.V)
    assert kinds.data_of(event) == item
    assert encode(event) == (event_hash, stored)


def test_events_are_bounded() -> None:
    """An event of 64 KiB is stored and one byte more is refused."""
    size = len(encode(an_event(kinds.UpstreamError(message="")))[1])
    fits = an_event(kinds.UpstreamError(message="x" * (MAX_EVENT_BYTES - size)))
    assert len(encode(fits)[1]) == MAX_EVENT_BYTES
    with pytest.raises(InvalidError, match=r"upstream\.error has 65537 bytes"):
        encode(an_event(kinds.UpstreamError(message="x" * (MAX_EVENT_BYTES - size + 1))))


def test_texts_that_are_not_unicode_are_refused() -> None:
    """A lone surrogate in the data or in the envelope raises InvalidError."""
    with pytest.raises(InvalidError, match="UTF-8"):
        encode(an_event(kinds.UpstreamCrashed(), data=kinds.UpstreamError(message="\ud800")))
    with pytest.raises(InvalidError, match="UTF-8"):
        encode(an_event(kinds.UpstreamCrashed(), by=Actor("\ud800", "agent")))


@for_each(
    "stored",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"after":"',
        encode(an_event(kinds.UpstreamCrashed()))[1] + b"x",
        encode(an_event(kinds.UpstreamCrashed()))[1].replace(b'"human"', b'"robot"'),
        encode(an_event(kinds.UpstreamCrashed()))[1].replace(b'"seq":0', b'"seq":"0"'),
        encode(an_event(kinds.UpstreamCrashed()))[1].replace(b'"data":{}', b'"data":' + b"[" * 100_000),
    ],
)
def test_what_is_no_event_is_refused(stored: bytes) -> None:
    """Bytes that do not decode to an envelope raise InvalidError, however hostile."""
    with pytest.raises(InvalidError, match="not an event"):
        decode(stored)


def test_a_newer_format_is_not_interpreted() -> None:
    """An event with a higher version is refused with advice, and one of this version is read."""
    with pytest.raises(InvalidError, match=r"format version 3 \(update adjourn\)"):
        decode(encode(an_event(kinds.UpstreamCrashed(), v=3))[1])


@given(milliseconds)
@example(0)
@example(-1)
@example(951_782_400_000)  # 29 February 2000
@example(1_709_164_800_000)  # 29 February 2024
@example(4_107_542_400_000)  # 1 March 2100, which has no leap day
@example(-62_135_596_800_000)
@example(253_402_300_799_999)
def test_time_stamps_come_back(now: int) -> None:
    """`milliseconds` is the inverse of `timestamp` in all years from 1 to 9999."""
    stamp = timestamp(now)
    assert len(stamp) == 24
    assert module.milliseconds(stamp) == now


@given(milliseconds, milliseconds)
def test_time_stamps_sort_as_text(one: int, other: int) -> None:
    """The order of time stamps as texts is their order in time."""
    assert (timestamp(one) < timestamp(other)) == (one < other)


@pytest.mark.parametrize(
    ("stamp", "date"),
    [
        ("2026-05-02T15:30:12.345Z", (2026, 5, 2, 15, 30, 12)),
        ("2024-02-29T23:59:59.345Z", (2024, 2, 29, 23, 59, 59)),
        ("0033-04-03T00:00:00.345Z", (33, 4, 3, 0, 0, 0)),
        ("9999-12-31T23:59:59.345Z", (9999, 12, 31, 23, 59, 59)),
    ],
)
def test_time_stamps_are_rfc3339(stamp: str, date: tuple[int, ...]) -> None:
    """A time stamp is the date and time in UTC that the standard library gives it."""
    assert timestamp(calendar.timegm(date) * 1000 + 345) == stamp


@pytest.mark.parametrize(
    "now", [-62_135_596_800_001, 253_402_300_800_000, 10**20, -(10**20)], ids=["y0", "y10k", "far", "past"]
)
def test_times_without_four_digits_of_a_year_are_refused(now: int) -> None:
    """A time that RFC 3339 cannot write raises InvalidError."""
    with pytest.raises(InvalidError, match="years 1 to 9999"):
        timestamp(now)


@for_each(
    "stamp",
    [
        "",
        "now",
        "2026-05-02",
        "2026-05-02T15:30:12Z",
        "2026-05-02T15:30:12.345",
        "2026-05-02T15:30:12.345+00:00",
        "2026-05-02T15:30:12.3456Z",
        "2026-05-02T15:30:12.345Z\n",
        "2026-05-02 15:30:12.345Z",
        "2026-05- 2T15:30:12.345Z",
        "2026-05-02T15:30:12.+45Z",
        "2026-05-02T15:30:12.1_2Z",
        "2026-05-02T15:30:60.345Z",
        "2026-02-29T15:30:12.345Z",
        "2026-13-01T15:30:12.345Z",
        "٢٠٢٦-05-02T15:30:12.345Z",
        "0000-05-02T15:30:12.345Z",
    ],
)
def test_other_spellings_of_a_time_are_refused(stamp: str) -> None:
    """Only the one canonical spelling of an instant is taken."""
    with pytest.raises(InvalidError, match="not a time stamp"):
        module.milliseconds(stamp)


def test_time_stamps_of_many_threads_do_not_mix() -> None:
    """Threads that stamp different seconds at once get their own seconds."""
    wrong: list[str] = []

    def stamp(second: int) -> None:
        expected = timestamp(second * 1000)
        wrong.extend(found for _ in range(3000) if (found := timestamp(second * 1000)) != expected)

    threads = [threading.Thread(target=stamp, args=(second,)) for second in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_raw_data_is_stored_byte_for_byte() -> None:
    """The data of an event are spliced in as they are, so that unknown kinds survive being re-encoded."""
    stored = encode(an_event(kinds.UpstreamCrashed(), event="x.new", data=msgspec.Raw(b'{"new":[1,{"a":2}]}')))[1]
    assert b'"data":{"new":[1,{"a":2}]},"event":"x.new"' in stored
    assert encode(decode(stored))[1] == stored
