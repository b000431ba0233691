"""The table of clients' settings files, and where they are in the home folder.

Owns: names and places. Must never: read what is in them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from adjourn.host import folders
from adjourn.setup import servers
from adjourn.setup.spelling import NESTED, ONE_LIST, PLAIN, ListedEntry, Spelling, listed

CLAUDE, CODEX = "Claude Code", "Codex"


class Client(NamedTuple):
    """A client: its files that list MCP servers, of a workspace and of the home folder, under which member, how an entry is spelled.

    `source` is its own documentation, from which the row was taken. `starts_in` is the folder in which it starts the servers of the home
    folder: that of the project, or one that its documentation does not name; "" for a client that works in no project.
    """

    name: str
    workspace: Sequence[str]
    home: Sequence[str]
    source: str
    members: Sequence[Sequence[str]] = (("mcpServers",),)
    spellings: Sequence[Spelling] = (PLAIN,)
    starts_in: Literal["project", "unknown", ""] = "unknown"


_VS_CODE = (".config/Code/User", "Library/Application Support/Code/User")
_CLINE = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
CLIENTS = (
    Client(
        CLAUDE,
        (".mcp.json",),
        (".claude.json",),
        "https://code.claude.com/docs/en/mcp",
        starts_in="project",
    ),
    Client(
        CODEX,
        (".codex/config.toml",),
        (".codex/config.toml",),
        "https://developers.openai.com/codex/mcp",
        (("mcp_servers",),),
        starts_in="project",
    ),
    Client("Cursor", (".cursor/mcp.json",), (".cursor/mcp.json",), "https://cursor.com/docs/mcp"),
    Client(
        "VS Code",
        (".vscode/mcp.json",),
        tuple(f"{folder}/mcp.json" for folder in _VS_CODE),
        "https://code.visualstudio.com/docs/agents/reference/mcp-configuration",
        (("servers",),),
    ),
    Client(
        "Windsurf",
        (),
        (".codeium/windsurf/mcp_config.json",),
        "https://docs.windsurf.com/windsurf/cascade/mcp",
    ),
    Client(
        "Zed",
        (".zed/settings.json",),
        (".config/zed/settings.json",),
        "https://zed.dev/docs/ai/mcp",  # before 2025-07, `command` was an object
        (("context_servers",),),
        (PLAIN, NESTED),
    ),
    Client(
        "Gemini CLI",
        (".gemini/settings.json",),
        (".gemini/settings.json",),
        "https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md",
        starts_in="project",
    ),
    Client(
        "Cline",
        (),
        (
            ".cline/data/settings/cline_mcp_settings.json",
            *(f"{folder}/{_CLINE}" for folder in _VS_CODE),
        ),
        "https://docs.cline.bot/mcp/mcp-overview",
    ),
    Client(
        "opencode",
        ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"),
        (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        "https://opencode.ai/docs/mcp-servers",  # from 2.0 on also under `mcp.servers`
        (("mcp",), ("mcp", "servers")),
        (ONE_LIST,),
        "project",
    ),
    Client("Roo Code", (".roo/mcp.json",), (), "https://docs.roocode.com/features/mcp/using-mcp-in-roo"),
    Client(
        "Kiro",
        (".kiro/settings/mcp.json",),
        (".kiro/settings/mcp.json",),
        "https://kiro.dev/docs/mcp/configuration",
    ),
    Client(
        "Amazon Q",
        (".amazonq/default.json", ".amazonq/mcp.json"),
        (".aws/amazonq/default.json", ".aws/amazonq/mcp.json"),
        "https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/mcp-ide.html",  # mcp.json is the older of the two
    ),
    Client(
        "Claude Desktop",
        (),
        tuple(
            f"{folder}/Claude/claude_desktop_config.json"
            for folder in (".config", "Library/Application Support")
        ),
        "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        starts_in="",
    ),
)


class ServerFile(NamedTuple):
    """A file that lists MCP servers of a client."""

    client: str
    path: str
    members: Sequence[Sequence[str]]
    spellings: Sequence[Spelling]
    starts_in: str

    def entries(self, document: Any, path: str) -> list[ListedEntry]:
        """The servers that the document lists, which was read from `path`."""
        found = [one for member in self.members for one in listed(document, path, member, self.spellings)]
        return [one for one in found if one.at not in self.members or servers.words_of(one.server)]


SERVER_FILES = tuple(
    ServerFile(client.name, path, client.members, client.spellings, client.starts_in)
    for client in CLIENTS
    for path in client.workspace
)
HOME_FILES = tuple(
    ServerFile(client.name, path, client.members, client.spellings, client.starts_in)
    for client in CLIENTS
    for path in client.home
)
"""Files of the home folder, which count in every project. A proxy belongs to a workspace, so only `init --user` changes most of them."""
CLAUDE_HOOKS, CODEX_HOOKS = ".claude/settings.json", ".codex/hooks.json"
CLAUDE_LOCAL = ".claude/settings.local.json"
POLICY, IGNORED = ".aex/policy.aex", ".aex/.gitignore"


class Home(NamedTuple):
    """The home folder, and the folders of clients that may keep their settings elsewhere."""

    folder: str
    claude: str
    """Claude Code's own file with its servers, of the user and by project."""
    claude_settings: str
    codex: str

    @property
    def codex_hooks(self) -> str:
        """The hooks of the user in Codex."""
        return os.path.join(os.path.dirname(self.codex), "hooks.json")


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


def user_folder() -> str:
    """The folder that a set-up of the user's own settings counts for: copies of them are below it, for `--undo`."""
    return os.path.join(folders.config(), "user")


def in_home(entry: ServerFile, at: Home) -> str:
    """The path of a client's file in the home folder."""
    own = {CLAUDE: at.claude, CODEX: at.codex}
    return own.get(entry.client) or os.path.join(at.folder, entry.path)


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
