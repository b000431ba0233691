"""`adjourn status` without the command-line framework: which arguments it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.cli import status_view
from support.cases import for_each


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], ("", "", "", False)),
        (["--json"], ("", "", "", True)),
        (["2026", "--json"], ("", "", "2026", True)),
        (["--store", "x.db", "-C", "/"], ("/", "x.db", "", False)),
        (["--store=x.db", "t"], ("", "x.db", "t", False)),
        (["--store=sqlite:///a=b"], ("", "sqlite:///a=b", "", False)),
    ],
)
def test_plain_arguments_are_read(arguments: list[str], values: tuple[object, ...]) -> None:
    """The options in their usual spelling and a task are read as the framework reads them."""
    assert status_view._read(arguments) == values


@for_each(
    "arguments",
    [
        ["--help"], ["-h"], ["--jso"], ["--json=1"], ["--bad"], ["-x"], ["--"], ["-"], ["a", "b"], [""], ["--store"], ["--store="],
        ["--store", ""], ["--store", "--json"], ["--store", "a", "--store", "b"], ["-C"], ["-C", ""], ["-C/"], ["-C=/"],
        ["-C", "/nowhere"], ["-C", "/dev/null"], ["-C", "/", "-C", "/"],
    ],
)  # fmt: skip
def test_anything_unusual_is_left_to_the_framework(arguments: list[str]) -> None:
    """Help, mistakes, repeated options and folders that cannot be entered are not read here."""
    assert status_view._read(arguments) is None
    assert status_view.run(arguments) is None


def test_the_framework_is_not_loaded(tmp_path: Path) -> None:
    """A status needs neither click nor what coding sessions and runs are made of."""
    script = (
        "import sys; from adjourn.cli.status_view import run; code = run([]);"
        "print(code, {'click', 'adjourn.runs.journal', 'adjourn.code.workflow.active_session'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("no session has run here yet: ")
    assert done.stdout.endswith("\n0 set()\n")
