"""What each client starts after `adjourn init`: the command in its settings file, with its variables, in the project's folder."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from adjourn.setup import probe
from support.home import Home
from support.proxy import ECHO
from support.settings import PLACES, entries, started

CODEX_PASSES = ("HOME", "PATH", "LANG")
"""Of the variables of a session, those that Codex gives its servers unasked, as far as a test has them."""


def written(client: str) -> str:
    """A settings file of a client with one server, as a person writes it."""
    words = [sys.executable, "-I", "-S", str(ECHO.with_name("listing.py")), "called", "list_items"]
    if client == "codex":
        return f"[mcp_servers.inv]\ncommand = {json.dumps(words[0])}\nargs = {json.dumps(words[1:])}\n"
    entry: dict[str, Any] = {"command": words[0], "args": words[1:]}
    if client == "opencode":
        entry = {"type": "local", "command": words}
    return json.dumps({PLACES[client].member: {"inv": entry}})


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """All clients, set up by the command: those with settings of a project, and the others by `--user`."""
    at = Home(tmp_path_factory.mktemp("clients"))
    for client, place in PLACES.items():
        at.write(place.project or f"~/{place.home}", written(client))
    for options in (["--yes"], ["--user", "--yes"]):
        made = at.run("init", *options)
        assert made.code == 0, made.err
    return at


@pytest.mark.parametrize("client", PLACES)
def test_a_client_reaches_its_server_by_what_init_wrote(client: str, at: Home) -> None:
    """The registered command, started with the client's variables in the project's folder, answers the handshake and lists the tool."""
    place = PLACES[client]
    file = at.root / place.project if place.project else at.home / place.home
    server = started(client, entries(client, file.read_bytes())["inv"])
    assert server is not None
    assert "proxy" in server.words
    given = {name: at.environment[name] for name in CODEX_PASSES} if client == "codex" else at.environment
    if client == "codex":
        passed = entries(client, file.read_bytes())["inv"].get("env_vars", [])
        given |= {name: at.environment[name] for name in passed if name in at.environment}
    found = probe.probe(server.words, environment=given | server.env, cwd=str(at.root), seconds=60.0)
    assert found.failure == "", found.errors
    assert "list_items" in {tool.name for tool in found.tools}
