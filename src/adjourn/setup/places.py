"""The table of clients' settings files, and where they are in the home folder.

Owns: names and places. Must never: read what is in them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import NamedTuple


class ServerFile(NamedTuple):
    """A file of the workspace that lists MCP servers, and under which member."""

    client: str
    path: str
    member: str


CLAUDE, CODEX = "Claude Code", "Codex"
SERVER_FILES = (
    ServerFile(CLAUDE, ".mcp.json", "mcpServers"),
    ServerFile(CODEX, ".codex/config.toml", "mcp_servers"),
    ServerFile("Cursor", ".cursor/mcp.json", "mcpServers"),
    ServerFile("VS Code", ".vscode/mcp.json", "servers"),
    ServerFile("Gemini CLI", ".gemini/settings.json", "mcpServers"),
    ServerFile("Roo Code", ".roo/mcp.json", "mcpServers"),
    ServerFile("Kiro", ".kiro/settings/mcp.json", "mcpServers"),
    ServerFile("Amazon Q", ".amazonq/mcp.json", "mcpServers"),
)
CLAUDE_HOOKS, CODEX_HOOKS = ".claude/settings.json", ".codex/hooks.json"
CLAUDE_LOCAL = ".claude/settings.local.json"
POLICY, IGNORED = ".aex/policy.aex", ".aex/.gitignore"

ELSEWHERE = (
    ServerFile("Cursor", ".cursor/mcp.json", "mcpServers"),
    ServerFile("VS Code", ".config/Code/User/mcp.json", "servers"),
    ServerFile("VS Code", "Library/Application Support/Code/User/mcp.json", "servers"),
    ServerFile("Claude Desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
    ServerFile(
        "Claude Desktop", "Library/Application Support/Claude/claude_desktop_config.json", "mcpServers"
    ),
    ServerFile("Windsurf", ".codeium/windsurf/mcp_config.json", "mcpServers"),
    ServerFile("Gemini CLI", ".gemini/settings.json", "mcpServers"),
)
"""Files of the home folder that count in every project. A proxy belongs to a workspace, so these are not changed."""


class Home(NamedTuple):
    """The home folder, and the folders of clients that may keep their settings elsewhere."""

    folder: str
    claude: str
    """Claude Code's own file with its servers, of the user and by project."""
    claude_settings: str
    codex: str


def home(environment: Mapping[str, str]) -> Home:
    """The home folder of the user who runs this."""
    folder = environment.get("HOME") or os.path.expanduser("~")
    claude = environment.get("CLAUDE_CONFIG_DIR", "")
    return Home(
        folder,
        os.path.join(claude or folder, ".claude.json"),
        os.path.join(claude or os.path.join(folder, ".claude"), "settings.json"),
        os.path.join(environment.get("CODEX_HOME") or os.path.join(folder, ".codex"), "config.toml"),
    )


def has_claude(root: str, at: Home) -> bool:
    """Whether Claude Code is used here."""
    return (
        _any(root, (".claude", "CLAUDE.md"))
        or any(os.path.lexists(path) for path in (at.claude, os.path.dirname(at.claude_settings)))
        or shutil.which("claude") is not None
    )


def has_codex(root: str, at: Home) -> bool:
    """Whether Codex is used here."""
    return (
        _any(root, (".codex",))
        or os.path.lexists(os.path.dirname(at.codex))
        or shutil.which("codex") is not None
    )


def _any(root: str, names: tuple[str, ...]) -> bool:
    return any(os.path.lexists(os.path.join(root, name)) for name in names)
