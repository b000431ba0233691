"""Reading the index: names, definitions, and the files that have a word.

Owns: the queries. Must never: write, or answer from a file whose bytes have changed since.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from adjourn.code.index.analysis import MAX_PARSED, dialect, fingerprint
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.outline import Symbol
from adjourn.code.index.writing import FRESH

_MAX_NAMES = 5_000
_TRIGRAM = 3
_PARAMETERS = 500
UNDER = "(:under = '' OR file.path = :under OR substr(file.path, 1, length(:under) + 1) = :under || '/')"
_PLACE = "file.path, file.mtime, file.size, file.content, content.language, content.engine"
_SYMBOL = (
    "name.name, symbol.kind, symbol.scope, symbol.line, symbol.end_line, symbol.name_start, symbol.signature"
)
# CROSS JOIN and INDEXED BY: in this order, whatever SQLite's planner guesses without statistics.
_BY_NAME = f"""
SELECT {_PLACE}, {_SYMBOL} FROM name CROSS JOIN symbol ON symbol.name = name.id
CROSS JOIN file INDEXED BY file_content ON file.content = symbol.content AND file.tree = :tree CROSS JOIN content ON content.id = file.content
WHERE {UNDER} AND name.name IN (%s)
"""  # noqa: S608  # of constants
_BY_FILE = f"""
SELECT {_PLACE}, {_SYMBOL} FROM file CROSS JOIN content ON content.id = file.content
CROSS JOIN symbol ON symbol.content = file.content CROSS JOIN name ON name.id = symbol.name
WHERE file.tree = :tree AND {UNDER} ORDER BY file.path, symbol.number LIMIT :limit
"""  # noqa: S608
_BY_WORDS = f"""
SELECT {_PLACE} FROM content_words CROSS JOIN file INDEXED BY file_content ON file.content = content_words.rowid AND file.tree = :tree
CROSS JOIN content ON content.id = file.content WHERE content_words MATCH :match AND {UNDER} ORDER BY file.path
"""  # noqa: S608


class IndexedFile(NamedTuple):
    """A file as the index recorded it."""

    path: str
    mtime: int
    size: int
    content: int
    language: str
    engine: str


class Definition(NamedTuple):
    place: IndexedFile
    symbol: Symbol


def is_current(index: CodeIndex, place: IndexedFile) -> bool:
    """Whether a file is unchanged since its analysis: by time and size, or by its bytes if its time is `FRESH`."""
    if place.mtime == FRESH:
        return read_current(index, place) is not None
    try:
        status = os.stat(index.repository.absolute(place.path), follow_symlinks=False)
    except OSError:
        return False
    return (status.st_mtime_ns, status.st_size) == (place.mtime, place.size)


def read_current(index: CodeIndex, place: IndexedFile) -> bytes | None:
    """The bytes of a file; None if they may differ from the analyzed ones."""
    try:
        handle = os.open(
            index.repository.absolute(place.path),
            os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
        )
    except OSError:
        return None
    with open(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if status.st_size != place.size or place.mtime not in (FRESH, status.st_mtime_ns):
            return None
        data = file.read(min(place.size, MAX_PARSED) + 1)
    if place.mtime == FRESH:
        row = index.database.one("SELECT hash FROM content WHERE id = ?", (place.content,))
        if row is None or row[0] != fingerprint(data, dialect(place.language, index.repository.root)):
            return None
    return data


def names_like(index: CodeIndex, part: str) -> list[str]:
    """Names of symbols that contain a text, ignoring case; the closest match first."""
    folded = part.casefold()
    if len(part) >= _TRIGRAM:
        quoted = part.replace('"', '""')
        statement = "SELECT name FROM name WHERE id IN (SELECT rowid FROM name_trigram WHERE name_trigram MATCH ? LIMIT ?)"
        rows = index.database.all(statement, (f'"{quoted}"', _MAX_NAMES))
    else:
        statement = "SELECT name FROM name WHERE instr(lower(name), lower(?)) ORDER BY length(name) LIMIT ?"
        rows = index.database.all(statement, (part, _MAX_NAMES))
    names = [name for (name,) in rows if folded in name.casefold()]
    return sorted(
        names,
        key=lambda name: (
            name != part,
            name.casefold() != folded,
            not name.casefold().startswith(folded),
            len(name),
            name,
        ),
    )


def definitions(index: CodeIndex, names: Sequence[str], under: str) -> list[Definition]:
    """The definitions of symbols with these names."""
    found: list[Definition] = []
    for start in range(0, len(names), _PARAMETERS):
        part = names[start : start + _PARAMETERS]
        values: dict[str, Any] = {f"n{i}": name for i, name in enumerate(part)}
        marks = ", ".join(f":{key}" for key in values)
        found += map(
            _definition, index.database.all(_BY_NAME % marks, {**values, "tree": index.tree, "under": under})
        )
    return found


def symbols_under(index: CodeIndex, under: str, limit: int) -> list[Definition]:
    """All symbols of a file or of a folder's files, in order."""
    rows = index.database.all(_BY_FILE, {"tree": index.tree, "under": under, "limit": limit})
    return [_definition(row) for row in rows]


def mentioning(index: CodeIndex, terms: Sequence[str], under: str) -> list[IndexedFile]:
    """Files that contain all the words, sorted by path."""
    if not terms:
        return []
    match = " AND ".join(f'"{term}"' for term in terms)
    rows = index.database.all(_BY_WORDS, {"tree": index.tree, "under": under, "match": match})
    return [IndexedFile(*row) for row in rows]


def skipped(index: CodeIndex, under: str) -> list[str]:
    """Files whose words are not indexed: binary, or too long."""
    rows = index.database.all(
        f"SELECT file.path FROM file JOIN content ON content.id = file.content"  # noqa: S608
        f" WHERE file.tree = :tree AND content.engine = 'skipped' AND file.size > {2 << 20} AND {UNDER}",
        {"tree": index.tree, "under": under},
    )
    return [path for (path,) in rows]


def marks(index: CodeIndex, contents: Sequence[int]) -> dict[int, bytes]:
    """The packed region marks of contents."""
    found: dict[int, bytes] = {}
    for start in range(0, len(contents), _PARAMETERS):
        part = contents[start : start + _PARAMETERS]
        statement = f"SELECT id, marks FROM content WHERE id IN ({', '.join('?' * len(part))})"  # noqa: S608
        found.update(dict(index.database.all(statement, part)))
    return found


def _definition(row: tuple[Any, ...]) -> Definition:
    path, mtime, size, content, language, engine, name, kind, scope, line, end_line, name_start, signature = (
        row
    )
    symbol = Symbol(name, kind, scope, line, end_line, 0, 0, signature, "", name_start)
    return Definition(IndexedFile(path, mtime, size, content, language, engine), symbol)
