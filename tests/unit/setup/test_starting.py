"""Which entry of a client starts this adjourn: recognized by the program that it leads to, never by a name alone."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from adjourn.errors import AdjournError
from adjourn.setup import jsonc, servers
from adjourn.setup.places import home
from adjourn.setup.planning import SetupPlan, plan

HERE = os.path.dirname(sys.executable)
OURS = [f"{HERE}/adjourn"]
BY_PYTHON = [sys.executable, "-P", "-m", "adjourn"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A workspace; on PATH are this adjourn's folder and one that an agent made in the workspace."""
    for folder in ("workspace/bin", "evil", "home/.claude"):
        (tmp_path / folder).mkdir(parents=True)
    for path in ("workspace/bin/adjourn", "evil/adjourn", "evil/python", "evil/run"):
        (tmp_path / path).write_text("#!/bin/sh\n")
        (tmp_path / path).chmod(0o755)
    monkeypatch.setenv("PATH", f"{HERE}:/usr/bin:/bin")
    return str(tmp_path / "workspace")


def entry(*words: str) -> dict[str, object]:
    return {"command": words[0], "args": list(words[1:])}


@pytest.mark.parametrize("start", [["adjourn"], OURS, BY_PYTHON, [sys.executable, "-I", "-m", "adjourn"]])
def test_this_adjourn_is_recognized(root: str, start: list[str]) -> None:
    """By its name on PATH, by its path, by its interpreter."""
    assert servers.is_behind(entry(*start, "proxy", "--", "npx", "files"), root)
    assert servers.is_code(entry(*start, "code"), root)
    assert servers.is_code(entry(*start, "proxy", "--task", "t", "--", *start, "code"), root)
    assert servers.problem([*start, "hook"], root) == ""


def test_a_link_to_this_adjourn_is_recognized(root: str, tmp_path: Path) -> None:
    """A command that is a link to this adjourn counts as this adjourn."""
    (tmp_path / "adjourn").symlink_to(OURS[0])
    assert servers.is_behind(entry(f"{tmp_path}/adjourn", "proxy", "--", "npx"), root)


@pytest.mark.parametrize(
    "start",
    [
        ["{tmp}/evil/adjourn"],
        ["{tmp}/workspace/bin/adjourn"],
        ["./bin/adjourn"],
        ["{tmp}/evil/run", "adjourn"],
        ["{tmp}/evil/python", "-P", "-m", "adjourn"],
        [sys.executable, "-m", "adjourn"],
        [sys.executable, "{tmp}/evil/run", "-P", "-m", "adjourn"],
        [sys.executable, "-P", "-c", "pass", "-m", "adjourn"],
        ["env", "adjourn"],
        ["/nowhere/adjourn"],
    ],
)
def test_another_program_is_not_taken_for_this_adjourn(root: str, tmp_path: Path, start: list[str]) -> None:
    """A program is taken for adjourn only by its command, whatever its name and arguments are."""
    words = [word.format(tmp=tmp_path) for word in start]
    assert not servers.is_behind(entry(*words, "proxy", "--", "npx", "files"), root)
    assert not servers.is_code(entry(*words, "code"), root)
    assert not servers.is_code(entry(*OURS, "proxy", "--", *words, "code"), root)


def test_words_of_another_server_do_not_make_it_a_proxy(root: str) -> None:
    """Where a server is given our words as arguments."""
    assert not servers.is_behind(entry("npx", "files", "adjourn", "proxy"), root)
    assert not servers.is_code(entry("adjourn", "proxy", "--", "npx", "adjourn", "code"), root)


def _planned(root: str, *words: str) -> SetupPlan:
    path = Path(root) / ".mcp.json"
    path.write_bytes(b'{"mcpServers": {"files": %s}}' % json.dumps(entry(*words)).encode())
    return plan(root, home({"HOME": f"{root}/../home"}))


def _after(made: SetupPlan, root: str) -> tuple[list[str], str]:
    change = made.changes.get(f"{root}/.mcp.json")
    text = change.after if change else (Path(root) / ".mcp.json").read_text()
    server = jsonc.read(text).value["mcpServers"]["files"]
    settings = made.changes[f"{root}/.claude/settings.json"].after
    hook = jsonc.read(settings).value["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    return [server["command"], *server["args"]], hook


def test_init_starts_this_adjourn_instead_of_another(root: str, tmp_path: Path) -> None:
    """An entry that begins as ours is rewritten with its options; then its server stands behind the proxy."""
    for start in ([f"{tmp_path}/evil/adjourn"], [f"{tmp_path}/evil/python", "-P", "-m", "adjourn"]):
        words, hook = _after(_planned(root, *start, "proxy", "--task", "t", "--", "npx", "files"), root)
        assert words == ["adjourn", "proxy", "--name", "files", "--task", "t", "--", "npx", "files"]
        assert hook.endswith("--proxied files")


def test_init_leaves_a_start_alone_that_it_cannot_tell(root: str, tmp_path: Path) -> None:
    """It is noted, and no hook leaves its tools to a proxy."""
    made = _planned(root, f"{tmp_path}/evil/run", "adjourn", "proxy", "--", "npx", "files")
    words, hook = _after(made, root)
    assert words[0] == f"{tmp_path}/evil/run"
    assert hook.endswith("--proxied ''")
    assert any("not the adjourn that runs here" in note.text for note in made.notes)


@pytest.mark.parametrize(
    "command", ["adjourn hook || true", "adjourn hook; true", "adjourn hook > /dev/null", "true $(adjourn hook)"]
)
def test_a_command_that_a_shell_makes_something_else_of_is_no_hook(command: str) -> None:
    """What it answers may not reach the client."""
    assert not servers.is_hook(command)
    assert servers.is_hook("adjourn hook --settle")


@pytest.mark.parametrize("place", [".claude/settings.local.json", "../home/.claude/settings.json"])
def test_another_programs_hook_does_not_stand_for_ours(root: str, tmp_path: Path, place: str) -> None:
    """In settings that init leaves alone, only this adjourn's hook keeps it from writing one."""
    file = Path(root) / place
    file.parent.mkdir(parents=True, exist_ok=True)
    (Path(root) / ".mcp.json").write_text("{}")
    for program, written in ((f"{tmp_path}/evil/adjourn", True), ("adjourn", False)):
        hook = {"type": "command", "command": f"{program} hook"}
        groups = {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}
        file.write_text(json.dumps({"hooks": groups}))
        made = plan(root, home({"HOME": str(tmp_path / "home")}))
        after = made.changes[f"{root}/.claude/settings.json"].after
        assert ("PreToolUse" in jsonc.read(after).value["hooks"]) is written


@pytest.mark.parametrize(
    ("tagged", "cache"),
    [("cache", "cache"), ("cache/uv/archive", "cache/uv/archive"), ("cache/uv/archive/here", ""), ("", "")],
)
def test_an_environment_in_a_cache_is_recognized(tmp_path: Path, tagged: str, cache: str) -> None:
    """A folder above the environment that is tagged as a cache may be deleted; the tag of the environment itself says nothing."""
    environment = tmp_path / "cache/uv/archive/here"
    environment.mkdir(parents=True)
    if tagged:
        (tmp_path / tagged / "CACHEDIR.TAG").touch()
    assert servers.cache_around(str(environment)) == (str(tmp_path / cache) if cache else "")


def test_what_is_installed_in_a_cache_cannot_be_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the cache, and how to install adjourn for good."""
    (tmp_path / "CACHEDIR.TAG").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "here"))
    with pytest.raises(AdjournError, match=str(tmp_path)) as error:
        servers.check_lasting()
    assert "uv tool install adjourn" in error.value.remedy
