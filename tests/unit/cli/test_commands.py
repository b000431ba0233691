"""Every command is listed, has help with an example, is documented, and loads only what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from adjourn.cli.app import group, main
from adjourn.cli.setup.reference import reference
from adjourn.cli.shared.commands import COMMANDS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(group, info_name="adjourn")
    found = []
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", inner) for sub, inner in command.commands.items()]
    return found


@pytest.mark.parametrize(
    ("name", "command"), commands(), ids=lambda value: value if isinstance(value, str) else ""
)
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
        name
        for name, command in commands()
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == {
        "proxy",
        "connect",
        "serve",
        "demo",
        "checkpoint edit",
        "completion",
        "help",
        "keys pin",
        "notify",
        "ui",
        "watch",
    } | {
        "classify",
        "compile",
        "hook",
        "parse",
    }  # these print nothing but JSON


def test_summaries_fit_the_line() -> None:
    """The name and the summary of a command fit in 80 columns."""
    longest = max(map(len, COMMANDS))
    assert all(longest + 4 + len(entry.summary) <= 80 for entry in COMMANDS.values())


def test_the_reference_is_not_stale() -> None:
    """docs/reference/cli.md is what the commands generate."""
    assert PAGE.read_text() == reference(), (
        "run: python -m adjourn.cli.setup.reference > docs/reference/cli.md"
    )


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    program = (
        "import atexit, json, sys; from adjourn.cli import main; code = main(sys.argv[1:]); sys.stdout.flush();"
        "print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_version_needs_no_framework() -> None:
    """`adjourn --version` loads neither click nor a store."""
    modules = loaded("--version")
    assert not modules & {"click", "msgspec", "sqlite3", "adjourn.cli.app"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_loads_that_command_and_nothing_heavy(name: str) -> None:
    """`adjourn COMMAND --help` loads no other command, no store and no cryptography."""
    modules = loaded(name, "--help")
    assert not modules & {
        "sqlite3",
        "cryptography",
        "asyncio",
        "psycopg",
        "mcp",
        "adjourn.clients.client",
        "difflib",
    }
    others = {entry.target.partition(":")[0] for other, entry in COMMANDS.items() if other != name}
    own = COMMANDS[name].target.partition(":")[0]
    assert not {f"adjourn.cli.{module}" for module in others - {own}} & modules


def test_help_lists_without_loading_any_command() -> None:
    """`adjourn --help` loads the module of no command."""
    modules = loaded("--help")
    assert not {f"adjourn.cli.{entry.target.partition(':')[0]}" for entry in COMMANDS.values()} & modules


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("checkpoint", "lint", "none.md"), ("does not exist", "check the path")),
        (("record", "import", "none.jsonl"), ("does not exist", "check the path")),
        (("restore",), ("no project is archived here", "adjourn archive")),
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
