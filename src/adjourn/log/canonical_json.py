"""Canonical JSON: one text per value, so that equal values have equal digests (RFC 8785, JCS)."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec

from adjourn.errors import InvalidError

MAX_SAFE_INTEGER = 2**53 - 1
"""Beyond it RFC 8785 has no exact numbers."""
MAX_DEPTH = 200
_TEXT = frozenset((str,))

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def canonical(value: object) -> bytes:
    """RFC 8785 bytes of a JSON value (dicts with text keys, lists, str, int, float, bool, None).

    Values with ASCII keys, and no floats but plain fractions, take msgspec's sorted encoding, which is identical for them
    and much faster; a property test holds the two equal. Raises `InvalidError` for NaN, infinities, lone surrogates,
    integers beyond 2^53 - 1, keys that are not text, other types, and nesting deeper than 200.
    """
    if _is_plain(value, 0):
        try:
            return _encode_sorted(value)
        except UnicodeEncodeError as error:
            raise InvalidError(f"cannot be canonical JSON: {error}") from error
    import rfc8785  # only the rare value needs it

    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # it checks the types itself
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InvalidError(f"cannot be canonical JSON: {error}") from error


def digest(data: bytes) -> str:
    """Lower-case hex SHA-256 of stored bytes."""
    return sha256(data).hexdigest()


def is_plain_fraction(number: float) -> bool:
    """Whether msgspec and RFC 8785 write a number alike: between these bounds both write the shortest digits that read back the same."""
    return 1e-5 <= abs(number) < 1e16 and not number.is_integer()


def _is_plain(value: object, depth: int) -> bool:  # noqa: C901  # one branch a JSON type, on the hot path
    """Whether msgspec's sorted encoding of a value is canonical. Every part is examined, to find what is out of bounds."""
    if type(value) is dict:
        if not _TEXT.issuperset(map(type, value)):
            odd = next(key for key in value if type(key) is not str)
            raise InvalidError(f"cannot be canonical JSON: key {odd!r} is not text")
        plain = "".join(value).isascii()
        items: Iterable[object] = value.values()
    elif type(value) is list or type(value) is tuple:
        plain, items = True, value
    else:
        plain, items = True, (value,)
    for item in items:
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if not -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER:  # type: ignore[operator]  # kind is int
                raise InvalidError("cannot be canonical JSON: an integer is beyond 2^53 - 1")
        elif kind is float:
            plain = plain and is_plain_fraction(item)  # type: ignore[arg-type]  # kind is float
        elif kind is dict or kind is list or kind is tuple:
            if depth >= MAX_DEPTH - 1:
                raise InvalidError(f"cannot be canonical JSON: nested deeper than {MAX_DEPTH}")
            plain = _is_plain(item, depth + 1) and plain
        else:
            raise InvalidError(f"cannot be canonical JSON: {kind.__name__} is not a JSON type")
    return plain
