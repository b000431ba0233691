"""Patterns: which names they name, strictly for an allow and folded for a refusal."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex.match import (
    PatternIndex,
    fold,
    glob_path,
    glob_text,
    matches,
    matches_folded,
    never_matches,
    split_scope,
    tool_name_ok,
)
from support import strategies
from support.cases import for_each


@for_each(
    ("name", "ok"),
    [
        ("file.read", True),
        ("a", True),
        ("A-b_c/d.9", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        (" network.fetch", False),
        ("network.fetch\n", False),
        ("nétwork", False),
        ("a:b", False),
        ("a*", False),
        (5, False),
        (None, False),
        (["secrets.read"], False),
    ],
)
def test_a_tool_name_is_a_short_string_of_the_alphabet(name: object, ok: bool) -> None:
    """A name is a text of the tool-name alphabet, and nothing else."""
    assert tool_name_ok(name) is ok


@for_each(
    ("pattern", "name", "exact", "folded"),
    [
        ("*", "anything", True, True),
        ("file.read", "file.read", True, True),
        ("file.read", "file.reader", False, False),
        ("file.*", "file.read", True, True),
        ("file.*", "file.a.b.c", True, True),
        ("file.*", "file", True, True),
        ("file.*", "files.read", False, False),
        ("network.*", "Network.fetch", False, True),
        ("network.*", "network/fetch", False, True),
        ("network.*", "network-fetch", False, True),
        ("network.*", "NETWORK__fetch", False, True),
        ("network.*", "networkfetch", False, False),
        ("secrets.read", "secrets_read", False, True),
        ("secrets_read", "Secrets//Read", False, True),
        ("a.b.*", "a-b-c", False, True),
        ("net_*", "net_x", False, True),  # an error diagnostic; should it be ignored, it errs towards no
        (".*", ".hidden", True, True),
        ("*.read", "file.read", False, False),
    ],
)
def test_an_allow_matches_as_written_and_a_refusal_in_any_spelling(
    pattern: str, name: str, exact: bool, folded: bool
) -> None:
    """Case and separators count for an allow, and not for a refusal."""
    assert matches(pattern, name) is exact
    assert matches_folded(pattern, name) is folded


@for_each(
    "pattern", ["", "net_*", "*.read", "file.**", "file read", "x" * 129, "näme", "a#b", "file.read:", ":src/**", "**"]
)
def test_a_pattern_that_can_name_nothing_is_told(pattern: str) -> None:
    """A pattern that can never match is known as such."""
    assert never_matches(pattern)


@pytest.mark.parametrize(
    "pattern", ["*", "file.*", "file.read", "a/b", "x" * 128, "file.read:src/**", "t.run:pytest -q*"]
)
def test_a_pattern_that_can_name_a_tool_is_fine(pattern: str) -> None:
    """A pattern that some tool name can match has no complaint."""
    assert never_matches(pattern) == ""


@given(strategies.tool_patterns, strategies.tool_names)
def test_whatever_matches_exactly_matches_folded(pattern: str, name: str) -> None:
    """A folded match includes each exact match, and folding twice changes nothing more."""
    if matches(pattern, name):
        assert matches_folded(pattern, name)
    assert fold(fold(name)) == fold(name)


@given(st.lists(strategies.tool_patterns, max_size=12), strategies.tool_names)
def test_an_index_finds_what_a_scan_finds(patterns: list[str], name: str) -> None:
    """The index of patterns returns the same positions as testing each pattern in turn."""
    index = PatternIndex(enumerate(patterns))
    expected = [position for position, pattern in enumerate(patterns) if matches(pattern, name)]
    assert index.all(name) == expected
    assert index.first(name) == (expected[0] if expected else None)
    assert bool(index) is bool(patterns)


def test_a_scope_is_what_follows_the_first_colon() -> None:
    """A pattern is split into tool and scope at its first colon."""
    assert split_scope("file.read:a:b") == ("file.read", "a:b")
    assert split_scope("file.read") == ("file.read", "")


@for_each(
    ("glob", "path", "expected"),
    [
        ("src/**", "src/a.py", True),
        ("src/**", "src/a/b/c.py", True),
        ("src/**", "src", True),
        ("src/**", "srcs/a", False),
        ("src/*", "src/a/b", False),
        ("src/*.py", "src/a.py", True),
        ("**/test_?.py", "a/b/test_1.py", True),
        ("**/test_?.py", "test_1.py", True),
        ("**/x/**/y", "a/x/b/x/c/y", True),
        ("**/x/**/y", "a/x/b/c", False),
        ("README.md", "README.md", True),
        ("README.md", "docs/README.md", False),
        ("**", "any/thing", True),
    ],
)
def test_a_path_scope_spans_folders_only_with_two_stars(glob: str, path: str, expected: bool) -> None:
    """`*` matches within one folder and `**` matches across folders."""
    assert glob_path(glob, path) is expected


def test_a_text_scope_takes_any_run_for_a_star() -> None:
    """`*` is any run of characters and `?` one, over the whole text."""
    assert glob_text("pytest*", "pytest -q tests/unit")
    assert not glob_text("pytest*", "python -m pytest")
    assert glob_text("a?c*", "abc")
    assert not glob_text("a*b", "a" * 5000 + "c")
    assert not glob_text("ab*ba", "aba")
    assert glob_text("*", "")
    assert not glob_text("?", "")


def expression(glob: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in glob)


@given(st.text("ab*?", max_size=8), st.text("ab\n", max_size=10))
def test_a_text_glob_matches_what_its_regular_expression_matches(glob: str, text: str) -> None:
    """The quick matcher agrees with a slow one."""
    assert glob_text(glob, text) is (re.fullmatch(expression(glob), text, re.DOTALL) is not None)


def test_a_text_glob_takes_linear_time() -> None:
    """Many stars over a long text are one pass, not one pass for each way to place them."""
    began = time.process_time()
    assert not glob_text("*a?b" * 50 + "*c", "ab" * 500_000)
    assert time.process_time() - began < 10
