"""Searches the index for chunks of code by their words.

Owns: ranking by words (BM25) and its weights. Must never: write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from adjourn.code.index.index import CodeIndex
from adjourn.code.index.lookup import UNDER, IndexedFile

NAME_WEIGHT, DOC_WEIGHT, TEXT_WEIGHT = 3.0, 2.0, 1.0
_MAX_TERMS = 32
_PLACE = "file.path, file.mtime, file.size, file.content, content.language, content.engine"
_CHUNK = (
    "chunk.id, chunk.name, chunk.kind, chunk.line, chunk.end_line, chunk.signature, chunk.doc, chunk.head"
)
_SEARCH = f"""
WITH found AS MATERIALIZED (
    SELECT rowid AS id, bm25(chunk_words, {NAME_WEIGHT}, {DOC_WEIGHT}, {TEXT_WEIGHT}) AS rank
    FROM chunk_words WHERE chunk_words MATCH :match ORDER BY rank LIMIT :many
)
SELECT {_PLACE}, {_CHUNK}, found.rank FROM found CROSS JOIN chunk ON chunk.id = found.id
CROSS JOIN file INDEXED BY file_content ON file.content = chunk.content AND file.tree = :tree
CROSS JOIN content ON content.id = file.content WHERE {UNDER} ORDER BY found.rank, file.path LIMIT :limit
"""  # noqa: S608  # of constants
_NAMED = f"""
SELECT {_PLACE}, {_CHUNK}, 0.0 FROM file CROSS JOIN content ON content.id = file.content
CROSS JOIN chunk ON chunk.content = file.content
WHERE file.tree = ? AND file.path = ? AND chunk.name = ? ORDER BY abs(chunk.line - ?) LIMIT 1
"""  # noqa: S608
_BY_ID = f"""
SELECT {_PLACE}, {_CHUNK}, 0.0 FROM chunk CROSS JOIN file INDEXED BY file_content ON file.content = chunk.content AND file.tree = :tree
CROSS JOIN content ON content.id = file.content WHERE {UNDER} AND chunk.id IN (%s) ORDER BY file.path
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
    head: str
    score: float


def search(index: CodeIndex, terms: Sequence[str], limit: int, under: str = "") -> list[ChunkHit]:
    """The chunks in a folder or file that match the words, best BM25 score first."""
    match = " OR ".join(f'"{term}"' for term in list(dict.fromkeys(terms))[:_MAX_TERMS])
    # Some of what is found belongs to another branch, work tree or folder.
    many = limit * (_SPARE_UNDER if under else _SPARE)
    values = {"match": match, "tree": index.tree, "under": under, "limit": limit, "many": many}
    return [_hit(row) for row in index.database.all(_SEARCH, values)]


def by_id(index: CodeIndex, numbers: Sequence[int], under: str = "") -> list[ChunkHit]:
    """Chunks by id, limited to a folder or file of this work tree, each with its first path."""
    listed = ", ".join(str(int(number)) for number in numbers)
    found = map(_hit, index.database.all(_BY_ID % listed, {"tree": index.tree, "under": under}))
    return list({hit.id: hit for hit in reversed(list(found))}.values())


def nearest(index: CodeIndex, path: str, name: str, line: int) -> ChunkHit | None:
    """The chunk of a file with a name; of several, the nearest to a line."""
    row = index.database.one(_NAMED, (index.tree, path, name, line))
    return _hit(row) if row else None


def _hit(row: tuple[Any, ...]) -> ChunkHit:
    number, name, kind, line, end_line, signature, doc, head, rank = row[6:]
    # BM25 of SQLite: the less, the better.
    return ChunkHit(
        IndexedFile(*row[:6]), number, name, kind, line, end_line, signature, doc, head, score=-rank
    )
