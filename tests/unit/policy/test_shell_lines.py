"""Shell lines: what attacks is refused, and the ordinary lines of a coding agent pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adjourn.policy.protected.calls import protected_path
from adjourn.policy.protected.places import ProtectedPlaces
from adjourn.policy.protected.words import UNREAD
from support.cases import for_each
from support.shell_lines import RUNS, WRITES

DATA = Path(__file__).parents[2] / "data"
REFUSED_BEFORE = 0
"""Of the ordinary lines, how many the reader before this one refused."""
ATTACKS = [json.loads(line) for line in (DATA / "shell_attacks.jsonl").read_text().splitlines()]


def found(line: str, places: ProtectedPlaces) -> str | None:
    return protected_path({"command": line}, places, places.root, tool="Bash")


@for_each("form", [form for form in WRITES if "basename" not in form])
@for_each("target", [".aex/policy.aex", "'.aex'/adjourn.db", "./.aex//policy.aex"])
def test_a_form_that_writes_is_refused(places: ProtectedPlaces, form: str, target: str) -> None:
    """However a line makes a program write, a protected place is not written to."""
    assert found(form.format(*[target] * 3), places)


@for_each("form", RUNS)
@for_each("command", ["adjourn approve k3f9", "aex keys trust ann KEY"])
def test_a_form_that_runs_is_refused(places: ProtectedPlaces, form: str, command: str) -> None:
    """However a line makes a shell run a command, it does not speak for a person."""
    assert found(form.format(*[command] * 3), places)


@for_each("line", ATTACKS)
def test_an_attack_is_refused(places: ProtectedPlaces, line: str) -> None:
    """A line that reaches a protected place, or speaks for a person, by some feature of bash or of a program is refused."""
    assert found(line, places)


def test_ordinary_lines_pass(places: ProtectedPlaces) -> None:
    """Of a thousand ordinary lines no more are refused than before the one strict reader."""
    lines = [json.loads(line) for line in (DATA / "shell_lines.jsonl").read_text().splitlines()]
    assert len(lines) == 1000
    assert len([line for line in lines if found(line, places)]) <= REFUSED_BEFORE


@pytest.mark.parametrize(
    ("tool", "arguments", "place"),
    [
        ("Bash", {"command": "echo 'unfinished"}, UNREAD),
        ("run_code", {"code": "print('it''s', \"isn't\")"}, None),
        ("run_code", {"code": "open('.aex/policy.aex', 'w').write(\"isn't\")"}, ".aex/policy.aex"),
        ("PowerShell", {"command": "Get-ChildItem @(1, 2) | Where-Object { $_.Name -like '*.log' }"}, None),
        ("PowerShell", {"command": "Remove-Item @('.aex/policy.aex')"}, ".aex/policy.aex"),
    ],
)
def test_a_text_that_is_no_line_of_bash(
    places: ProtectedPlaces, tool: str, arguments: dict[str, str], place: str | None
) -> None:
    """A line that bash cannot read is refused; a program's code, and a line for PowerShell, only where it names a protected place."""
    assert protected_path(arguments, places, places.root, tool=tool) == place
