"""Orders chunks of code by how well they answer a question.

Owns: what a question asks for, and the weights of the order. Must never: read the index or a file.

A chunk's value is its BM25 rank, times its place, times what its name and path say:

    BM25 * PLACES[place] * (1 + NAMED * words of the question that its name has
                              + SAID * words of its name that the question has
                              + FILED * words of the question that its path has)

The shares are between 0 and 1. Definitions of symbols that the question names come before all others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from heapq import nlargest
from typing import NamedTuple

from adjourn.code.index.chunks import ChunkHit
from adjourn.code.model import words

NAMED = 2.0
"""A name that says all of the question counts three times as much as one that says nothing of it."""
SAID = 0.5
"""Prefers `redirect_method` to `redirect_method_is_safe` for "the method of a redirect"."""
FILED = 0.5
"""`_multipart.py` says what its functions are about, and they do not repeat it."""
PLACES = {"implementation": 1.0, "example": 0.5, "test": 0.3, "document": 0.3}
"""Tests and documents repeat the words of a question more often than the code that they are about. One that is three times as good
as the best implementation still comes first. A question that asks for such a place has all of its chunks count in full."""
HEAD = 0.5
"""The head of a file and a block of lines have all words of the imports and constants, and define nothing."""
CANDIDATES = 200
"""How many chunks are ranked by their names, too."""
_RANK = 10
"""The smaller, the more the first ranks count."""
_HALF = 12.0
"""The value that maps to a score of 0.5."""
_TEST_FILE = re.compile(
    r"(^|/)(tests?|specs?|__tests__|testdata|testing|fixtures|e2e|bench(es|marks?|suite)?|fuzz)/"
    r"|(^|/)(test_|conftest\.)[^/]*$|[._-](tests?|spec)\.\w+$|(Tests?|Spec)\.\w+$"
)
_TEST_NAME = re.compile(r"tests?\.|(.*\.)?test_")
_DOCUMENT_FILE = re.compile(r"\.(md|mdx|markdown|rst|adoc|txt)$", re.IGNORECASE)
_EXAMPLE_FILE = re.compile(r"(^|/)(examples?|samples?|demos?|vendor|third_party)/")
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
    every = list(dict.fromkeys(words.split(question)))
    telling = [word for word in every if word not in _STOP_WORDS]
    places = frozenset(place for place, pattern in _ASKED_FOR.items() if pattern.search(question))
    return AskedFor(telling or every, words.symbols(question), places)


def ranked(hits: Sequence[ChunkHit], asked: AskedFor) -> list[ChunkHit]:
    """The hits of a word search in order, with scores between 0 and 1."""
    likely = nlargest(CANDIDATES, hits, key=lambda hit: hit.score * place_weight(hit, asked))
    values = {hit: hit.score * weight(hit, asked) for hit in likely}
    order = sorted(values, key=lambda hit: -values[hit])
    return [hit._replace(score=values[hit] / (values[hit] + _HALF)) for hit in order]


def fused(by_words: Sequence[ChunkHit], by_meaning: Sequence[ChunkHit], asked: AskedFor) -> list[ChunkHit]:
    """Both rankings in one, by reciprocal ranks. `score` is the similarity, 0 if it is not known."""
    # Equally, as measured in tests/bench: where vectors weigh more, descriptions of code without comments are found better, and what
    # developers ask is found worse.
    near = sorted(by_meaning, key=lambda hit: -hit.score * place_weight(hit, asked))
    values: dict[int, float] = {}
    for ranking in (by_words, near):
        for rank, hit in enumerate(ranking):
            values[hit.id] = values.get(hit.id, 0.0) + 1 / (_RANK + rank)
    hits = {hit.id: hit._replace(score=0.0) for hit in by_words} | {hit.id: hit for hit in near}
    return sorted(hits.values(), key=lambda hit: -values[hit.id])


def weight(hit: ChunkHit, asked: AskedFor) -> float:
    """What the place, the name and the path of a chunk add to its rank, or take from it."""
    own = words.split(hit.name.rsplit(".", 1)[-1])
    path = words.split(hit.place.path.rsplit(".", 1)[0])
    told = (
        NAMED * _share(asked.words, own) + SAID * _share(own, asked.words) + FILED * _share(asked.words, path)
    )
    return place_weight(hit, asked) * (1 + told)


def place_weight(hit: ChunkHit, asked: AskedFor) -> float:
    """The weight of a chunk's place; that of an implementation if the question asks for the place."""
    place = place_of(hit.place.path, hit.name)
    head = HEAD if hit.kind in {"block", "module"} else 1.0
    return head * (1.0 if place in asked.places else PLACES[place])


def place_of(path: str, name: str) -> str:
    """One of `PLACES`, by the conventions of languages for the names of files, folders and tests."""
    if _TEST_FILE.search(path) or _TEST_NAME.match(name):
        return "test"
    if _DOCUMENT_FILE.search(path):
        return "document"
    return "example" if _EXAMPLE_FILE.search(path) else "implementation"


def _share(wanted: Collection[str], present: Collection[str]) -> float:
    return sum(any(_alike(word, one) for one in present) for word in wanted) / max(len(wanted), 1)


def _alike(one: str, other: str) -> bool:
    """Whether two words have the same beginning: redirects and redirection, gen and generated; not file and filter."""
    if one[0] != other[0]:  # most are: 200 chunks are compared word by word
        return False
    one, other = (word[:-1] if len(word) > 3 and word.endswith("s") else word for word in (one, other))
    short = min(len(one), len(other))
    if short < 3:
        return one == other
    same = next((i for i in range(short) if one[i] != other[i]), short)
    return same >= max(min(4, short), math.ceil(0.75 * short))
