"""Times for people: relative, or local with an offset. Machines get the stored RFC 3339 text."""

from __future__ import annotations

from datetime import UTC, datetime

from adjourn.errors import InvalidError
from adjourn.log.event import milliseconds
from adjourn.text.redact import visible_line, without_secrets

_UNITS = ((86_400, "day"), (3600, "h"), (60, "min"))


def ago(stamp: str, now: int) -> str:
    """`3 min ago`; the text itself if it is no time stamp."""
    try:
        seconds = (now - milliseconds(stamp)) // 1000
    except InvalidError:
        return _safe(stamp)
    if seconds < -1:
        return f"in {span(-seconds)}"
    return "just now" if seconds < 10 else f"{span(seconds)} ago"


def left(stamp: str, now: int) -> str:
    """`4 min left`, or `over`."""
    try:
        seconds = (milliseconds(stamp) - now) // 1000
    except InvalidError:
        return _safe(stamp)
    return f"{span(seconds)} left" if seconds > 0 else "over"


def span(seconds: int) -> str:
    """`3 min`, `5 h`, `2 days`: rounded down."""
    for size, name in _UNITS:
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'s' if name == 'day' and count > 1 else ''}"
    return f"{seconds} s"


def period(seconds: int) -> str:
    """`minute`, `day`, `3 h`: the length of time after "in the last"."""
    return {1: "second", 60: "minute", 3600: "hour", 86_400: "day"}.get(seconds) or span(seconds)


def local(stamp: str) -> str:
    """`2026-05-02T17:30:12+02:00`; the text itself if it is no time stamp."""
    when = _local(stamp)
    return when.isoformat(timespec="seconds") if when else _safe(stamp)


def day(stamp: str, now: int) -> str:
    """`today`, `yesterday`, `Saturday, 2 May 2026`; the text itself if it is no time stamp."""
    moment = _local(stamp)
    if moment is None:
        return _safe(stamp)
    days = (datetime.fromtimestamp(now / 1000, UTC).astimezone().date() - moment.date()).days
    return {0: "today", 1: "yesterday"}.get(days, f"{moment:%A}, {moment.day} {moment:%B %Y}")


def clock(stamp: str) -> str:
    """`17:30`, local; the text itself if it is no time stamp."""
    when = _local(stamp)
    return f"{when:%H:%M}" if when else _safe(stamp)


def day_clock(stamp: str, now: int) -> str:
    """`17:30:12` for a time of today, else `2 May 17:30`, both local; the text itself if it is no time stamp."""
    moment = _local(stamp)
    if moment is None:
        return _safe(stamp)
    is_today = day(stamp, now) == "today"
    return f"{moment:%H:%M:%S}" if is_today else f"{moment.day} {moment:%b %H:%M}"


def utc(stamp: str) -> str:
    """`2026-05-02 17:30:12`: a time for whoever reads it, wherever and whenever."""
    return stamp[:19].replace("T", " ")


def _local(stamp: str) -> datetime | None:
    try:
        return datetime.fromtimestamp(milliseconds(stamp) / 1000, UTC).astimezone()
    except (InvalidError, OverflowError, OSError, ValueError):
        return None


def _safe(stamp: str) -> str:
    return visible_line(without_secrets(stamp))
