"""SECURITY.md promises only what a test holds, and README promises nothing beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from support.cases import for_each

ROOT = Path(__file__).resolve().parents[3]
LIST = ROOT / "tests" / "data" / "promises.md"
_PARTY = re.compile(r"^###? The (?P<who>\w+)\n(?P<text>.*?)(?=^###? The \w+\n|\Z)", re.MULTILINE | re.DOTALL)
_PROMISED = re.compile(r"^\*\*Promised:\*\*\n\n(?P<items>.*?)\n\n\*\*Not promised:\*\*", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^- (.*?)(?=^- |\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^### (?P<promise>[^\n]*)\n(?P<details>.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_DETAIL = re.compile(r"^- (?P<detail>.*)\n(?P<tests>(?:  - .*\n)*)", re.MULTILINE)
_TEST = re.compile(r"^  - `(?P<path>tests/[\w/]+\.py)::(?P<name>test_\w+)`$", re.MULTILINE)
_GUARANTEES = re.compile(r"^## What it guarantees\n(?P<text>.*?)(?:^## |\Z)", re.MULTILINE | re.DOTALL)
_GUARANTEE = re.compile(r"^\| (?P<promise>[A-Z][^|]+) \| (?P<limit>[A-Z][^|]+) \|$", re.MULTILINE)
PEOPLE = ("agent", "server", "repository", "neighbour", "network")


class Detail(NamedTuple):
    """What a promise means in detail, and (file, test) of each test that holds it."""

    text: str
    tests: list[tuple[str, str]]


def _security() -> str:
    return (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def _promised(text: str) -> list[str]:
    """The promises of a party's section."""
    found = _PROMISED.search(text)
    return [" ".join(item.split()) for item in _ITEM.findall(found["items"] + "\n")] if found else []


def _details() -> list[Detail]:
    return [
        Detail(row["detail"], [(test["path"], test["name"]) for test in _TEST.finditer(row["tests"])])
        for row in _DETAIL.finditer(LIST.read_text(encoding="utf-8"))
    ]


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    """The tests of a file, those of its classes too."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}


@for_each("detail", _details(), ids=lambda detail: detail.text[:50])
def test_every_promise_names_tests_that_exist_and_are_not_skipped(detail: Detail) -> None:
    """Each detail of a promise names at least one test, which exists and is not skipped."""
    assert detail.tests
    for path, name in detail.tests:
        test = _functions(ROOT / path).get(name)
        assert test is not None, f"{path} has no {name}"
        assert not any("skip" in ast.unparse(mark) for mark in test.decorator_list)


def test_both_lists_have_the_same_promises() -> None:
    """SECURITY.md and tests/data/promises.md have the same promises in the same order, each with at least one detail."""
    entries = [
        (party["who"], entry["promise"], bool(_DETAIL.search(entry["details"])))
        for party in _PARTY.finditer(LIST.read_text(encoding="utf-8"))
        for entry in _ENTRY.finditer(party["text"])
    ]
    assert entries == [
        (party["who"], promise, True) for party in _PARTY.finditer(_security()) for promise in _promised(party["text"])
    ]


def test_every_guarantee_of_the_readme_is_a_promise() -> None:
    """README promises under "What it guarantees" only what SECURITY.md repeats word by word, each with its limit beside it."""
    section = _GUARANTEES.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert section is not None
    guarantees = {row["promise"] for row in _GUARANTEE.finditer(section["text"])}
    assert len(guarantees) >= 6
    assert guarantees <= set(re.findall(r"^### (.*)$", LIST.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("who", PEOPLE)
def test_the_threat_model_says_of_each_party_what_it_may_do(who: str) -> None:
    """SECURITY.md has a section for each party: what it may do, what is promised, what is not."""
    section = next(party["text"] for party in _PARTY.finditer(_security()) if party["who"] == who)
    assert "**May do:**" in section
    assert "**Not promised:**" in section
    assert _promised(section)
