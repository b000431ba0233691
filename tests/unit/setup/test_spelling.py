"""How clients spell the entry of a server: read in one form, changed in the client's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adjourn.setup import jsonc, places, servers
from adjourn.setup.places import SERVER_FILES, ServerFile

PROXY = ["adjourn", "proxy", "--name", "s", "--"]
SPELLED: dict[str, list[dict[str, Any]]] = {
    ".zed/settings.json": [
        {"source": "custom", "command": "npx", "args": ["-y", "s"], "env": {"K": "v"}},
        {"command": {"path": "npx", "args": ["-y", "s"], "env": {"K": "v"}}, "settings": {}},
    ],
    "opencode.json": [{"type": "local", "command": ["npx", "-y", "s"], "environment": {"K": "v"}}],
    ".cursor/mcp.json": [{"type": "stdio", "command": "npx", "args": ["-y", "s"], "env": {"K": "v"}}],
}
CASES = [(path, server) for path, servers in SPELLED.items() for server in servers]


def file_at(path: str) -> ServerFile:
    return next(file for file in SERVER_FILES if file.path == path)


def within(file: ServerFile, server: Any, level: int) -> Any:
    document = {"s": server}
    for member in reversed(file.members[level]):
        document = {member: document}
    return document


@pytest.mark.parametrize(("path", "server"), CASES)
def test_an_entry_is_read_in_one_form(path: str, server: Any) -> None:
    """Whatever the spelling, the command, its arguments and its variables are found; the rest stays beside them."""
    file = file_at(path)
    for level in range(len(file.members)):
        [entry] = file.entries(within(file, server, level), path)
        assert servers.words_of(entry.server) == ["npx", "-y", "s"]
        assert entry.server["env"] == {"K": "v"}
        assert entry.at == (*file.members[level], "s")
        kept = {"source", "settings", "type"} & server.keys()
        assert all(entry.server[member] == server[member] for member in kept)


@pytest.mark.parametrize(("path", "server"), CASES)
def test_words_are_put_before_the_command_in_the_client_s_own_spelling(path: str, server: Any) -> None:
    """The text that is made is read as the longer command, and holds nothing else that is new."""
    file = file_at(path)
    document = within(file, server, 0)
    [entry] = file.entries(document, path)
    made = jsonc.read(places.with_words(json.dumps(document), entry, 0, PROXY)).value
    [after] = file.entries(made, path)
    assert servers.words_of(after.server) == [*PROXY, "npx", "-y", "s"]
    assert after.server | {"command": "npx", "args": ["-y", "s"]} == entry.server
    assert after.spelling == entry.spelling


def test_a_command_in_another_client_s_spelling_is_none() -> None:
    """opencode starts no string, and Cursor no list: such an entry is not put behind the proxy."""
    for path, server in (("opencode.json", {"command": "npx"}), (".cursor/mcp.json", {"command": ["npx"]})):
        file = file_at(path)
        [entry] = file.entries(within(file, server, 0), path)
        assert servers.words_of(entry.server) is None
