"""The hooks of a client's settings: which events need one, finding that of adjourn, writing a new one.

Owns: that shape, which Claude Code and Codex share. Must never: read or write a file.
"""

from __future__ import annotations

from typing import Any

from adjourn.setup import jsonc, servers
from adjourn.setup.places import CLAUDE, CODEX

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
        "SessionEnd",
    ),
    CODEX: (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreCompact",
        "Stop",
        "SessionEnd",
    ),
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


def group(client: str, event: str, command: str) -> dict[str, Any]:
    """A new entry for an event, with our hook in it."""
    seconds = SECONDS.get(event, {}).get(client, DEFAULT_SECONDS)
    handler: dict[str, Any] = {"type": "command", "command": command, "timeout": seconds}
    if client == CLAUDE and event == "PreToolUse":
        handler["onFailure"] = "block"
    return ({"matcher": "*"} if event in WITH_TOOLS else {}) | {"hooks": [handler]}
