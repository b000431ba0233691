"""JSON from outside: how much of it may be decoded at all.

A decoder makes some hundred bytes of three: `{},` a million times over. So what a text can hold is counted before it is decoded.

Owns: that bound. Must never: decode.
"""

from __future__ import annotations

from adjourn.errors import InvalidError

MAX_VALUES = 500_000
"""Objects, lists and members of one JSON document from outside."""


def check_values(data: bytes | str, what: str, most: int = MAX_VALUES) -> None:
    """Raise `InvalidError` where a JSON text could hold more than `most` values.

    Commas and brackets are counted wherever they are, also in texts: never too few.
    """
    if isinstance(data, str):
        values = data.count(",") + data.count("[") + data.count("{")
    else:
        values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if values > most:
        raise InvalidError(
            f"{what} holds up to {values:,} values, more than {most:,}", "do not use this file"
        )
