"""The wall clock.

Owns: what time it is. Must never: be called by what is pure; that takes the time as an argument.
"""

from __future__ import annotations

import time


def now() -> int:
    """Milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000
