"""Questions that developers ask about six repositories, and how often the code that answers them is found.

The questions are in tests/data/code_questions, each with the functions that answer it, written down before the ranking was tuned. Half
of them are held out: no weight was chosen by them. The repositories are read from clones (`--clones DIR`, with DIR/httpx and so on), at
the commits that the questions are about.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sizes import Sizes
from tables import Table

from adjourn.code.index import lookup
from adjourn.code.index.analysis import text_words
from adjourn.code.index.codebase import Codebase
from adjourn.code.search.routing import Question, query
from adjourn.code.search.semantic import semantic_search

QUESTIONS = Path(__file__).parents[1] / "data/code_questions"
_FIRST = 5
Ask = Callable[[str], list[tuple[str, str]]]
"""A way to search: the files and names of what it finds, the best first."""


def run(sizes: Sizes, folder: str) -> list[Table]:
    """The table of this section; none without clones."""
    if sizes.clones is None:
        return []
    table = Table(
        "Finding the code that a question is about",
        ["repository", "ranked by", "R@1", "R@5", "held out: R@1", "R@5"],
        "34 questions a repository, such as “where are redirects followed”. R@1: the share whose first hit is a function or class "
        "that answers it, R@5: one of the first five. Every second one is held out: no weight was chosen by them. BM25 alone: all words of "
        "the question, whatever part of the repository they are found in. The others: what `semantic_search` and `query` answer.",
    )
    for path in sorted(QUESTIONS.glob("*.json")):
        asked = json.loads(path.read_text("utf-8"))
        root = Path(folder, path.stem)
        _unpack(sizes.clones / path.stem, asked["commit"], root)
        _add_rows(table, path.stem, asked["questions"], root)
    return [table]


def _add_rows(table: Table, name: str, questions: list[dict[str, Any]], root: Path) -> None:
    with Codebase(str(root)) as codebase:
        codebase.sync()
        ways: list[tuple[str, Ask]] = [
            ("BM25 alone", lambda question: _by_words(codebase, question)),
            ("`semantic_search`", lambda question: _by_search(codebase, question)),
            ("`query`", lambda question: _by_query(codebase, question)),
        ]
        for way, ask in ways:
            table.add(name, way, *_quality(questions, ask))


def _quality(questions: list[dict[str, Any]], ask: Ask) -> list[float]:
    """R@1 and R@5 of the questions that the ranking was tuned with, then of the others."""
    places: dict[bool, list[int | None]] = {False: [], True: []}
    for one in questions:
        names = [f"{file}:{name.rpartition('.')[2]}" for file, name in ask(one["question"])[:_FIRST]]
        answer = next((place for place, name in enumerate(names) if name in one["answers"]), None)
        places[one.get("held_out", False)].append(answer)
    return [
        sum(map(good, half)) / len(half)
        for half in places.values()
        for good in (lambda place: place == 0, lambda place: place is not None)
    ]


def _by_words(codebase: Codebase, question: str) -> list[tuple[str, str]]:
    assert codebase.index is not None
    return [(hit.place.path, hit.name) for hit in lookup.search_chunks(codebase.index, text_words(question), _FIRST)]


def _by_search(codebase: Codebase, question: str) -> list[tuple[str, str]]:
    hits = semantic_search(codebase, question, collection="forest", n_results=_FIRST)["hits"]
    return [(hit["metadata"]["file"], hit["metadata"]["name"]) for hit in hits]


def _by_query(codebase: Codebase, question: str) -> list[tuple[str, str]]:
    return [(hit["file_path"], hit["symbol_name"]) for hit in query(codebase, Question(question))["results"][:_FIRST]]


def _unpack(clone: Path, commit: str, root: Path) -> None:
    """The files of a commit, as a repository of their own."""
    archive = subprocess.run(["git", "-C", str(clone), "archive", commit], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(root, filter="data")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
