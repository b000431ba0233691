"""JSON that every reader reads alike, as far as keys go.

Readers differ on a key that stands twice in an object: some take the first, some the last. Go's `encoding/json` and others
look keys up in any case of letters, and others normalize Unicode first, or cut a text at a zero byte. Rules examine one
of such keys while the peer acts on another, so an object that holds both is refused where a rule looks. In data that nobody
examines keys may be alike (`HTTP_PROXY` and `http_proxy`); none may stand twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any
from unicodedata import category, normalize

from adjourn.errors import InvalidError
from adjourn.log.canonical_json import MAX_DEPTH, MAX_SAFE_INTEGER, is_plain_fraction

MAX_VALUES = 500_000
"""Objects, lists and members of one JSON document from outside."""
_MAX_SHOWN = 100
_MAX_KEPT = 1000
"""Characters of keys whose verdict is kept."""
BLANKS = b" \t\n\r"
_NO_WIDTH = frozenset(chr(code) for code in (0x34F, 0x115F, 0x1160, 0x3164, *range(0xFE00, 0xFE10)))
"""Beside control and format characters."""

_WORDS = (
    (re.compile("^Object missing required field (`[^`]*`)"), r"\1 is missing"),
    (re.compile("^Object contains unknown field (`[^`]*`)"), r"\1 is not a member"),
    (re.compile("^Invalid enum value ('.*')(?= - at|$)"), r"\1 is not a value"),
    (re.compile(r" - at `\$\.?(.+)`$"), r" at `\1`"),
)
"""What msgspec says of JSON, and what an agent reads of it."""


def in_words(error: Exception) -> str:
    """What is wrong with a document that msgspec refused, with the member's name: "`symbol` is missing"."""
    text = str(error)
    for found, said in _WORDS:
        text = found.sub(said, text)
    return text


def fold_key(key: str) -> str:
    """The same text for all keys that some reader takes for one: any case, NFKC, without what has no width or is blank at an end."""
    if key.isascii() and key.isprintable():
        return key.strip().lower()
    text = normalize("NFKC", normalize("NFKC", key.partition("\0")[0]).casefold())
    return "".join(char for char in text if char not in _NO_WIDTH and category(char) not in ("Cc", "Cf")).strip()


def survey(value: object) -> tuple[int, bool, bool]:  # noqa: C901, PLR0912  # one branch a JSON type, on the hot path
    """The number of keys of all objects in a decoded value, whether its sorted encoding is canonical for certain, and whether
    two keys in it, of one object or of several, may be one to some reader.

    Raises RecursionError for nesting of more than `MAX_DEPTH` levels.
    """
    keys: list[str] = []
    plain = True
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            values: Iterable[Any] = ()
            if type(item) is dict:
                keys += item
                values = item.values()
            elif type(item) is list:
                values = item
            for member in values:
                kind = type(member)
                if kind is str or kind is bool or member is None:
                    continue
                if kind is dict or kind is list:
                    inner.append(member)
                elif plain:
                    plain = (
                        -MAX_SAFE_INTEGER <= member <= MAX_SAFE_INTEGER if kind is int else is_plain_fraction(member)
                    )
        if not inner:
            break
        level = inner
    else:
        raise RecursionError("nested too deeply")
    text = "".join(keys)
    if text.isascii():
        if text.islower() and text.isprintable() and " " not in text:
            return len(keys), plain, False
    else:
        plain = False
    may_clash = _may_clash_again if len(text) <= _MAX_KEPT else _may_clash
    return len(keys), plain, may_clash(tuple(keys))


def count_keys(value: object) -> int:
    """The number of keys of all objects in a decoded value.

    Raises `InvalidError` for an object with two keys that are one to some reader, and what `survey` raises.
    """
    keys, _, may_clash = survey(value)
    if may_clash:
        _check_objects(value)
    return keys


def alike(keys: Iterable[str]) -> tuple[str, str] | None:
    """The first two of different keys that are one to some reader; None where there are none."""
    first: dict[str, str] = {}
    for key in keys:
        if (other := first.setdefault(fold_key(key), key)) != key:
            return other, key
    return None


def check_alike(keys: Iterable[str]) -> None:
    """Raise `InvalidError` for keys of one object of which two are one to some reader."""
    if (pair := alike(keys)) is not None:
        text = " and ".join(repr(key[:_MAX_SHOWN]) for key in pair)
        raise InvalidError(f"keys {text} of one object are the same to some readers of JSON", "keep one of them")


def _may_clash(keys: tuple[str, ...]) -> bool:
    """Whether any two different keys of the whole value are the same to some reader, in one object or in several."""
    return len(set(map(fold_key, keys))) < len(set(keys))


_may_clash_again = lru_cache(maxsize=256)(_may_clash)
"""The same: calls of one client have the same few keys."""


def _check_objects(value: object) -> None:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            check_alike(item)
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def check_text(text: bytes, keys: int) -> None:
    """Raises `InvalidError` where a JSON text that decodes to this number of keys has a key twice in an object."""
    # Such a key is decoded once. A text that starts like the end of a key looks like one, too.
    if text.translate(None, BLANKS).count(b'":') != keys:
        _check_pairs(text)


def _check_pairs(text: bytes) -> None:
    import json  # only the odd text needs it

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidError(f"key {twice[:_MAX_SHOWN]!r} appears twice", "keep one of them")

    try:
        json.loads(text, object_pairs_hook=check)
    except ValueError:  # an integer of more digits than Python converts
        raise InvalidError("a number has too many digits", "shorten it") from None


def check_values(data: bytes | str, what: str, most: int = MAX_VALUES) -> None:
    """Raise `InvalidError` where a JSON text could hold more than `most` values.

    Commas and brackets are counted wherever they are, also in texts: never too few.
    """
    if isinstance(data, str):
        values = data.count(",") + data.count("[") + data.count("{")
    else:
        values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if values > most:
        raise InvalidError(f"{what} holds up to {values:,} values, more than {most:,}", "do not use this file")
