"""`adjourn status` and `adjourn resume` without the command-line framework: which arguments they take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adjourn.cli import resume_view, status_view
from adjourn.cli.start import plain_values
from support.cases import for_each
from support.workspace import Workspace


@for_each(
    ("arguments", "values"),
    [
        ([], {}),
        (["--json"], {"--json": "--json"}),
        (["2026", "--json"], {"": "2026", "--json": "--json"}),
        (["--store", "x.db", "-C", "/"], {"-C": "/", "--store": "x.db"}),
        (["--store=x.db", "t"], {"--store": "x.db", "": "t"}),
        (["--store=sqlite:///a=b"], {"--store": "sqlite:///a=b"}),
        (["--more", "7", "--verdict", "n"], {"--more": "7", "--verdict": "--verdict", "": "n"}),
        (["--more=7"], {"--more": "7"}),
    ],
)  # fmt: skip
def test_plain_arguments_are_read(arguments: list[str], values: dict[str, str]) -> None:
    """Options in their usual spelling and a name are read as the framework reads them."""
    read = plain_values(arguments, ("--more",), ("--verdict",))
    assert read == dict.fromkeys(("", "-C", "--store", "--json", "--more", "--verdict"), "") | values


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
    assert plain_values(arguments) is None
    assert status_view.run(arguments) is None
    assert resume_view.run(arguments) is None


@for_each("size", ["0", "1", "-1", "x", "1e3", "\N{ARABIC-INDIC DIGIT FIVE}" * 4, "9" * 30])
def test_a_size_out_of_range_is_left_to_the_framework(size: str) -> None:
    """The framework says which sizes a hand-over may have."""
    assert resume_view.run(["--brief-bytes", size]) is None


def test_the_framework_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither command needs click, nor what records, coding sessions and runs are made of."""
    workspace = Workspace(tmp_path, monkeypatch, store="sqlite")
    client = workspace.context()
    workspace.work(client, "file.write")
    workspace.save(client, "saved")
    workspace.leave(client)
    unneeded = {
        "click",
        "adjourn.runs.journal",
        "adjourn.code.workflow.active_session",
        "adjourn.knowledge.model.record",
    }
    for command, folder, words, shown in (
        ("status", tmp_path, [], "no session has run here yet: "),
        ("resume", workspace.root, ["saved"], "saved: task "),
    ):
        script = f"import sys; from adjourn.cli.{command}_view import run; print(run({words}), {unneeded} & {{*sys.modules}})"
        done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(shown)
        assert done.stdout.endswith("\n0 set()\n")
