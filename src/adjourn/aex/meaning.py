"""The meaning of a document without its layout, to compare whether two texts mean the same.

Owns: which differences do not count. Must never: judge what is said, take more than linear time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from adjourn.aex.ast import ConfirmStep, Document, DoStep, Header
from adjourn.aex.expr import ObjectEntry
from adjourn.aex.text import Word

_WRITTEN = frozenset(("tree", "findings", "source", "line", "word", "end", "raw", "args", "expression"))
"""Fields that say where or how something is written; what it says is in another field of the same struct."""
_OF_FINDINGS = frozenset(("guesses", "has_kind", "has_bad_header", "has_bad_goal"))
"""Fields that only say which findings a document gets."""
_FIRST = str.maketrans({"_": "\x01", "-": "\x02", ".": "\x03"})


def meaning(value: Any) -> Any:
    """A document or a part of it as plain data that is equal where the same is said."""
    match value:
        case str() | None:
            return value
        case Word():
            return value.text
        case list():
            return [meaning(item) for item in value]
        case Document():
            denies, allows = ([*_permissions(value, denies=denies)] for denies in (True, False))
            return _fields(value) | {"permissions": (denies, allows)}
        case DoStep():
            return "do", _fields(value) | {"arguments": meaning(sorted(value.arguments, key=by_name))}
        case Header():
            return _fields(value) | {"kind": "policy" if value.kind == "policy" else "task"}
        case ConfirmStep():
            return "confirm", _fields(value) | {"before": ""}
        case msgspec.Struct():
            return type(value).__name__, _fields(value)
        case _:
            return value


def by_name(entry: ObjectEntry) -> tuple[str, str]:
    """Order of arguments, as people sort: punctuation, digits, letters; the small letter before its capital."""
    name = entry.key.text
    return name.lower().translate(_FIRST), name.swapcase()


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    return {name: meaning(getattr(value, name)) for name in _names(type(value))}


@cache
def _names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in _WRITTEN | _OF_FINDINGS)


def _permissions(document: Document, *, denies: bool) -> Iterator[Any]:
    for line in document.permissions:
        if (line.keyword == "deny") is denies:
            yield from ((word.text, meaning(line.where)) for word in line.patterns)
