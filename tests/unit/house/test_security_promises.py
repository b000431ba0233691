"""SECURITY.md promises only what a test holds, and README promises nothing beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from support.cases import for_each

ROOT = Path(__file__).resolve().parents[3]
_ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<tests>\[[^|]+\)) \|$", re.MULTILINE)
_TEST = re.compile(r"\[`(?P<name>test_\w+)`\]\((?P<path>tests/[\w/]+\.py)\)")
_GUARANTEES = re.compile(r"^## What it guarantees\n(?P<text>.*?)^## ", re.MULTILINE | re.DOTALL)
_GUARANTEE = re.compile(r"^\| (?P<promise>[A-Z][^|]+) \| (?P<limit>[A-Z][^|]+) \|$", re.MULTILINE)
PEOPLE = ("agent", "server", "repository", "neighbour", "network")


class Promise(NamedTuple):
    """A row of SECURITY.md: what is promised, and (file, test) of each test that holds it."""

    text: str
    tests: list[tuple[str, str]]


def _promises() -> list[Promise]:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    return [
        Promise(row["promise"], [(test["path"], test["name"]) for test in _TEST.finditer(row["tests"])])
        for row in _ROW.finditer(text)
    ]


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    """The tests of a file, those of its classes too."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}


@for_each("promise", _promises(), ids=lambda promise: promise.text[:50])
def test_every_promise_names_tests_that_exist_and_are_not_skipped(promise: Promise) -> None:
    """Each promise of SECURITY.md links to at least one test, which exists, asserts something and is not skipped."""
    assert promise.tests
    for path, name in promise.tests:
        test = _functions(ROOT / path).get(name)
        assert test is not None, f"{path} has no {name}"
        assert not any("skip" in ast.unparse(mark) for mark in test.decorator_list)


def test_every_guarantee_of_the_readme_is_a_promise() -> None:
    """README promises under "What it guarantees" only what SECURITY.md repeats word by word, each with its limit beside it."""
    section = _GUARANTEES.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert section is not None
    guarantees = {row["promise"] for row in _GUARANTEE.finditer(section["text"])}
    assert len(guarantees) >= 6
    assert guarantees <= {promise.text for promise in _promises()}


@pytest.mark.parametrize("who", PEOPLE)
def test_the_threat_model_says_of_each_party_what_it_may_do(who: str) -> None:
    """SECURITY.md has a section for each party: what it may do, what is promised, what is not."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    section = re.search(rf"^### The {who}\n(.*?)(?=^###? |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert "**May do:**" in section[1]
    assert "**Not promised:**" in section[1]
    assert _ROW.search(section[1])
