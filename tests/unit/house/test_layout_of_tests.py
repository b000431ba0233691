"""The layout of the tests: who imports what, what each test says, how long a module is."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[2]


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def test_no_test_module_is_imported() -> None:
    """A module under tests imports helpers from tests/support, never from a test module."""
    found = [
        f"{path.relative_to(TESTS)}: {name}"
        for path in TESTS.rglob("*.py")
        for node in nodes_of(path)
        for name in _imported(node)
        if any(part.startswith("test_") for part in name.split("."))
    ]
    assert found == []


def test_every_shared_strategy_is_in_one_file() -> None:
    """Of the helpers only tests/support/strategies.py imports hypothesis."""
    found = {
        path.name
        for path in (TESTS / "support").rglob("*.py")
        for node in nodes_of(path)
        if any(name.split(".")[0] == "hypothesis" for name in _imported(node))
    }
    assert found == {"strategies.py"}


def test_every_test_says_what_it_holds() -> None:
    """Each test has a docstring: the behaviour as a sentence, which is more than its name."""
    found = [
        f"{path.relative_to(TESTS)}: {node.name}"
        for path in TESTS.rglob("test_*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if " " not in (ast.get_docstring(node) or "").strip()
    ]
    assert found == []


LONGEST = 500


def test_a_test_module_has_one_subject() -> None:
    """No test module has more than 500 lines: a longer one is split by subject."""
    found = {
        str(path.relative_to(TESTS)): lines
        for path in TESTS.rglob("test_*.py")
        if (lines := path.read_text(encoding="utf-8").count("\n")) > LONGEST
    }
    assert found == {}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module or ''}.{alias.name}" for alias in node.names if not alias.name.startswith("test_")] or [
            node.module or ""
        ]
    return []
