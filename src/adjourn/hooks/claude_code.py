"""Claude Code's words: what it sends to a PreToolUse hook, its tools by the names of the contract vocabulary, its answers.

Owns: these names and shapes. Must never: decide.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from adjourn.aex.match import tool_name_ok
from adjourn.errors import InvalidError

EVENT = "PreToolUse"
MAX_INPUT = 64 * 1024 * 1024
MAX_REASON = 20_000

TOOLS = {
    "Read": "file.read",
    "Glob": "file.read",
    "Grep": "file.read",
    "LS": "file.read",
    "NotebookRead": "file.read",
    "LSP": "file.read",
    "Write": "file.write",
    "Edit": "file.write",
    "MultiEdit": "file.write",
    "NotebookEdit": "file.write",
    "Bash": "shell.exec",
    "PowerShell": "shell.exec",
    "Monitor": "shell.exec",
    "BashOutput": "shell.output",
    "TaskOutput": "shell.output",
    "KillShell": "shell.stop",
    "KillBash": "shell.stop",
    "TaskStop": "shell.stop",
    "WebFetch": "network.fetch",
    "WebSearch": "network.search",
    "TodoRead": "todo.read",
    "TaskGet": "todo.read",
    "TaskList": "todo.read",
    "TodoWrite": "todo.write",
    "TaskCreate": "todo.write",
    "TaskUpdate": "todo.write",
    "Agent": "agent.spawn",
    "Task": "agent.spawn",
    "Workflow": "agent.spawn",
    "SendMessage": "agent.message",
    "ListAgents": "agent.list",
    "Skill": "skill.run",
    "SlashCommand": "skill.run",
    "CronCreate": "schedule.write",
    "CronDelete": "schedule.write",
    "ScheduleWakeup": "schedule.write",
    "CronList": "schedule.read",
    "EnterPlanMode": "plan.enter",
    "ExitPlanMode": "plan.exit",
    "EnterWorktree": "worktree.enter",
    "ExitWorktree": "worktree.exit",
    "AskUserQuestion": "user.ask",
    "ToolSearch": "tools.search",
    "ListMcpResourcesTool": "mcp.resources.list",
    "ReadMcpResourceTool": "mcp.resources.read",
}
"""Built-in tools. What is not here, and is no MCP tool, is `unknown.NAME`."""
_SEARCHING = frozenset(("Glob", "Grep", "LS"))
"""Tools that look through a folder, by default the working directory."""
_MCP = "mcp__"


class Request(msgspec.Struct, frozen=True):
    """One call that Claude Code asks about. Members beside these are not looked at."""

    tool_name: str
    tool_input: dict[str, Any] | None = None
    cwd: str = ""
    hook_event_name: str = EVENT


def decode(data: bytes) -> Request:
    """The request in what was read from standard input. Raises `InvalidError`."""
    if len(data) > MAX_INPUT:
        raise InvalidError(
            f"the input has more than {MAX_INPUT} bytes", "deny the tool in the client's settings"
        )
    try:
        data.decode()
        request = msgspec.json.decode(data, type=Request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(
            f"standard input holds no call that can be decided on: {error}",
            "it must be the JSON object that Claude Code gives to a PreToolUse hook",
        ) from error
    if request.hook_event_name != EVENT:
        raise InvalidError(
            f"cannot answer a {request.hook_event_name[:40]} hook", f"configure it for {EVENT}"
        )
    if not tool_name_ok(request.tool_name):
        raise InvalidError(f"not a tool name: {request.tool_name[:80]!r}", "nothing can name it in a policy")
    return request


def tool_of(name: str) -> str:
    """The tool by the name that policies know it by: built-ins as in `TOOLS`, `mcp__SERVER__TOOL` as `SERVER.TOOL`."""
    if known := TOOLS.get(name):
        return known
    server, tool = mcp_tool(name)
    if server:
        return f"{server}.{tool}"
    return name if "." in name else f"unknown.{name}"


def mcp_tool(name: str) -> tuple[str, str]:
    """Server and tool of an MCP tool's name; both empty for another tool."""
    if name.startswith(_MCP):
        server, _, tool = name.removeprefix(_MCP).partition("__")
        if server and tool:
            return server, tool
    return "", ""


def arguments_of(request: Request) -> dict[str, Any]:
    """The arguments, with the folder that a tool looks through where it is not given, or hidden in a pattern."""
    arguments = request.tool_input or {}
    if request.tool_name not in _SEARCHING:
        return arguments
    folder = str(arguments.get("path") or ".")
    pattern = arguments.get("pattern")
    if request.tool_name == "Glob" and isinstance(pattern, str):
        folder = os.path.join(folder, pattern)
    return arguments | {"path": folder}


# --- answers


def answer(decision: str, reason: str, shape: str) -> bytes:
    """The line to print. `decision` is allow, deny, ask, or "" for none: then the client goes by its own rules."""
    reason = reason[:MAX_REASON]
    if shape == "aex":
        return msgspec.json.encode(_published(decision or "allow", reason)) + b"\n"
    output: dict[str, str] = {"hookEventName": EVENT}
    if decision:
        output |= {"permissionDecision": decision, "permissionDecisionReason": reason}
    return msgspec.json.encode({"hookSpecificOutput": output}) + b"\n"


def _published(decision: str, reason: str) -> dict[str, str]:
    member = {"deny": "reason", "ask": "message"}.get(decision)
    return {"permissionDecision": decision} | ({member: reason} if member else {})
