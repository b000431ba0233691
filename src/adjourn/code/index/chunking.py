"""Pieces of a file that a search for meaning can return.

Owns: `Chunk` and how a file is cut. Must never: read a file.
"""

from __future__ import annotations

import msgspec

from adjourn.code.index.outline import CLASSES, FUNCTIONS, Outline, Symbol
from adjourn.code.model.words import split, whole

MAX_TEXT = 4_000
MAX_HEAD = 200
_HEAD_LINES = 30
_BLOCK_LINES = 50
_MAX_CHUNKS = 2_000
_WHOLE = frozenset({*CLASSES, *FUNCTIONS, "heading", "selector", "module", "namespace", "macro"})


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Lines `line` to `end_line` of a file. `name` holds the enclosing names, with dots.

    `words` is what it is found by: those of its name, of its documentation, of all of it. `head` is what a vector is made of. The
    text itself stays in the file.
    """

    name: str
    kind: str
    line: int
    end_line: int
    signature: str
    doc: str
    head: str
    words: tuple[str, str, str]


def chunks_of(data: bytes, found: Outline | None) -> list[Chunk]:
    """Definitions and the head of the module; blocks of 50 lines where nothing is defined."""
    text_symbols = [s for s in found.symbols if s.kind in _WHOLE] if found else []
    if not text_symbols:
        return _blocks(data)
    head = data.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    module = _made(Symbol("module", "module", "", 1, len(head), 0, 0, ""), b"\n".join(head))
    starts = sorted(symbol.start for symbol in text_symbols)
    return [module, *(_chunk(data, symbol, starts) for symbol in text_symbols[:_MAX_CHUNKS])]


def _chunk(data: bytes, symbol: Symbol, starts: list[int]) -> Chunk:
    end = symbol.end
    if symbol.kind not in FUNCTIONS:
        # What a class or a section contains has chunks of its own: here is what stands before them.
        end = next((start for start in starts if symbol.start < start < symbol.end), end)
    return _made(symbol, data[symbol.start : end])


def _blocks(data: bytes) -> list[Chunk]:
    lines = data.split(b"\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    blocks = []
    for first in range(0, min(len(lines), _BLOCK_LINES * _MAX_CHUNKS), _BLOCK_LINES):
        part = lines[first : first + _BLOCK_LINES]
        if any(line.strip() for line in part):
            last = first + len(part)
            block = Symbol(f"lines {first + 1}-{last}", "block", "", first + 1, last, 0, 0, "")
            blocks.append(_made(block, b"\n".join(part)))
    return blocks


def _made(symbol: Symbol, data: bytes) -> Chunk:
    name = symbol.dotted
    own = [] if symbol.kind in {"block", "module"} else [*split(name), *whole(name)]
    text = _decoded(data)
    found = (" ".join(own), " ".join(split(symbol.doc)), " ".join(split(text)))
    head = " ".join(f"{symbol.doc[: MAX_HEAD // 2]} {text[: 2 * MAX_HEAD]}".split())[:MAX_HEAD]
    return Chunk(name, symbol.kind, symbol.line, symbol.end_line, symbol.signature, symbol.doc, head, found)


def _decoded(data: bytes) -> str:
    """Text that is not too long: its beginning and its end."""
    text = data[: 8 * MAX_TEXT].decode("utf-8", "replace") if len(data) < 8 * MAX_TEXT else ""
    if not text:
        text = f"{data[: 2 * MAX_TEXT].decode('utf-8', 'replace')}\n{data[-MAX_TEXT:].decode('utf-8', 'replace')}"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n...\n{text[-MAX_TEXT // 2 :]}"
