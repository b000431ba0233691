"""Figures of speech that are not used: in messages, docstrings, comments and documentation, in `src`, `docs`, `spec` and tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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


def texts() -> Iterator[tuple[Path, int, str]]:
    """(file, its first line, text) of the source and the documentation, and of each docstring of the tests."""
    folders = ("*.md", "docs/**/*.md", "spec/*.md", "src/**/*.md", "Makefile", "docs/*.py", "src/**/*.py")
    for path in (path for pattern in folders for path in sorted(REPOSITORY.glob(pattern))):
        yield path, 1, path.read_text("utf-8")
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        text = path.read_text("utf-8")
        for found in re.finditer(r'"""(.*?)"""', text, re.DOTALL):
            yield path, text.count("\n", 0, found.start()) + 1, found[1]


def test_a_figure_of_speech_is_used_nowhere() -> None:
    """Messages, docstrings, comments and pages use the term of the field in place of our own figures of speech."""
    any_form = re.compile("|".join(FORMS), re.IGNORECASE)
    found = [
        f"{path.relative_to(REPOSITORY)}:{first + text.count(chr(10), 0, hit.start())}: {hit[0]!r}: say: {_instead(hit[0])}"
        for path, first, text in texts()
        if not str(path.relative_to(REPOSITORY)).startswith(tuple(EXCEPT))
        for hit in any_form.finditer(text)
    ]
    assert found == []


def _instead(used: str) -> str:
    return next((FORMS[form] for form in FORMS if re.search(form, used, re.IGNORECASE)), "")
