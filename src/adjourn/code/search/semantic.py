"""Semantic search: agreements first (the map), then chunks of code (the forest).

Owns: `semantic_search` and `fetch_chunk_detail`. Must never: wait for vectors; word search always works.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from adjourn.code.index import chunks, lookup, vectors
from adjourn.code.index.analysis import as_utf8
from adjourn.code.index.chunks import ChunkHit
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.lookup import Definition
from adjourn.code.index.reading import open_source
from adjourn.code.model import words
from adjourn.code.search import agreements, ranking
from adjourn.code.search.ranking import AskedFor
from adjourn.errors import AdjournError, InvalidError, NotFoundError

MAP_ENOUGH = 0.7
_MAP_RESULTS = 5
_MAX_QUERY = 10_000
_MAX_RESULTS = 100
_MAX_KNOWN = 20
_CODE = {"implementation", "example", "test"}
_WORD_HITS = 1_000
"""Many, so that tests that repeat the words of a question do not crowd out what they test."""
_SHOWN = 500
_MAX_DETAIL = 100_000


def semantic_search(
    codebase: Codebase,
    query: str,
    path: str = ".",
    *,
    target_feature: str | None = None,
    collection: str = "auto",
    n_results: int = 10,
) -> dict[str, Any]:
    """Code or agreements that match a description in plain words.

    `auto`: agreements of earlier sessions; the code only if no agreement scores at least 0.7.
    """
    if collection not in {"auto", "map", "forest"}:
        raise InvalidError(f"unknown collection {collection!r}", "use auto, map or forest")
    text = f"{query} {target_feature or ''}".strip()
    if not words.split(text):
        raise InvalidError("the query has no word", "describe what the code does")
    if len(text) > _MAX_QUERY:
        raise InvalidError(f"the query is longer than {_MAX_QUERY} characters", "ask for one thing")
    under = codebase.repository.existing(path)
    codebase.request_update()
    limit = max(1, min(n_results, _MAX_RESULTS))
    asked = {"query": query, "target_feature": target_feature}
    if collection != "forest":
        found = agreements.search(codebase.repository, query, target_feature)
        found = found[: _MAP_RESULTS if collection == "auto" else limit]
        fits = bool(found) and found[0]["score"] >= MAP_ENOUGH
        if fits or collection == "map":
            return _answer(codebase, asked, "map", found, "high" if fits else "medium" if found else "low")
    hits = [] if codebase.index is None else _search_code(codebase, text, under, limit)
    return _answer(codebase, asked, "forest", hits, "medium" if hits else "low")


def fetch_chunk_detail(codebase: Codebase, chunk_id: str) -> dict[str, Any]:
    """The whole text of a hit, as the file is now. An id is `path:name:line`; the line may have moved since."""
    if chunk_id.startswith(agreements.PREFIX):
        return agreements.detail(codebase.repository, chunk_id)
    path, name, line = _split_id(codebase, chunk_id)
    hit = chunks.nearest(codebase.index, path, name, line) if codebase.index is not None else None
    if hit is None:
        raise NotFoundError(f"chunk {chunk_id} no longer exists", "search again; the code has changed")
    found = _read(codebase, hit)
    if found is None:
        raise NotFoundError(f"{path} changed since it was indexed", "search again")
    hit, text = found
    return {
        "success": True,
        "chunk_id": chunk_id,
        "content": text[:_MAX_DETAIL],
        "metadata": _metadata(hit),
    }


def _search_code(codebase: Codebase, text: str, under: str, limit: int) -> list[dict[str, Any]]:
    assert codebase.index is not None
    found = _found(codebase, codebase.index, text, under)
    read = islice(filter(None, (_read(codebase, hit) for hit in found)), limit)
    return [
        {
            "id": f"{hit.place.path}:{hit.name}:{hit.line}",
            "content": text[:_SHOWN],
            "score": round(hit.score, 4),
            "metadata": _metadata(hit),
        }
        for hit, text in read
    ]


def _found(codebase: Codebase, index: CodeIndex, text: str, under: str) -> list[ChunkHit]:
    """Symbols that the question names, then the chunks that fit its words and its meaning, the best first."""
    asked = ranking.asked_for(text)
    found = ranking.ranked(chunks.search(index, asked.words, _WORD_HITS, under), asked)
    if codebase.meaning is not None:
        found = ranking.fused(found, vectors.similar(index, codebase.meaning, text, under), asked)
    known = _known(index, asked, under)
    first = {hit.id for hit in known}
    return [*known, *(hit for hit in found if hit.id not in first)]


def named_definitions(index: CodeIndex, asked: AskedFor, under: str = "") -> list[Definition]:
    """The definitions of symbols that a question names. A document's heading is one only if the question asks for documents."""
    wanted = [symbol.replace("::", ".") for symbol in asked.symbols]
    return [
        one
        for one in lookup.definitions(index, [name.rpartition(".")[2] for name in wanted], under)
        if any(f".{one.symbol.dotted}".endswith(f".{name}") for name in wanted)
        and ranking.place_of(one.place.path, one.symbol.dotted) in _CODE | asked.places
    ]


def _known(index: CodeIndex, asked: AskedFor, under: str) -> list[ChunkHit]:
    """The chunks of symbols that the question names, implementation first."""
    hits = [
        chunks.nearest(index, place.path, symbol.dotted, symbol.line)
        for place, symbol in named_definitions(index, asked, under)[:_MAX_KNOWN]
    ]
    return sorted(
        (hit._replace(score=1.0) for hit in hits if hit is not None),
        key=lambda hit: -ranking.place_weight(hit, asked),
    )


def _answer(
    codebase: Codebase, asked: dict[str, Any], source: str, hits: list[dict[str, Any]], confidence: str
) -> dict[str, Any]:
    return {
        "success": True,
        "source": source,
        "hits": hits,
        "skip_forest": source == "map",
        "confidence": confidence,
        **asked,
        "index_state": codebase.state(),
    }


def _read(codebase: Codebase, hit: ChunkHit) -> tuple[ChunkHit, str] | None:
    """A hit and its text, as the file is now: in one that changed, the definition of the same name. None if it is gone."""
    assert codebase.index is not None
    raw = lookup.read_current(codebase.index, hit.place)
    data = as_utf8(raw) if raw is not None else None
    if data is None:
        try:
            source = open_source(codebase.repository, hit.place.path)
        except AdjournError:
            return None
        data = source.data
        same = [symbol for symbol in source.outline.symbols if symbol.dotted == hit.name]
        if same:
            best = min(same, key=lambda symbol: abs(symbol.line - hit.line))
            hit = hit._replace(line=best.line, end_line=best.end_line, signature=best.signature, doc=best.doc)
        elif source.outline.symbols and hit.kind not in {"block", "module"}:
            return None
    lines = data.split(b"\n", hit.end_line)[hit.line - 1 : hit.end_line]
    return hit, b"\n".join(lines).decode("utf-8", "replace")


def _metadata(hit: ChunkHit) -> dict[str, Any]:
    return {
        "type": hit.kind,
        "name": hit.name,
        "file": hit.place.path,
        "line_start": hit.line,
        "line_end": hit.end_line,
        "signature": hit.signature,
        "docstring": hit.doc,
        "language": hit.place.language,
    }


def _split_id(codebase: Codebase, chunk_id: str) -> tuple[str, str, int]:
    """Path, name and line of a chunk id; a path or a name may contain a colon too."""
    left, _, line = chunk_id.rpartition(":")
    if left and line.isdecimal() and codebase.index is not None:
        place = left.find(":")
        while place > 0:
            if codebase.index.contains(left[:place]):
                return left[:place], left[place + 1 :], int(line)
            place = left.find(":", place + 1)
    raise NotFoundError(f"unknown chunk id {chunk_id!r}", "use the id of a hit of semantic_search")
