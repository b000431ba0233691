"""Names of tools and the patterns for them: which tool names a rule names, and which server a tool is of.

A pattern has one of three forms: `*`, `prefix.*`, exact. An allow is matched as written. A refusal or a question is matched on *folded*
names: lower case, and every run of `_`, `/`, `-` and `.` taken as one separator, so that `deny network.*` also names `Network/fetch`.
`PatternIndex` looks a name up among a thousand rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

TOOL_NAME_MAX = 128
TOOL_NAME_CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/"
_NONE: list[int] = []
_SEPARATORS = str.maketrans("_/-", "...")


def tool_name_ok(name: object) -> bool:
    """True for a string of 1 to 128 characters of MCP's tool-name alphabet, to which `/` is added."""
    return isinstance(name, str) and 0 < len(name) <= TOOL_NAME_MAX and not name.strip(TOOL_NAME_CHARS)


def fold(name: str) -> str:
    """The spelling under which a refusal looks a name up: `Net__Work/get` and `net.work-get` are one name.

    >>> fold("Net__Work/get") == fold("net.work-get")
    True
    """
    folded = name.lower().translate(_SEPARATORS)
    while ".." in folded:
        folded = folded.replace("..", ".")
    return folded


def split_scope(pattern: str) -> tuple[str, str]:
    """`file.read:src/**` is the tool pattern `file.read` and the scope `src/**`; no colon, no scope.

    >>> split_scope("file.read:src/**")
    ('file.read', 'src/**')
    """
    tool, _, scope = pattern.partition(":")
    return tool.rstrip(), scope.strip()


def matches(pattern: str, name: str) -> bool:
    """Whether an unscoped pattern names this tool, as written: case and separators count.

    >>> matches("git.*", "git.push"), matches("git.*", "github.push")
    (True, False)
    """
    if pattern.endswith(".*"):
        prefix = pattern[:-2]
        return name == prefix or name.startswith(prefix + ".")
    return pattern in ("*", name)


def matches_folded(pattern: str, name: str) -> bool:
    """Whether a refusal's unscoped pattern names this tool: case and the kind of separator do not count."""
    return matches(fold_pattern(pattern), fold(name))


def fold_pattern(pattern: str) -> str:
    """A tool pattern in folded spelling; its final `.*` stays a wildcard."""
    if pattern.endswith(".*"):
        return fold(pattern[:-2]) + ".*"
    return fold(pattern)


def never_matches(pattern: str) -> str:
    """Why no tool name can ever match this pattern; empty when one can."""
    tool, scope = split_scope(pattern)
    if ":" in pattern and not scope:
        return "there is no scope after the colon"
    if tool == "*":
        return ""
    stem = tool.removesuffix(".*")
    if not tool:
        return "it names no tool"
    if "*" in stem:
        return "`*` is a wildcard only alone or after a final dot"
    if other := stem.strip(TOOL_NAME_CHARS)[:1]:
        return f"no tool name contains {'a blank' if other.isspace() else f'`{other}`'}"
    if len(stem) > TOOL_NAME_MAX:
        return f"it is longer than the {TOOL_NAME_MAX} characters of a tool name"
    return ""


def glob_path(glob: str, path: str) -> bool:
    """Whether a `/`-separated relative path is in the scope: `**` spans folders, `*` and `?` stay inside one."""
    globs, parts = glob.split("/"), path.split("/")
    at = here = 0
    retry: tuple[int, int] | None = None
    while here < len(parts):
        if at < len(globs) and globs[at] == "**":
            retry = (at, here)
            at += 1
        elif at < len(globs) and glob_text(globs[at], parts[here]):
            at, here = at + 1, here + 1
        elif retry:
            at, here = retry[0] + 1, retry[1] + 1
            retry = (retry[0], here)
        else:
            return False
    return all(text == "**" for text in globs[at:])


def glob_text(glob: str, text: str) -> bool:
    """Whether the whole text matches: `*` is any run of characters, `?` is one. For commands and file names.

    Linear in the text: what stands between two stars is taken where it is first found.

    >>> glob_text("npm test*", "npm test --watch")
    True
    """
    pieces = _pieces(glob)
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return len(text) == len(glob) and first.at(text, 0)
    end = len(text) - last.length
    at = first.length
    if at > end or not first.at(text, 0) or not last.at(text, end):
        return False
    for piece in pieces[1:-1]:
        index = piece.find(text, at, end)
        if index < 0:
            return False
        at = index + piece.length
    return True


class _Literals:
    """The text between two stars of a glob; the parts between its `?` with their offsets, the longest one first."""

    __slots__ = ("length", "parts")

    def __init__(self, piece: str) -> None:
        self.length = len(piece)
        self.parts: list[tuple[int, str]] = []
        at = 0
        for part in piece.split("?"):
            if part:
                self.parts.append((at, part))
            at += len(part) + 1
        self.parts.sort(key=lambda part: -len(part[1]))

    def at(self, text: str, start: int) -> bool:
        """Whether it occurs at `start`; the text is long enough."""
        return all(text.startswith(part, start + offset) for offset, part in self.parts)

    def find(self, text: str, start: int, end: int) -> int:
        """The first position at which it occurs between two offsets, or -1."""
        if not self.parts:
            return start if start + self.length <= end else -1
        offset, longest = self.parts[0]
        number = self.length - offset - len(longest)
        at = text.find(longest, start + offset, end - number)
        while at >= 0:
            if self.at(text, at - offset):
                return at - offset
            at = text.find(longest, at + 1, end - number)
        return -1


@lru_cache(maxsize=4096)
def _pieces(glob: str) -> tuple[_Literals, ...]:
    return tuple(_Literals(piece) for piece in glob.split("*"))


class PatternIndex:
    """Tool patterns compiled for look-up: the positions of those that name a tool, without a scan.

    A look-up costs one dictionary probe, and one for each dot of the name up to the deepest prefix.
    """

    __slots__ = ("_depth", "_exact", "_prefix", "_star")

    def __init__(self, patterns: Iterable[tuple[int, str]]) -> None:
        self._exact: dict[str, list[int]] = {}
        self._prefix: dict[str, list[int]] = {}
        self._star: list[int] = []
        for position, pattern in patterns:
            if pattern == "*":
                self._star.append(position)
            elif pattern.endswith(".*"):
                self._prefix.setdefault(pattern[:-2], []).append(position)
            else:
                self._exact.setdefault(pattern, []).append(position)
        self._depth = max((prefix.count(".") + 1 for prefix in self._prefix), default=0)

    def __bool__(self) -> bool:
        return bool(self._exact or self._prefix or self._star)

    def all(self, name: str) -> list[int]:
        """Positions of every pattern that names the tool, in ascending order."""
        positions = self._star + self._exact.get(name, _NONE)
        if self._prefix:
            positions += self._prefix.get(name, ())
            dot = name.find(".")
            for _ in range(self._depth):
                if dot < 0:
                    break
                positions += self._prefix.get(name[:dot], ())
                dot = name.find(".", dot + 1)
        if len(positions) > 1:
            positions.sort()
        return positions

    def first(self, name: str) -> int | None:
        """Position of the first pattern that names the tool."""
        positions = self.all(name)
        return positions[0] if positions else None


# --- names of tools that are of no server: a client's own ones, and those of `adjourn run`
#
# A server may have a name that they start with, as `git`. A rule is for its tools, or for these, and never for both.

OWN_TOOLS = frozenset((
    "adjourn.note", "aex.resume", "answer.structured", "agent.list", "agent.message", "agent.spawn", "file.read", "file.write", "git.apply", "git.diff",
    "git.status", "mcp.resources.list", "mcp.resources.read", "network.fetch", "network.search", "plan.enter", "plan.exit",
    "schedule.read", "schedule.write", "secrets.read", "shell.exec", "shell.output", "shell.stop", "skill.run", "tests.run",
    "todo.read", "todo.write", "tools.search", "unknown.any", "user.ask", "worktree.enter", "worktree.exit",
))  # fmt: skip
"""Tools by the names that policies have for them. A rule that starts as one of these may be for a tool that no server lists."""
_HEADS = ("adjourn", "aex", "mcp")
"""First parts of names that no server can have: those of meta-tools, and of methods of the protocol."""
_UNNAMED = "unknown"
"""The first part of a client's tool that has no name here."""


@lru_cache(maxsize=4096)
def names_own(pattern: str) -> bool:
    """Whether a pattern, with its scope or without, names a tool of no server. `*` names every tool, and so none in particular."""
    tool = split_scope(pattern)[0]
    if tool == "*":
        return False
    return tool.partition(".")[0] in (*_HEADS, _UNNAMED) or any(matches(tool, own) for own in OWN_TOOLS)


def shares(pattern: str, tool: str) -> bool:
    """Whether an allow by the pattern counts for a server's tool: not if it names tools of no server, unless the tool is called as one."""
    if not names_own(pattern) or tool.partition(".")[0] in _HEADS:
        return True
    return tool in OWN_TOOLS and matches(split_scope(pattern)[0], tool)


# --- the proxy's own tools, which it answers itself

META_TOOLS = (
    "aex.checkpoint", "aex.resume", "aex.finish", "aex.rollback", "aex.list_tasks", "aex.review_task", "adjourn.note", "adjourn.record",
    "adjourn.effect", "adjourn.ask",
)  # fmt: skip


def spellings(name: str) -> tuple[str, str]:
    """How a meta-tool may be called: by its name, and as clients spell it that take no dots."""
    return name, name.replace(".", "_")


_OWN = {spelling: name for name in META_TOOLS for spelling in spellings(name)}
_FOLDED = frozenset(map(fold, META_TOOLS))


def meta_tool(tool: str) -> str:
    """The dotted name of a meta-tool in either spelling; "" for any other tool."""
    return _OWN.get(tool, "")


def imitates_meta_tool(tool: str) -> bool:
    """Whether a tool of a server has a meta-tool's name, in any letter case and with any separators: people and models mix them up."""
    return fold(tool) in _FOLDED


# --- names of servers and of their tools: `inv.remove_item` is the tool `remove_item` of the server `inv`

MAX_SERVER_NAME = 64
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_]")
_CHANGED_BY_CLIENTS = re.compile(r"[^A-Za-z0-9_-]")


def canonical_server(name: str) -> str:
    """A server's name as policies and histories have it: letters, digits and `_`, which stands for every other character.

    A name whose letters are all of another script is its Punycode (RFC 3492) behind `xn_`. "" for a name without a letter or digit:
    that names no server.
    """
    text = name[:MAX_SERVER_NAME]
    canonical = _NOT_IN_A_NAME.sub("_", text)
    if canonical.strip("_"):
        return canonical
    if not any(map(str.isalnum, text)):
        return ""
    return _NOT_IN_A_NAME.sub("_", f"xn_{text.encode('punycode').decode()}")[:MAX_SERVER_NAME]


def as_client_names_it(name: str) -> str:
    """A server's or tool's name as it stands in the names that clients give to tools (`mcp__SERVER__TOOL`).

    Clients count in units of UTF-16: a character beyond the first 65,536, as an emoji, becomes two `_`.
    """
    return _CHANGED_BY_CLIENTS.sub(lambda match: "__" if match[0] > "\uffff" else "_", name)


class KnownTool(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tool as its server listed it last, with the hints that are set.

    `writes`: the server says that it is not read-only. `reaches`: it reads at an address of the network that its caller chooses.
    """

    name: str
    read_only: bool = False
    destructive: bool = False
    writes: bool = False
    reaches: bool = False


class KnownTools(msgspec.Struct, frozen=True):
    """The tools of each server that has listed any, by the server's canonical name.

    `commands` has a digest of the command that starts it, "" where that is not known.
    """

    servers: Mapping[str, tuple[KnownTool, ...]] = MappingProxyType({})
    commands: Mapping[str, str] = MappingProxyType({})

    def __bool__(self) -> bool:
        return bool(self.servers)

    def names(self) -> Iterator[tuple[str, str]]:
        """Each known tool, as server and tool."""
        for server, tools in self.servers.items():
            for tool in tools:
                yield server, tool.name

    def without(self, command: str, *, but: str = "") -> KnownTools:
        """All but the servers that a command starts; `but` is the name of one that stays."""
        own = {name for name in self.servers if command and name != but and self.commands.get(name) == command}
        if not own:
            return self
        return KnownTools(
            MappingProxyType({name: tools for name, tools in self.servers.items() if name not in own}),
            MappingProxyType({name: commands for name, commands in self.commands.items() if name not in own}),
        )

    def with_tool(self, name: str) -> tuple[str, ...]:
        """The servers that have a tool of this name."""
        return tuple(server for server, tool in self.names() if tool == name)


NOTHING_KNOWN = KnownTools()
