"""SECURITY.md promises only what a test holds, and README and the explanations claim nothing beside what is held."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
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
CLAIMS = ROOT / "tests" / "data" / "claims.md"
PAGES = (
    "README.md",
    "SECURITY.md",
    *(f"docs/explanation/{path.name}" for path in sorted(ROOT.glob("docs/explanation/*.md"))),
)
_ASIDE = re.compile(
    r"^ *```.*?^ *```$|<!-- figures.*?<!-- end of figures -->|<!--.*?-->|!\[[^]]*\]\(\S+\)"
    r"|^\*\*(?:May do:|Promised:)\*\*.*?(?=^\*\*)|\[Why\]\(.*",
    re.MULTILINE | re.DOTALL,
)
"""Blocks that are run, figures that a study writes, pictures, what attackers may do, promises, the last lines of README."""
_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:- |\d+\. |#|\|))")
_MARK = re.compile(r"^\s*(?:- |\d+\. )")
_SENTENCE = re.compile(r"(?<=[.:!?])(?:\*\*)?\s+(?=[A-Z`*\[])")
_CLAIMS = re.compile(r"\b(?:only|every|each|all|never|always|no|none|nothing|nobody|not yet)\b|\d", re.IGNORECASE)
_NOT_CLAIMED = re.compile(r"`[^`]*`|ADR \d+")
_HOLDER = re.compile(
    r"^  - (?:`(?P<path>tests/[\w/]+\.py)(?:::(?P<name>test_\w+))?`|contract `(?P<contract>[^`]+)`"
    r"|(?P<words>command|source) `(?P<text>[^`]+)`|definition: (?P<reason>.{10,}))$"
)


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


def _claims(text: str) -> Iterator[str]:
    """The sentences (and rows) of a page that have a number or a word for a quantity, without their links."""
    for promise in re.findall(r"^### (.*)$", LIST.read_text(encoding="utf-8"), re.MULTILINE):
        text = text.replace(promise, "")
    for block in _BREAK.split(_ASIDE.sub("", text)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(_MARK.sub("", block).split()))
        for sentence in [words] if words.startswith("|") else _SENTENCE.split(words):
            if not words.startswith("#") and _CLAIMS.search(_NOT_CLAIMED.sub("", sentence)):
                yield sentence


def _held() -> dict[str, dict[str, list[str]]]:
    """Page → claim → the lines that say what holds it."""
    held: dict[str, dict[str, list[str]]] = {}
    for line in CLAIMS.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            claims = held[line[3:]] = {}
        elif line.startswith("- "):
            holders = claims[line[2:]] = []
        elif line.startswith("  - "):
            holders.append(line)
    return held


def _is_held(page: str, line: str) -> bool:
    """Whether what a line of the list names exists: a test that is not skipped, a contract of lint-imports, a command or a link of the page."""
    holder = _HOLDER.match(line)
    if holder is None:
        return False
    if holder["path"] and not holder["name"]:  # a file of which each class runs a suite
        return "Conformance" in (ROOT / holder["path"]).read_text("utf-8")
    if holder["path"]:
        test = _functions(ROOT / holder["path"]).get(holder["name"])
        return test is not None and not any("skip" in ast.unparse(mark) for mark in test.decorator_list)
    if holder["contract"]:
        linter = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
        return holder["contract"] in {contract["name"] for contract in linter["contracts"]}
    if holder["words"]:
        form = "\n$ {}\n" if holder["words"] == "command" else "]({})"
        return form.format(holder["text"]) in (ROOT / page).read_text("utf-8")
    return True


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


@pytest.mark.parametrize("page", PAGES)
def test_every_claim_of_a_page_is_held(page: str) -> None:
    """A sentence with a number, "only", "every" or the like is in tests/data/claims.md, which names what holds it, and nothing else is."""
    claims = [*_claims((ROOT / page).read_text("utf-8"))]
    held = _held().get(page, {})
    assert [claim for claim in claims if claim not in held] == []
    assert [claim for claim in held if claim not in claims] == []


@pytest.mark.parametrize("page", PAGES)
def test_what_holds_a_claim_exists(page: str) -> None:
    """A claim names tests that exist and are not skipped, contracts of lint-imports, commands of its page, or why it is a definition."""
    held = _held().get(page, {})
    assert [claim for claim, holders in held.items() if not holders] == []
    assert [line for holders in held.values() for line in holders if not _is_held(page, line)] == []
