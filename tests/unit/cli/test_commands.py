"""Every command is listed, has help with an example, is documented, and loads only what it needs."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import click
import pytest

from adjourn.cli.app import COMMANDS, every_command, group, main
from adjourn.verification.report import CODES
from support.cases import for_each

DOCS = Path(__file__).parents[3] / "docs"


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(group, info_name="adjourn")
    found = []
    for name in every_command():
        command: click.Command | None = group
        for word in name.split():
            assert isinstance(command, click.Group)
            command = command.get_command(context, word)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", inner) for sub, inner in command.commands.items()]
    return found


@for_each(("name", "command"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_each_command_has_help_with_an_example_and_options_that_explain_themselves(
    name: str, command: click.Command
) -> None:
    """Each command has help, an example that runs it, and help for each of its options."""
    assert command.help
    assert f"adjourn {name}" in (command.epilog or "")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_what_prints_data_prints_json_too() -> None:
    """Each command has --json, except those that print no data and those that print JSON anyway."""
    without = {
        name for name, command in commands() if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == {"proxy", "connect", "demo", "page edit", "completion", "help", "keys pin", "notify", "ui"} | {
        "policy classify",
        "policy compile",
        "hook",
        "policy parse",
        "store export",
    }  # these print nothing but JSON


def test_summaries_fit_the_line() -> None:
    """The name and the summary of a command fit in 80 columns."""
    longest = max(map(len, every_command()))
    assert all(longest + 4 + len(entry.summary) <= 80 for entry in every_command().values())


def test_the_reference_has_every_command() -> None:
    """The page that the site gets has a heading for each command, and every finding of `verify`."""
    pytest.importorskip("click_man")
    page = runpy.run_path(str(DOCS / "write_commands.py"))["reference"]()
    assert [name for name, _ in commands() if f" `adjourn {name}`\n" not in page] == []
    assert [code for code in CODES if f"| `{code}` |" not in page] == []


EACH_IN_A_FORK = """
import json, os, sys
from adjourn.cli import main
found = []
for words in json.loads(sys.argv[1]):
    reader, writer = os.pipe()
    if not os.fork():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        main(words)
        with open(writer, "w") as out:
            json.dump(sorted(sys.modules), out)
        os._exit(0)
    os.close(writer)
    with open(reader) as told:
        found.append(json.load(told))
    os.wait()
print(json.dumps(found))
"""


def loaded(*commands: tuple[str, ...]) -> list[set[str]]:
    """The modules that each command has loaded when it ends, in a process that loaded the entry point only."""
    done = subprocess.run(
        [sys.executable, "-c", EACH_IN_A_FORK, json.dumps(commands)],
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return [set(modules) for modules in json.loads(done.stdout)]


def test_the_version_needs_no_framework() -> None:
    """`adjourn --version` loads neither click nor a store."""
    [modules] = loaded(("--version",))
    assert not modules & {"click", "msgspec", "sqlite3", "adjourn.cli.app"}


HEAVY = {"sqlite3", "cryptography", "asyncio", "psycopg", "mcp", "adjourn.clients.client", "difflib"}


def test_help_of_a_command_loads_that_command_and_nothing_heavy() -> None:
    """`adjourn COMMAND --help` loads no other command, no store and no cryptography."""
    targets = {name: f"adjourn.cli.{entry.target.partition(':')[0]}" for name, entry in COMMANDS.items()}
    points = distribution("adjourn").entry_points.select(group="adjourn.commands")
    targets |= {point.name: point.module for point in points}
    for name, modules in zip(targets, loaded(*((*name.split(), "--help") for name in targets)), strict=True):
        assert targets[name] in modules, name
        assert modules & HEAVY == set(), name
        assert modules & set(targets.values()) == {targets[name]}, name


def test_help_lists_without_loading_any_command() -> None:
    """`adjourn --help` loads the module of no command but those of annexes, and nothing heavy for these."""
    [modules] = loaded(("--help",))
    assert modules & HEAVY == set()
    assert not {f"adjourn.cli.{entry.target.partition(':')[0]}" for entry in COMMANDS.values()} & modules


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("page", "lint", "none.md"), ("does not exist", "check the path")),
        (("record", "import", "none.jsonl"), ("does not exist", "check the path")),
        (("page", "restore"), ("no project is archived here", "adjourn page archive")),
        (("status", "--store", "mysql://host/x"), ("unknown kind of store", "postgresql://")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.usefixtures("unattended")
def test_what_is_not_there_has_a_way_on(
    command: tuple[str, ...],
    said: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file, an archive, a kind of store: the first line says which, the second what to do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADJOURN_STORE", raising=False)
    assert main(list(command)) in (1, 2)
    lines = capsys.readouterr().err.splitlines()
    assert [words in line for words, line in zip(said, lines, strict=True)] == [True, True]
