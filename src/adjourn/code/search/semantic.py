"""Semantic search: agreements first (the map), then chunks of code in the order of their fit (the forest).

A search compares words: vectors found no more of what developers ask for (ADR 0085).
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from heapq import nlargest
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from adjourn.code.deadline import Deadline
from adjourn.code.index import lookup
from adjourn.code.index.analysis import as_utf8, named_symbols, open_source, text_words
from adjourn.code.index.codebase import Codebase
from adjourn.code.index.index import CodeIndex
from adjourn.code.index.lookup import ChunkHit, Definition
from adjourn.code.repository import CodeRepository
from adjourn.code.search import context
from adjourn.code.search.definitions import find_definitions
from adjourn.code.session_state import SessionState
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
    if not text_words(text):
        raise InvalidError("the query has no word", "describe what the code does")
    if len(text) > _MAX_QUERY:
        raise InvalidError(f"the query is longer than {_MAX_QUERY} characters", "ask for one thing")
    under = codebase.repository.existing(path)
    codebase.request_update()
    limit = max(1, min(n_results, _MAX_RESULTS))
    question = {"query": query, "target_feature": target_feature}
    if collection != "forest":
        agreements = context.search_agreements(codebase.repository, query, target_feature)
        agreements = agreements[: _MAP_RESULTS if collection == "auto" else limit]
        fits = bool(agreements) and agreements[0]["score"] >= MAP_ENOUGH
        if fits or collection == "map":
            return _answer(codebase, question, "map", agreements, "high" if fits else "medium" if agreements else "low")
    hits = [] if codebase.index is None else _search_code(codebase, text, under, limit)
    return _answer(codebase, question, "forest", hits, "medium" if hits else "low")


def fetch_chunk_detail(codebase: Codebase, chunk_id: str) -> dict[str, Any]:
    """The whole text of a hit, as the file is now. An id is `path:name:line`; the line may have moved since."""
    if chunk_id.startswith(context.PREFIX):
        return context.agreement_detail(codebase.repository, chunk_id)
    path, name, line = _split_id(codebase, chunk_id)
    hit = lookup.nearest(codebase.index, path, name, line) if codebase.index is not None else None
    if hit is None:
        raise NotFoundError(f"chunk {chunk_id} no longer exists", "search again; the code has changed")
    hit_text = _read(codebase, hit)
    if hit_text is None:
        raise NotFoundError(f"{path} changed since it was indexed", "search again")
    hit, text = hit_text
    return {"success": True, "chunk_id": chunk_id, "content": text[:_MAX_DETAIL], "metadata": _metadata(hit)}


def _search_code(codebase: Codebase, text: str, under: str, limit: int) -> list[dict[str, Any]]:
    assert codebase.index is not None
    hits = _ranked_hits(codebase.index, text, under)
    read = islice(filter(None, (_read(codebase, hit) for hit in hits)), limit)
    return [
        {
            "id": f"{hit.place.path}:{hit.name}:{hit.line}",
            "content": text[:_SHOWN],
            "score": round(hit.score, 4),
            "metadata": _metadata(hit),
        }
        for hit, text in read
    ]


def _ranked_hits(index: CodeIndex, text: str, under: str) -> list[ChunkHit]:
    """Symbols that the question names, then the chunks that fit its words, the best first."""
    wanted = asked_for(text)
    hits = ranked(lookup.search_chunks(index, wanted.words, _WORD_HITS, under), wanted)
    named = _hits_by_name(index, wanted, under)
    first = {hit.id for hit in named}
    return [*named, *(hit for hit in hits if hit.id not in first)]


def named_definitions(index: CodeIndex, question: AskedFor, under: str = "") -> list[Definition]:
    """The definitions of symbols that a question names. A document's heading is one only if the question asks for documents."""
    wanted = [symbol.replace("::", ".") for symbol in question.symbols]
    return [
        definition
        for definition in lookup.definitions(index, [name.rpartition(".")[2] for name in wanted], under)
        if any(f".{definition.symbol.dotted}".endswith(f".{name}") for name in wanted)
        and place_of(definition.place.path, definition.symbol.dotted) in _CODE | question.places
    ]


def _hits_by_name(index: CodeIndex, wanted: AskedFor, under: str) -> list[ChunkHit]:
    """The chunks of symbols that the question names, implementation first."""
    hits = [
        lookup.nearest(index, place.path, symbol.dotted, symbol.line)
        for place, symbol in named_definitions(index, wanted, under)[:_MAX_KNOWN]
    ]
    return sorted(
        (hit._replace(score=1.0) for hit in hits if hit is not None), key=lambda hit: -place_weight(hit, wanted)
    )


def _answer(
    codebase: Codebase, question: dict[str, Any], source: str, hits: list[dict[str, Any]], confidence: str
) -> dict[str, Any]:
    return {
        "success": True,
        "source": source,
        "hits": hits,
        "skip_forest": source == "map",
        "confidence": confidence,
        **question,
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


# --- orders chunks of code by how well they answer a question

NAMED = 2.0
"""A name that says all of the question counts three times as much as one that says nothing of it."""
SAID = 0.5
"""Prefers `redirect_method` to `redirect_method_is_safe` for "the method of a redirect"."""
FILED = 0.5
"""`_multipart.py` says what its functions are about, and they do not repeat it."""
PLACES = {"implementation": 1.0, "example": 0.5, "test": 0.3, "document": 0.3, "generated": 0.3}
"""Tests, documents and what a build wrote repeat the words of a question more often than the code that they are about. One that is three
times as good as the best implementation still comes first. A question that asks for such a place has all of its chunks count in full."""
HEAD = 0.5
"""The head of a file and a block of lines have all words of the imports and constants, and define nothing."""
DECLARED = 0.6
"""A definition of one line, such as a member of an interface, says that something exists and seldom how it is done."""
NAMESAKE = 0.7
"""What each further symbol of a name in a file counts: `_parse` of twenty classes must not be all that is shown."""
CANDIDATES = 200
"""How many chunks are ranked by their names, too."""
_HALF = 12.0
"""The value that maps to a score of 0.5."""
_TEST_FILE = re.compile(
    r"(^|/)(tests?|specs?|__tests__|testdata|testing|fixtures|e2e|bench(es|marks?|suite)?|fuzz)/"
    r"|(^|/)(test_|conftest\.)[^/]*$|[._-](tests?|spec)\.\w+$|(Tests?|Spec)\.\w+$"
)
_TEST_NAME = re.compile(r"tests?\.|(.*\.)?test_")
_DOCUMENT_FILE = re.compile(r"\.(md|mdx|markdown|rst|adoc|txt)$", re.IGNORECASE)
_EXAMPLE_FILE = re.compile(r"(^|/)(examples?|samples?|demos?|vendor|third_party)/")
_GENERATED_FILE = re.compile(
    r"(^|/)(dist|build|out|node_modules|generated)/|\.(min|bundle|generated)\.\w+$|_pb2\.py$|\.pb\.go$"
)
_ASKED_FOR = {
    "test": re.compile(r"\b(unit ?)?(tests?|tested|testing|specs?|fixtures?|benchmarks?)\b", re.IGNORECASE),
    # Not "documentation" alone: it may be what the code makes.
    "document": re.compile(
        r"\b(docs|readme|changelog|tutorial|guide|faq|documented|(the|in) documentation)\b", re.IGNORECASE
    ),
    "example": re.compile(r"\b(examples?|samples?|demos?)\b", re.IGNORECASE),
}
_STOP_WORDS = frozenset({
    "a", "about", "after", "all", "also", "an", "and", "another", "any", "are", "as", "at", "be", "before", "but", "by", "can",
    "code", "d", "defined", "definition", "did", "do", "does", "done", "each", "for", "from", "function", "functions", "given",
    "handled", "happen", "happens", "has", "have", "how", "i", "if", "implementation", "implemented", "in", "into", "is", "it", "its",
    "logic", "me", "my", "no", "not", "of", "off", "on", "only", "or", "other", "our", "out", "return", "returns", "s", "should",
    "so", "some", "such", "t", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "up",
    "us", "use", "used", "uses", "using", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whose", "why",
    "will", "with", "work", "works", "you", "your",
})  # fmt: skip


class AskedFor(NamedTuple):
    """What a question asks for: telling words, symbols by name, and places that are not implementation."""

    words: list[str]
    symbols: list[str]
    places: frozenset[str]


def asked_for(question: str) -> AskedFor:
    """The question without its stop words, if others are left."""
    every = list(dict.fromkeys(text_words(question)))
    telling = [word for word in every if word not in _STOP_WORDS]
    places = frozenset(place for place, pattern in _ASKED_FOR.items() if pattern.search(question))
    return AskedFor(telling or every, named_symbols(question), places)


def ranked(hits: Sequence[ChunkHit], wanted: AskedFor) -> list[ChunkHit]:
    """The hits of a word search in order, with scores between 0 and 1."""
    likely = nlargest(CANDIDATES, hits, key=lambda hit: hit.score * place_weight(hit, wanted))
    values = {hit: hit.score * weight(hit, wanted) for hit in likely}
    namesakes: Counter[tuple[str, str]] = Counter()
    for hit in sorted(values, key=lambda hit: -values[hit]):
        own = (hit.place.path, hit.name.rpartition(".")[2])
        values[hit] *= NAMESAKE ** namesakes[own]
        namesakes[own] += 1
    order = sorted(values, key=lambda hit: -values[hit])
    return [hit._replace(score=values[hit] / (values[hit] + _HALF)) for hit in order]


def weight(hit: ChunkHit, wanted: AskedFor) -> float:
    """What the place, the name and the path of a chunk add to its rank, or take from it."""
    own = text_words(hit.name.rsplit(".", 1)[-1])
    path = text_words(hit.place.path.rsplit(".", 1)[0])
    words_share = (
        NAMED * _share(wanted.words, own) + SAID * _share(own, wanted.words) + FILED * _share(wanted.words, path)
    )
    declared = DECLARED if hit.line == hit.end_line and hit.kind not in {"block", "module"} else 1.0
    return declared * place_weight(hit, wanted) * (1 + words_share)


def place_weight(hit: ChunkHit, wanted: AskedFor) -> float:
    """The weight of a chunk's place; that of an implementation if the question asks for the place."""
    place = place_of(hit.place.path, hit.name)
    head = HEAD if hit.kind in {"block", "module"} else 1.0
    return head * (1.0 if place in wanted.places else PLACES[place])


def place_of(path: str, name: str) -> str:
    """One of `PLACES`, by the conventions of languages for the names of files, folders and tests."""
    if _TEST_FILE.search(path) or _TEST_NAME.match(name):
        return "test"
    if _DOCUMENT_FILE.search(path):
        return "document"
    if _GENERATED_FILE.search(path):
        return "generated"
    return "example" if _EXAMPLE_FILE.search(path) else "implementation"


def _share(wanted: Collection[str], present: Collection[str]) -> float:
    return sum(any(_alike(word, other) for other in present) for word in wanted) / max(len(wanted), 1)


def _alike(first: str, second: str) -> bool:
    """Whether two words have the same beginning: redirects and redirection, gen and generated; not file and filter."""
    if first[0] != second[0]:  # most are: 200 chunks are compared word by word
        return False
    first, second = (word[:-1] if len(word) > 3 and word.endswith("s") else word for word in (first, second))
    short = min(len(first), len(second))
    if short < 3:
        return first == second
    same = next((i for i in range(short) if first[i] != second[i]), short)
    return same >= max(min(4, short), math.ceil(0.75 * short))


# --- the hits of a session's searches, kept in its checkpoint for the next server

MAX_KEPT = 50
"""Hits of each kind, and symbols of the cache; the oldest are forgotten."""
_MAX_SYMBOLS = 5
_MAX_DEFINITIONS = 20


class _Cached(msgspec.Struct):
    """The definitions of a symbol, and the time and size of each of their files."""

    definitions: list[dict[str, Any]]
    files: dict[str, tuple[int, int]]


def note_search(state: SessionState, codebase: Codebase, answer: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
    """Keep the hits of a semantic search. Returns the answer; of a map hit, with the definitions of its symbols."""
    hits = [
        {"id": hit["id"], "query": answer["query"][:500], "score": hit["score"]}
        | ({"symbols": listed} if isinstance(listed := hit["metadata"].get("symbols"), list) else {})
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
    definitions = [definition for symbol in symbols for definition in _definitions(state, codebase, symbol, deadline)]
    return {**answer, "definitions": definitions}


def _latest(earlier: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_id = {hit.get("id"): hit for hit in earlier}
    for hit in new:
        by_id.pop(hit["id"], None)  # what was found last comes last
        by_id[hit["id"]] = hit
    return list(by_id.values())[-MAX_KEPT:]


def _definitions(state: SessionState, codebase: Codebase, symbol: str, deadline: Deadline) -> list[dict[str, Any]]:
    """The definitions of a symbol: the kept ones if their files are as they were, else looked up."""
    repository, cache = codebase.repository, state.definitions_cache
    key = msgspec.json.encode((symbol, repository.root, None, True)).decode()
    cached = _current(repository, cache.get(key))
    counted = "hits" if cached is not None else "misses"
    state.cache_stats[counted] = state.cache_stats.get(counted, 0) + 1
    if cached is not None:
        return cached
    answer = find_definitions(codebase, symbol, exact_match=True, max_results=_MAX_DEFINITIONS, deadline=deadline)
    definitions: list[dict[str, Any]] = answer["definitions"]
    files = {definition["file"]: _status(repository, definition["file"]) for definition in definitions}
    cache.pop(key, None)
    if definitions:
        cache[key] = msgspec.to_builtins(_Cached(definitions, files))
    for oldest in list(cache)[:-MAX_KEPT]:
        del cache[oldest]
    return definitions


def _current(repository: CodeRepository, cached: Any) -> list[dict[str, Any]] | None:
    try:
        entry = msgspec.convert(cached, _Cached)
    except msgspec.ValidationError:
        return None
    now = {path: _status(repository, path) for path in entry.files}
    return entry.definitions if now == entry.files else None


def _status(repository: CodeRepository, path: str) -> tuple[int, int]:
    try:
        status = os.stat(repository.absolute(repository.existing(path)), follow_symlinks=False)
    except (OSError, AdjournError):
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
