"""Every row of the table has a test, and every mark names a row."""

from __future__ import annotations

import ast
from pathlib import Path

from support.requirements import REQUIREMENTS

HERE = Path(__file__).parent
IN_PROCESS = HERE.parent / "unit" / "relay"


def _marks() -> dict[str, list[str]]:
    """Row → the tests that claim it, read from the sources."""
    found: dict[str, list[str]] = {}
    for path in [*HERE.glob("test_proxy_*.py"), *HERE.glob("test_hook*.py"), *IN_PROCESS.glob("test_*.py")]:
        for test in ast.walk(ast.parse(path.read_text())):
            if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
                continue
            for mark in test.decorator_list:
                if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "requirement":
                    for row in mark.args:
                        assert isinstance(row, ast.Constant)
                        found.setdefault(str(row.value), []).append(f"{path.name}:{test.name}")
    return found


def test_every_row_has_a_test_and_every_mark_names_a_row() -> None:
    """Each requirement has a test, and each mark of a test names a requirement."""
    marks = _marks()
    assert not set(REQUIREMENTS) - set(marks), "rows without a test"
    assert not set(marks) - set(REQUIREMENTS), "marks that name no row"
