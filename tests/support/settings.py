"""Settings files of clients, as their documentation shows them, and how each client starts what a file lists.

Owns: the files of tests/data/settings, where a client looks for them, how it reads them. Must never: use the product's table of clients.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parents[1] / "data" / "settings"
_OUTSIDE_STRINGS = re.compile(
    r"""("(?:[^"\\]|\\.)*")|//[^\n]*+|/\*.*?\*/|,(?=(?:\s|//[^\n]*+|/\*.*?\*/)*+[}\]])""", re.DOTALL
)


class ClientPlace(NamedTuple):
    """Where a client reads servers in a project ("": nowhere) and in the home folder, and under which member."""

    project: str
    home: str
    member: str


PLACES = {
    "claude-code": ClientPlace(".mcp.json", ".claude.json", "mcpServers"),
    "codex": ClientPlace(".codex/config.toml", ".codex/config.toml", "mcp_servers"),
    "cursor": ClientPlace(".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    "vs-code": ClientPlace(".vscode/mcp.json", ".config/Code/User/mcp.json", "servers"),
    "windsurf": ClientPlace("", ".codeium/windsurf/mcp_config.json", "mcpServers"),
    "zed": ClientPlace(".zed/settings.json", ".config/zed/settings.json", "context_servers"),
    "gemini-cli": ClientPlace(".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
    "cline": ClientPlace("", ".cline/data/settings/cline_mcp_settings.json", "mcpServers"),
    "opencode": ClientPlace("opencode.jsonc", ".config/opencode/opencode.json", "mcp"),
}
FILES = sorted(path for path in DATA.rglob("*.*") if path.is_file())


class StartedServer(NamedTuple):
    """What a client would start: a command with its arguments, and the variables that it adds."""

    words: list[str]
    env: dict[str, str]


def place_of(file: Path, root: Path, home: Path) -> Path:
    """Where the client of a file looks for it. One named home-… belongs into the home folder."""
    place = PLACES[file.parent.name]
    return home / place.home if file.name.startswith("home-") else root / place.project


def document(text: bytes, *, is_toml: bool) -> dict[str, Any]:
    """The content, read by other means than the product's."""
    plain = text.decode("utf-8-sig")
    if is_toml:
        return tomllib.loads(plain)
    return dict(json.loads(_OUTSIDE_STRINGS.sub(lambda found: found[1] or "", plain)))


def entries(client: str, text: bytes) -> dict[str, Any]:
    """The servers of a file by name, as it spells them."""
    found = document(text, is_toml=client == "codex").get(PLACES[client].member, {})
    return dict(found.get("servers", found) if client == "opencode" else found)


def started(client: str, server: Any) -> StartedServer | None:
    """What the client starts for an entry; None if it starts no command."""
    if client == "opencode":
        command = server.get("command")
        return StartedServer(command, server.get("environment", {})) if command else None
    if client == "zed" and isinstance(server.get("command"), dict):
        old = server["command"]
        return StartedServer([old["path"], *old.get("args", [])], old.get("env", {}))
    if "command" not in server:
        return None
    return StartedServer([server["command"], *server.get("args", [])], server.get("env", {}))
