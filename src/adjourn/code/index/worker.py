"""Analyzes files in another process: `python -m adjourn.code.index.worker`.

Owns: what a worker can be asked, the worker's loop and its end of the pipe. Must never: write anything but answers to its output, or
outlive its parent: it ends when its input does.

A request and an answer are each a length of four bytes and MessagePack.
"""

from __future__ import annotations

import sys
from typing import IO, Any

import msgspec

from adjourn.code.index.analysis import SKIPPED, Analysis, analyse, as_utf8
from adjourn.code.index.chunking import ChunkText, words_of
from adjourn.code.index.outline import Symbol

_LENGTH = 4


class AnalysisRequest(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Bytes to analyze, with the symbols that Universal Ctags found, if any."""

    data: bytes
    language: str
    tags: list[Symbol] | None = None

    def perform(self) -> Analysis:
        return analyse(self.data, self.language, self.tags)

    def decode(self, answer: bytes) -> Analysis:
        return msgspec.msgpack.decode(answer, type=Analysis)

    def skipped(self) -> Analysis:
        """The answer for a file that cannot be analyzed."""
        return Analysis(SKIPPED, 0, [], [], "", [])


ChunkWords = list[tuple[str, str, str]]
"""For each chunk, the words of its name, of its documentation and of its text."""


class WordsRequest(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A file's bytes and its chunks, whose words are wanted."""

    data: bytes
    chunks: list[ChunkText]

    def perform(self) -> ChunkWords:
        text = as_utf8(self.data) or b""
        return [words_of(text, chunk) for chunk in self.chunks]

    def decode(self, answer: bytes) -> ChunkWords:
        return msgspec.msgpack.decode(answer, type=ChunkWords)

    def skipped(self) -> ChunkWords:
        """The answer for a file whose words cannot be found."""
        return [("", "", "")] * len(self.chunks)


def write(pipe: IO[bytes], message: Any) -> None:
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
        request = msgspec.msgpack.decode(data, type=AnalysisRequest | WordsRequest)
        write(sys.stdout.buffer, request.perform())


if __name__ == "__main__":
    main()
