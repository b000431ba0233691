"""Claude Code's names and shapes: what a policy knows its tools by, and what it is answered."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex.match import tool_name_ok
from adjourn.clients.options import options_of, parse_hook
from adjourn.errors import InvalidError, UsageError
from adjourn.hooks import claude_code
from adjourn.hooks.claude_code import Answer, HookRequest
from support.cases import for_each

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "hook.md"
PUBLISHED = {
    "file.read": ["Read", "Glob", "Grep", "LS", "NotebookRead"],
    "file.write": ["Write", "Edit", "MultiEdit", "NotebookEdit"],
    "shell.exec": ["Bash"],
    "network.fetch": ["WebFetch"],
    "network.search": ["WebSearch"],
    "todo.read": ["TodoRead"],
    "todo.write": ["TodoWrite"],
    "agent.spawn": ["Agent"],
}


@for_each(
    ("name", "tool"),
    [
        *((name, tool) for tool, names in PUBLISHED.items() for name in names),
        ("Task", "agent.spawn"),
        ("mcp__files__read", "files.read"),
        ("mcp__files__read_text_file", "files.read_text_file"),
        ("mcp__a_b__c__d", "a_b.c__d"),
        ("mcp__files", "unknown.mcp__files"),
        ("mcp____read", "unknown.mcp____read"),
        ("mcp__files__", "unknown.mcp__files__"),
        ("notes.set", "notes.set"),
        ("SomethingNew", "unknown.SomethingNew"),
        ("bash", "unknown.bash"),
    ],
)
def test_tools_by_the_names_of_policies(name: str, tool: str) -> None:
    """Built-ins by the published table, MCP tools as SERVER.TOOL, dots kept, the rest unknown."""
    assert claude_code.tool_of(name) == tool


@given(st.from_regex(r"[A-Za-z0-9_.-]{1,100}", fullmatch=True))
def test_every_name_becomes_a_name_that_rules_can_have(name: str) -> None:
    """Any client's tool name maps to a name that a policy can use, and none maps to a built-in by accident."""
    tool = claude_code.tool_of(name)
    assert tool_name_ok(tool)
    assert "." in tool
    assert name in claude_code.TOOLS or tool.startswith("unknown.") or "." in name or name.startswith("mcp__")


@for_each(
    "data",
    [
        b"",
        b"\n",
        b"{",
        b"[]",
        b"null",
        b'"Read"',
        b"{}",
        b'{"tool_name": null}',
        b'{"tool_name": ""}',
        b'{"tool_name": " Read"}',
        b'{"tool_name": "Read\\n"}',
        b'{"tool_name": ["Read"]}',
        b'{"tool_name": "Read", "tool_input": "x"}',
        b'{"tool_name": "Read", "tool_input": []}',
        b'{"tool_name": "Read", "tool_input": {"a": NaN}}',
        b'{"tool_name": "Read", "x": "\xff"}',
        b'{"tool_name": "Read", "cwd": 1}',
        b'{"tool_name": "Read", "hook_event_name": "Notification"}',
        b'{"tool_name": "Read"} {}',
        b'{"tool_name": "Read", "tool_name": "Write"}',
        b'{"tool_name": "Read", "Tool_Name": "Write"}',
        b'{"tool_name": "Read", "cwd": "/a", "CWD": "/b"}',
        b'{"tool_name": "mcp__bank__pay", "tool_input": {"a": [{"amount": 1, "amount"\n:1000}]}}',
        b'{"tool_name": "mcp__bank__pay", "tool_input": {"amount": 1e400}}',
        b'{"tool_name": "mcp__bank__pay", "tool_input": {"a": "\\ud800"}}',
        b'{"tool_name": "Read", "tool_input": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    ],
    ids=lambda data: data[:40],
)
def test_what_cannot_be_decided_on(data: bytes) -> None:
    """Anything but one well-formed call is an error, never a call."""
    with pytest.raises(InvalidError):
        claude_code.decode(data)


def test_too_long_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Input beyond the limit is not even parsed."""
    monkeypatch.setattr(claude_code, "MAX_INPUT", 10)
    with pytest.raises(InvalidError, match="more than 10"):
        claude_code.decode(b'{"tool_name": "Read"}')


@pytest.mark.parametrize(
    ("name", "arguments", "path"),
    [
        ("Grep", {"pattern": "/x/"}, "."),
        ("Grep", {"pattern": "/x/", "path": "src"}, "src"),
        ("Glob", {"pattern": "*.py"}, "./*.py"),
        ("Glob", {"pattern": "../**/*.py", "path": "src"}, "src/../**/*.py"),
        ("Glob", {"pattern": "/etc/*"}, "/etc/*"),
        ("LS", {"path": "/etc"}, "/etc"),
        ("Read", {"file_path": "a"}, None),
    ],
)
def test_where_a_search_looks(name: str, arguments: dict[str, Any], path: str | None) -> None:
    """A search without a folder looks through the working directory; a pattern may lead elsewhere."""
    assert claude_code.arguments_of(HookRequest(name, arguments)).get("path") == path


@pytest.mark.parametrize(
    ("decision", "aex"),
    [
        ("allow", {"permissionDecision": "allow"}),
        ("deny", {"permissionDecision": "deny", "reason": "why"}),
        ("ask", {"permissionDecision": "ask", "message": "why"}),
    ],
)
def test_answers(decision: str, aex: dict[str, str]) -> None:
    """The documented shape, and the published one."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": "why"}
    assert json.loads(claude_code.answer(Answer(decision, "why"), "claude-code", "claude")) == {
        "hookSpecificOutput": output
    }
    assert json.loads(claude_code.answer(Answer(decision, "why"), "claude-code", "aex")) == aex


def test_no_decision() -> None:
    """The hook gives no decision for a tool that a proxy decides; the published shape says allow."""
    assert json.loads(claude_code.answer(Answer(""), "claude-code", "claude")) == {
        "hookSpecificOutput": {"hookEventName": "PreToolUse"}
    }
    assert json.loads(claude_code.answer(Answer(""), "claude-code", "aex")) == {"permissionDecision": "allow"}


def test_codex_is_given_leave_by_silence() -> None:
    """It refuses the word allow, and takes deny with its reason."""
    silence = {"hookSpecificOutput": {"hookEventName": "PreToolUse"}}
    assert json.loads(claude_code.answer(Answer("allow", "why"), "codex", "claude")) == silence
    denied = json.loads(claude_code.answer(Answer("deny", "why"), "codex", "claude"))["hookSpecificOutput"]
    assert (denied["permissionDecision"], denied["permissionDecisionReason"]) == ("deny", "why")


@pytest.mark.parametrize(
    ("patch", "arguments"),
    [
        (
            "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: b.py\n@@\n-x\n+*** Add File: no\n*** Delete File: c\n*** End Patch",
            {"paths": ["src/a.py", "b.py", "c"]},
        ),
        ("--- a\n+++ b\n", {"patch": "--- a\n+++ b\n"}),
    ],
)
def test_a_patch_names_its_files_in_its_text(patch: str, arguments: dict[str, Any]) -> None:
    """Every file it adds, updates, deletes or moves to; in another notation nobody knows where it leads."""
    assert claude_code.arguments_of(HookRequest("apply_patch", {"command": patch})) == arguments


@pytest.mark.parametrize(
    ("given", "paths", "known"),
    [
        ({"command": ["apply_patch", "{}"]}, ["a"], True),
        ({"input": {"patch": [["{}"]]}}, ["a"], True),
        ({"command": ["apply_patch", "{}"], "note": "*** Update File: b"}, ["a", "b"], False),
        ({"command": "{}", "workdir": "src"}, ["a"], False),
        ({"command": ["apply_patch"]}, None, False),
    ],
)
def test_a_patch_is_found_wherever_it_stands(given: dict[str, Any], paths: list[str] | None, known: bool) -> None:
    """In lists and objects; beside something else nobody knows where it leads."""
    text = json.dumps(given).replace("{}", "*** Begin Patch\\n*** Add File: a\\n+x")
    found = claude_code.arguments_of(HookRequest("apply_patch", json.loads(text)))
    assert sorted(found.get("paths", [])) == (paths or [])
    assert ("patch" not in found) == known


@pytest.mark.parametrize(
    "header",
    [
        "***  Update File: a",
        "*** Update File:\ta",
        "*** update file: a \t",
        "***\u00a0Update File: a",
        "  ***Update File : a\r",
    ],
)
def test_a_patch_that_is_written_loosely_names_its_files_too(header: str) -> None:
    """A reader of patches may take blanks and letters as they come."""
    assert claude_code.arguments_of(HookRequest("apply_patch", {"command": f"*** Begin Patch\n{header}\n@@"})) == {
        "paths": ["a"]
    }


@pytest.mark.parametrize("event", [event for event in claude_code.EVENTS if "ToolUse" not in event])
def test_an_event_beside_the_calls_names_no_tool(event: str) -> None:
    """Events that are no calls name no tool, and their other members are ignored."""
    told: dict[str, Any] = {
        "hook_event_name": event,
        "source": "startup",
        "reason": None,
        "background_tasks": 5,
        "new": {},
    }
    assert claude_code.decode(json.dumps(told).encode()).hook_event_name == event


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values as a word or behind =, switches, defaults, the environment; anything else is wrong usage."""
    monkeypatch.setenv("ADJOURN_TASK", "t1")
    monkeypatch.delenv("ADJOURN_STORE", raising=False)
    values = parse_hook(["--policy", "p.aex", "--format=aex", "--allow-no-policy"])
    assert values == {option.flag: option.default for option in options_of("hook")} | {
        "--policy": "p.aex", "--format": "aex", "--allow-no-policy": "yes", "--task": "t1",
    }  # fmt: skip
    for wrong in (["x"], ["--polcy", "p"], ["--policy"], ["--format", "x"], ["--allow-no-policy=no"]):
        with pytest.raises(UsageError):
            parse_hook(wrong)


def test_the_reference_names_every_tool() -> None:
    """docs/reference/hook.md has a row for each built-in tool, with its name in policies."""
    rows = [row.strip("| ").split(" | ") for row in PAGE.read_text().splitlines() if row.startswith("| `")]
    described = {name: row[-1].strip("`") for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert {name: described.get(name) for name in claude_code.TOOLS} == claude_code.TOOLS


EVENT = b'{"session_id":"s","hook_event_name":"%b","tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"t1","duration_ms":3,%b}'


@pytest.mark.parametrize(
    "more",
    [
        b'"tool_response":"cut \\ud83d"',
        b'"tool_response":{"stdout":"\xff","n":NaN}',
        b'"tool_response":"\x1b[0m"',
        b'"tool_response":' + b"[" * 5000 + b"]" * 5000,
        b'"tool_response":1,"error":"cut \\ud83d"',
        b'"tool_response":1,"anything":"\xff"',
    ],
)
def test_an_event_is_read_whatever_a_tool_answered(more: bytes) -> None:
    """The call has been made: half a character in what it answered does not keep it from being settled."""
    for event in (b"PostToolUse", b"PostToolUseFailure"):
        data = EVENT % (event, more)
        assert not claude_code.waits_for_leave(data)
        request = claude_code.decode(data)
        assert (request.tool_use_id, request.duration_ms) == ("t1", 3)
        assert request.tool_input == {"command": "ls"}
        assert bytes(request.tool_response) in more
        assert isinstance(request.error, str)


@pytest.mark.parametrize(
    "data",
    [
        EVENT % (b"PreToolUse", b'"v":"\\ud83d"'),
        EVENT % (b"PostToolUse", b'"hook_event_name":"PreToolUse","v":NaN'),
        EVENT % (b"PostToolUse", b'"Hook_Event_Name":"PreToolUse","v":NaN'),
        EVENT % (b"PostToolUse", b'"v":nan'),
        EVENT % (b"PostToolUse\\ud83d", b'"v":1'),
    ],
)
def test_a_call_that_waits_for_leave_is_read_strictly(data: bytes) -> None:
    """What may be a call that waits is refused where readers could take it differently."""
    assert claude_code.waits_for_leave(data)
    with pytest.raises(InvalidError, match="not a valid hook request"):
        claude_code.decode(data)


def test_the_input_of_an_event_is_read_as_the_gate_read_it() -> None:
    """The history is searched by the arguments of a call: those are read strictly, also of an event."""
    data = EVENT.replace(b'"ls"', b'"\\ud83d"') % (b"PostToolUse", b'"tool_response":1')
    with pytest.raises(InvalidError, match="not a valid hook request"):
        claude_code.decode(data)


@for_each(
    ("name", "servers", "named"),
    [
        ("mcp________look", ["____"], ("____", "look")),
        ("mcp__my__server__look", ["my", "my__server"], ("my__server", "look")),
        ("mcp__inv__look", ["____"], ("inv", "look")),
        ("mcp________look", ["______"], ("", "")),
        ("mcp________look", [], ("", "")),
    ],
)
def test_a_server_that_the_settings_name_is_recognized(name: str, servers: list[str], named: tuple[str, str]) -> None:
    """A name in another script is nothing but `_` to a client: it is recognized by the servers that are behind a proxy."""
    assert claude_code.mcp_tool(name, servers) == named
