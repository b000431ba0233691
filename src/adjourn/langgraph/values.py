"""The values of a thread's channels in documents: what is large is stored once, and of a list that grows only its new items.

A document begins with the thread's mark, so that threads share none, and deleting one leaves the others whole. Then it lists the digests of
the documents that it names, in plain text: `adjourn store gc` and `adjourn verify` follow them (`graph_documents`). Its body is compressed.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from adjourn.errors import IntegrityError, InvalidError, NotFoundError
from adjourn.tasks.task import GRAPH_BODY, graph_documents

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from adjourn.store.base import Store

INLINE = 512
"""Bytes up to which a value stands in the document that has it."""
SHORTEST_LIST = 2
"""Items from which on a list may follow on the one before it."""
MAX_DEPTH = 100
"""Checkpoints that one list may be spread over: then it is written whole again, but for its large items and its runs."""
RUN = 64
"""Items of a list in one document, where it is written whole."""
MAX_NESTED = 3
"""Levels of lists and objects of which each item is stored by itself."""
MAX_VALUE = 256 * 1024 * 1024
"""Bytes of one value."""
MAX_LOADED = 1024 * 1024 * 1024
"""Bytes of documents and values that reading one checkpoint takes: one may be named any number of times. Half as much can be written."""
MAX_KEPT = 16 * 1024 * 1024
"""Bytes of values, as they were serialised, that are kept in memory for each thread."""
MAX_LISTED = 100
"""Names of documents that help to compress a body."""
MARK, DIGITS = 8, 64
_ITEMS, _OBJECT, _PART, _RUN = "items", "object", "part", "run"
_USUAL = (
    b"langchain_core.messages.system\xadSystemMessagelangchain_core.messages.tool\xabToolMessage\xactool_call_id\xa6status\xa7success"
    b"model_provider\xadfinish_reason\xa4stop\xaatool_calls\x91\x84\xa4name\xa4args\xa2id\xa4type\xa9tool_call\xb2invalid_tool_calls\x90"
    b"\xaeusage_metadata\x85\xacinput_tokens\xadoutput_tokens\xactotal_tokens\xb3input_token_details\xb4output_token_details"
    b"\xaa__resume__\xad__interrupt__\xa9__error__\xa6source\xa6update\xa4fork\xa5input\xa4step\xa7parents\x80\xa6source\xa4loop\xa4step\xcd\x01"
    b"\xa5items\x91\x92\xa6object\x81\xa8messages\x95\xa4part\xb1~__pregel_pull, \xa4null\xc4\x00\xc2\xa7msgpack\xc4\x05\x94"
    b"\xbdlangchain_core.messages.human\xacHumanMessage\x86\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content"
    b"\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human\xa4type\xa2ai\xa4name\xc0\xa2id\xaatool_calls\x90"
    b"\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0\xb3model_validate_json\xa7msgpack\xc5\x01\x86\xa1v\x04\xa2ts\xd9 2026-"
    b"+00:00\xa2id\xd9$\xb0channel_versions\x83\xa9__start__\xb30000000001.\xa8messages\xb30000000002.\xafbranch:to:model"
    b"\xb30000000003.\xadversions_seen\x83\xa9__input__\x80\xa9__start__\x81\xa9__start__\xb30000000001.\xa5agent\x81\xafbranch:to:agent"
    b"\xb30000000004.\xb0updated_channels\x91\xa8messages\xc2\xc4\x83\xa6source\xa4loop\xa4step\xa7parents\x80\xc2\x81\xa8messages\x95\xa4part\xd9Q"
)
"""What bodies are likely to have, for their compression. Never change it: what is stored could not be read any more."""

Typed: TypeAlias = "tuple[str, bytes]"
StoredValue: TypeAlias = Any
"""A value in a document: `[type, bytes, is compressed]` (only earlier versions compressed it here); the name of a document with that; `["items", […]]` and `["object", {…}]` of such
values; or `["part", document, kept, depth, […]]`, a list: the first `kept` items of the one in the document of another checkpoint, for the
same channel, then these, where `["run", document]` is `RUN` items. `depth` counts the documents below.
"""
ListOf: TypeAlias = "Callable[[str], StoredValue]"
"""What a document of a checkpoint, named by its digest, has for the channel in question."""
_encode = msgspec.msgpack.Encoder().encode


class KnownList(NamedTuple):
    """A list that is stored: the document of its checkpoint, the SHA-256 of each item as it was serialised, its depth, and its items."""

    document: str
    prints: list[bytes]
    depth: int
    items: list[StoredValue]


class ThreadValues:
    """The values of one thread. `mark` is what its documents begin with. Not thread-safe."""

    def __init__(self, store: Store, mark: bytes, serde: SerializerProtocol) -> None:
        self._store = store
        self._mark = mark
        self._prefix = f"{mark.hex()}:"
        self._serde = serde
        self._plain: SerializerProtocol = getattr(serde, "serde", serde)
        """What serialises before anything is encrypted, which would make equal values different."""
        self._kept: OrderedDict[str, Typed] = OrderedDict()
        self._kept_bytes = 0
        self.start()

    def start(self) -> None:
        """Begin with another checkpoint: what is read and written counts from here."""
        self._left, self._room = MAX_LOADED, MAX_LOADED // 2

    def document(self, body: object, blobs: MutableMapping[str, bytes], stored: Iterable[StoredValue] = ()) -> str:
        """Add a document; returns its digest. `stored` are the values in it."""
        digests = list(dict.fromkeys(name[-DIGITS:] for value in stored for name in _names(value)))
        packer = zlib.compressobj(6, wbits=-zlib.MAX_WBITS, zdict=_dictionary(self._mark, digests))
        packed = _encode(body)
        if len(packed) > MAX_VALUE:
            raise InvalidError(
                f"a value of a thread has more than {MAX_VALUE:,} bytes", "keep it in a file, and its name in the state"
            )
        data = b"".join(
            (
                self._mark,
                GRAPH_BODY,
                len(digests).to_bytes(4, "big"),
                b":",
                "".join(digests).encode(),
                packer.compress(packed),
                packer.flush(),
            )
        )
        digest = sha256(data).hexdigest()
        blobs[digest] = data
        return digest

    def read(self, digest: str) -> bytes:
        """The body of a document. Raises `NotFoundError`, `IntegrityError`."""
        data = self._store.get_blob(digest)
        if data is None:
            raise NotFoundError(f"document {digest} of a thread is gone", "restore the store, or delete the thread")
        body = body_of(data, min(MAX_VALUE, self._left))
        self._take(len(body))
        return body

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _too_much(MAX_LOADED)

    def _write(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise InvalidError(
                f"the values of a checkpoint have more than {MAX_LOADED // 2:,} bytes",
                "keep large ones in files, and their names in the state",
            )

    # --- writing

    def dump(self, value: object, blobs: MutableMapping[str, bytes]) -> StoredValue:
        """A value for a document, as one piece."""
        typed = self._serde.dumps_typed(value)
        self._write(len(typed[1]))
        return self._stored(typed, blobs)

    def dump_items(self, value: object, blobs: MutableMapping[str, bytes], levels: int = MAX_NESTED) -> StoredValue:
        """A value for a document, the items of lists and objects by themselves: what is the same elsewhere is stored once."""
        if levels and type(value) is list:
            return [_ITEMS, [self.dump_items(item, blobs, levels - 1) for item in value]]
        if levels and type(value) is dict and all(type(name) is str for name in value):
            return [_OBJECT, {name: self.dump_items(item, blobs, levels - 1) for name, item in value.items()}]
        return self.dump(value, blobs)

    def dump_list(
        self, items: list[Any], before: KnownList | None, blobs: MutableMapping[str, bytes]
    ) -> tuple[StoredValue | None, KnownList]:
        """A list for a document, and what is known of it then: it follows on the list `before`, as far as that has the same items.
        None where nothing is new.
        """
        before = before or KnownList("", [], 0, [])
        typed = [self._plain.dumps_typed(item) for item in items]
        self._write(sum(len(data) for _, data in typed))
        prints = [_print(item) for item in typed]
        common = next(
            (index for index, pair in enumerate(zip(prints, before.prints, strict=False)) if pair[0] != pair[1]), None
        )
        common = min(len(prints), len(before.prints)) if common is None else common
        if before.document and common == len(prints) == len(before.prints):
            return None, before
        added = typed[common:] if self._plain is self._serde else map(self._serde.dumps_typed, items[common:])
        stored = [self._stored(item, blobs) for item in added]
        every = before.items[:common] + stored
        if common and before.depth < MAX_DEPTH:
            depth = before.depth + 1
            return [_PART, f"{self._prefix}{before.document}", common, depth, stored], KnownList(
                "", prints, depth, every
            )
        return [_PART, "", 0, 0, self._runs(every, blobs)], KnownList("", prints, 0, every)

    def _runs(self, items: list[StoredValue], blobs: MutableMapping[str, bytes]) -> list[StoredValue]:
        """The items of a list, the runs of `RUN` in documents: a list that is written whole again has most of them already."""
        whole = len(items) - len(items) % RUN
        runs = [items[at : at + RUN] for at in range(0, whole, RUN)]
        return [[_RUN, f"{self._prefix}{self.document(run, blobs, run)}"] for run in runs] + items[whole:]

    def _stored(self, typed: Typed, blobs: MutableMapping[str, bytes]) -> StoredValue:
        kind, data = typed[0], bytes(typed[1])
        item = (kind, data, False)
        if len(data) <= INLINE:
            return item
        digest = self.document(item, blobs)
        self._keep(f"{self._prefix}{digest}", (kind, data))
        return f"{self._prefix}{digest}"

    # --- reading

    def load(self, stored: StoredValue, list_of: ListOf | None = None) -> Any:
        """The value. Raises `NotFoundError`, `IntegrityError`."""
        try:
            return self._loaded(stored, list_of)
        except (msgspec.DecodeError, RecursionError) as error:
            message = f"a value of a thread is not as adjourn writes it: {error}"
            raise IntegrityError(message, "restore the store") from error

    def _loaded(self, stored: StoredValue, list_of: ListOf | None) -> Any:
        if type(stored) is list and len(stored) == 2:
            if stored[0] == _ITEMS:
                return [self.load(item) for item in stored[1]]
            if stored[0] == _OBJECT:
                return {name: self.load(item) for name, item in stored[1].items()}
        if _is_part(stored):
            return [self._serde.loads_typed(self._typed(item)) for item in self._items(stored, list_of)]
        return self._serde.loads_typed(self._typed(stored))

    def known_list(self, document: str, stored: StoredValue, list_of: ListOf) -> KnownList | None:
        """A list that was stored earlier, to follow on; None for what is no such list."""
        if not _is_part(stored):
            return None
        items = self._items(stored, list_of)
        typed: Iterable[Typed] = map(self._typed, items)
        if self._plain is not self._serde:
            typed = (self._plain.dumps_typed(self._serde.loads_typed(item)) for item in typed)
        return KnownList(document, list(map(_print, typed)), stored[3], items)

    def _items(self, stored: StoredValue, list_of: ListOf | None) -> list[StoredValue]:
        """The items of a list, through the documents that it is spread over."""
        parts = [stored]
        while base := parts[-1][1]:
            above = None if list_of is None else list_of(base[-DIGITS:])
            if len(parts) > MAX_DEPTH + 1 or not _is_part(above):
                raise IntegrityError(f"the list in document {base} is missing", "restore the store")
            parts.append(above)
        items: list[StoredValue] = []
        for _, _, kept, _, added in reversed(parts):
            del items[kept:]
            for item in added:
                items += self._run(item[1]) if _is_run(item) else [item]
        return items

    def _run(self, name: str) -> list[StoredValue]:
        return cast("list[StoredValue]", msgspec.msgpack.decode(self.read(name[-DIGITS:])))

    def _typed(self, stored: StoredValue) -> Typed:
        if type(stored) is str and (kept := self._kept.get(stored)) is not None:
            self._take(len(kept[1]))
            return kept
        item = msgspec.msgpack.decode(self.read(stored[-DIGITS:])) if type(stored) is str else stored
        try:
            kind, data, is_compressed = item
        except (TypeError, ValueError) as error:
            raise IntegrityError("a value of a thread is not as adjourn writes it", "restore the store") from error
        if is_compressed:  # by an earlier version
            data = _decompressed(data, zlib.decompressobj(), min(MAX_VALUE, self._left))
            self._take(len(data))
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
                waiting += graph_documents(data)
        return needed

    def forget(self) -> None:
        """Keep nothing in memory any more."""
        self._kept.clear()
        self._kept_bytes = 0


def body_of(data: bytes, limit: int = MAX_VALUE) -> bytes:
    """The body of a document, from its bytes, if it has at most `limit`. Raises `IntegrityError`."""
    if data[MARK : MARK + 1] != GRAPH_BODY:  # of an earlier version
        return data[MARK:]
    digests = graph_documents(data)
    packed = data[MARK + len(GRAPH_BODY) + 5 + len(digests) * DIGITS :]
    return _decompressed(packed, zlib.decompressobj(-zlib.MAX_WBITS, zdict=_dictionary(data[:MARK], digests)), limit)


def _dictionary(mark: bytes, digests: list[str]) -> bytes:
    """What compresses a body: the names in it, and what bodies usually have."""
    return "".join(f"{mark.hex()}:{digest}" for digest in digests[:MAX_LISTED]).encode() + _USUAL


def _decompressed(data: bytes, whole: zlib._Decompress, limit: int) -> bytes:
    try:
        body = whole.decompress(data, max(1, limit))  # 0 would be no limit
    except zlib.error as error:
        raise IntegrityError(f"a document of a thread cannot be decompressed: {error}", "restore the store") from error
    if not whole.eof:
        raise _too_much(limit)
    return body


def _too_much(limit: int) -> IntegrityError:
    return IntegrityError(f"a checkpoint of a thread has more than {limit} bytes", "restore the store")


def _names(stored: StoredValue) -> Iterator[str]:
    """The documents that a value names."""
    if type(stored) is str:
        yield stored
    elif _is_run(stored):
        yield stored[1]
    elif type(stored) is list and len(stored) == 2:
        yield from chain.from_iterable(map(_names, stored[1].values() if stored[0] == _OBJECT else stored[1]))
    elif _is_part(stored):
        if stored[1]:
            yield stored[1]
        yield from chain.from_iterable(map(_names, stored[4]))


def _is_run(stored: StoredValue) -> bool:
    return type(stored) is list and len(stored) == 2 and stored[0] == _RUN


def _is_part(stored: StoredValue) -> bool:
    return type(stored) is list and len(stored) == 5 and stored[0] == _PART


def _print(typed: Typed) -> bytes:
    return sha256(typed[0].encode() + b"\0" + typed[1]).digest()
