"""The layout of the tests: who imports what."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[2]


def test_no_test_module_is_imported() -> None:
    """A module under tests imports helpers from tests/support, never from a test module."""
    found = [
        f"{path.relative_to(TESTS)}: {name}"
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in _imported(node)
        if any(part.startswith("test_") for part in name.split("."))
    ]
    assert found == []


def test_every_shared_strategy_is_in_one_file() -> None:
    """Of the helpers only tests/support/strategies.py imports hypothesis."""
    found = {
        path.name
        for path in (TESTS / "support").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if any(name.split(".")[0] == "hypothesis" for name in _imported(node))
    }
    assert found == {"strategies.py"}


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [
            f"{node.module or ''}.{alias.name}" for alias in node.names if not alias.name.startswith("test_")
        ] or [node.module or ""]
    return []
