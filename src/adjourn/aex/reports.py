"""Findings as other programs read them: GitHub's workflow commands, and SARIF 2.1.0.

Must never: read a file, know where a program runs, let a text of a document become a command.

Columns are counted from 1 in characters, and the end is the first column behind the piece, as in both formats. What a
finding says about a whole document stands at its first line: GitHub shows nothing that has no line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from adjourn.aex.diagnostics import DIAGNOSTICS, printable
from adjourn.findings import Finding, Span

SARIF_VERSION = "2.1.0"
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_MESSAGE = str.maketrans({"%": "%25"})  # a line's end is no printable character, and never gets here
_PROPERTY = _MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def github(findings: Iterable[Finding]) -> list[str]:
    """A workflow command for each finding, which GitHub shows beside the line. `source` is a path of the repository."""
    return [_command(finding) for finding in findings]


def _command(finding: Finding) -> str:
    title = f"{finding.code} {DIAGNOSTICS[finding.code].title}"
    properties = {"file": finding.source, **_places(finding.span, "line", "col", "endColumn"), "title": title}
    text = ",".join(f"{key}={_clean(str(value), _PROPERTY)}" for key, value in properties.items() if value)
    lines = [finding.message, *([f"help: {finding.help}"] if finding.help else [])]
    message = "%0A".join(_clean(line, _MESSAGE) for line in lines)
    return f"::{finding.severity} {text}::{message}"


def _clean(text: str, escapes: dict[int, str]) -> str:
    return printable(text).translate(escapes)


def sarif(findings: Iterable[Finding], version: str) -> dict[str, Any]:
    """One SARIF log with one run. `source` is a path relative to what is checked; `version` is the program's."""
    rules = [_rule(code) for code in DIAGNOSTICS]
    numbers = {code: number for number, code in enumerate(DIAGNOSTICS)}
    return {
        "$schema": SARIF_SCHEMA,
        "version": SARIF_VERSION,
        "runs": [
            {
                "tool": {"driver": {"name": "adjourn", "semanticVersion": version, "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, numbers[finding.code]) for finding in findings],
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    entry = DIAGNOSTICS[code]
    return {
        "id": code,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.explanation},
        "help": {"text": f"Remedy: {entry.help}.", "markdown": f"{entry.explanation}\n\nRemedy: {entry.help}."},
        "defaultConfiguration": {"level": entry.severity},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    text = f"{finding.message} ({finding.help})" if finding.help else finding.message
    place = {
        "artifactLocation": {"uri": quote(finding.source.encode(errors="surrogateescape"))},
        "region": _places(finding.span, "startLine", "startColumn", "endColumn"),
    }
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": printable(text)},
        "locations": [{"physicalLocation": place}],
    }


def _places(span: Span, line: str, start: str, end: str) -> dict[str, int]:
    """Where a finding is, under a format's names."""
    places = {line: max(span.line, 1)}
    if span.column:
        places |= {start: span.column, end: span.column + span.length}
    return places
