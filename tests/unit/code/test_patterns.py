"""Search by structure: patterns of code match syntax trees, within bounds, whatever the files hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adjourn.code.deadline import Deadline
from adjourn.code.repository import CodeRepository
from adjourn.code.search import patterns
from adjourn.code.search.patterns import search_pattern
from adjourn.code.search.text import TextOptions
from adjourn.errors import InvalidError
from support.cases import for_each
from support.code_files import repository, write

FILES = {
    "app/lock.py": "def work(lock):\n    lock.acquire()\n    # lock.acquire()\n    other.acquire( )\n    print('lock.acquire()')\n",
    "app/twice.py": "if a == a:\n    pass\nif a == b:\n    pass\n",
    "app/call.js": "fetch(url, {\n  method: 'POST',\n});\nfetch(url);\nlock.acquire();\n",
    "app/é.ts": "const é = get('é'); get('b', 1)\n",
    "notes.md": "lock.acquire()\n",
    ".gitignore": "dist/\n",
    "dist/lock.py": "lock.acquire()\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CodeRepository:
    return CodeRepository(str(repository(tmp_path_factory.mktemp("p") / "p", FILES)))


def _search(project: CodeRepository, pattern: str, where: str = ".", kind: str | None = None, limit: int = 100) -> Any:
    return search_pattern(project, pattern, where, TextOptions(kind, max_results=limit), Deadline())


def _places(answer: Any) -> list[str]:
    return [f"{match['file']}:{match['line_number']}" for match in answer["matches"]]


@for_each(
    ("pattern", "kind", "places"),
    [
        ("$LOCK.acquire()", None, ["app/call.js:5", "app/lock.py:2", "app/lock.py:4"]),
        ("$LOCK.acquire()", "py", ["app/lock.py:2", "app/lock.py:4"]),
        ("$A == $A", "py", ["app/twice.py:1"]),
        ("fetch($URL, $$$REST)", None, ["app/call.js:1"]),
        ("fetch($$$ALL)", None, ["app/call.js:1", "app/call.js:4"]),
        ("get($A)", None, ["app/é.ts:1"]),
        ("nowhere($A)", None, []),
    ],
)
def test_a_pattern_matches_code(pattern: str, kind: str | None, places: list[str], project: CodeRepository) -> None:
    """Spaces do not count; comments, strings, prose and ignored files do not match; `$A` twice is the same code."""
    assert _places(_search(project, pattern, kind=kind)) == places


def test_a_match_says_where_it_stands(project: CodeRepository) -> None:
    """Columns count characters; a match of several lines has its last line, too."""
    [match] = _search(project, "get($A)")["matches"]
    assert match["submatches"] == [{"match": "get('é')", "start": 10, "end": 18}]
    first = _search(project, "fetch($$$)")["matches"][0]
    assert (first["line_content"], first["end_line_number"]) == ("fetch(url, {", 3)
    assert first["submatches"] == [{"match": "fetch(url, {", "start": 0, "end": 12}]


def test_an_answer_is_bounded(project: CodeRepository, tmp_path: Path) -> None:
    """No more matches than asked for are returned, and the answer says that there are more."""
    answer = _search(project, "$LOCK.acquire()", limit=1)
    assert (len(answer["matches"]), answer["returned_matches"], "partial" in answer) == (1, 1, True)
    assert _search(project, "$LOCK.acquire()", "app/lock.py", limit=2)["total_matches"] == 2
    write(tmp_path / "p", {"many.py": "call(1)\n" * 1_001})
    many = _search(CodeRepository(str(tmp_path / "p")), "call($A)", limit=5_000)
    assert (many["total_matches"], "partial" in many) == (1_000, True)
    expired = search_pattern(project, "$LOCK.acquire()", ".", TextOptions(), Deadline(0))
    assert "timed out" in expired["partial"]


@for_each("pattern", ["", " ", "x" * 1_001, "a\0b", "lock; acquire"])
def test_what_is_no_pattern_is_an_error(pattern: str, project: CodeRepository) -> None:
    """Nothing, too much, and what is no single piece of code in any language are refused."""
    with pytest.raises(InvalidError):
        _search(project, pattern, "app/lock.py")


def test_a_hostile_file_ends_no_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that crashes or stops the library is named in a warning, and the others are searched."""
    monkeypatch.setattr(patterns, "_FILE_SECONDS", 2.0)
    deep = "call(" + "(" * 500_000 + ")" * 500_000 + ")\n"
    root = repository(tmp_path / "p", {"a.py": deep, "b.py": "call(1)\n", "d.py": "call(2)\n"})
    answer = _search(CodeRepository(str(root)), "call($A)")
    assert {"b.py:1", "d.py:1"} <= set(_places(answer))
    assert len(answer["matches"]) <= 4
