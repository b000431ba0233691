"""Times for people: relative, or local with an offset. Machines get the stored RFC 3339 text.

Owns: the wording of times. Must never: read a clock.
"""

from __future__ import annotations

from datetime import UTC, datetime

from adjourn.cli.shared.output import safe
from adjourn.errors import InvalidError
from adjourn.log import milliseconds

_UNITS = ((86_400, "day"), (3600, "h"), (60, "min"))


def ago(stamp: str, now: int) -> str:
    """`3 min ago`; the text itself if it is no time stamp."""
    try:
        seconds = (now - milliseconds(stamp)) // 1000
    except InvalidError:
        return safe(stamp)
    if seconds < -1:
        return f"in {span(-seconds)}"
    return "just now" if seconds < 10 else f"{span(seconds)} ago"


def left(stamp: str, now: int) -> str:
    """`4 min left`, or `over`."""
    try:
        seconds = (milliseconds(stamp) - now) // 1000
    except InvalidError:
        return safe(stamp)
    return f"{span(seconds)} left" if seconds > 0 else "over"


def span(seconds: int) -> str:
    """`3 min`, `5 h`, `2 days`: rounded down."""
    for size, name in _UNITS:
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'s' if name == 'day' and count > 1 else ''}"
    return f"{seconds} s"


def local(stamp: str) -> str:
    """`2026-05-02T17:30:12+02:00`; the text itself if it is no time stamp."""
    try:
        moment = datetime.fromtimestamp(milliseconds(stamp) / 1000, UTC)
        return moment.astimezone().isoformat(timespec="seconds")
    except (InvalidError, OverflowError, OSError, ValueError):
        return safe(stamp)
