"""Cuts a file into the chunks that it is found by.

Owns: `Chunk`, `chunks_of`, and the words of a chunk. Must never: read a file or the index.
"""

from __future__ import annotations

import msgspec

from adjourn.code.index.outline import DOCUMENTED, FUNCTIONS, Outline, Symbol
from adjourn.code.model.words import split, whole

MAX_TEXT = 4_000
MAX_HEAD = 200
_HEAD_LINES = 30
_BLOCK_LINES = 50
_MAX_CHUNKS = 2_000
_FILE = "module"
"""The name and kind of the chunk that is the head of a file."""
_WHOLE = DOCUMENTED | {"heading", "namespace", "selector", "trigger"}


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Lines `line` to `end_line` of a file. `name` holds the enclosing names, with dots.

    `head` is what a vector is made of. The text that it is found by stays in the file, from byte `start` to byte `end`.
    """

    name: str
    kind: str
    line: int
    end_line: int
    signature: str
    doc: str
    head: str
    start: int
    end: int


def chunks_of(data: bytes, found: Outline | None) -> list[Chunk]:
    """Chunks of a file: its definitions and the head of the module, or blocks of 50 lines if nothing is defined."""
    text_symbols = [s for s in found.symbols if s.kind in _WHOLE] if found else []
    if not text_symbols:
        return _blocks(data)
    head = data.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    module = _made(data, Symbol(_FILE, _FILE, "", 1, len(head), 0, len(b"\n".join(head)), ""))
    starts = sorted(symbol.start for symbol in text_symbols)
    return [module, *(_chunk(data, symbol, starts) for symbol in text_symbols[:_MAX_CHUNKS])]


def _chunk(data: bytes, symbol: Symbol, starts: list[int]) -> Chunk:
    end = symbol.end
    if symbol.kind not in FUNCTIONS:
        # What a class or a section contains has chunks of its own: here is what stands before them.
        end = next((start for start in starts if symbol.start < start < symbol.end), end)
    return _made(data, symbol, end)


def _blocks(data: bytes) -> list[Chunk]:
    lines = data.split(b"\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    blocks = []
    start = 0
    for first in range(0, min(len(lines), _BLOCK_LINES * _MAX_CHUNKS), _BLOCK_LINES):
        part = lines[first : first + _BLOCK_LINES]
        end = start + sum(map(len, part)) + len(part) - 1
        if any(line.strip() for line in part):
            last = first + len(part)
            block = Symbol(f"lines {first + 1}-{last}", "block", "", first + 1, last, start, end, "")
            blocks.append(_made(data, block))
        start = end + 1
    return blocks


def _made(data: bytes, symbol: Symbol, end: int | None = None) -> Chunk:
    end = symbol.end if end is None else end
    text = data[symbol.start : min(end, symbol.start + 8 * MAX_HEAD)].decode("utf-8", "replace")
    head = " ".join(f"{symbol.doc[: MAX_HEAD // 2]} {text[: 2 * MAX_HEAD]}".split())[:MAX_HEAD]
    return Chunk(
        symbol.dotted,
        symbol.kind,
        symbol.line,
        symbol.end_line,
        symbol.signature,
        symbol.doc,
        head,
        symbol.start,
        end,
    )


class ChunkText(msgspec.Struct, frozen=True, array_like=True):
    """What the words of a chunk are made of, beside the bytes of its file."""

    name: str
    kind: str
    doc: str
    start: int
    end: int


def words_of(data: bytes, chunk: ChunkText) -> tuple[str, str, str]:
    """What a chunk is found by: the words of its name, of its documentation, and of its text."""
    unnamed = chunk.kind == "block" or chunk.name == chunk.kind == _FILE
    own = [] if unnamed else [*split(chunk.name), *whole(chunk.name)]
    text = _decoded(data[chunk.start : chunk.end])
    return " ".join(own), " ".join(split(chunk.doc)), " ".join(split(text))


def _decoded(data: bytes) -> str:
    """Text that is not too long: its beginning and its end."""
    text = data[: 8 * MAX_TEXT].decode("utf-8", "replace") if len(data) < 8 * MAX_TEXT else ""
    if not text:
        text = f"{data[: 2 * MAX_TEXT].decode('utf-8', 'replace')}\n{data[-MAX_TEXT:].decode('utf-8', 'replace')}"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n...\n{text[-MAX_TEXT // 2 :]}"
