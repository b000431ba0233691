"""`adjourn policy explain`: what would happen at the proxy of the server that is meant, or of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adjourn.aex import KnownTool
from adjourn.cli import main as cli
from adjourn.clients.served_tools import keep_tools
from adjourn.host.workspace_store import open_at
from support.cases import for_each

POLICY = """policy p v1
goal "g"
use inv.*, search, file.read, notes.publish
deny remove_item
deny mcp.*
confirm before notes.publish
"""


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".aex").mkdir()
    (tmp_path / ".aex" / "policy.aex").write_text(POLICY)
    store = open_at(str(tmp_path), "")
    listed = {"inv": ("list_items", "remove_item", "search"), "notes": ("search", "publish"), "files": ("file.read",)}
    for server, names in listed.items():
        keep_tools(store, server, [KnownTool(name, read_only="list" in name) for name in names])
    store.close()
    return tmp_path


def ask(capfd: pytest.CaptureFixture[str], tool: str, arguments: Any = None) -> tuple[int, list[str], Any]:
    """Exit code, the lines for people and the document for machines."""
    command = ["effective", "--explain", tool, *(["--args", json.dumps(arguments)] if arguments else [])]
    code = cli(command)
    lines = capfd.readouterr().out.splitlines()
    assert cli([*command, "--json"]) == code
    return code, lines, json.loads(capfd.readouterr().out)


@for_each(
    ("tool", "code", "first"),
    [
        ("inv.list_items", 0, "yes: inv.list_items may be called"),
        ("list_items", 0, "yes: inv.list_items may be called"),
        ("mcp__inv__list_items", 0, "yes: inv.list_items may be called"),
        ("inv.remove_item", 3, "no: inv.remove_item is denied"),
        ("remove_item", 3, "no: inv.remove_item is denied"),
        ("publish", 0, "ask: notes.publish may be called once a person approves it"),
        ("notes.search", 3, "no: notes.search is allowed by no rule"),
        ("mcp.initialize", 0, "yes: mcp.initialize always passes: no session works without it"),
        ("mcp.resources.read", 3, "no: mcp.resources.read is denied"),
        ("aex.checkpoint", 0, "yes: aex.checkpoint may be called, because no rule denies it"),
        ("aex_checkpoint", 0, "yes: aex_checkpoint may be called, because no rule denies it"),
    ],
)  # fmt: skip
def test_either_form_of_a_name_gets_the_answer_of_the_server(
    tool: str, code: int, first: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """SERVER.TOOL, TOOL and the client's spelling are answered as the proxy of the server decides."""
    found, lines, told = ask(capfd, tool)
    assert (found, lines[0]) == (code, first)
    assert told["tool"] == tool


def test_a_name_of_two_servers_is_answered_for_each(capfd: pytest.CaptureFixture[str]) -> None:
    """The short form gets an answer for each server that lists it, and the strictest one counts."""
    code, lines, told = ask(capfd, "search")
    assert code == 3
    assert [line for line in lines if line.startswith(("yes", "no", "ask"))] == [
        "yes: inv.search may be called",
        "no: notes.search is allowed by no rule",
    ]
    assert "    does not count, since it may mean the tool of another server; write notes.search" in lines
    assert told["answer"] == "no"
    assert [(one["server"], one["answer"]) for one in told["servers"]] == [("inv", "yes"), ("notes", "no")]


def test_a_tool_of_the_client_is_answered_beside_that_of_a_server(capfd: pytest.CaptureFixture[str]) -> None:
    """A name that clients use for a tool of their own is answered for that tool, too."""
    _, lines, _ = ask(capfd, "file.read")
    assert [line for line in lines if line.startswith("yes")] == [
        "yes: file.read may be called",
        "yes: files.file.read may be called",
    ]


@pytest.mark.parametrize(
    ("tool", "told"), [("git.git_push", "write git.git_push"), ("git.status", "give the server another name")]
)
def test_a_rule_for_tools_of_no_server_is_said_to_be_none_for_a_server_of_that_name(
    workspace: Path, capfd: pytest.CaptureFixture[str], tool: str, told: str
) -> None:
    """Known to the store or not, `git.push` is a tool of a server; the answer says which rule does not count, and what to write."""
    (workspace / ".aex" / "policy.aex").write_text(POLICY.replace("use inv.*", "use git.*"))
    code, lines, _ = ask(capfd, "git.git_push")
    assert (code, lines[0]) == (3, "no: git.git_push is allowed by no rule")
    store = open_at(str(workspace), "")
    keep_tools(store, "git", [KnownTool("git_push"), KnownTool("status")])
    store.close()
    code, lines, _ = ask(capfd, tool)
    assert (code, lines[0]) == (3, f"no: {tool} is allowed by no rule")
    assert f"    does not count: it is for tools of no server; {told}" in lines


def test_a_name_that_the_server_does_not_list_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    """A tool that its server does not list is shown, with the nearest one that it lists."""
    _, lines, told = ask(capfd, "inv.list_itmes")
    assert lines[1] == "  inv lists no tool list_itmes; did you mean list_items?"
    assert told["notes"] == ["inv lists no tool list_itmes; did you mean list_items?"]


def test_a_protected_place_refuses_what_rules_allow(workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A call that would touch a protected place is refused, also where the policy only observes."""
    for policy in (POLICY, POLICY + "mode observe\n"):
        (workspace / ".aex" / "policy.aex").write_text(policy)
        code, lines, told = ask(capfd, "inv.search", {"path": ".aex/adjourn.db"})
        assert code == 3
        assert lines[0].startswith('no: inv.search would be refused: tool "search" may not touch .aex/adjourn.db')
        assert told["answer"] == "no"
