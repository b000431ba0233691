"""Reads the index: names, definitions, the files that have a word, and chunks of code by their words.

No answer comes from a file whose bytes have changed since.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from adjourn.code.index.analysis import MAX_PARSED, dialect, fingerprint
from adjourn.code.index.database import FRESH, changed_ns
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.outline import Symbol

_MAX_NAMES = 10_000
_TRIGRAM = 3
_PARAMETERS = 500
UNDER = "(:under = '' OR file.path = :under OR substr(file.path, 1, length(:under) + 1) = :under || '/')"
_PLACE = "file.path, file.mtime, file.size, file.content, content.language, content.engine"
_SYMBOL = "name.name, symbol.kind, symbol.scope, symbol.line, symbol.end_line, symbol.name_start, symbol.signature"
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


_USED = f"""
SELECT {_PLACE}, {_SYMBOL}, coalesce(word.doc, 0) FROM file CROSS JOIN content ON content.id = file.content
CROSS JOIN symbol ON symbol.content = file.content CROSS JOIN name ON name.id = symbol.name
LEFT JOIN word ON word.term = lower(ltrim(name.name, '$'))
WHERE file.tree = :tree AND {UNDER} AND symbol.kind IN ('class', 'interface', 'struct', 'trait', 'enum', 'function', 'type')
AND (symbol.scope = '' OR symbol.kind <> 'function') ORDER BY file.path, symbol.number LIMIT :limit
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
    return (changed_ns(status), status.st_size) == (place.mtime, place.size)


def read_current(index: CodeIndex, place: IndexedFile) -> bytes | None:
    """The bytes of a file; None if they may differ from the analyzed ones."""
    try:
        handle = os.open(
            index.repository.absolute(place.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return None
    with open(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if status.st_size != place.size or place.mtime not in (FRESH, changed_ns(status)):
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
        statement = (
            "SELECT name FROM name WHERE id IN (SELECT rowid FROM name_trigram WHERE name_trigram MATCH ? LIMIT ?)"
        )
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
    hits: list[Definition] = []
    for start in range(0, len(names), _PARAMETERS):
        part = names[start : start + _PARAMETERS]
        values: dict[str, Any] = {f"n{i}": name for i, name in enumerate(part)}
        marks = ", ".join(f":{key}" for key in values)
        hits += map(_definition, index.database.all(_BY_NAME % marks, {**values, "tree": index.tree, "under": under}))
    return hits


def symbols_under(index: CodeIndex, under: str, limit: int) -> list[Definition]:
    """All symbols of a file or of a folder's files, in order."""
    rows = index.database.all(_BY_FILE, {"tree": index.tree, "under": under, "limit": limit})
    return [_definition(row) for row in rows]


def outer_definitions(index: CodeIndex, under: str, limit: int) -> list[tuple[Definition, int]]:
    """Types and outer functions of a folder's files, in order, each with the number of contents that have its name as a word."""
    rows = index.database.all(_USED, {"tree": index.tree, "under": under, "limit": limit})
    return [(_definition(row[:-1]), row[-1]) for row in rows]


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
    bits: dict[int, bytes] = {}
    for start in range(0, len(contents), _PARAMETERS):
        part = contents[start : start + _PARAMETERS]
        statement = f"SELECT id, marks FROM content WHERE id IN ({', '.join('?' * len(part))})"  # noqa: S608
        bits.update(dict(index.database.all(statement, part)))
    return bits


def _definition(row: tuple[Any, ...]) -> Definition:
    path, mtime, size, content, language, engine, name, kind, scope, line, end_line, name_start, signature = row
    symbol = Symbol(name, kind, scope, line, end_line, 0, 0, signature, "", name_start)
    return Definition(IndexedFile(path, mtime, size, content, language, engine), symbol)


# --- searches the index for chunks of code by their words

NAME_WEIGHT, DOC_WEIGHT, TEXT_WEIGHT = 3.0, 2.0, 1.0
_MAX_TERMS = 32
_CHUNK_PLACE = "file.path, file.mtime, file.size, file.content, content.language, content.engine"
_CHUNK = "chunk.id, chunk.name, chunk.kind, chunk.line, chunk.end_line, chunk.signature, chunk.doc"
_SEARCH = f"""
WITH found AS MATERIALIZED (
    SELECT rowid AS id, bm25(chunk_words, {NAME_WEIGHT}, {DOC_WEIGHT}, {TEXT_WEIGHT}) AS rank
    FROM chunk_words WHERE chunk_words MATCH :match ORDER BY rank LIMIT :many
)
SELECT {_CHUNK_PLACE}, {_CHUNK}, found.rank FROM found CROSS JOIN chunk ON chunk.id = found.id
CROSS JOIN file INDEXED BY file_content ON file.content = chunk.content AND file.tree = :tree
CROSS JOIN content ON content.id = file.content WHERE {UNDER} ORDER BY found.rank, file.path LIMIT :limit
"""  # noqa: S608  # of constants
_NAMED = f"""
SELECT {_CHUNK_PLACE}, {_CHUNK}, 0.0 FROM file CROSS JOIN content ON content.id = file.content
CROSS JOIN chunk ON chunk.content = file.content
WHERE file.tree = ? AND file.path = ? AND chunk.name = ? ORDER BY abs(chunk.line - ?) LIMIT 1
"""  # noqa: S608
_SPARE, _SPARE_UNDER = 2, 10


class ChunkHit(NamedTuple):
    """A chunk of a file. `score` is that of the search which found it: the more, the better."""

    place: IndexedFile
    id: int
    name: str
    kind: str
    line: int
    end_line: int
    signature: str
    doc: str
    score: float


def search_chunks(index: CodeIndex, terms: Sequence[str], limit: int, under: str = "") -> list[ChunkHit]:
    """The chunks in a folder or file that match the words, best BM25 score first."""
    match = " OR ".join(f'"{term}"' for term in list(dict.fromkeys(terms))[:_MAX_TERMS])
    # Some of what is found belongs to another branch, work tree or folder.
    many = limit * (_SPARE_UNDER if under else _SPARE)
    values = {"match": match, "tree": index.tree, "under": under, "limit": limit, "many": many}
    return [_hit(row) for row in index.database.all(_SEARCH, values)]


def nearest(index: CodeIndex, path: str, name: str, line: int) -> ChunkHit | None:
    """The chunk of a file with a name; of several, the nearest to a line."""
    row = index.database.one(_NAMED, (index.tree, path, name, line))
    return _hit(row) if row else None


def _hit(row: tuple[Any, ...]) -> ChunkHit:
    number, name, kind, line, end_line, signature, doc, rank = row[6:]
    # BM25 of SQLite: the less, the better.
    return ChunkHit(IndexedFile(*row[:6]), number, name, kind, line, end_line, signature, doc, score=-rank)
