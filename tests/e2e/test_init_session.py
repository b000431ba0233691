"""After `adjourn init`: the agent reads, a person is asked before it writes, and it destroys nothing; later, `adjourn policy tighten`."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.home import Home
from support.proxy import ECHO, NEW, Client, refused, wait_for

LISTING = str(ECHO.with_name("listing.py"))


@pytest.fixture
def at(tmp_path: Path) -> Home:
    """A project for two clients, each with a server, and an empty home folder."""
    at = Home(tmp_path)
    server = ["-I", "-S", LISTING, str(tmp_path / "called")]
    inv = {"command": sys.executable, "args": [*server, "list_items", "add_item", "remove_item"]}
    at.write(".mcp.json", json.dumps({"mcpServers": {"inv": inv}}, indent=2))
    args = json.dumps([*server, "get_stock", "reset_stock"])
    at.write(".codex/config.toml", f'# ours\n[mcp_servers."my stock"]\ncommand = "{sys.executable}"\nargs = {args}\n')
    return at


def command_of(server: dict[str, Any]) -> list[str]:
    return [server["command"], *server["args"]]


@pytest.fixture
def clients(at: Home) -> Iterator[list[Client]]:
    started: list[Client] = []
    yield started
    for client in started:
        client.kill()


def client_of(at: Home, clients: list[Client], name: str) -> Client:
    """A client that starts a server by the very command that its settings have."""
    if name == "inv":
        server = json.loads((at.root / ".mcp.json").read_text())["mcpServers"][name]
    else:
        server = tomllib.loads((at.root / ".codex/config.toml").read_text())["mcp_servers"][name]
    clients.append(Client(command_of(server), at.root, at.environment, NEW, "tester", {}))
    clients[-1].greet()
    return clients[-1]


def called(at: Home) -> list[str]:
    file = at.root.parent / "called"
    return file.read_text().split() if file.exists() else []


def test_an_agent_works_right_after_init(at: Home, clients: list[Client]) -> None:
    """A reading tool answers, a write waits for a person's yes, a destroying call is refused: by the commands that were written."""
    done = at.run("init", "--yes")
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) <= 20
    assert '"hooks"' not in done.out
    assert called(at) == []
    inv = client_of(at, clients, "inv")
    assert not refused(inv.call("list_items"))
    assert refused(inv.call("remove_item"))
    assert {"list_items", "add_item"} <= set(inv.tools())
    waiting = inv.begin("add_item", {"name": "nail"})
    wait_for(lambda: at.run("approve", "--json").json["questions"])
    [question] = at.run("approve", "--json").json["questions"]
    assert at.run("approve", question["approval"]).code == 0
    assert not refused(inv.answer(waiting))
    stock = client_of(at, clients, "my stock")
    assert not refused(stock.call("get_stock"))
    assert refused(stock.call("reset_stock"))
    assert called(at) == ["list_items", "add_item", "get_stock"]


def test_what_really_happened_becomes_the_policy(at: Home, clients: list[Client]) -> None:
    """`--observe` refuses nothing; `tighten` shows a diff and changes nothing; `--write` applies it and keeps the comments."""
    done = at.run("init", "--observe", "--yes")
    assert done.code == 0
    assert "would refuse" in done.out
    assert "asks first" not in done.out
    policy = at.root / ".aex" / "policy.aex"
    written = policy.read_text()
    inv = client_of(at, clients, "inv")
    assert not refused(inv.call("remove_item"))
    for _ in range(20):
        inv.call("list_items")
    proposed = at.run("policy", "tighten")
    assert proposed.first.startswith("21 recorded calls of 1 task: ")
    assert len(proposed.out.partition("\n\n")[0].splitlines()) == 3
    assert "+# Never called: allow inv.add_item" in proposed.out
    assert policy.read_text() == written
    assert at.run("policy", "tighten", "--json").json["changes"][0]["calls"] == 0
    assert at.run("policy", "tighten", "--write").out.endswith("written: .aex/policy.aex\n")
    after = policy.read_text()
    assert [line for line in written.splitlines() if line.startswith("#")] == [
        line for line in after.splitlines() if line.startswith("#") and "Never called" not in line
    ]
    assert "\nallow inv.list_items\n" in after
    assert at.run("policy", "explain", "--explain", "file.write", "--json").json["answer"] == "no"


def test_a_server_that_does_not_start_is_named_with_its_stderr(at: Home) -> None:
    """Its exit code and last line are said; the others are set up; the next run takes its rules in."""
    text = (at.root / ".mcp.json").read_text()
    at.write(".mcp.json", text.replace(LISTING, "/nowhere/listing.py"))
    done = at.run("init", "--yes")
    assert "inv (python listing.py): no tools, it exited with code 2" in done.out
    assert "/nowhere/listing.py" in done.out
    policy = at.root / ".aex" / "policy.aex"
    assert "# allow inv.NAME_OF_A_TOOL" in policy.read_text()
    mcp = at.root / ".mcp.json"
    mcp.write_text(mcp.read_text().replace("/nowhere/listing.py", LISTING))
    assert at.run("init", "--yes").code == 0
    assert "allow inv.list_items\n" in policy.read_text()
    assert "NAME_OF_A_TOOL" not in policy.read_text()
    assert at.run("init", "--yes").first.startswith("nothing to change")


def test_the_table_shows_what_each_tool_does_and_why(at: Home) -> None:
    """Server, tool, effect, rule and reason, for people and for machines; no server is started without an approval."""
    shown = at.run("init", "--diff", "--yes")
    rows = {tuple(line.split()[:4]) for line in shown.out.splitlines() if line.startswith(("inv ", "my_stock "))}
    assert rows == {
        ("inv", "list_items", "reads", "allow"), ("inv", "add_item", "writes", "confirm"),
        ("inv", "remove_item", "destroys", "deny"), ("my_stock", "get_stock", "reads", "allow"),
        ("my_stock", "reset_stock", "destroys", "deny"),
    }  # fmt: skip
    assert at.run("init", "--undo", "--yes").code == 0
    [inv, stock] = at.run("init", "--json").json["servers"]
    assert (inv["server"], inv["failure"], stock["tools"]) == ("inv", "was not started", [])


def test_tools_of_an_updated_server_get_rules(at: Home, clients: list[Client]) -> None:
    """The proxy saw them: the refusal, `doctor` and `init` say so. A tool that a person took out of the policy stays out."""
    assert at.run("init", "--yes").code == 0
    file = at.root / ".mcp.json"
    file.write_text(file.read_text().replace('"add_item"', '"add_item", "list_new", "add_new"'))
    inv = client_of(at, clients, "inv")
    inv.tools()
    assert "`adjourn init` proposes a rule" in json.dumps(inv.call("list_new"))
    inv.close()
    [finding] = [each for each in at.run("doctor", "--json").json["findings"] if each["code"] == "tools-without-rules"]
    assert "server inv lists 2 tools that no rule names: add_new, list_new" in finding["message"]
    done = at.run("init", "--yes")
    assert "inv (python listing.py): 2 new tools (1 read, 1 write)" in done.out
    policy = at.root / ".aex" / "policy.aex"
    text = policy.read_text()
    assert "\nallow inv.list_new\n" in text
    assert "\nconfirm before inv.add_new\n" in text
    policy.write_text(text.replace("allow inv.list_new\n", "").replace("allow inv.list_items\n", ""))
    assert at.run("init", "--yes").first.startswith("nothing to change")


def test_init_has_the_store_know_what_new_servers_list(at: Home) -> None:
    """Where a session has run, a rule that names no tool of a server is found right after `init` has started it."""
    assert at.run("init", "--yes").code == 0
    assert at.run("doctor", "--yes").code == 0  # its proxies open the store
    listed = json.loads((at.root / ".mcp.json").read_text())
    listed["mcpServers"]["new"] = {
        "command": sys.executable, "args": ["-I", "-S", LISTING, str(at.root.parent / "called"), "list_words"],
    }  # fmt: skip
    at.write(".mcp.json", json.dumps(listed))
    assert at.run("init", "--yes").code == 0
    policy = at.root / ".aex" / "policy.aex"
    policy.write_text(policy.read_text() + "\nallow new.list_wrods\n")
    assert "did you mean new.list_words?" in at.run("check", ".aex/policy.aex").out


def test_no_argument_of_a_server_stands_in_the_policy(at: Home) -> None:
    """A policy is committed, and a server's words may hold a secret: the program and what it runs are named, nothing else."""
    at.write(
        ".mcp.json", '{"mcpServers": {"s": {"command": "/no/bin/run", "args": ["-y", "@a/server", "--key", "hush"]}}}'
    )
    assert at.run("init", "--yes").code == 0
    text = (at.root / ".aex" / "policy.aex").read_text()
    assert "# --- Server s: run server ---" in text
    assert "hush" not in text


def test_init_policy_writes_the_same_policy(at: Home) -> None:
    """`--policy` changes no settings of clients; its policy names the servers' tools, too."""
    before = at.files()
    assert at.run("init", "--policy", "--yes").out.startswith("written: .aex/policy.aex\n")
    policy = at.root / ".aex" / "policy.aex"
    text = policy.read_text()
    policy.unlink()
    assert at.files() == before
    assert at.run("init", "--yes").code == 0
    assert policy.read_text() == text
