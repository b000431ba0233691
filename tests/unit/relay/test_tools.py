"""The list of tools: what the proxy hides in it and adds to it, and the names that a client gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.in_process import ERAS, META_TOOLS, MODERN, NEW, Message, ProxyWorkspace, refused
from support.requirements import requirement

NUMBERS = b'"x-numbers":{"float":1.0,"long":12345678901234567890123,"exponent":1e2}'


def _pages(client: Any) -> list[Message]:
    pages, cursor = [], None
    while True:
        pages.append(client.ask("tools/list", {"cursor": cursor} if cursor else {})["result"])
        cursor = pages[-1].get("nextCursor")
        if not cursor:
            return pages


# --- tools/list


@pytest.mark.parametrize("era", ERAS)
def test_hidden_tools_go_meta_tools_come_last_and_nothing_else_changes(tmp_path: Path, era: str) -> None:
    """tools/list lacks denied tools, has the meta-tools last, and keeps the bytes of all others."""
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*", "deny slow", "confirm before file.write") as work:
        client = work.client(era=era)
        names = client.tools()
        assert names[:4] == ["file.read", "echo", "file.write", "network.fetch"]  # in the upstream's order
        assert "slow" not in names
        assert names[-len(META_TOOLS) :] == META_TOOLS
        line = next(line for line in reversed(client.received) if b'"tools"' in line)
        theirs = len(names) - len(META_TOOLS)
        assert line.count(NUMBERS) == theirs
        assert line.count(NUMBERS.split(b":", 1)[1]) == theirs + 1  # beside the list, too
        assert b"\\u00e9" in line
        assert list(json.loads(line)) == ["jsonrpc", "result", "id"]


def test_meta_tools_are_described_with_their_exact_inputs(tmp_path: Path) -> None:
    """Each meta-tool is listed with a schema of its exact arguments."""
    with ProxyWorkspace(tmp_path, "allow nothing.here") as work:
        client = work.client()
        (page,) = _pages(client)
        tools = {tool["name"]: tool for tool in page["tools"]}
        assert list(tools) == META_TOOLS
        inputs = {name: tool["inputSchema"] for name, tool in tools.items()}
        assert all(schema["type"] == "object" for schema in inputs.values())
        kinds = {
            name: {key: value.get("type", "enum") for key, value in schema["properties"].items()}
            for name, schema in inputs.items()
        }
        assert kinds == {
            "aex.checkpoint": {
                "name": "string",
                "description": "string",
                "mission": "string",
                "progress": "array",
                "currentState": "array",
                "openQuestions": "array",
                "artifacts": "array",
                "resumptionPoint": "string",
            },
            "aex.resume": {"name": "string", "more": "string"},
            "aex.finish": {"summary": "string"},
            "aex.rollback": {"name": "string", "apply": "boolean"},
            "aex.list_tasks": {"more": "string"},
            "aex.review_task": {"task": "string"},
            "adjourn.note": dict.fromkeys(
                ["facts", "assumptions", "questions", "goals", "decisions", "learnings"], "array"
            )
            | {"goal": "string", "status": "enum"}
            | dict.fromkeys(
                ["successCriteria", "tags", "resumePoints", "blockers", "invariants", "withdraw", "answers"], "array"
            ),
            "adjourn.record": {"section": "string", "more": "string"},
            "adjourn.effect": {
                "action": "enum",
                "key": "string",
                "effect": "string",
                "inputs": "object",
                "outputs": "object",
            },
            "adjourn.ask": {"question": "string", "context": "string", "options": "array", "priority": "enum"},
        }
        assert [schema.get("required", []) for schema in inputs.values()] == [
            ["name"],
            [],
            [],
            [],
            [],
            ["task"],
            [],
            [],
            ["action", "key"],
            ["question"],
        ]


@requirement("D35")
@pytest.mark.parametrize("size", [1, 4, 7])
def test_meta_tools_come_once_on_the_last_page(tmp_path: Path, size: int) -> None:
    """In a list of several pages, the meta-tools are on the last page only."""
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*") as work:
        client = work.client(server=["--page", str(size)])
        pages = _pages(client)
        assert len(pages) > 1
        names = [tool["name"] for page in pages for tool in page["tools"]]
        assert names[-len(META_TOOLS) :] == META_TOOLS
        assert [name for name in names if name.startswith(("aex.", "adjourn."))] == META_TOOLS
        assert len(names) == len(set(names))
        assert "secrets.read" not in names


@requirement("D35")
def test_an_upstream_tool_named_like_a_meta_tool_is_hidden_and_reported(tmp_path: Path) -> None:
    """A server's tool with the name of a meta-tool is not listed, is never called, and is logged."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(server=["--tools", "shadow"])
        assert client.tools().count("aex.resume") == 1
        assert "tool.shadowed" in client.stderr()
        assert refused(client.call("aex.resume", {"name": "none"}))
        assert work.executed() == []


def test_an_upstream_tool_that_is_written_almost_like_a_meta_tool_is_hidden(tmp_path: Path) -> None:
    """A server cannot offer `AEX-Resume` beside `aex.resume`, with a description of its own."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(server=["--tools", "mimic"])
        assert [name for name in client.tools() if "resume" in name.lower()] == ["aex.resume"]
        assert "tool.shadowed" in client.stderr()


@requirement("D35")
def test_only_the_answer_to_a_list_of_tools_is_edited(tmp_path: Path) -> None:
    """A result that looks like a list of tools passes unchanged unless it answers tools/list."""
    fake = '{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"secrets.read"},  1.0]}}'
    with ProxyWorkspace(tmp_path, "allow *", "deny secrets.*") as work:
        client = work.client()
        request = client.begin("send", {"lines": [fake]})
        client.answer(request)
        assert client.received[-1] == fake.replace("$ID", str(request)).encode() + b"\n"
        assert client.ask("x/list")["result"]["tools"] == ["not a list of tools"]


@requirement("D35")
def test_an_error_answer_to_a_list_of_tools_stays_one(tmp_path: Path) -> None:
    """An error of the server in answer to tools/list reaches the client."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(server=["--page", "4"])
        assert client.ask("tools/list", {"cursor": "odd"})["error"]["code"] == -32602


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_an_upstream_without_tools_gets_the_capability_and_the_meta_tools(tmp_path: Path, era: str) -> None:
    """In front of a server without tools, the proxy announces tools and lists its own."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(era=era, server=["--tools", "none"])
        capabilities = client.greeting["result"]["capabilities"]
        assert set(capabilities) == {"resources", "prompts", "completions", "logging", "tools"}
        result = client.ask("tools/list")["result"]
        assert [tool["name"] for tool in result["tools"]] == META_TOOLS
        assert (result.get("resultType"), "ttlMs" in result, result.get("cacheScope")) == (
            ("complete", True, "private") if era == MODERN else (None, False, None)
        )
        assert client.meta("aex.list_tasks") == {"tasks": []}


# --- names


@pytest.mark.parametrize(
    ("name", "style", "underscored", "era"),
    [
        ("claude-code", "auto", False, MODERN),
        ("codex-mcp-client", "auto", False, NEW),
        ("claude-ai", "auto", True, NEW),
        ("Claude-AI", "auto", True, MODERN),
        ("copilot-cli", "auto", True, NEW),
        ("claude-ai", "dotted", False, NEW),
        ("claude-code", "underscored", True, MODERN),
    ],
)
def test_clients_that_refuse_dots_get_underscores(
    tmp_path: Path, name: str, style: str, underscored: bool, era: str
) -> None:
    """Clients that cannot call names with dots get names with underscores, unless an option says otherwise."""
    with ProxyWorkspace(tmp_path, "allow nothing.here") as work:
        client = work.client("--tool-names", style, name=name, era=era)
        expected = [tool.replace(".", "_") for tool in META_TOOLS] if underscored else META_TOOLS
        assert client.tools() == expected


def test_both_spellings_are_accepted_from_everyone(tmp_path: Path) -> None:
    """A meta-tool can be called with dots and with underscores, whatever was listed."""
    with ProxyWorkspace(tmp_path, "allow echo") as work:
        client = work.client()
        client.call("echo")
        assert client.meta("aex_checkpoint", name="a")["path"] == ".aex/checkpoints/a/"
        assert client.meta("aex_resume", name="a")["name"] == client.meta("aex.resume", name="a")["name"]
        assert client.meta("aex_list_tasks") == client.meta("aex.list_tasks")


def test_names_that_clients_cannot_tell_apart_are_reported(tmp_path: Path) -> None:
    """Two tools whose names differ only in letter case or separator are logged as a collision."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client(server=["--tools", "twin"])
        client.tools()
        assert "tool.collision" in client.stderr()
