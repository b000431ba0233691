"""What adjourn answers to mistakes that people make: tests/data/mistakes, which `python tests/mistakes.py` rewrites."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import mistakes
from support.cases import for_each

COMMANDS = mistakes.FOLDER / "commands.txt"
DOCUMENTS = sorted(path for path in mistakes.FOLDER.glob("*.txt") if path != COMMANDS)
MOST_FINDINGS = 2


def of(paths: list[Path]) -> list[mistakes.Mistake]:
    return [mistake for path in paths for mistake in mistakes.read(path)]


@for_each("mistake", of(DOCUMENTS), ids=lambda mistake: mistake.name[:60])
def test_a_mistake_in_a_document_gets_the_answer_in_the_file(mistake: mistakes.Mistake) -> None:
    """A mistake gets exactly the findings that the file shows, each with a remedy."""
    assert mistakes.answer(mistake) == mistake.answer, "if it is meant: python tests/mistakes.py"
    findings = mistake.answer.count("\nerror ") + mistake.answer.count("\nwarning ") + 1
    assert findings == mistake.answer.count("\nhelp: ") or mistake.answer == "no finding"


def test_one_mistake_gets_at_most_two_findings() -> None:
    """A line that is wrong, or a header or goal that is wrong or missing, causes no further findings."""
    many = [
        mistake.name
        for mistake in of(DOCUMENTS)
        if mistake.answer.count("\nhelp: ") > MOST_FINDINGS and mistake.name != ">> allow fs.read"
    ]
    assert many == []


@pytest.fixture(scope="module")
def _workspace() -> Iterator[None]:
    with mistakes.workspace():
        yield


@pytest.mark.usefixtures("_workspace")
@for_each("mistake", of([COMMANDS]), ids=lambda mistake: mistake.name[:60])
def test_a_mistake_on_the_command_line_gets_the_answer_in_the_file(mistake: mistakes.Mistake) -> None:
    """A wrong command, option or name gets exactly the message that the file shows, with the next step, and its exit code."""
    assert mistakes.answer(mistake) == mistake.answer, "if it is meant: python tests/mistakes.py"
