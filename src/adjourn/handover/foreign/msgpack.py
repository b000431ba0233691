"""Reading MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md) that a hostile program may have written.

An extension type is data: `(module, name, arguments)` of an object is returned as an `Extension`, and nothing is imported or called.
msgspec reads MessagePack as well, but does not limit the number of values: 16 MiB of empty lists take 1 GB there.

Owns: this reader and its limits. Must never: allocate by a length that the data state and do not have.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from adjourn.errors import InvalidError

MAX_DEPTH = 64
MAX_VALUES = 500_000
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_LISTS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}


class Extension(NamedTuple):
    """A value of an extension type: its number and its bytes."""

    code: int
    data: bytes


def decode(data: bytes) -> Any:
    """The value of a MessagePack text. Map keys become texts. Raises `InvalidError`."""
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise InvalidError(f"MessagePack: {len(data) - reader.at} bytes follow the value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.values = 0

    def value(self, depth: int) -> Any:  # one return a kind of value
        self.values += 1
        if depth > MAX_DEPTH or self.values > MAX_VALUES:
            raise InvalidError(
                f"MessagePack: more than {MAX_DEPTH} levels or {MAX_VALUES:,} values", "do not use this file"
            )
        mark = self.take(1)[0]
        if mark <= 0x7F or mark >= 0xE0:
            return mark if mark <= 0x7F else mark - 0x100
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark in _NUMBERS:
            form = _NUMBERS[mark]
            return struct.unpack(form, self.take(struct.calcsize(form)))[0]
        if 0xA0 <= mark <= 0xBF or mark in _TEXTS:
            return self.text(mark & 0x1F if mark <= 0xBF else self.size(_TEXTS[mark]))
        if mark in _BYTES:
            return self.take(self.size(_BYTES[mark]))
        if 0x90 <= mark <= 0x9F or mark in _LISTS:
            return self.items(mark & 0x0F if mark <= 0x9F else self.size(_LISTS[mark]), depth)
        if 0x80 <= mark <= 0x8F or mark in _MAPS:
            return self.members(mark & 0x0F if mark <= 0x8F else self.size(_MAPS[mark]), depth)
        size = _FIXED.get(mark) or (self.size(_EXTENSIONS[mark]) if mark in _EXTENSIONS else None)
        if size is None:
            raise InvalidError(f"MessagePack: byte {mark:#04x} begins no value")
        return Extension(self.take(1)[0], self.take(size))

    def take(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        if len(found) < size:
            raise InvalidError("MessagePack: it ends in the middle of a value")
        self.at += size
        return found

    def size(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise InvalidError(f"MessagePack: a text is not UTF-8: {error.reason}") from error

    def items(self, count: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(count)]

    def members(self, count: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(count):
            key = self.value(depth + 1)
            name = key if isinstance(key, str) else str(key)[:200]
            if name in found:
                raise InvalidError(f"MessagePack: key {name[:100]!r} appears twice in a map")
            found[name] = self.value(depth + 1)
        return found
