"""The table of clients: where the settings of each are, how it spells the entry of a server, which hooks it has; and those files.

A file is read and replaced whole, with its permissions kept: through no link, and not over what changed since it was read.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from adjourn.errors import AdjournError, ConflictError, InvalidError, NotFoundError, RefusedError
from adjourn.host import folders
from adjourn.host.workspace import open_regular, remove_file, write_file
from adjourn.setup import jsonc, servers, toml_text
from adjourn.setup.jsonc import MAX_BYTES


class Spelling(NamedTuple):
    """Paths in an entry: to the program, to the arguments (None: they follow the program in one list), to the variables."""

    program: Sequence[str] = ("command",)
    args: Sequence[str] | None = ("args",)
    env: Sequence[str] = ("env",)


PLAIN = Spelling()
ONE_LIST = Spelling(args=None, env=("environment",))
NESTED = Spelling(("command", "path"), ("command", "args"), ("command", "env"))


class ListedEntry(NamedTuple):
    """An entry of a settings file: the file, where it stands there, its content in the common form, and its spelling."""

    path: str
    at: Sequence[str]
    server: Any
    spelling: Spelling = PLAIN

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.at[-1]


def listed(
    document: Any, path: str, member: Sequence[str], spellings: Sequence[Spelling] = (PLAIN,)
) -> list[ListedEntry]:
    """The entries below a member of a document."""
    below = member_at(document, member)
    if not isinstance(below, dict):
        return []
    return [ListedEntry(path, (*member, name), *_read(server, spellings)) for name, server in below.items()]


def member_at(value: Any, path: Sequence[str]) -> Any:
    """What is at a path of members; None if there is no such member."""
    for member in path:
        value = value.get(member) if isinstance(value, dict) else None
    return value


def _read(server: Any, spellings: Sequence[Spelling]) -> tuple[Any, Spelling]:
    """An entry in the common form; without a command if it is not spelled as its client reads it."""
    if not isinstance(server, dict):
        return server, PLAIN
    for spelling in spellings:
        program = member_at(server, spelling.program)
        if spelling.args is None and isinstance(program, list) and program:
            common = {"command": program[0], "args": program[1:]}
        elif spelling.args is not None and isinstance(program, str):
            args = member_at(server, spelling.args)
            common = {"command": program} | ({} if args is None else {"args": args})
        else:
            continue
        env = member_at(server, spelling.env)
        spelled = {path[0] for path in spelling if path} | {"command", "args", "env"}
        others = {member: value for member, value in server.items() if member not in spelled}
        return others | common | ({} if env is None else {"env": env}), spelling
    return {member: value for member, value in server.items() if member != "command"}, spellings[0]


# --- editing


def with_words(text: str, entry: ListedEntry, place: int, words: Sequence[str]) -> str:
    """The text with words put into an entry's command: `place` 0 is before the program. Comments stay.

    Raises `InvalidError` when it cannot be edited so.
    """
    spelling, args = entry.spelling, entry.server.get("args") or []
    if spelling.args is None:
        return jsonc.inserted(text, (*entry.at, *spelling.program), place, words)
    if place:
        return _inserted(text, entry, place - 1, words)
    text = _inserted(text, entry, 0, [*words[1:], entry.server["command"]]) if args else text
    new = {} if args else {"args": [*words[1:], entry.server["command"]]}
    return with_members(text, entry, {"command": words[0]} | new)


def _inserted(text: str, entry: ListedEntry, place: int, words: Sequence[str]) -> str:
    if not entry.path.endswith(".toml"):
        return jsonc.inserted(text, (*entry.at, *(entry.spelling.args or ())), place, words)
    after = entry.server["args"][place - 1] if place else ""
    return toml_text.with_words(text, entry.at, "args", after, words)


def with_command(text: str, entry: ListedEntry, words: Sequence[str]) -> str:
    """The text with another command in an entry. Raises `InvalidError` when it cannot be edited so."""
    if entry.spelling.args is None:
        return jsonc.edited(text, (*entry.at, *entry.spelling.program), list(words))
    return with_members(text, entry, {"command": words[0], "args": list(words[1:])})


def with_proxy(
    text: str, entry: ListedEntry, words: Sequence[str], env: Mapping[str, str], passed: Sequence[str]
) -> str:
    """The text with an entry that starts these words, in the place of one that names an address. `passed` are the variables that Codex
    has to pass on. Raises `InvalidError` when it cannot be edited so.
    """
    gone = [member for member in servers.HTTP_MEMBERS if member in entry.server]
    if entry.path.endswith(".toml"):
        values: dict[str, str | list[str]] = {"command": words[0], "args": list(words[1:])}
        text = toml_text.with_table(text, entry.at, values | ({"env_vars": list(passed)} if passed else {}), gone=gone)
        return toml_text.with_table(text, (*entry.at, "env"), env) if env else text
    text = with_command(text, entry, words)
    for variable, value in env.items():
        text = jsonc.edited(text, (*entry.at, *entry.spelling.env, variable), value)
    if "type" in entry.server:
        text = jsonc.edited(text, (*entry.at, "type"), "local" if entry.spelling.args is None else "stdio")
    for member in gone:
        text = jsonc.removed(text, (*entry.at, member))
    return text


def with_members(text: str, entry: ListedEntry, values: dict[str, str | list[str]]) -> str:
    """The text with members of an entry, of the common form, set to values."""
    if entry.path.endswith(".toml"):
        return toml_text.with_table(text, entry.at, values)
    spelled = {"command": entry.spelling.program, "args": entry.spelling.args or ()}
    for member, value in values.items():
        text = jsonc.edited(text, (*entry.at, *spelled.get(member, (member,))), value)
    return text


CLAUDE, CODEX, GEMINI = "Claude Code", "Codex", "Gemini CLI"


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
    Client(CLAUDE, (".mcp.json",), (".claude.json",), "https://code.claude.com/docs/en/mcp", starts_in="project"),
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
    Client("Windsurf", (), (".codeium/windsurf/mcp_config.json",), "https://docs.windsurf.com/windsurf/cascade/mcp"),
    Client(
        "Zed",
        (".zed/settings.json",),
        (".config/zed/settings.json",),
        "https://zed.dev/docs/ai/mcp",  # before 2025-07, `command` was an object
        (("context_servers",),),
        (PLAIN, NESTED),
    ),
    Client(
        GEMINI,
        (".gemini/settings.json",),
        (".gemini/settings.json",),
        "https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md",
        starts_in="project",
    ),
    Client(
        "Cline",
        (),
        (".cline/data/settings/cline_mcp_settings.json", *(f"{folder}/{_CLINE}" for folder in _VS_CODE)),
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
        "Kiro", (".kiro/settings/mcp.json",), (".kiro/settings/mcp.json",), "https://kiro.dev/docs/mcp/configuration"
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
        tuple(f"{folder}/Claude/claude_desktop_config.json" for folder in (".config", "Library/Application Support")),
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

    def below(self, folder: str) -> ServerFile:
        """The same file of a folder of the workspace."""
        return self._replace(path=os.path.join(folder, self.path))

    def entries(self, document: Any, path: str) -> list[ListedEntry]:
        """The servers that the document lists, which was read from `path`."""
        entries = [entry for member in self.members for entry in listed(document, path, member, self.spellings)]
        return [entry for entry in entries if entry.at not in self.members or servers.words_of(entry.server)]


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
CLAUDE_HOOKS, CODEX_HOOKS, GEMINI_HOOKS = ".claude/settings.json", ".codex/hooks.json", ".gemini/settings.json"
CODEX_SERVERS = ".codex/config.toml"
CLAUDE_LOCAL = ".claude/settings.local.json"
POLICY, IGNORED = ".aex/policy.aex", ".aex/.gitignore"


MAX_FOLDERS, MAX_DEPTH = 2000, 3
_OF_OTHERS = frozenset(("node_modules", "vendor", "third_party", "target", "dist", "build", "venv"))


def folders_with_settings(root: str) -> list[str]:
    """The folders below the workspace, not far down, that have settings of clients; as paths from its top."""
    found = []
    waiting = [""]
    for _ in range(MAX_FOLDERS):
        if not waiting:
            break
        folder = waiting.pop(0)
        if folder and any(os.path.lexists(os.path.join(root, folder, file.path)) for file in SERVER_FILES):
            found.append(folder)
        if folder.count("/") + bool(folder) < MAX_DEPTH:
            with suppress(OSError), os.scandir(os.path.join(root, folder)) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
                inner = sorted(name for name in names if not name.startswith(".") and name not in _OF_OTHERS)
                waiting += [os.path.join(folder, name) for name in inner]
    return found


class Home(NamedTuple):
    """The home folder, and the folders of clients that may keep their settings elsewhere."""

    folder: str
    claude: str
    """Claude Code's own file with its servers, of the user and by project."""
    claude_settings: str
    codex: str
    gemini: str

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
        os.path.join(environment.get("GEMINI_CLI_HOME") or folder, GEMINI_HOOKS),
    )


def user_folder() -> str:
    """The folder that a set-up of the user's own settings counts for: copies of them are below it, for `--undo`."""
    return os.path.join(folders.config(), "user")


def in_home(entry: ServerFile, at: Home) -> str:
    """The path of a client's file in the home folder."""
    own = {CLAUDE: at.claude, CODEX: at.codex, GEMINI: at.gemini}
    return own.get(entry.client) or os.path.join(at.folder, entry.path)


def plugin_folders(at: Home, settings: Sequence[Any]) -> dict[str, str]:
    """The folders of the plugins of Claude Code that these settings enable, by name. Its table of what is installed has two forms."""
    enabled: dict[str, Any] = {}
    for each in settings:
        own = table(each, "enabledPlugins")
        enabled |= own if isinstance(own, dict) else {}
    place = os.path.join(os.path.dirname(at.claude_settings), "plugins", "installed_plugins.json")
    try:
        installed = table(jsonc.read(read_plain(place, os.path.dirname(place))).value, "plugins")
    except AdjournError:
        return {}
    found = {}
    for name, entry in installed.items() if isinstance(installed, dict) else ():
        newest = entry[-1] if isinstance(entry, list) and entry else entry
        folder = table(newest, "installPath")
        if enabled.get(name) is True and isinstance(folder, str) and os.path.isabs(folder):
            found[name.partition("@")[0]] = folder
    return found


def has_claude(root: str, at: Home) -> bool:
    """Whether Claude Code is used here."""
    return (
        _any(root, (".claude", "CLAUDE.md"))
        or any(os.path.lexists(path) for path in (at.claude, os.path.dirname(at.claude_settings)))
        or shutil.which("claude") is not None
    )


def has_codex(root: str, at: Home) -> bool:
    """Whether Codex is used here."""
    return _any(root, (".codex",)) or os.path.lexists(os.path.dirname(at.codex)) or shutil.which("codex") is not None


def has_gemini(root: str, at: Home) -> bool:
    """Whether Gemini CLI is used here."""
    return (
        _any(root, (".gemini", "GEMINI.md"))
        or os.path.lexists(os.path.dirname(at.gemini))
        or shutil.which("gemini") is not None
    )


def _any(root: str, names: tuple[str, ...]) -> bool:
    return any(os.path.lexists(os.path.join(root, name)) for name in names)


# --- the hooks of a client's settings

SECONDS = {"SessionEnd": {CODEX: 3, CLAUDE: 10}}
DEFAULT_SECONDS = 30
EVENTS = {
    CLAUDE: (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PreCompact",
        "Stop",
        "SubagentStop",
        "SessionEnd",
    ),
    CODEX: ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreCompact", "Stop", "SessionEnd"),
    GEMINI: ("SessionStart",),
}
"""The events that each client reports to its hooks."""
WITH_TOOLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")


def table(document: Any, member: str) -> Any:
    """A member of a value; None if the value is not an object."""
    return document.get(member) if isinstance(document, dict) else None


def ours(document: Any, event: str) -> tuple[tuple[jsonc.Step, ...], str] | None:
    """The path of adjourn's hook for an event, and its command."""
    groups = table(table(document, "hooks"), event)
    for number, entry in enumerate(groups if isinstance(groups, list) else []):
        handlers = table(entry, "hooks")
        for place, handler in enumerate(handlers if isinstance(handlers, list) else []):
            command = table(handler, "command")
            if servers.is_hook(command):
                return ("hooks", event, number, "hooks", place), str(command)
    return None


def odd_hooks(document: Any, events: Sequence[str]) -> str:
    """What keeps hooks for these events out of a document; "" for nothing. A null stands for what is not there."""
    hooks = table(document, "hooks")
    if hooks is not None and not isinstance(hooks, dict):
        return "`hooks` is not an object"
    odd = [event for event in events if not isinstance(table(hooks, event), list | None)]
    return f"`hooks.{odd[0]}` is not a list" if odd else ""


def group(client: str, event: str, command: str) -> dict[str, Any]:
    """A new entry for an event, with our hook in it."""
    seconds = SECONDS.get(event, {}).get(client, DEFAULT_SECONDS)
    handler: dict[str, Any] = {"type": "command", "command": command, "timeout": seconds}
    if client == GEMINI:
        handler |= {"name": "adjourn", "timeout": seconds * 1000}
    if client == CLAUDE and event == "PreToolUse":
        handler["onFailure"] = "block"
    return ({"matcher": "*"} if event in WITH_TOOLS else {}) | {"hooks": [handler]}


# --- reading and replacing a client's file


def read_bytes(path: str, root: str) -> bytes:
    """A file's bytes. Raises `NotFoundError`, `InvalidError`; `RefusedError` for a link on the way through the workspace."""
    check_way(path, root)
    with os.fdopen(open_regular(path, MAX_BYTES), "rb") as file:
        return file.read()


def read_plain(path: str, root: str) -> str:
    """The same as text."""
    try:
        return read_bytes(path, root).decode()
    except UnicodeDecodeError as error:
        raise InvalidError("it is not UTF-8", "save it as UTF-8") from error


def bytes_or_none(path: str, root: str) -> bytes | None:
    """A file's bytes; None when it is not there."""
    try:
        return read_bytes(path, root)
    except NotFoundError:
        return None


def check_way(path: str, root: str) -> None:
    """Refuse a path with a link inside the workspace: a foreign repository could point it anywhere."""
    relative = os.path.relpath(path, root)
    if relative.startswith(".."):
        return
    place = root
    for part in os.path.dirname(relative).split("/"):
        place = os.path.join(place, part) if part else place
        if os.path.lexists(place) and not stat.S_ISDIR(os.lstat(place).st_mode):
            raise RefusedError(f"{place} is a link or not a folder", "remove it; adjourn follows no link here")


def replace(path: str, root: str, data: bytes | None, *, expect: bytes | None) -> None:
    """Replace a file's bytes, or remove it (None), if its content is still what is expected. Durable."""
    if bytes_or_none(path, root) != expect:
        raise ConflictError(f"{path} changed while it was edited", "close the client, and try again")
    folder, name = os.path.split(path)
    if data is None:
        remove_file(folder, name)
        return
    os.makedirs(folder, exist_ok=True)
    mode = stat.S_IMODE(os.lstat(path).st_mode) if expect is not None else 0o644
    write_file(folder, name, data, mode)
