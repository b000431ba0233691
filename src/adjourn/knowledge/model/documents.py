"""Documents: JSON trees that are checked against a type, shared, never changed in place, and their canonical bytes.

A tree keeps members that this version does not know. A type (a frozen Struct) says what must be there, and is the view that code reads.
Functions of this package take trees and return new ones that share the unchanged parts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from operator import eq, is_
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from adjourn.errors import InvalidError, UsageError
from adjourn.knowledge.model.part import DocumentPart, plain_of, restored
from adjourn.log.canonical_json import MAX_SAFE_INTEGER, canonical
from adjourn.text.fitting import fit_text
from adjourn.text.strict_json import check_values

Tree = dict[str, Any]
"""A JSON object with the wire's names. Treat it as frozen."""
T = TypeVar("T", bound=DocumentPart)

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


_LEAVES = frozenset({str, int, float, bool})
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
    """The typed, frozen value of a tree, which keeps the members that `kind` does not know. Raises `InvalidError`."""
    try:
        return restored(kind, tree)
    except msgspec.ValidationError as error:
        raise _explained(error, tree, kind) from error


def check(tree: Mapping[str, Any], kind: type[DocumentPart]) -> None:
    """Check a tree against a type. Raises `InvalidError`."""
    try:
        msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise _explained(error, tree, kind) from error


def tree_of(value: Mapping[str, Any] | DocumentPart) -> Tree:
    """The tree of a typed value, or of a dict with typed values in it."""
    if isinstance(value, DocumentPart):
        return plain_of(value)
    tree: Tree = plain(value)
    return tree


def plain(value: Any) -> Any:
    """A value as JSON has it: typed parts of documents as objects, wherever they are in it."""
    if value is None or type(value) in _LEAVES:  # most values are; asking what they are not takes much longer
        return value
    if isinstance(value, DocumentPart):
        return plain_of(value)
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def require_one_of(value: object, choices: Sequence[str], what: str) -> None:
    """Refuse a value outside a closed set. Raises `UsageError`."""
    if value not in choices:
        raise UsageError(f"unknown {what} {str(value)[:MAX_ID]!r}", "use one of " + ", ".join(choices))


def copy_of(tree: Mapping[str, Any]) -> Tree:
    """A copy that shares no part with the tree."""
    return load(msgspec.json.encode(tree))


def same(value: object, other: object) -> bool:
    """Whether two JSON values have the same canonical form. (For Python, 1 is True.)"""
    if value is other:
        return True
    return value == other and (_encode_sorted(value) == _encode_sorted(other) or canonical(value) == canonical(other))


def by_id(items: Sequence[Tree]) -> dict[str, Tree]:
    """Items by their `id`."""
    return {item["id"]: item for item in items}


def without(tree: Mapping[str, Any], *names: str) -> Tree:
    """A copy of an object without some members."""
    fields = dict(tree)
    for name in names:
        fields.pop(name, None)
    return fields


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
        f"{kind.__name__}: too large: {size} bytes (limit {MAX_DOCUMENT_BYTES})", "archive old items, or split the task"
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
        return step, next(field.type for field in msgspec.structs.fields(expected) if field.encode_name == step)
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


# --- documents in their published shape, which is wider than the one that adjourn writes
#
# There `version` may have three parts, a time or a duration may have a fraction, and null stands for a member that is absent. The
# canonical form has none of these: two spellings of one document would have two hashes. No document changes whose hash was taken.

_VERSION = re.compile(r"(\d{1,6}\.\d{1,6})\.\d{1,6}")


def from_published(value: Mapping[str, Any], kind: type[DocumentPart]) -> Tree:
    """A new tree: `version` with two parts, whole numbers where `kind` has them (rounded half up), no null. Checks nothing else."""
    types = {field.encode_name: bare(field.type) for field in msgspec.structs.fields(kind)}
    tree = {
        name: _member(member, types.get(name))
        for name, member in value.items()
        if member is not None or name not in types
    }
    version = tree.get("version")
    if isinstance(version, str) and (match := _VERSION.fullmatch(version)):
        tree["version"] = match[1]
    return tree


def _member(value: Any, kind: Any) -> Any:
    if kind is int and isinstance(value, float) and math.isfinite(value):
        return math.floor(value + 0.5)
    if isinstance(kind, type) and issubclass(kind, DocumentPart) and isinstance(value, Mapping):
        return from_published(value, kind)
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        inner = bare(get_args(kind)[0])
        return [_member(item, inner) for item in value]
    return value


# --- canonical bytes: of a document that follows another, only what changed is encoded and checked

_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode

Decoder = msgspec.json.Decoder[Any]


class EncodedDocument:
    """A document of `kind` and its canonical bytes, `content`, as `documents.write` makes them.

    The trees that `follow` takes share parts of `tree`. Nobody changes those parts or hands them out.
    """

    def __init__(self, content: bytes, kind: type[DocumentPart]) -> None:
        self.content = content
        self.kind = kind
        self._items: dict[str, list[bytes]] = {}
        """The bytes of each item of a member that is a list, in the order of the list. Filled when needed."""

    @cached_property
    def tree(self) -> Tree:
        """The document, to read and to make others of."""
        return load(self.content)

    @cached_property
    def _members(self) -> dict[str, bytes]:
        """The bytes of each member with its name, in the order of `content`."""
        return {name: _named(name) + bytes(piece) for name, piece in _decode_members(self.content).items()}

    def copy(self) -> Tree:
        """The document as a tree that the caller may change."""
        if "tree" not in self.__dict__:
            return load(self.content)
        tree: Tree = msgspec.to_builtins(self.tree)  # shares the texts, so it is faster than decoding
        return tree

    def shared(self, values: Mapping[str, Any]) -> Tree:
        """The values, with each item of a list that equals an item of this document replaced by that item."""
        return {
            name: self._shared(name, value) if type(value) is list and set(map(type, value)) <= {dict} else value
            for name, value in values.items()
        }

    def follow(self, tree: Mapping[str, Any]) -> EncodedDocument:
        """Encode and check `tree`. Finds the parts that it shares with this document by identity.

        Raises `InvalidError` if it does not fit `kind`, or is no JSON or too large.
        """
        before = self.tree
        if len(tree) != len(before) or not before.keys() >= tree.keys():
            return EncodedDocument(write(tree, self.kind), self.kind)
        follower = EncodedDocument(b"", self.kind)
        follower.tree, follower._members, follower._items = (dict(before), dict(self._members), dict(self._items))
        single: Tree = {}
        try:
            for name, value in tree.items():
                old = before[name]
                if value is not old:
                    if type(value) is list and type(old) is list and len(value) <= MAX_ITEMS:
                        follower._put_list(name, value, old, self._pieces(name))
                    else:
                        single[name] = value
            follower._put(single)
        except msgspec.ValidationError:
            write(tree, self.kind)  # raises the error that names the place in the whole document
            raise
        follower.content = b"{" + b",".join(follower._members.values()) + b"}"
        if len(follower.content) > MAX_DOCUMENT_BYTES:
            write(tree, self.kind)
        return follower

    def _put(self, values: Tree) -> None:
        """Replace members. `values` is as deep as the document, so `canonical` tests its depth as it would there."""
        data = canonical(values)
        decoders = _decoders(self.kind)
        for name, piece in _decode_members(data).items():
            if name in decoders:
                decoders[name][0].decode(piece)
            self._members[name] = _named(name) + bytes(piece)
            self._items.pop(name, None)
        self.tree.update(load(data))

    def _put_list(self, name: str, value: list[Any], old: list[Any], known: list[bytes]) -> None:
        """Replace a list by one that shares items with it. `known` are the bytes of the old items."""
        count = _count_true(map(is_, value, old))
        items, pieces = old[:count], known[:count]
        if len(value) > count:
            check = _decoders(self.kind).get(name, (None, None))[1]
            rest = {id(item): (item, piece) for item, piece in zip(old[count:], known[count:], strict=True)}
            for new_item in value[count:]:
                item, piece = rest.get(id(new_item)) or _encoded(new_item, check)
                items.append(item)
                pieces.append(piece)
        self.tree[name], self._items[name] = items, pieces
        self._members[name] = b"".join((_named(name), b"[", b",".join(pieces), b"]"))

    def _shared(self, name: str, value: list[Any]) -> list[Any]:
        old = self.tree.get(name)
        if type(old) is not list:
            return value
        pieces = self._pieces(name)
        try:
            # An item that the store returned still has its members in order: encoding it unsorted is faster.
            count = _count_true(map(eq, map(_encode, value), pieces))
            old_by_piece = dict(zip(pieces[count:], old[count:], strict=True))
            return old[:count] + [old_by_piece.get(_encode_sorted(item), item) for item in value[count:]]
        except (TypeError, ValueError, RecursionError):  # no JSON: `follow` refuses it with the right message
            return value

    def _pieces(self, name: str) -> list[bytes]:
        """The bytes of each item of a list."""
        if name not in self._items:
            items = self._members[name][len(_named(name)) :]
            self._items[name] = list(map(bytes, _decode_items(items)))
        return self._items[name]


def _count_true(tests: Iterable[bool]) -> int:
    """How many tests pass before the first one that does not. Often all items of a list but the last are shared."""
    passed = [*tests]
    return passed.index(False) if False in passed else len(passed)


def _encoded(item: Any, check: Decoder | None) -> tuple[Any, bytes]:
    """An item of a list as our own tree, and its bytes."""
    piece = canonical([[item]])[2:-2]  # as deep as it is in the document
    if check is not None:
        check.decode(piece)
    return load(piece), piece


def _named(name: str) -> bytes:
    return _encode_sorted(name) + b":"


@cache
def _decoders(kind: type[DocumentPart]) -> dict[str, tuple[Decoder, Decoder | None]]:
    """For each member of `kind`, the decoder that checks it; where it is a list, also the one that checks an item."""
    decoders: dict[str, tuple[Decoder, Decoder | None]] = {}
    for field in msgspec.structs.fields(kind):
        optional = get_origin(field.type) in (Union, UnionType)
        expected = get_args(field.type)[0] if optional else field.type
        inner = bare(expected)
        item = msgspec.json.Decoder(get_args(inner)[0]) if get_origin(inner) is tuple else None
        decoders[field.encode_name] = msgspec.json.Decoder(expected), item
    return decoders
