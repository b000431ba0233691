"""The wall clock, and names for new things. What is pure takes both as arguments.

The names are short enough to type. The store's compare-and-swap guards their uniqueness, not their randomness alone.
"""

from __future__ import annotations

import time
from os import urandom
from time import gmtime, strftime


def now() -> int:
    """Milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u to misread


def short(length: int) -> str:
    """As many random characters of Crockford's base 32."""
    return "".join(_ALPHABET[byte & 31] for byte in urandom(length))


def task_id(now: int) -> str:
    """`20261121-7k3f9q2m`: the day in UTC, and 40 random bits."""
    return strftime("%Y%m%d", gmtime(now // 1000)) + "-" + short(8)


def session_id() -> str:
    """A new id for a session."""
    return short(8)
