"""Documents: JSON trees that are checked against a type, shared, and never changed in place.

A tree keeps members that this version does not know. A type (a frozen Struct) says what must be there, and is the view that code reads.
Functions of this package take trees and return new ones that share the unchanged parts.

Owns: reading, checking, viewing and comparing trees; the limits of all documents. Must never: change a tree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from adjourn.errors import InvalidError, UsageError
from adjourn.log import MAX_SAFE_INTEGER, canonical
from adjourn.text import check_values, fit_text

Tree = dict[str, Any]
"""A JSON object with the wire's names. Treat it as frozen."""
T = TypeVar("T")

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
MAX_VALUES = 2_000_000
"""Values in a JSON text, counted before it is decoded; commas inside strings count too."""
MAX_ITEMS = 100_000
MAX_TEXT = 64 * 1024
MAX_ID = 256

Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Ids = Annotated[tuple[Id, ...], Meta(max_length=MAX_ITEMS)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=MAX_ITEMS)]
MAX_COUNT = MAX_SAFE_INTEGER
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Time = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER, description="milliseconds since 1970-01-01, UTC")]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Confidence = Annotated[float, Meta(description="0 to 1")]


class DocumentPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all types. An optional field is UNSET when it is absent; null is refused, for it would change the hash."""


_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


def read(data: bytes | str, kind: type[DocumentPart]) -> Tree:
    """Read a JSON text from outside, checked against `kind`. Raises `InvalidError`."""
    return accept(parse(data, kind), kind)


def parse(data: bytes | str, kind: type[DocumentPart]) -> Tree:
    """Parse a JSON text from outside. Checks only its form: no duplicate names, not too large, not too deep. Raises `InvalidError`."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise _too_large(len(data), kind)
    check_values(data, kind.__name__, MAX_VALUES)
    try:
        value = json.loads(data, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"{kind.__name__}: not JSON: {error}", "give one JSON object in UTF-8") from error
    if not isinstance(value, dict):
        raise InvalidError(f"{kind.__name__}: not an object: {shown(value)}", "give one JSON object in UTF-8")
    return value


def accept(value: Mapping[str, Any] | DocumentPart, kind: type[DocumentPart]) -> Tree:
    """A new tree of a value, with canonical numbers, checked against `kind`. Raises `InvalidError`."""
    return load(write(value, kind))


def write(value: Mapping[str, Any] | DocumentPart, kind: type[DocumentPart]) -> bytes:
    """The canonical bytes of a value. Raises `InvalidError` if it does not fit `kind`."""
    data = canonical(tree_of(value) if isinstance(value, DocumentPart) else value)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise _too_large(len(data), kind)
    try:
        msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _explained(error, load(data), kind) from error
    return data


def load(data: bytes) -> Tree:
    """The tree of canonical bytes that this package wrote. The caller has verified their hash."""
    tree: Tree = _decode(data)
    return tree


def view(tree: Mapping[str, Any], kind: type[T]) -> T:
    """The typed, frozen view of a tree. It lacks members that `kind` does not know: write trees, not views. Raises `InvalidError`."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise _explained(error, tree, kind) from error


def tree_of(part: DocumentPart) -> Tree:
    """The tree of a typed value."""
    return load(msgspec.json.encode(part))


def require_one_of(value: object, choices: Sequence[str], what: str) -> None:
    """Refuse a value outside a closed set. Raises `UsageError`."""
    if value not in choices:
        raise UsageError(f"unknown {what} {str(value)[:MAX_ID]!r}", "use one of " + ", ".join(choices))


def copy_of(tree: Mapping[str, Any]) -> Tree:
    """A copy that shares no part with the tree."""
    return load(msgspec.json.encode(tree))


def same(one: object, other: object) -> bool:
    """Whether two JSON values have the same canonical form. (For Python, 1 is True.)"""
    if one is other:
        return True
    return one == other and (
        _encode_sorted(one) == _encode_sorted(other) or canonical(one) == canonical(other)
    )


def by_id(items: Sequence[Tree]) -> dict[str, Tree]:
    """Items by their `id`."""
    return {item["id"]: item for item in items}


def without(tree: Mapping[str, Any], *names: str) -> Tree:
    """A copy of an object without some members."""
    rest = dict(tree)
    for name in names:
        rest.pop(name, None)
    return rest


def pointer(*parts: str | int) -> str:
    """A JSON pointer (RFC 6901). An item of a collection is named by its id."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def parts_of(path: str) -> list[str]:
    """The parts of a JSON pointer: the inverse of `pointer`. Raises `InvalidError`."""
    if not path.startswith("/"):
        raise InvalidError(f"not a path: {path[:100]!r}", "give a path like /decisions/d1/status")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def shown(value: object) -> str:
    """A value for a message, at most 80 characters."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return repr(fit_text(text, 80)) if isinstance(value, str) else text[:80]


def _object(pairs: list[tuple[str, Any]]) -> Tree:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:100]!r} occurs twice in an object")
    return tree


def _too_large(size: int, kind: type) -> InvalidError:
    return InvalidError(
        f"{kind.__name__}: too large: {size} bytes (limit {MAX_DOCUMENT_BYTES})",
        "archive old items, or split the task",
    )


# --- messages with path, value and remedy

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def _explained(error: msgspec.ValidationError, value: Any, kind: Any) -> InvalidError:
    """An error with the path, the value and the remedy for a message of msgspec, which has only a position."""
    what, _, place = str(error).partition(" - at `$")
    message, path, expected = kind.__name__, list[str | int](), kind
    for name, position in _STEP.findall(place.rstrip("`")):
        step, expected = _inner(bare(expected), name or position, value)
        value = value[step]
        path.append(step)
    message = f"{message} {pointer(*path)}".rstrip() + f": {what}"
    if not what.startswith("Object missing"):
        message += f"; it is {shown(value)}"
    return InvalidError(message, _remedy(bare(expected), what))


def _inner(expected: Any, step: str, value: Any) -> tuple[str | int, Any]:
    """The next step of a path, and the type of what is there."""
    if isinstance(expected, type) and issubclass(expected, DocumentPart):
        return step, next(
            field.type for field in msgspec.structs.fields(expected) if field.encode_name == step
        )
    inner = get_args(expected)[-1 if get_origin(expected) is dict else 0]
    if step == "...":
        return next(key for key, item in value.items() if not _fits(item, inner)), inner
    return int(step), inner


def _fits(value: object, expected: Any) -> bool:
    try:
        msgspec.convert(value, expected)
    except msgspec.ValidationError:
        return False
    return True


def bare(expected: Any) -> Any:
    """A type without its annotations, and without UNSET."""
    while get_origin(expected) in (Annotated, Union, UnionType):
        expected = get_args(expected)[0]
    return expected


def _remedy(expected: Any, what: str) -> str:
    if what.startswith("Object missing"):
        return "add the field"
    if get_origin(expected) is Literal:
        return "use one of " + ", ".join(get_args(expected))
    return "leave an optional field out instead of null" if "`null`" in what else "give what is expected"
