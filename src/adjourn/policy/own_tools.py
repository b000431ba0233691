"""Names of tools that are of no server: a client's own ones, and those of `adjourn run`.

Owns: the list. Must never: say what a client calls them (`hooks.claude_code` does).
"""

from __future__ import annotations

OWN_TOOLS = frozenset((
    "adjourn.note", "aex.resume", "agent.list", "agent.message", "agent.spawn", "file.read", "file.write", "git.apply", "git.diff",
    "git.status", "mcp.resources.list", "mcp.resources.read", "network.fetch", "network.search", "plan.enter", "plan.exit",
    "schedule.read", "schedule.write", "secrets.read", "shell.exec", "shell.output", "shell.stop", "skill.run", "tests.run",
    "todo.read", "todo.write", "tools.search", "unknown.any", "user.ask", "worktree.enter", "worktree.exit",
))  # fmt: skip
"""Tools by the names that policies have for them. A rule that begins as one of these may be for a tool that no server lists."""
