"""Words of code, in the form in which the index stores them.

Owns: what a word is, and how `camelCase` and `snake_case` come apart. Must never: know a language.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

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


def of_file(data: bytes) -> str:
    """The distinct identifier-like words of a file, comments and strings included, in index form."""
    return " ".join(_term(word) for word in set(_WORD.findall(data)) if len(word) <= MAX_WORD)


def of_symbol(symbol: str) -> list[str]:
    """The words that a file must contain to mention a symbol such as `Server.handle` or `btn-primary`."""
    return [_term(word) for word in _WORD.findall(symbol.encode()) if len(word) <= MAX_WORD]


def _term(word: bytes) -> str:
    # What a letter is beyond ASCII, the index and Python see differently: such words go by a name that both read alike.
    return word.decode() if word.isascii() else f"_{zlib.crc32(word):08x}_{len(word)}"


@lru_cache(maxsize=65_536)
def parts(word: str) -> tuple[str, ...]:
    """`HTTPServer_maxSize` is http, server, max, size; text without spaces comes in pairs of characters."""
    found: list[str] = []
    for part in _PART.findall(word):
        folded = part.lower()
        if len(folded) > 1 and _WIDE.search(folded):
            found += [folded[i : i + 2] for i in range(len(folded) - 1)]
        else:
            found.append(folded)
    return tuple(found)


def split(text: str) -> list[str]:
    """The parts of all words of a text, in order, for the word index."""
    found: list[str] = []
    for word in _TEXT_WORD.findall(text):
        found += parts(word)
        if len(found) > _MAX_PARTS:
            break
    return found


def symbols(text: str) -> list[str]:
    """What a text names as one names symbols: in quotes, else as `max_size`, `maxSize`, `Cart.total` or `total()`."""
    return list(dict.fromkeys([*_QUOTED.findall(text), *_IDENTIFIER.findall(text)]))


def whole(name: str) -> list[str]:
    """Compound names written as one word: `max_size` gives maxsize."""
    return [found for word in name.split(".") if len(parts(word)) > 1 and (found := "".join(parts(word)))]
