"""The end of what a program printed, as it may be shown.

Owns: `last_lines`. Must never: show a secret, or anything that a terminal would obey.
"""

from __future__ import annotations

from adjourn.text.redact import without_secrets
from adjourn.text.terminal import visible_line


def last_lines(data: bytes, count: int, length: int) -> tuple[str, ...]:
    """The last `count` lines that are not blank, each of at most `length` characters, without secrets."""
    lines = [line.strip() for line in without_secrets(data.decode(errors="replace")).splitlines()]
    return tuple(visible_line(line[:length]) for line in list(filter(None, lines))[-count:])
