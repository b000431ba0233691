"""Names of tools that are of no server: a client's own ones, and those of `adjourn run`.

A server may have a name that they begin with, as `git`. A rule is for its tools, or for these, and never for both.

Owns: the list, and which rules are for it. Must never: say what a client calls them (`hooks.claude_code` does).
"""

from __future__ import annotations

from functools import lru_cache

from adjourn.aex.match import matches, split_scope

OWN_TOOLS = frozenset((
    "adjourn.note", "aex.resume", "agent.list", "agent.message", "agent.spawn", "file.read", "file.write", "git.apply", "git.diff",
    "git.status", "mcp.resources.list", "mcp.resources.read", "network.fetch", "network.search", "plan.enter", "plan.exit",
    "schedule.read", "schedule.write", "secrets.read", "shell.exec", "shell.output", "shell.stop", "skill.run", "tests.run",
    "todo.read", "todo.write", "tools.search", "unknown.any", "user.ask", "worktree.enter", "worktree.exit",
))  # fmt: skip
"""Tools by the names that policies have for them. A rule that begins as one of these may be for a tool that no server lists."""
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
