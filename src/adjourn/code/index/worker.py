"""Analyzes files in another process: `python -m adjourn.code.index.worker`.

Owns: the worker's loop and its end of the pipe. Must never: write anything but answers to its output, or outlive its parent:
it ends when its input does.

A request and an answer are each a length of four bytes and MessagePack.
"""

from __future__ import annotations

import sys
from typing import IO

import msgspec

from adjourn.code.index.analysis import Analysis, analyse
from adjourn.code.index.outline import Symbol

_LENGTH = 4


class AnalysisRequest(msgspec.Struct, frozen=True, array_like=True):
    """Bytes to analyze, with the symbols that Universal Ctags found, if any."""

    data: bytes
    language: str
    tags: list[Symbol] | None = None


def write(pipe: IO[bytes], message: AnalysisRequest | Analysis) -> None:
    data = msgspec.msgpack.encode(message)
    pipe.write(len(data).to_bytes(_LENGTH, "big") + data)
    pipe.flush()


def read(pipe: IO[bytes]) -> bytes | None:
    """One message, or None at the end."""
    head = pipe.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    size = int.from_bytes(head, "big")
    data = pipe.read(size)
    return data if len(data) == size else None


def main() -> None:
    while (data := read(sys.stdin.buffer)) is not None:
        request = msgspec.msgpack.decode(data, type=AnalysisRequest)
        write(sys.stdout.buffer, analyse(request.data, request.language, request.tags))


if __name__ == "__main__":
    main()
