"""Annexes add commands, checks and files by entry points, and only those of this distribution count."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import click
import pytest

from adjourn.cli import annexes
from adjourn.cli.app import COMMANDS, aex_group, every_command, group, main
from adjourn.errors import NotFoundError

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
MODULES = [f"adjourn.{annex}.commands" for annex in ("code", "gateway", "notify", "ui")]
HEAVY = {
    "anyio",
    "httptools",
    "jinja2",
    "jwt",
    "markupsafe",
    "mcp",
    "sse_starlette",
    "starlette",
    "tree_sitter",
    "uvicorn",
    "yaml",
}


def test_the_installed_entry_points_are_those_of_the_project() -> None:
    """What is installed has the entry points of pyproject.toml; if not, run `pip install -e .` again."""
    groups: tuple[annexes.Group, ...] = ("adjourn.commands", "adjourn.findings", "adjourn.files", "adjourn.pages")
    for name in groups:
        assert annexes.names(name) == sorted(PROJECT["entry-points"][name])


def test_no_annex_replaces_a_command_of_the_core() -> None:
    """A command of an annex has a name of its own, a section of the help and a line there."""
    for name in annexes.names("adjourn.commands"):
        assert name not in COMMANDS
        command = annexes.load("adjourn.commands", name)
        assert isinstance(command, annexes.AnnexCommand | annexes.AnnexGroup)
        assert every_command()[name].title == command.section
        assert every_command()[name].summary == command.short_help


def test_aex_has_no_command_of_an_annex() -> None:
    """`aex` has its published commands alone."""
    assert aex_group.get_command(click.Context(aex_group), "code") is None


def test_without_an_installed_distribution_there_are_no_annexes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A source tree that nobody installed has the commands of the core; what an annex adds is an error with a remedy."""

    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    every_command.cache_clear()
    try:
        assert list(every_command()) == list(COMMANDS)
        assert group.get_command(click.Context(group), "code") is None
        assert main(["code"]) == 2
        assert "there is no command 'code'" in capsys.readouterr().err
        with pytest.raises(NotFoundError, match=r"adjourn\.code is not installed"):
            annexes.load("adjourn.files", "code")
    finally:
        every_command.cache_clear()


def test_the_help_of_the_commands_loads_no_server() -> None:
    """The commands of annexes can be listed and explained without their extras."""
    program = f"import sys, {', '.join(MODULES)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in done.stdout.split()} & HEAVY == set()


def test_a_folder_with_metadata_of_adjourn_adds_no_command(tmp_path: Path) -> None:
    """Neither a start in the folder nor PYTHONPATH lets what lies in a workspace be imported as an annex."""
    metadata = tmp_path / "adjourn-0.0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: adjourn\nVersion: 0.0.1\n")
    (metadata / "entry_points.txt").write_text("[adjourn.commands]\nserve = planted:x\nplanted = planted:x\n")
    (tmp_path / "planted.py").write_text("open('was-imported', 'w').close()\n")
    for environment in ({}, {"PYTHONPATH": str(tmp_path)}):
        for words in (["serve", "--help"], ["planted"], ["--help"]):
            done = subprocess.run(
                [sys.executable, "-m", "adjourn", *words],
                cwd=tmp_path,
                env=os.environ | environment,
                check=False,
                capture_output=True,
                text=True,
            )
            assert done.returncode == (2 if words == ["planted"] else 0), done.stderr
            assert not (tmp_path / "was-imported").exists()
