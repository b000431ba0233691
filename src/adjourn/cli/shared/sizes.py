"""Numbers of bytes and of things for people.

Owns: their wording. Must never: round down to nothing.
"""

from __future__ import annotations


def shown(size: int) -> str:
    """`812 B`, `3.4 kB`, `12 MB`."""
    number = float(size)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def counted(number: int, thing: str) -> str:
    """`1 page`, `2 pages`."""
    return f"{number} {thing}{'s' * (number != 1)}"
