"""The values of a thread's channels in documents: what is large is stored once, and of a list that grows only its new items.

A document begins with the thread's mark, so that threads share none, and deleting one leaves the others whole. A document
names another one by that mark and its digest, in plain text: `adjourn store gc` and `adjourn verify` follow them, and no text of a user is
taken for one.
"""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, MutableMapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from adjourn.errors import IntegrityError, NotFoundError

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from adjourn.store.base import Store

INLINE = 512
"""Bytes up to which a value stands in the document that has it."""
SHORTEST_LIST = 2
"""Items from which on a list may follow on the one before it."""
MAX_DEPTH = 100
"""Checkpoints that one list may be spread over: then it is written whole again, but for its large items."""
MAX_NESTED = 3
"""Levels of lists and objects of which each item is stored by itself."""
MAX_VALUE = 256 * 1024 * 1024
"""Bytes of one value."""
MAX_KEPT = 16 * 1024 * 1024
"""Bytes of values, as they were serialised, that are kept in memory for each thread."""
MARK, DIGITS = 8, 64
_ITEMS, _OBJECT, _PART = "items", "object", "part"

Typed: TypeAlias = "tuple[str, bytes]"
StoredValue: TypeAlias = Any
"""A value in a document: `[type, bytes, is compressed]`; the name of a document with that; `["items", […]]` and `["object", {…}]` of such
values; or `["part", document, kept, depth, […]]`, a list: the first `kept` items of the one in the document of another checkpoint, for the
same channel, then these. `depth` counts the documents below.
"""
ListOf: TypeAlias = "Callable[[str], StoredValue]"
"""What a document of a checkpoint, named by its digest, has for the channel in question."""
_encode = msgspec.msgpack.Encoder().encode


class KnownList(NamedTuple):
    """A list that is stored: the document of its checkpoint, the SHA-256 of each item as it was serialised, and its depth."""

    document: str
    prints: list[bytes]
    depth: int


class ThreadValues:
    """The values of one thread. `mark` is what its documents begin with. Not thread-safe."""

    def __init__(self, store: Store, mark: bytes, serde: SerializerProtocol) -> None:
        self._store = store
        self._mark = mark
        self._prefix = f"{mark.hex()}:"
        self._named = re.compile(self._prefix.encode() + rb"([0-9a-f]{64})")
        self._serde = serde
        self._plain: SerializerProtocol = getattr(serde, "serde", serde)
        """What serialises before anything is encrypted, which would make equal values different."""
        self._kept: OrderedDict[str, Typed] = OrderedDict()
        self._kept_bytes = 0

    def document(self, body: object, blobs: MutableMapping[str, bytes]) -> str:
        """Add a document; returns its digest."""
        data = self._mark + _encode(body)
        digest = sha256(data).hexdigest()
        blobs[digest] = data
        return digest

    def read(self, digest: str) -> bytes:
        """The body of a document. Raises `NotFoundError`, `IntegrityError`."""
        data = self._store.get_blob(digest)
        if data is None:
            raise NotFoundError(f"document {digest} of a thread is gone", "restore the store, or delete the thread")
        return data[MARK:]

    # --- writing

    def dump(self, value: object, blobs: MutableMapping[str, bytes]) -> StoredValue:
        """A value for a document, as one piece."""
        return self._stored(self._serde.dumps_typed(value), blobs)

    def dump_items(self, value: object, blobs: MutableMapping[str, bytes], levels: int = MAX_NESTED) -> StoredValue:
        """A value for a document, the items of lists and objects by themselves: what is the same elsewhere is stored once."""
        if levels and type(value) is list:
            return [_ITEMS, [self.dump_items(item, blobs, levels - 1) for item in value]]
        if levels and type(value) is dict and all(type(name) is str for name in value):
            return [_OBJECT, {name: self.dump_items(item, blobs, levels - 1) for name, item in value.items()}]
        return self.dump(value, blobs)

    def dump_list(
        self, items: list[Any], before: KnownList | None, blobs: MutableMapping[str, bytes]
    ) -> tuple[StoredValue | None, list[bytes], int]:
        """A list for a document, its prints and its depth: what follows on the list `before`, as far as that has the same items.
        None where nothing is new.
        """
        typed = [self._plain.dumps_typed(item) for item in items]
        prints = [_print(item) for item in typed]
        common = 0
        if before is not None and before.depth < MAX_DEPTH:
            for new, old in zip(prints, before.prints, strict=False):
                if new != old:
                    break
                common += 1
            if common == len(prints) == len(before.prints):
                return None, prints, before.depth
        added = typed[common:] if self._plain is self._serde else map(self._serde.dumps_typed, items[common:])
        base = f"{self._prefix}{before.document}" if before is not None and common else ""
        depth = before.depth + 1 if before is not None and common else 0
        return [_PART, base, common, depth, [self._stored(item, blobs) for item in added]], prints, depth

    def _stored(self, typed: Typed, blobs: MutableMapping[str, bytes]) -> StoredValue:
        kind, whole = typed
        data = bytes(whole)
        is_compressed = False
        if len(data) > INLINE and len(smaller := zlib.compress(data, 1)) < len(data):
            data, is_compressed = smaller, True
        item = (kind, data, is_compressed)
        if len(data) <= INLINE:
            return item
        digest = self.document(item, blobs)
        self._keep(f"{self._prefix}{digest}", (kind, bytes(whole)))
        return f"{self._prefix}{digest}"

    # --- reading

    def load(self, stored: StoredValue, list_of: ListOf | None = None) -> Any:
        """The value. Raises `NotFoundError`, `IntegrityError`."""
        if type(stored) is list and len(stored) == 2:
            if stored[0] == _ITEMS:
                return [self.load(item) for item in stored[1]]
            if stored[0] == _OBJECT:
                return {name: self.load(item) for name, item in stored[1].items()}
        if _is_part(stored):
            return [self._serde.loads_typed(self._typed(item)) for item in _items(stored, list_of)]
        return self._serde.loads_typed(self._typed(stored))

    def known_list(self, document: str, stored: StoredValue, list_of: ListOf) -> KnownList | None:
        """A list that was stored earlier, to follow on; None for what is no such list."""
        if not _is_part(stored):
            return None
        typed: Iterable[Typed] = map(self._typed, _items(stored, list_of))
        if self._plain is not self._serde:
            typed = (self._plain.dumps_typed(self._serde.loads_typed(item)) for item in typed)
        return KnownList(document, list(map(_print, typed)), stored[3])

    def _typed(self, stored: StoredValue) -> Typed:
        if type(stored) is str and (kept := self._kept.get(stored)) is not None:
            return kept
        item = msgspec.msgpack.decode(self.read(stored[-DIGITS:])) if type(stored) is str else stored
        try:
            kind, data, is_compressed = item
        except (TypeError, ValueError) as error:
            raise IntegrityError("a value of a thread is not as adjourn writes it", "restore the store") from error
        if is_compressed:
            whole = zlib.decompressobj()
            data = whole.decompress(data, MAX_VALUE)
            if not whole.eof:
                raise IntegrityError(f"a value of a thread has more than {MAX_VALUE} bytes", "restore the store")
        if type(stored) is str:
            self._keep(stored, (kind, data))
        return kind, data

    def _keep(self, name: str, typed: Typed) -> None:
        if name not in self._kept:
            self._kept[name] = typed
            self._kept_bytes += len(typed[1])
            while self._kept_bytes > MAX_KEPT:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1][1])

    def reachable(self, digests: Iterable[str]) -> set[str]:
        """These documents and all that they name."""
        needed: set[str] = set()
        waiting = list(digests)
        while waiting:
            digest = waiting.pop()
            if (
                digest not in needed
                and (data := self._store.get_blob(digest)) is not None
                and data[:MARK] == self._mark
            ):
                needed.add(digest)
                waiting += (match.decode() for match in self._named.findall(data))
        return needed

    def forget(self) -> None:
        """Keep nothing in memory any more."""
        self._kept.clear()
        self._kept_bytes = 0


def _is_part(stored: StoredValue) -> bool:
    return type(stored) is list and len(stored) == 5 and stored[0] == _PART


def _items(stored: StoredValue, list_of: ListOf | None) -> list[Any]:
    """The items of a list, through the documents that it is spread over."""
    parts = [stored]
    while base := parts[-1][1]:
        above = None if list_of is None else list_of(base[-DIGITS:])
        if len(parts) > MAX_DEPTH + 1 or not _is_part(above):
            raise IntegrityError(f"the list in document {base} is missing", "restore the store")
        parts.append(above)
    items: list[Any] = []
    for _, _, kept, _, added in reversed(parts):
        del items[kept:]
        items += added
    return items


def _print(typed: Typed) -> bytes:
    return sha256(typed[0].encode() + b"\0" + typed[1]).digest()
