"""What a session's searches by meaning found, kept in its checkpoint, so that the next server has it, too.

On a map hit, an agreement of earlier sessions says which symbols the words mean. Their definitions are looked up at once, and kept.

Owns: `note_search`, and the cache of definitions. Must never: use a definition of a file that has changed since.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from adjourn.code.index.codebase import Codebase
from adjourn.code.model.deadline import Deadline
from adjourn.code.model.repository import CodeRepository
from adjourn.code.model.session_state import SessionState
from adjourn.code.search.definitions import find_definitions
from adjourn.errors import AdjournError

MAX_KEPT = 50
"""Hits of each kind, and symbols of the cache; the oldest are forgotten."""
_MAX_SYMBOLS = 5
_MAX_DEFINITIONS = 20


class _Cached(msgspec.Struct):
    """The definitions of a symbol, and the time and size of each of their files."""

    definitions: list[dict[str, Any]]
    files: dict[str, tuple[int, int]]


def note_search(
    state: SessionState, codebase: Codebase, answer: dict[str, Any], deadline: Deadline
) -> dict[str, Any]:
    """Keep the hits of a semantic search. Returns the answer; of a map hit, with the definitions of its symbols."""
    hits = [
        {"id": hit["id"], "query": answer["query"][:500], "score": hit["score"], **_symbols_of(hit)}
        for hit in answer["hits"]
    ]
    if answer["source"] == "forest":
        state.forest_results = _latest(state.forest_results, hits)
        return answer
    state.map_results = _latest(state.map_results, hits)
    if not (hits and answer["confidence"] == "high"):
        return answer
    state.map_hit = True
    symbols = hits[0]["symbols"][:_MAX_SYMBOLS]
    found = [one for symbol in symbols for one in _definitions(state, codebase, symbol, deadline)]
    return {**answer, "definitions": found}


def _symbols_of(hit: dict[str, Any]) -> dict[str, Any]:
    symbols = hit["metadata"].get("symbols")
    return {"symbols": symbols} if isinstance(symbols, list) else {}


def _latest(kept: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_id = {hit.get("id"): hit for hit in kept}
    for hit in new:
        by_id.pop(hit["id"], None)  # what was found last comes last
        by_id[hit["id"]] = hit
    return list(by_id.values())[-MAX_KEPT:]


def _definitions(
    state: SessionState, codebase: Codebase, symbol: str, deadline: Deadline
) -> list[dict[str, Any]]:
    """The definitions of a symbol: the kept ones if their files are as they were, else looked up."""
    repository, cache = codebase.repository, state.definitions_cache
    key = msgspec.json.encode((symbol, repository.root, None, True)).decode()
    kept = _current(repository, cache.get(key))
    counted = "hits" if kept is not None else "misses"
    state.cache_stats[counted] = state.cache_stats.get(counted, 0) + 1
    if kept is not None:
        return kept
    found = find_definitions(
        codebase, symbol, exact_match=True, max_results=_MAX_DEFINITIONS, deadline=deadline
    )
    definitions: list[dict[str, Any]] = found["definitions"]
    files = {one["file"]: _status(repository, one["file"]) for one in definitions}
    cache.pop(key, None)
    if definitions:
        cache[key] = msgspec.to_builtins(_Cached(definitions, files))
    for oldest in list(cache)[:-MAX_KEPT]:
        del cache[oldest]
    return definitions


def _current(repository: CodeRepository, cached: Any) -> list[dict[str, Any]] | None:
    try:
        found = msgspec.convert(cached, _Cached)
    except msgspec.ValidationError:
        return None
    now = {path: _status(repository, path) for path in found.files}
    return found.definitions if now == found.files else None


def _status(repository: CodeRepository, path: str) -> tuple[int, int]:
    try:
        status = os.stat(repository.absolute(repository.existing(path)), follow_symlinks=False)
    except (OSError, AdjournError):
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
