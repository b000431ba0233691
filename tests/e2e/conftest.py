"""Fixtures that the tests of several commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from support import tools
from support.browser import AXE
from support.code_server import Repo
from support.command_line import CommandLine
from support.missing import is_missing
from support.proxy import ProxyWorkspace, wait_for

NASTY = "half\x1b[31m done\x07 \u202edesrever\nnext: \x9b2J deploy"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """What a session left that was killed while a call was on its way and a question open. Not to be changed."""
    policy = (
        "use echo, file.*, slow, secrets.read, silent",
        "deny network.*",
        "budget calls=20",
        "confirm before secrets.read",
    )
    path = tmp_path_factory.mktemp("cli")
    with ProxyWorkspace(path, *policy) as workspace:
        client = workspace.client(name="claude-code")
        client.call("echo", {"text": "hi"})
        client.call("file.read", {"path": "notes"})
        client.call("network.fetch")
        client.meta("aex.checkpoint", name="fix-auth", description=NASTY)
        client.call("file.write", {"path": "x/y", "text": "new", "token": "sk-secret"})
        client.begin("secrets.read", {"to": "ann@example.org"})
        client.begin("silent", {"release": "42"})
        wait_for(lambda: "silent" in workspace.executed())
    return CommandLine(workspace.root, workspace.config)


@pytest.fixture
def context(left: CommandLine, tmp_path: Path) -> CommandLine:
    """A copy of `left` to do with as one likes."""
    return left.copy(tmp_path / "copy")


@pytest.fixture
def task(left: CommandLine) -> str:
    """The task of that session."""
    name: str = left.ok("tasks", "--json").json["tasks"][0]["task"]
    return name


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A new git repository."""
    return Repo(tmp_path)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Skips where Chromium is not installed, except in CI, which must have it."""
    program = tools.chromium()
    if program is None or not AXE.exists():
        missing = "Chromium or axe-core is not installed: run `python tests/support/tools.py`"
        is_missing(missing)
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=str(program), args=options)
        yield launched
        launched.close()
