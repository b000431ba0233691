"""A tree that was written, and those that follow it: only what has changed is made canonical and checked anew.

Owns: `EncodedDocument`. Must never: write other bytes than `documents.write` does, or keep an object of its caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from adjourn.knowledge.model import MAX_DOCUMENT_BYTES, MAX_ITEMS, DocumentPart, Tree, bare, load, write
from adjourn.log import canonical

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode

Decoder = msgspec.json.Decoder[Any]


class EncodedDocument:
    """A tree of `kind`, and its canonical bytes: `content`, which may be taken apart to be used again.

    Code that makes another tree of `tree` shares its parts, and changes and hands out none of them.
    """

    __slots__ = ("_items", "_members", "content", "kind", "tree")

    def __init__(self, content: bytes, kind: type[DocumentPart], tree: Tree | None = None) -> None:
        """Of canonical bytes that fit `kind`, as `documents.write` gives them."""
        self.content = content
        self.kind = kind
        self.tree = load(content) if tree is None else tree
        self._members: dict[str, bytes] = {}
        """The bytes of each member with its name, in the order in which they are written; empty until they are needed."""
        self._items: dict[str, list[bytes]] = {}
        """Those of the items of a list, in its order."""

    def shared(self, values: Mapping[str, Any]) -> Tree:
        """The values, with the items of this tree in the place of those that say the same: what is shared is not written anew."""
        return {name: self._shared(name, value) for name, value in values.items()}

    def follow(self, tree: Mapping[str, Any]) -> EncodedDocument:
        """`tree`, written. Raises `InvalidError`. The parts that it has in common with this one are looked for by identity."""
        added = tree.keys() - self.tree.keys()
        if len(tree) - len(added) < len(self.tree) or (added and not all(map(str.isascii, tree))):
            # A member is gone, which may be one that must be there; or the order of members is to be found anew.
            return EncodedDocument(write(tree, self.kind), self.kind)
        made = EncodedDocument(b"", self.kind, dict(self.tree))
        made._members, made._items = dict(self._members or self._taken_apart()), dict(self._items)
        try:
            for name, value in tree.items():
                if name in added or value is not self.tree[name]:
                    made._put(name, value, self)
        except msgspec.ValidationError:
            write(tree, self.kind)  # says what is wrong, and where in the whole
            raise
        if added:
            made._members = dict(sorted(made._members.items()))
        made.content = b"{" + b",".join(made._members.values()) + b"}"
        if len(made.content) > MAX_DOCUMENT_BYTES:
            write(tree, self.kind)
        return made

    def _put(self, name: str, value: Any, before: EncodedDocument) -> None:
        """Take a member in that is not the one of the tree before."""
        whole, each = _decoders(self.kind).get(name, (None, None))
        old = before.tree.get(name)
        if type(value) is not list or type(old) is not list or len(value) > MAX_ITEMS:
            written = canonical([value])[1:-1]  # as deep as it is in the tree, for the bound on depth
            if whole is not None:
                whole.decode(written)
            self.tree[name] = load(written)
            self._items.pop(name, None)
        else:
            known = before._written_items(name)
            items, pieces = _begun_like(value, old, known)
            rest = slice(len(items), None)
            pairs = {id(item): (item, piece) for item, piece in zip(old[rest], known[rest], strict=True)}
            for one in value[rest]:
                item, piece = pairs.get(id(one)) or _anew(one, each)
                items.append(item)
                pieces.append(piece)
            written = b"[" + b",".join(pieces) + b"]"
            self.tree[name], self._items[name] = items, pieces
        self._members[name] = _named(name) + written

    def _shared(self, name: str, value: Any) -> Any:
        old = self.tree.get(name)
        if type(value) is not list or type(old) is not list:
            return value
        known = dict(zip(self._written_items(name), old, strict=True))
        try:
            return [known.get(_encode_sorted(item), item) for item in value]
        except (TypeError, ValueError, RecursionError):  # no JSON: left to be refused with the right words
            return value

    def _written_items(self, name: str) -> list[bytes]:
        if name not in self._items:
            members = self._members or self._taken_apart()
            self._items[name] = list(map(bytes, _decode_items(members[name][len(_named(name)) :])))
        return self._items[name]

    def _taken_apart(self) -> dict[str, bytes]:
        self._members = {
            name: _named(name) + bytes(piece) for name, piece in _decode_members(self.content).items()
        }
        return self._members


def _anew(item: Any, check: Decoder | None) -> tuple[Any, bytes]:
    """An item of a list, and its bytes."""
    piece = canonical([[item]])[2:-2]  # as deep as it is in the tree
    if check is not None:
        check.decode(piece)
    return load(piece), piece


def _begun_like(items: list[Any], old: list[Any], pieces: list[bytes]) -> tuple[list[Any], list[bytes]]:
    """The items at the beginning that are those of the old list, and their bytes: often all but the last."""
    pairs = enumerate(zip(items, old, strict=False))
    count = next((place for place, (one, other) in pairs if one is not other), min(len(items), len(old)))
    return items[:count], pieces[:count]


def _named(name: str) -> bytes:
    return _encode_sorted(name) + b":"


@cache
def _decoders(kind: type[DocumentPart]) -> dict[str, tuple[Decoder, Decoder | None]]:
    """What checks a member of `kind`, and what one item of it where it is a list."""
    found: dict[str, tuple[Decoder, Decoder | None]] = {}
    for field in msgspec.structs.fields(kind):
        optional = get_origin(field.type) in (Union, UnionType)
        expected = get_args(field.type)[0] if optional else field.type
        inner = bare(expected)
        item = msgspec.json.Decoder(get_args(inner)[0]) if get_origin(inner) is tuple else None
        found[field.encode_name] = msgspec.json.Decoder(expected), item
    return found
