"""Reads one file now: for files that the index lacks, or has in an older version.

Owns: `SourceFile` and `open_source`. Must never: read a file outside the work tree.
"""

from __future__ import annotations

import msgspec

from adjourn.code.index.analysis import MAX_PARSED, as_utf8
from adjourn.code.index.grammars import has_grammar
from adjourn.code.index.languages import language_of
from adjourn.code.index.outline import Outline, outline
from adjourn.code.model.repository import CodeRepository
from adjourn.errors import InvalidError

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
    return (
        lines[number - 1][: 4 * most].decode("utf-8", "replace").strip("\r")[:most]
        if len(lines) >= number
        else ""
    )


def open_source(repository: CodeRepository, path: str) -> SourceFile:
    """Read a file of at most 2 MiB. Raises `InvalidError` if it is binary or longer."""
    return of_bytes(path, repository.read(path, MAX_PARSED), language_of(path))


def of_bytes(path: str, data: bytes, language: str) -> SourceFile:
    text = as_utf8(data)
    if text is None:
        raise InvalidError(f"{path} is a binary file", "name a text file")
    found = outline(text, language) if has_grammar(language) else None
    return SourceFile(path, language, text, found or _EMPTY, found is not None)
