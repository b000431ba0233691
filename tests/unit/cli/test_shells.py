"""What shells and systems are given: completion scripts, manual pages, topics of help."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from adjourn.cli import main
from adjourn.cli.app import every_command, group
from adjourn.cli.context import stored_names
from adjourn.cli.help import TOPICS
from adjourn.cli.start import StoreContext
from adjourn.tasks.task import tasks_of
from support.cases import for_each
from support.workspace import Workspace, saved

ROOT = Path(__file__).parents[3]


SHELLS = ("bash", "zsh", "fish")


def completed(*words: str) -> list[str]:
    """What a shell is offered after these words, the last of which is begun."""
    *before, begun = words
    items = ShellComplete(group, {}, "adjourn", "_ADJOURN_COMPLETE").get_completions(before, begun)
    return [item.value if item.type == "plain" else item.type for item in items]


@for_each(
    ("words", "offered"),
    [
        (("stat",), ["status"]),
        (("checkpoint", "wr"), ["write"]),
        (("status", "--j"), ["--json"]),
        (("status", ""), ["(the task)"]),
        (("log", "2026"), ["(the task)"]),
        (("log", "--gra"), ["--graph"]),
        (("proxy", "--task", "2026"), ["(the task)"]),
        (("proxy", "--", "sta"), []),
        (("nonsense", "x"), []),
        (("check", ""), ["file"]),
        (("-C", ""), ["dir"]),
        (("checkpoint", "show", "fix"), ["fix-auth"]),
    ],
)
def test_a_shell_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], offered: list[str]
) -> None:
    """A shell completes commands, commands of groups, options, names and paths, and nothing of a server's command."""
    workspace = Workspace(tmp_path, monkeypatch, store="sqlite")
    saved(workspace)
    monkeypatch.chdir(workspace.root)
    (task,) = tasks_of(workspace.store)
    assert completed(*words) == [text.replace("(the task)", task) for text in offered]


def test_completing_a_command_loads_none() -> None:
    """The list of commands comes from their table: no module of a command is imported for it."""
    program = "import sys; from adjourn.cli.app import group; from click import Context; "
    program += "group.shell_complete(Context(group), ''); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "adjourn.cli.log" not in done.stdout.split()


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_of_their_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each shell accepts its script, which asks adjourn."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_ADJOURN_COMPLETE={shell}_complete" in script
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_bash_gets_its_answer_from_adjourn() -> None:
    """The program answers the words that the script of bash passes in the environment, one completion a line."""
    words = {"COMP_WORDS": "adjourn checkpoint wr", "COMP_CWORD": "2", "_ADJOURN_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", "from adjourn.__main__ import main; main()"]
    done = subprocess.run(command, env=os.environ | words, capture_output=True, text=True, check=True)
    assert done.stdout == "plain,write\n"


def test_names_are_those_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks and checkpoints are listed, but no name that a shell would expand; without a store, nothing."""
    workspace = Workspace(tmp_path, monkeypatch, store="sqlite")
    saved(workspace)
    workspace.store.swap("checkpoint/$(touch x)", "t 1 2", expect=None)
    monkeypatch.chdir(workspace.root)
    assert stored_names(StoreContext(), "checkpoint") == ["fix-auth"]
    assert len(stored_names(StoreContext(), "task")) == 1
    monkeypatch.chdir(tmp_path)
    assert stored_names(StoreContext(), "task") == []


def test_the_manual_is_that_of_the_commands() -> None:
    """The committed manual pages are what the commands say today."""
    made = {path.name: path.read_text("utf-8") for path in (ROOT / "man").glob("*.1")}
    pytest.importorskip("click_man")
    manual = runpy.run_path(str(ROOT / "docs" / "write_commands.py"))
    assert made == manual["pages"](), "if it is meant: python docs/write_commands.py"


def test_no_line_of_a_manual_page_is_a_request_by_accident() -> None:
    """Every line of a page that begins as a request of roff is one that the manual uses."""
    used = {".TH", ".SH", ".PP", ".TP", ".B", ".nf", ".fi"}
    pages = [path.read_text("utf-8") for path in (ROOT / "man").glob("*.1")]
    assert pages
    for text in pages:
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
    """`adjourn help` lists topics, --all the commands; with a command it shows that one's help; a slip is guessed."""
    assert main(["help"]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in TOPICS)
    assert main(["help", "--all"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {path} " in shown for path in every_command())
    assert main(["help", "record", "show"]) == 0
    assert capsys.readouterr().out.startswith("Usage: adjourn record show")
    assert main(["help", "budgts"]) == 1
    assert "adjourn help budgets" in capsys.readouterr().err
    documented = group.get_command(click.Context(group), "help")
    assert documented is not None
    assert all(topic in (documented.help or "") for topic in TOPICS)
