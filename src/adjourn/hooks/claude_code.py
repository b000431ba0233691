"""The format of Claude Code's hooks: requests, answers, and its tools under the names that policies use.

Codex sends the same, with two differences: only an answer without a decision lets a call run, and a patch names its files in its text.

Owns: these names and shapes. Must never: decide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from adjourn.aex.match import canonical_server, tool_name_ok
from adjourn.errors import InvalidError
from adjourn.text.redact import visible_lines, without_secrets
from adjourn.text.strict_json import check_alike, check_text, fold_key, survey

GATE = "PreToolUse"
EVENTS = (
    GATE,
    "SessionStart",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "PreCompact",
    "Stop",
    "SubagentStop",
    "SessionEnd",
)
_OF_CALLS = (GATE, "PostToolUse", "PostToolUseFailure")
CODEX, GEMINI = "codex", "gemini"
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
    "apply_patch": "file.write",
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
    "StructuredOutput": "answer.structured",
    "ListMcpResourcesTool": "mcp.resources.list",
    "ReadMcpResourceTool": "mcp.resources.read",
}
"""Names of built-in tools in policies. A tool that is neither listed here nor an MCP tool is `unknown.NAME`."""
_SEARCHING = frozenset(("Glob", "Grep", "LS"))
"""Tools that search a folder, by default the working directory."""
_MCP = "mcp__"
_PATCHED = re.compile(
    r"^[^\S\n]*\*\*\*[^\S\n]*(?:Add File|Update File|Delete File|Move to)[^\S\n]*:(.+)", re.MULTILINE | re.IGNORECASE
)


class HookRequest(msgspec.Struct, frozen=True):
    """A request or an event of a client. Other members are ignored."""

    tool_name: str = ""
    tool_input: dict[str, Any] | None = None
    cwd: str = ""
    hook_event_name: str = GATE
    tool_use_id: str = ""
    tool_response: msgspec.Raw = msgspec.Raw()
    duration_ms: Any = 0
    error: Any = ""
    is_interrupt: Any = False
    prompt: Any = ""
    reason: Any = ""
    source: Any = ""
    session_id: Any = ""
    transcript_path: Any = ""
    background_tasks: Any = None


_TOLD = frozenset(("background_tasks", "error", "prompt", "reason"))
"""Members that contain words of a person, a client or a tool."""


class _Named(msgspec.Struct):
    """The member that names the event."""

    hook_event_name: Any = GATE


class Answer(NamedTuple):
    """allow, deny or ask; "" leaves it to the client. `reason` names the rule, file and line, `note` is for the person."""

    decision: str
    reason: str = ""
    note: str = ""


def waits_for_leave(data: bytes) -> bool:
    """Whether the client waits for a decision. Assumed of input that cannot be read."""
    try:
        name = msgspec.json.decode(data, type=_Named).hook_event_name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return not _members_of_event(data)
    return name == GATE or name not in EVENTS


def decode(data: bytes) -> HookRequest:
    """The request in what was read from standard input. Raises `InvalidError`.

    A call that waits for leave is read strictly. An event says what has happened: what a tool answered, or a text in it, may be
    something that no strict reader takes.
    """
    if len(data) > MAX_INPUT:
        raise InvalidError(f"the input has more than {MAX_INPUT} bytes", "deny the tool in the client's settings")
    try:
        request = _request(data)
        if request.hook_event_name == GATE:
            body = msgspec.json.decode(data)
            check_text(data, survey(body)[0])
            check_alike(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidError) as error:
        raise InvalidError(
            f"standard input is not a valid hook request: {error}",
            "send the JSON object that Claude Code passes to a hook",
        ) from error
    if request.hook_event_name not in EVENTS:
        raise InvalidError(
            f"cannot answer a {request.hook_event_name[:40]} hook", f"configure it for {', '.join(EVENTS)}"
        )
    if request.hook_event_name in _OF_CALLS and not tool_name_ok(request.tool_name):
        raise InvalidError(
            f"not a tool name: {request.tool_name[:80]!r}",
            "deny the tool in the client's settings; no policy can name it",
        )
    return request


def _request(data: bytes) -> HookRequest:
    try:
        data.decode()
        return msgspec.json.decode(data, type=HookRequest)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        members = _members_of_event(data)
        if not members:
            raise
    from adjourn.mcp.lenient import value_of  # few texts are odd

    response = members.pop("tool_response", msgspec.Raw())
    # what the history is searched by is read as the gate has read it
    fields = {name: value_of(raw) if name in _TOLD else msgspec.json.decode(raw) for name, raw in members.items()}
    return msgspec.structs.replace(msgspec.convert(fields, HookRequest), tool_response=response)


def _members_of_event(data: bytes) -> dict[str, msgspec.Raw]:
    """The known members of an event in a text that strict readers refuse; none for a call that waits for leave, or may be one."""
    from adjourn.mcp.lenient import members_of, value_of  # few texts are odd

    try:
        named = list(members_of(data))
        name = [value_of(raw) for key, raw in named if fold_key(key) == "hook_event_name"]
    except msgspec.DecodeError:
        return {}
    if len(name) != 1 or name[0] == GATE or name[0] not in EVENTS:
        return {}
    return {key: raw for key, raw in named if key in HookRequest.__struct_fields__}


def tool_of(name: str) -> str:
    """The name of a tool in policies: built-ins as in `TOOLS`, `mcp__SERVER__TOOL` as `SERVER.TOOL`."""
    if text := TOOLS.get(name):
        return text
    server, tool = mcp_tool(name)
    if server:
        return f"{canonical_server(server) or server}.{tool}"
    return name if "." in name else f"unknown.{name}"


def mcp_tool(name: str, servers: Sequence[str] = ()) -> tuple[str, str]:
    """Server and tool of an MCP tool's name; both empty for another tool. `servers` are those of which names are known, as the client
    spells them: a name in another script is nothing but `_`, and so is what stands between server and tool.
    """
    if name.startswith(_MCP):
        full = name.removeprefix(_MCP)
        known = max((each for each in servers if full.startswith(f"{each}__")), key=len, default="")
        server, _, tool = full.partition("__") if not known else (known, "", full[len(known) + 2 :])
        if server and tool:
            return server, tool
    return "", ""


def arguments_of(request: HookRequest) -> dict[str, Any]:
    """The arguments, with the folder that a tool searches if it is not given, or is part of a pattern."""
    arguments = request.tool_input or {}
    if request.tool_name == "apply_patch":
        return _patched(arguments)
    if request.tool_name not in _SEARCHING:
        return arguments
    folder = str(arguments.get("path") or ".")
    pattern = arguments.get("pattern")
    if request.tool_name == "Glob" and isinstance(pattern, str):
        folder = os.path.join(folder, pattern)
    return arguments | {"path": folder}


def _patched(arguments: dict[str, Any]) -> dict[str, Any]:
    """The files that a patch names; also the patch itself, an unknown place, if it names none or has other arguments beside it."""
    text = "\n".join(_texts(arguments))
    named = [match[1].strip() for match in _PATCHED.finditer(text)]
    return ({"paths": named} if named else {}) | ({} if named and len(arguments) == 1 else {"patch": text})


def _texts(arguments: dict[str, Any]) -> Iterator[str]:
    """Every string in the arguments, at any depth."""
    waiting: list[Any] = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | dict):
            waiting += reversed(value.values() if isinstance(value, dict) else value)


# --- answers


def answer(decided: Answer, client: str, shape: str) -> bytes:
    """The line to print. Without a decision the client applies its own rules."""
    decision, reason = decided.decision, visible_lines(decided.reason[:MAX_REASON])
    if shape == "aex":
        decision = decision or "allow"
        member = {"deny": "reason", "ask": "message"}.get(decision)
        return msgspec.json.encode({"permissionDecision": decision} | ({member: reason} if member else {})) + b"\n"
    output: dict[str, str] = {"hookEventName": GATE}
    if decision and not (client == CODEX and decision == "allow"):
        output |= {"permissionDecision": decision, "permissionDecisionReason": reason}
    note = _for_person(decided.note) if decided.note else {}
    return msgspec.json.encode({"hookSpecificOutput": output} | note) + b"\n"


def _for_person(text: str) -> dict[str, Any]:
    return {"systemMessage": f"adjourn: {visible_lines(without_secrets(text))[:MAX_REASON]}"}


def event_answer(event: str, person: str, agent: str) -> bytes:
    """The line to print for an event: a text to the person, and one to the agent."""
    message = _for_person(person) if person else {}
    if agent:
        output = {"hookEventName": event, "additionalContext": without_secrets(agent)}
        message |= {"hookSpecificOutput": output}
    return msgspec.json.encode(message) + b"\n"
