"""docs/uninstall.md, followed in an empty HOME: no file of adjourn is left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.home import Home
from support.proxy import ECHO, NEW, Client, refused

PAGE = Path(__file__).parents[2] / "docs" / "uninstall.md"
UNDO, OF_ACCOUNT = "adjourn init --undo", "rm -rf ~/.config/adjourn ~/.cache/adjourn ~/.cache/adjourn-hook"


@pytest.fixture
def at(tmp_path: Path) -> Home:
    """A repository of a person with a server, and a home folder with settings of two clients."""
    at = Home(tmp_path)
    del at.environment["ADJOURN_CONFIG"]
    words = ["-I", "-S", str(ECHO), str(tmp_path / "called")]
    at.write(".mcp.json", json.dumps({"mcpServers": {"inv": {"command": sys.executable, "args": words}}}, indent=2))
    at.write("~/.claude.json", '{"projects": {}}', 0o600)
    at.write("~/.codex/config.toml", 'model = "x"\n')
    at.write("tmp/notes.txt", "mine")
    subprocess.run(["git", "init", "-q"], cwd=at.root, check=True)
    return at


def typed() -> list[str]:
    """The commands of the page."""
    return [line.strip()[2:] for line in PAGE.read_text().splitlines() if line.strip().startswith("$ ")]


def shell(at: Home, command: str) -> str:
    done = subprocess.run(
        ["sh", "-ec", command], cwd=at.root, env=at.environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def work(at: Home) -> None:
    """A session with a call and a checkpoint, and a hook that leaves a process behind."""
    server = json.loads((at.root / ".mcp.json").read_text())["mcpServers"]["inv"]
    client = Client([server["command"], *server["args"]], at.root, at.environment, NEW, "tester", {})
    client.greet()
    assert not refused(client.call("aex.checkpoint", {"name": "here", "description": "d"}))
    client.kill()
    request = {"hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {}, "cwd": str(at.root)}
    words = [sys.executable, "-m", "adjourn", "hook", "--stay"]
    subprocess.run(
        words, input=json.dumps(request), cwd=at.root, env=at.environment, text=True, check=True, capture_output=True
    )


def test_the_page_leaves_nothing(at: Home) -> None:
    """Settings, history, pages, keys and caches are gone; all other files are as they were, and git has nothing to add."""
    assert {UNDO, f"{UNDO[:12]} --user --undo", OF_ACCOUNT} <= set(typed())
    before, added = at.files(), shell(at, "git status --porcelain -uall")
    assert at.run("init", "--user", "--yes").code == 0
    assert at.run("init", "--yes").code == 0
    work(at)
    undone = at.run("init", "--undo", "--yes")
    assert (undone.code, undone.err) == (0, "")
    assert ".aex/adjourn.db" in undone.out
    assert "adjourn.db" not in shell(at, "git status --porcelain -uall")
    [deleting] = re.findall(r"delete the history: (rm -r .*)", undone.out)
    shell(at, deleting)
    assert at.run("init", "--user", "--undo", "--yes").code == 0
    shell(at, OF_ACCOUNT)
    assert at.files() == before
    assert shell(at, "git status --porcelain -uall") == added
    left = [path for path in at.home.rglob("*") if "adjourn" in path.name]
    assert left == []
