"""Everything that the index stores about one file, computed from its bytes alone.

Owns: `Analysis` and `analyse`, a pure function: files of equal bytes and language are analyzed once. Must never: read a file.
"""

from __future__ import annotations

import codecs
import hashlib

import msgspec

from adjourn.code.index import ctags
from adjourn.code.index.chunking import Chunk, chunks_of
from adjourn.code.index.grammars import has_grammar
from adjourn.code.index.outline import Outline, Region, Symbol, outline
from adjourn.code.model import words

MAX_PARSED = 2 << 20
GRAMMAR, TAGS, WORDS, SKIPPED = "grammar", "ctags", "words", "skipped"
_SNIFFED = 8_192


class Analysis(msgspec.Struct, frozen=True, array_like=True):
    """`engine` is the source of the symbols: `grammar`, `ctags`, `words` (no symbols) or `skipped` (not indexed)."""

    engine: str
    lines: int
    symbols: list[Symbol]
    regions: list[Region]
    words: str
    chunks: list[Chunk]


def dialect(language: str, workspace: str) -> str:
    """A language with the engine that analyzes it here: another engine gives another analysis."""
    if has_grammar(language):
        return f"{language}+grammar"
    return f"{language}+ctags" if ctags.program(workspace) else language


def fingerprint(data: bytes, language: str) -> bytes:
    """The key of an analysis: a hash of the bytes and the dialect."""
    return hashlib.sha256(b"%s\0%s" % (language.encode(), data)).digest()[:16]


def as_utf8(data: bytes) -> bytes | None:
    """A text file's bytes in UTF-8 with the same lines; None for a binary file."""
    for mark, name in (
        (codecs.BOM_UTF8, ""),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return data[3:] if not name else data[2:].decode(name, "replace").encode("utf-8", "replace")
    return None if b"\0" in data[:_SNIFFED] else data


def analyse(data: bytes, language: str, tags: list[Symbol] | None = None) -> Analysis:
    """Analyze a file. `tags` are Universal Ctags' symbols, used if the language has no grammar."""
    text = as_utf8(data)
    if text is None or len(text) > MAX_PARSED:
        return Analysis(SKIPPED, 0, [], [], "", [])
    found = outline(text, language) if has_grammar(language) else None
    engine = GRAMMAR if found else WORDS
    if found is None and tags:
        found, engine = Outline(tags, []), TAGS
    return Analysis(
        engine=engine,
        lines=text.count(b"\n") + (not text.endswith(b"\n") and bool(text)),
        symbols=found.symbols if found else [],
        regions=found.regions if found else [],
        words=words.of_file(text),
        chunks=chunks_of(text, found),
    )
