"""What every command with --json prints: one document, also of a failure, with names of one casing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from adjourn import errors
from adjourn.cli.app import every_command, group, main
from adjourn.cli.help import ERROR_CODES, EXIT_CODES

SURFACE = Path(__file__).parents[2] / "data" / "surface"
CODE_SESSION = {
    "call_first", "checkpoint_at", "completed_steps", "expected_payload", "failure_count", "next_task", "revert_reason",
    "session_id", "task_id", "task_progress",
}  # fmt: skip
"""Members of the published checkpoint of a coding session, which `code --resume` prints as it is."""


def paths() -> list[str]:
    """The path of each command that has --json."""
    found: list[str] = []

    def look(command: click.Command, path: str) -> None:
        if any("--json" in parameter.opts for parameter in command.params):
            found.append(path)
        for name, below in command.commands.items() if isinstance(command, click.Group) else ():
            look(below, f"{path} {name}")

    context = click.Context(group, info_name="adjourn")
    for path in every_command():
        command: click.Command | None = group
        for word in path.split():
            assert isinstance(command, click.Group)
            command = command.get_command(context, word)
        assert command is not None
        look(command, path)
    return found


def test_wrong_usage_of_any_command_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """With --json, each command answers an unknown option with `error` on stdout, exit code 2 and nothing on stderr."""
    for path in paths():
        assert main([*path.split(), "--nonsense", "--json"]) == 2
        shown = capsys.readouterr()
        error = json.loads(shown.out)["error"]
        assert (error["code"], error["message"], shown.err) == ("usage", "unknown option --nonsense", ""), path
        assert f"adjourn {path}" in error["help"], path


def test_whatever_fails_is_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder without a store, each command that fails prints a document: its verdict, or `error` with code, message and help."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    for path in set(paths()) - {"init"}:
        for words in ([], ["nothing"], ["nothing", "other", "third"]):
            code = main([*path.split(), *words, "--json"])
            told = json.loads(capsys.readouterr().out or "null")
            if code and "error" in told:
                kind, exits = told["error"]["code"], ERROR_CODES[told["error"]["code"]]
                assert code == exits, (path, words, kind)
                assert told["error"]["message"], (path, words)
                assert told["error"]["help"], (path, words)
            elif code:  # a verdict: the check has failed
                assert path in {"doctor", "policy check", "policy explain", "policy fmt"}, (path, words, told)


def test_the_tables_of_codes_have_every_error() -> None:
    """Each kind of error has a code and an exit code that `adjourn help exit-codes` explains."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.AdjournError)]
    named = {re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__.removesuffix("Error")).lower(): kind for kind in kinds}
    named["failed"] = named.pop("adjourn")
    assert {name: kind.exit_code for name, kind in named.items()}.items() <= ERROR_CODES.items()
    assert set(ERROR_CODES) - set(named) == {"interrupted", "system"}
    assert {str(code) for code in ERROR_CODES.values()} <= set(EXIT_CODES)


def test_members_have_one_casing() -> None:
    """What commands print as JSON has members in camelCase; only the published checkpoint of a coding session differs."""
    text = (SURFACE / "answers.json").read_text("utf-8")
    members = {name.rstrip("?") for name in re.findall(r'"([^"]+)":', text)} - set(json.loads(text))
    tools = {name for name in members if "." in name or name == "any of"}
    assert {name for name in members - tools if not re.fullmatch(r"[a-z]+([A-Z][a-z0-9]*)*", name)} <= CODE_SESSION | {
        "crIdA", "crIdB", "hashA", "hashB", "parentCRHash",
    }  # fmt: skip
