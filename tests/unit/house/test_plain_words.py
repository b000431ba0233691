"""Figures of speech that are not used: in messages, docstrings, comments and documentation, in `src`, `docs`, `spec` and tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
FORMS = {
    r"\bgo(es)? on\b|\bgone on\b|\bwent on\b|\bgoing on\b": "continue, happen, change",
    r"\banew\b": "again",
    r"\bsits? down\b|\bsat (down|at)\b|\bsits on\b": "open a session, work on a task",
    r"\bgets? up\b(?! to)": "close the session, exit",
    r"\bmoved about\b": "switched repeatedly",
    r"\bnoted for\b": "has concurrent writers",
    r"\bthere would be\b": "too many: N (limit M)",
    r"\bwhom you expect\b": "the expected signer",
    r"\bgiven up \(": "declined, cancelled or timed out, and how to answer now",
    r"\ba yes\b": "an approval",
    r"\bsince just now\b": "started just now",
    r"\bdoes not read any ?more\b": "exited, and its exit code",
    r"\bclients? of the handshake era\b": "a client with protocol 2025-11-25 or earlier",
    r"\bround any callable\b": "wrap any callable",
    r"\blet old \w+ go\b": "delete old ...",
    r"\bkeeps no call\b": "never blocks a call",
    r"\bhands it to what\b": "dispatches to",
    r"\bbefore it looked again\b": "before it polls again",
    r"\bstands? by for\b|\blends? no\b|\bholds? nobody\b": "is on standby, has no permissions, holds no lease",
    r"\bas of any module\b": "the behaviour, as a sentence with a subject",
    r"\bthat is there once\b": "read only once",
    r"\bwhat (came|becomes?|became) of\b": "the outcome of",
    r"\breach(es|ed)? nobody\b": "was dropped, was not delivered",
    r"\bwork waits\b": "unfinished work",
    r"\bhanded (out|over)\b": "returned, delivered",
    r"\bversion \S+ does not hold\b": "fails verification",
    r"\b(is|are|be|was) told\b(?! to\b)": "receives, learns, is shown",
}
"""What a text may not say, and what it says instead."""
EXCEPT = {
    "docs/adr": "decisions stay as they were written",
    "tests/data": "stored by earlier versions",
    "tests/unit/house/test_plain_words.py": "lists the forms",
}


def texts() -> Iterator[tuple[str, int, str]]:
    """(file, line, text) of every line of the source and the documentation, and of the tests' docstrings."""
    folders = ("*.md", "docs/**/*.md", "spec/*.md", "src/**/*.md", "Makefile", "docs/*.py")
    pages = [path for pattern in folders for path in REPOSITORY.glob(pattern)]
    for path in (*sorted(pages), *sorted((REPOSITORY / "src").rglob("*.py"))):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield str(path.relative_to(REPOSITORY)), number, line
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                for number, line in enumerate(node.value.value.splitlines(), node.lineno):
                    yield str(path.relative_to(REPOSITORY)), number, line


@pytest.fixture(scope="module")
def lines() -> list[tuple[str, int, str]]:
    return [row for row in texts() if not row[0].startswith(tuple(EXCEPT))]


@pytest.mark.parametrize("form", FORMS)
def test_a_figure_of_speech_is_used_nowhere(form: str, lines: list[tuple[str, int, str]]) -> None:
    """Messages, docstrings, comments and pages use the term of the field in place of our own figures of speech."""
    pattern = re.compile(form, re.IGNORECASE)
    found = [f"{file}:{number}: {text.strip()}" for file, number, text in lines if pattern.search(text)]
    assert found == [], f"say: {FORMS[form]}"
