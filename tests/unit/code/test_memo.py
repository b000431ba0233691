"""What is kept between questions: never more than the limits, and never something that is no longer so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adjourn.code.index.codebase import Codebase, Memo
from adjourn.code.search.references import find_references

steps = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 6), st.booleans()))


@given(steps)
def test_the_limits_hold_and_the_latest_stay(given_steps: list[tuple[str, int, bool]]) -> None:
    """After any steps there are at most so many values and items; what is there is what was put last, and the newest is there."""
    memo: Memo[int] = Memo(3, 10)
    latest: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for key, size, reads in given_steps:
        if reads:
            assert memo.get(key) in (None, latest.get(key))
            continue
        latest[key], sizes[key] = latest.get(key, 0) + 1, size
        memo.put(key, latest[key], size)
        assert memo.get(key) == latest[key]
    there = [key for key in "abcdef" if memo.get(key) is not None]
    assert len(there) <= 3
    assert sum(sizes[key] for key in there) <= 10


def test_a_value_larger_than_the_limit_is_not_kept() -> None:
    """Instead of all others going, it does; an older value of its name does not stay either."""
    memo: Memo[str] = Memo(3, 10)
    memo.put("a", "old", 1)
    memo.put("b", "kept", 1)
    memo.put("a", "new", 11)
    assert (memo.get("a"), memo.get("b")) == (None, "kept")


def _references(codebase: Codebase, symbol: str) -> dict[str, Any]:
    found = find_references(codebase, symbol)
    return {name: value for name, value in found.items() if name not in ("cache_stats", "index_state")}


def _old(path: Path, text: str) -> None:
    """A file that was not written just now, so that its time tells whether it has changed."""
    path.write_text(text)
    os.utime(path, ns=(1_700_000_000 * 10**9 + len(text), 1_700_000_000 * 10**9 + len(text)))


def test_a_question_that_is_asked_again_has_the_same_answer(tmp_path: Path) -> None:
    """As long as nothing changes; after a file or a definition did, the answer is that of a codebase that never kept anything."""
    _old(tmp_path / "a.py", "def total(x):\n    return x\n")
    _old(tmp_path / "b.py", "from a import total\n\nprint(total(1))  # total\n")
    _old(tmp_path / "c.py", "y = other.total\n'''total'''\n")
    changes = [
        ("c.py", "nothing = 1\n"),
        ("b.py", "from a import total\n\n\nprint(total(2))\n"),
        ("d.py", "class Cart:\n    def total(self): ...\n"),
        ("a.py", "def sum(x):\n    return x\n"),
        ("d.py", "pass\n"),
    ]
    with Codebase(str(tmp_path)) as codebase:
        codebase.sync()
        for name, text in [("", ""), *changes]:
            if name:
                _old(tmp_path / name, text)
                codebase.sync()
            first = _references(codebase, "total")
            assert _references(codebase, "total") == first
            with Codebase(str(tmp_path)) as fresh:
                assert _references(fresh, "total") == first


def test_a_file_that_changes_between_two_questions_is_read_again(tmp_path: Path) -> None:
    """Also before the index knows of the change."""
    _old(tmp_path / "a.py", "def total(x):\n    return x\n")
    _old(tmp_path / "b.py", "print(total(1))\n")
    with Codebase(str(tmp_path)) as codebase:
        codebase.sync()
        assert _references(codebase, "total")["references"][0]["line"] == 1
        _old(tmp_path / "b.py", "\n\nprint(total(1))\n")
        assert _references(codebase, "total")["references"][0]["line"] == 3
