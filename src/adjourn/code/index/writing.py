"""Writes analyses into the index.

Owns: the rows of files and contents. Must never: analyze, or decide what is out of date.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from adjourn.code.index.analysis import Analysis
from adjourn.code.index.chunking import Chunk
from adjourn.code.index.database import Database
from adjourn.code.index.outline import RegionMarks
from adjourn.code.index.worker import ChunkWords

_PARAMETERS = 500


FRESH = -1
"""Stands for a file's time: the file was written so recently that a later change could have the same time."""


class FileState(NamedTuple):
    """A file at the time it was read. `mtime` in nanoseconds, or `FRESH`."""

    path: str
    mtime: int
    size: int
    hash: bytes
    language: str


def tree_id(database: Database, root: str) -> int:
    """The id of a work tree, assigned on first use."""
    row = database.one("SELECT id FROM tree WHERE root = ?", (root,))
    if row is None:
        with database.transaction() as cursor:
            cursor.execute("INSERT INTO tree (root) VALUES (?) ON CONFLICT DO NOTHING", (root,))
        row = database.one("SELECT id FROM tree WHERE root = ?", (root,))
    assert row is not None
    return int(row[0])


def known(database: Database, hashes: Iterable[bytes]) -> set[bytes]:
    """The subset of contents that have been analyzed."""
    found: set[bytes] = set()
    for part in _parts(list(hashes)):
        marks = ", ".join("?" * len(part))
        rows = database.all(f"SELECT hash FROM content WHERE hash IN ({marks})", part)  # noqa: S608
        found.update(digest for (digest,) in rows)
    return found


def save(
    database: Database,
    tree: int,
    files: Iterable[FileState],
    analyses: dict[bytes, tuple[str, Analysis]],
    gone: Iterable[str] = (),
) -> None:
    """Save files and their analyses, and delete `gone` paths, in one transaction."""
    with database.transaction() as cursor:
        for digest, (language, analysis) in analyses.items():
            _content(cursor, digest, language, analysis)
        cursor.executemany("DELETE FROM file WHERE tree = ? AND path = ?", ((tree, path) for path in gone))
        cursor.executemany(
            "INSERT OR REPLACE INTO file SELECT ?, ?, id, ?, ? FROM content WHERE hash = ?",
            ((tree, seen.path, seen.mtime, seen.size, seen.hash) for seen in files),
        )


def _content(cursor: sqlite3.Cursor, digest: bytes, language: str, analysis: Analysis) -> None:
    cursor.execute(
        "INSERT INTO content (hash, language, engine, lines, marks, worded) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            digest,
            language,
            analysis.engine,
            analysis.lines,
            RegionMarks.of(analysis.regions).packed(),
            not analysis.chunks,
        ),
    )
    if not cursor.rowcount:
        return  # another process was first
    content = cursor.lastrowid
    cursor.execute("INSERT INTO content_words (rowid, words) VALUES (?, ?)", (content, analysis.words))
    numbers = _names(cursor, {symbol.name for symbol in analysis.symbols})
    cursor.executemany(
        "INSERT INTO symbol VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (content, i, numbers[s.name], s.kind, s.scope, s.line, s.end_line, s.name_start, s.signature)
            for i, s in enumerate(analysis.symbols)
        ),
    )
    _chunks(cursor, content, analysis.chunks)


def _names(cursor: sqlite3.Cursor, names: set[str]) -> dict[str, int]:
    """The ids of symbol names; new names are added, with trigrams for substring search."""
    numbers: dict[str, int] = {}
    for part in _parts(sorted(names)):
        marks = ", ".join("?" * len(part))
        numbers.update(cursor.execute(f"SELECT name, id FROM name WHERE name IN ({marks})", part))  # noqa: S608
    fresh = sorted(names - numbers.keys())
    first = _next(cursor, "name")
    numbers.update((name, first + i) for i, name in enumerate(fresh))
    cursor.executemany("INSERT INTO name VALUES (?, ?)", ((numbers[name], name) for name in fresh))
    cursor.executemany(
        "INSERT INTO name_trigram (rowid, name) VALUES (?, ?)", ((numbers[name], name) for name in fresh)
    )
    return numbers


def _chunks(cursor: sqlite3.Cursor, content: int | None, chunks: list[Chunk]) -> None:
    first = _next(cursor, "chunk")
    cursor.executemany(
        "INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((first + i, content, *msgspec.structs.astuple(c)) for i, c in enumerate(chunks)),
    )


def save_words(database: Database, found: dict[tuple[int, bytes], ChunkWords]) -> None:
    """Save the words of chunks, by the id and the hash of their content, in one transaction."""
    with database.transaction() as cursor:
        for content, words in found.items():
            cursor.execute("UPDATE content SET worded = 1 WHERE id = ? AND hash = ? AND worded = 0", content)
            if not cursor.rowcount:
                continue  # another process was first, or the index is being rebuilt
            numbers = cursor.execute(
                "SELECT id FROM chunk WHERE content = ? ORDER BY id", content[:1]
            ).fetchall()
            cursor.executemany(
                "INSERT INTO chunk_words (rowid, name, doc, text) VALUES (?, ?, ?, ?)",
                ((number, *each) for (number,), each in zip(numbers, words, strict=True)),
            )


def _next(cursor: sqlite3.Cursor, table: str) -> int:
    row = cursor.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()  # noqa: S608
    return int(row[0])


def _parts(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), _PARAMETERS):
        yield items[start : start + _PARAMETERS]
