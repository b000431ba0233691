"""A document and its canonical bytes, and the documents that follow it: only what changed is encoded and checked.

Owns: `EncodedDocument`. Must never: write other bytes than `documents.write` does, or keep an object of its caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from operator import eq, is_
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from adjourn.knowledge.model import MAX_DOCUMENT_BYTES, MAX_ITEMS, DocumentPart, Tree, bare, load, write
from adjourn.log import canonical

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
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
            name: self._shared(name, value) if type(value) is list else value
            for name, value in values.items()
        }

    def follow(self, tree: Mapping[str, Any]) -> EncodedDocument:
        """Encode and check `tree`. Finds the parts that it shares with this document by identity.

        Raises `InvalidError` if it does not fit `kind`, or is no JSON or too large.
        """
        before = self.tree
        if len(tree) != len(before) or not before.keys() >= tree.keys():
            return EncodedDocument(write(tree, self.kind), self.kind)
        made = EncodedDocument(b"", self.kind)
        made.tree, made._members, made._items = dict(before), dict(self._members), dict(self._items)
        single: Tree = {}
        try:
            for name, value in tree.items():
                old = before[name]
                if value is not old:
                    if type(value) is list and type(old) is list and len(value) <= MAX_ITEMS:
                        made._put_list(name, value, old, self._pieces(name))
                    else:
                        single[name] = value
            made._put(single)
        except msgspec.ValidationError:
            write(tree, self.kind)  # raises the error that names the place in the whole document
            raise
        made.content = b"{" + b",".join(made._members.values()) + b"}"
        if len(made.content) > MAX_DOCUMENT_BYTES:
            write(tree, self.kind)
        return made

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
            for one in value[count:]:
                item, piece = rest.get(id(one)) or _encoded(one, check)
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
            known = dict(zip(pieces[count:], old[count:], strict=True))
            return old[:count] + [known.get(_encode_sorted(item), item) for item in value[count:]]
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
    found: dict[str, tuple[Decoder, Decoder | None]] = {}
    for field in msgspec.structs.fields(kind):
        optional = get_origin(field.type) in (Union, UnionType)
        expected = get_args(field.type)[0] if optional else field.type
        inner = bare(expected)
        item = msgspec.json.Decoder(get_args(inner)[0]) if get_origin(inner) is tuple else None
        found[field.encode_name] = msgspec.json.Decoder(expected), item
    return found
