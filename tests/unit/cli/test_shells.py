"""What shells and systems are given: completion scripts, manual pages, topics of help."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click
import pytest

from adjourn.cli import main
from adjourn.cli.app import COMMANDS, group
from adjourn.cli.setup import completion, manual
from adjourn.cli.setup.help import TOPICS
from adjourn.cli.shared import start as names
from support.cases import for_each
from support.workspace import Workspace, saved

ROOT = Path(__file__).parents[3]


def completed(path: Path, *words: str) -> list[str]:
    """What bash offers after these words, the last of which is begun."""
    script = path / "completion.bash"
    script.write_text(completion._bash())
    program = path / "adjourn"
    program.write_text('#!/bin/sh\n[ "$*" = "completion --names tasks" ] && echo t1 && echo t2\n')
    program.chmod(0o755)
    line = " ".join(f"'{word}'" for word in ("adjourn", *words))
    run = f'PATH="{path}:$PATH"; . "{script}"; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _adjourn 2>/dev/null; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", run], capture_output=True, text=True, check=True)
    return done.stdout.split()


@for_each(
    ("words", "offered"),
    [
        (("stat",), ["status"]),
        (("checkpoint", "wr"), ["write"]),
        (("status", "--j"), ["--json"]),
        (("status", ""), ["t1", "t2"]),
        (("log", "t"), ["t1", "t2"]),
        (("log", "--gra"), ["--graph"]),
        (("proxy", "--task", "t"), ["t1", "t2"]),
        (("proxy", "--", "sta"), []),
    ],
)
def test_bash_completes(tmp_path: Path, words: tuple[str, ...], offered: list[str]) -> None:
    """bash completes commands, commands of groups, options and names, and nothing of a server's command."""
    assert completed(tmp_path, *words) == offered


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_scripts_are_of_their_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each shell accepts its script, and the script knows every command."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(f"{name}" in script for name in COMMANDS)
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_zsh_keeps_its_search_path() -> None:
    """The script of zsh sets no `path`, which is the shell's own: without it no names are found."""
    assert "path=" not in completion._zsh()


def test_names_are_those_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tasks and checkpoints are listed, but no name that a shell would expand; without a store, nothing."""
    workspace = Workspace(tmp_path, monkeypatch, store="sqlite")
    saved(workspace)
    workspace.store.swap("checkpoint/$(touch x)", "t 1 2", expect=None)
    monkeypatch.chdir(workspace.root)
    names.say_names("checkpoints")
    assert capsys.readouterr().out == "fix-auth\n"
    names.say_names("tasks")
    assert len(capsys.readouterr().out.splitlines()) == 1
    monkeypatch.chdir(tmp_path)
    names.say_names("tasks")
    assert capsys.readouterr().out == ""


def test_the_manual_is_that_of_the_commands() -> None:
    """The committed manual pages are what the commands say today."""
    made = {path.name: path.read_text("utf-8") for path in (ROOT / "man").glob("*.1")}
    assert made == manual.pages(), "if it is meant: python -m adjourn.cli.setup.manual"


def test_no_line_of_a_manual_page_is_a_request_by_accident() -> None:
    """Every line of a page that begins as a request of roff is one that the manual uses."""
    used = {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BR", ".nf", ".fi"}
    for text in manual.pages().values():
        requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
        assert requests <= used


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_fits_a_screen(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`adjourn help TOPIC` prints at most 30 lines of 80 columns."""
    assert main(["help", topic]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80


def test_help_lists_all_topics_and_shows_any_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`adjourn help` lists commands and topics; with a command it shows that one's help; a slip is guessed."""
    assert main(["help"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in (*TOPICS, *COMMANDS))
    assert main(["help", "record", "show"]) == 0
    assert capsys.readouterr().out.startswith("Usage: adjourn record show")
    assert main(["help", "budgts"]) == 1
    assert "adjourn help budgets" in capsys.readouterr().err
    documented = group.get_command(click.Context(group), "help")
    assert documented is not None
    assert all(topic in (documented.help or "") for topic in TOPICS)
