"""What the index stores about one file: its symbols, regions and words, and the chunks that it is found by.

`analyse` is pure: files of equal bytes and language are analyzed once. Universal Ctags serves languages without a grammar, and
`open_source` reads a file that the index lacks, or has in an older version.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import subprocess
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache

import msgspec

from adjourn.code.index.languages import has_grammar, language_of
from adjourn.code.index.outline import DOCUMENTED, FUNCTIONS, MAX_SIGNATURE, Outline, Region, Symbol, outline
from adjourn.code.repository import CodeRepository
from adjourn.errors import InvalidError
from adjourn.host.executables import find, for_others, outside

MAX_TEXT = 4_000
_HEAD_LINES = 30
_BLOCK_LINES = 50
_MAX_CHUNKS = 2_000
_FILE = "module"
"""The name and kind of the chunk that is the head of a file."""
_WHOLE = DOCUMENTED | {"heading", "namespace", "selector", "trigger"}


_VALUES = frozenset(("constant", "field", "variable"))
_VALUE_LINES = 2


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Lines `line` to `end_line` of a file. `name` holds the enclosing names, with dots.

    The text that it is found by stays in the file, from byte `start` to byte `end`.
    """

    name: str
    kind: str
    line: int
    end_line: int
    signature: str
    doc: str
    start: int
    end: int


def chunks_of(data: bytes, file_outline: Outline | None) -> list[Chunk]:
    """Chunks of a file: its definitions and the head of the module, or blocks of 50 lines if nothing is defined."""
    text_symbols = list(filter(_is_whole, file_outline.symbols)) if file_outline else []
    if not text_symbols:
        return _blocks(data)
    head = data.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    module = _chunk_from(Symbol(_FILE, _FILE, "", 1, len(head), 0, len(b"\n".join(head)), ""))
    starts = sorted(symbol.start for symbol in text_symbols)
    return [module, *(_chunk(symbol, starts) for symbol in text_symbols[:_MAX_CHUNKS])]


def _is_whole(symbol: Symbol) -> bool:
    """Whether a symbol has a text of its own. A value of several lines may be a table, or a function that another one makes."""
    return symbol.kind in _WHOLE or (symbol.kind in _VALUES and symbol.end_line - symbol.line >= _VALUE_LINES)


def _chunk(symbol: Symbol, starts: list[int]) -> Chunk:
    end = symbol.end
    if symbol.kind not in FUNCTIONS:
        # What a class or a section contains has chunks of its own: here is what stands before them.
        end = next((start for start in starts if symbol.start < start < symbol.end), end)
    return _chunk_from(symbol, end)


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
            blocks.append(_chunk_from(block))
        start = end + 1
    return blocks


def _chunk_from(symbol: Symbol, end: int | None = None) -> Chunk:
    end = symbol.end if end is None else end
    return Chunk(
        symbol.dotted, symbol.kind, symbol.line, symbol.end_line, symbol.signature, symbol.doc, symbol.start, end
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
    own = [] if unnamed else [*text_words(chunk.name), *joined_words(chunk.name)]
    text = _decoded(data[chunk.start : chunk.end])
    return " ".join(own), " ".join(text_words(chunk.doc)), " ".join(text_words(text))


def _decoded(data: bytes) -> str:
    """Text that is not too long: its beginning and its end."""
    text = data[: 8 * MAX_TEXT].decode("utf-8", "replace") if len(data) < 8 * MAX_TEXT else ""
    if not text:
        text = f"{data[: 2 * MAX_TEXT].decode('utf-8', 'replace')}\n{data[-MAX_TEXT:].decode('utf-8', 'replace')}"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n...\n{text[-MAX_TEXT // 2 :]}"


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
    return f"{language}+ctags" if ctags_program(workspace) else language


def fingerprint(data: bytes, language: str) -> bytes:
    """The key of an analysis: a hash of the bytes and the dialect."""
    return hashlib.sha256(b"%s\0%s" % (language.encode(), data)).digest()[:16]


def as_utf8(data: bytes) -> bytes | None:
    """A text file's bytes in UTF-8 with the same lines; None for a binary file."""
    for mark, name in ((codecs.BOM_UTF8, ""), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            return data[3:] if not name else data[2:].decode(name, "replace").encode("utf-8", "replace")
    return None if b"\0" in data[:_SNIFFED] else data


def analyse(data: bytes, language: str, tags: list[Symbol] | None = None) -> Analysis:
    """Analyze a file. `tags` are Universal Ctags' symbols, used if the language has no grammar."""
    text = as_utf8(data)
    if text is None or len(text) > MAX_PARSED:
        return Analysis(SKIPPED, 0, [], [], "", [])
    file_outline = outline(text, language) if has_grammar(language) else None
    engine = GRAMMAR if file_outline else WORDS
    if file_outline is None and tags:
        file_outline, engine = Outline(tags, []), TAGS
    return Analysis(
        engine=engine,
        lines=text.count(b"\n") + (not text.endswith(b"\n") and bool(text)),
        symbols=file_outline.symbols if file_outline else [],
        regions=file_outline.regions if file_outline else [],
        words=file_words(text),
        chunks=chunks_of(text, file_outline),
    )


# --- universal Ctags, for languages without a grammar, where it is installed

_SECONDS = 120
_MAX_NAME = 200
_NO_OPTIONS = "--options=NONE"
"""Has to come first: else the options of the folder (`.ctags.d`) are read before it."""
# What these find in prose and settings is not a definition of code.
_NOT = "-Man,-Iniconf,-Diff,-Passwd,-JSON,-ReStructuredText,-Asciidoc,-Make,-Autoconf,-Automake,-LdScript,-RpmSpec"


class _Tag(msgspec.Struct):
    path: str = ""
    name: str = ""
    kind: str = ""
    line: int = 0
    end: int = 0
    scope: str = ""
    pattern: str = ""
    language: str = ""


@cache
def ctags_program(workspace: str) -> str | None:
    """The path of Universal Ctags, outside the workspace; None if not installed. Other ctags programs do not count."""
    program = find("ctags", workspace) or find("universal-ctags", workspace)
    if program is None:
        return None
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [program, _NO_OPTIONS, "--list-features"], capture_output=True, text=True, timeout=5, check=False
        )
        if "json" in done.stdout:
            return program
    return None


def ctags_symbols(paths: Sequence[str], *, cwd: str) -> dict[str, list[Symbol]]:
    """Symbols by path; empty if ctags is missing or fails: a file without symbols is still searched."""
    executable = ctags_program(cwd)
    wanted = [path for path in paths if "\\" not in path]
    if executable is None or not wanted:
        return {}
    command = [executable, _NO_OPTIONS, f"--languages={_NOT}", "--output-format=json", "--fields=+neZsP", "--links=no"]
    try:
        done = subprocess.run(
            [*command, "-f", "-", "-L", "-"],
            cwd=cwd, input="\n".join(f"./{path}" for path in wanted).encode(errors="surrogateescape"),
            capture_output=True, timeout=_SECONDS, check=False, env=outside(for_others(os.environ), cwd),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    symbols: dict[str, list[Symbol]] = {}
    for line in done.stdout.splitlines():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            tag = msgspec.json.decode(line, type=_Tag)
            if tag.name and tag.line:
                symbols.setdefault(tag.path.removeprefix("./"), []).append(_symbol(tag))
    return symbols


def _symbol(tag: _Tag) -> Symbol:
    pattern = " ".join(tag.pattern.removeprefix("/^").removesuffix("/").removesuffix("$").split())
    return Symbol(
        name=tag.name[:_MAX_NAME],
        kind=tag.kind or "symbol",
        scope=tag.scope.replace("::", "."),
        line=tag.line,
        end_line=max(tag.end, tag.line),
        start=0,
        end=0,
        signature=pattern[:MAX_SIGNATURE],
        name_start=-1,
    )


# --- reads one file now

_EMPTY = Outline([], [])


class SourceFile(msgspec.Struct, frozen=True):
    """A text file's bytes in UTF-8 and their outline. `parsed` is False if no grammar has parsed them."""

    path: str
    language: str
    data: bytes
    outline: Outline
    parsed: bool

    def line(self, number: int, most: int) -> str:
        """One line, without its end."""
        return line_of(self.data, number, most)


def line_of(data: bytes, number: int, most: int) -> str:
    """At most `most` characters of a line, without its end; "" if there is no such line."""
    lines = data.split(b"\n", number)
    return lines[number - 1][: 4 * most].decode("utf-8", "replace").strip("\r")[:most] if len(lines) >= number else ""


def open_source(repository: CodeRepository, path: str) -> SourceFile:
    """Read a file of at most 2 MiB. Raises `InvalidError` if it is binary or longer."""
    return of_bytes(path, repository.read(path, MAX_PARSED), language_of(path))


def of_bytes(path: str, data: bytes, language: str) -> SourceFile:
    text = as_utf8(data)
    if text is None:
        raise InvalidError(f"{path} is a binary file", "name a text file")
    file_outline = outline(text, language) if has_grammar(language) else None
    return SourceFile(path, language, text, file_outline or _EMPTY, file_outline is not None)


# --- words of code, in the form in which the index stores them

MAX_WORD = 80
_WORD = re.compile(rb"[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*")
_TEXT_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")
_MAX_PARTS = 20_000
_QUOTED = re.compile(r"[`'\"]([^`'\"\n]{2,100})[`'\"]")
_IDENTIFIER = re.compile(
    r"\b(?:[A-Za-z]+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[^\W\d]\w*(?:(?:\.|::)[^\W\d]\w*)+|\w+(?=\())"
)


def file_words(data: bytes) -> str:
    """The distinct identifier-like words of a file, comments and strings included, in index form."""
    return " ".join(_term(word) for word in set(_WORD.findall(data)) if len(word) <= MAX_WORD)


def symbol_words(symbol: str) -> list[str]:
    """The words that a file must contain to mention a symbol such as `Server.handle` or `btn-primary`."""
    return [_term(word) for word in _WORD.findall(symbol.encode()) if len(word) <= MAX_WORD]


def _term(word: bytes) -> str:
    # What a letter is beyond ASCII, the index and Python see differently: such words go by a name that both read alike.
    return word.decode() if word.isascii() else f"_{zlib.crc32(word):08x}_{len(word)}"


@lru_cache(maxsize=65_536)
def word_parts(word: str) -> tuple[str, ...]:
    """`HTTPServer_maxSize` is http, server, max, size; text without spaces comes in pairs of characters."""
    parts: list[str] = []
    for part in _PART.findall(word):
        folded = part.lower()
        if len(folded) > 1 and _WIDE.search(folded):
            parts += [folded[i : i + 2] for i in range(len(folded) - 1)]
        else:
            parts.append(folded)
    return tuple(parts)


def text_words(text: str) -> list[str]:
    """The parts of all words of a text, in order, for the word index."""
    parts: list[str] = []
    for word in _TEXT_WORD.findall(text):
        parts += word_parts(word)
        if len(parts) > _MAX_PARTS:
            break
    return parts


def named_symbols(text: str) -> list[str]:
    """What a text names as one names symbols: in quotes, else as `max_size`, `maxSize`, `Cart.total` or `total()`."""
    return list(dict.fromkeys([*_QUOTED.findall(text), *_IDENTIFIER.findall(text)]))


def joined_words(name: str) -> list[str]:
    """Compound names written as one word: `max_size` gives maxsize."""
    return [joined for word in name.split(".") if len(word_parts(word)) > 1 and (joined := "".join(word_parts(word)))]
