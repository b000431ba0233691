"""Names with servers at the proxy: rules of the form SERVER.TOOL take effect, and so does the short form."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.in_process import ERAS, ProxyWorkspace, adjourn, wait_for


def refused(answer: dict[str, object]) -> str:
    """The text of a refusal; "" for an answer of the server."""
    result = answer["result"]
    assert isinstance(result, dict)
    return str(result["content"][0]["text"]) if result.get("isError") else ""


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("options", [("--name", "inv"), ()], ids=["named", "by itself"])
def test_rules_name_the_tools_of_a_server(tmp_path: Path, era: str, options: tuple[str, ...]) -> None:
    """Allows, refusals and questions by SERVER.TOOL take effect at the proxy, by the name that it was given, else the server's own."""
    name = "inv" if options else "echo"
    rules = (f"use {name}.echo, file.read, {name}.send", "deny file.write", f"confirm before {name}.send")
    with ProxyWorkspace(tmp_path, *rules, f"deny {name}.network.*") as workspace:
        client = workspace.client(*options, "--confirm-timeout", "0", era=era)
        assert refused(client.call("echo")) == ""
        assert refused(client.call("file.read", {"path": "a"})) == ""
        assert "not in the allow list" in refused(client.call("secrets.read"))
        assert f"denied by policy: deny {name}.network.*" in refused(client.call("network.fetch"))
        assert "confirm" in refused(client.call("send", {"to": "a"}))
        assert {"echo", "file.read", "send"} <= set(client.tools())
        assert "secrets.read" not in client.tools()
        assert workspace.executed() == ["echo", "file.read"]


def test_two_servers_with_one_tool_name_are_told_apart(tmp_path: Path) -> None:
    """Two proxies of one client work on one task: its policy, limits, doubts and history tell their tools of one name apart."""
    rules = ("use inv.*, notes.echo, notes.slow, file.read", "deny inv.big", "limit notes.echo 1 per hour")
    with ProxyWorkspace(tmp_path, *rules, version="v1") as workspace:
        name_notes = ("--name", "notes", "--confirm-timeout", "0")
        notes = workspace.client(*name_notes, server=("--page", "4"))
        before = set(notes.tools())
        inv = workspace.client("--name", "inv", "--confirm-timeout", "0")
        assert {"echo", "big", "file.read"} & set(inv.tools()) == {"echo", "file.read"}
        assert {"echo", "big", "file.read"} & before == {"echo", "file.read"}

        assert refused(notes.call("echo")) == ""
        assert "called too often" in refused(notes.call("echo"))
        assert [refused(inv.call("echo")), refused(inv.call("echo"))] == ["", ""]
        assert {"echo", "file.read"} & set(notes.tools()) == {"echo"}  # now that inv is known to have a file.read
        told = refused(notes.call("file.read", {"path": "a"}))
        assert "allow file.read (.aex/policy.aex:3) may mean the tool of another server" in told
        assert refused(inv.call("file.read", {"path": "a"})) == ""

        notes.begin("slow", {"seconds": 1})
        wait_for(lambda: workspace.executed().count("slow") == 1)
        notes.kill()
        again = workspace.client(*name_notes, server=("--page", "4"))
        assert "in doubt" in refused(again.call("slow", {"seconds": 1}))
        assert refused(inv.call("slow", {"seconds": 1})) == ""

        ledger = workspace.ledger()
        assert ledger.tools == {"notes.echo": 1, "inv.echo": 2, "inv.file.read": 1, "notes.slow": 1, "inv.slow": 1}
        assert [(one.server, one.tool) for one in ledger.doubts.values()] == [("notes", "slow")]
        assert "notes.slow" in adjourn(workspace, "status").out
        assert "notes.slow" in adjourn(workspace, "inbox").out
        assert "inv.echo" in adjourn(workspace, "log").out


def test_a_server_cannot_take_the_name_that_another_one_was_given(tmp_path: Path) -> None:
    """A server that calls itself by the name that a person gave to another one gains no rule of that name."""
    with ProxyWorkspace(tmp_path, "use echo.*") as workspace:
        given = workspace.client("--name", "echo")
        assert "echo" in given.tools()
        other = workspace.client(server=("--page", "4"))
        assert "not in the allow list" in refused(other.call("slow"))
        assert "server.name" in other.stderr()
        assert refused(given.call("slow", {"seconds": 0})) == ""


def test_a_server_that_was_named_once_is_one_server(tmp_path: Path) -> None:
    """A server that a person started with --name once has that name without it too, in whatever order; so its rules and history agree."""
    with ProxyWorkspace(tmp_path, "use slow, inv.echo") as workspace:
        unnamed = workspace.client()
        assert refused(unnamed.call("slow", {"seconds": 0})) == ""
        unnamed.kill()
        named = workspace.client("--name", "inv")
        assert refused(named.call("slow", {"seconds": 0, "by": "named"})) == ""
        assert "slow" in named.tools()
        named.kill()
        again = workspace.client()
        assert {"slow", "echo"} <= set(again.tools())
        for tool in ("slow", "echo"):
            assert refused(again.call(tool, {"seconds": 0, "by": "again"})) == ""
        again.kill()
        assert workspace.ledger().tools == {"echo.slow": 1, "inv.slow": 2, "inv.echo": 1}
        both = workspace.client("--name", "stock")
        assert refused(both.call("slow", {"seconds": 0, "by": "both"})) == "", (
            "another name of the same command is no other server"
        )
        assert "may mean" not in adjourn(workspace, "check").out


def test_a_server_that_was_faster_loses_the_name_of_another(tmp_path: Path) -> None:
    """A server that calls itself as one that a person named later keeps no allow by that name, and evades no refusal by it."""
    with ProxyWorkspace(tmp_path, "use echo.*, ping", "deny echo.big") as workspace:
        other = workspace.client(server=("--page", "4"))
        assert refused(other.call("slow", {"seconds": 0})) == ""
        given = workspace.client("--name", "echo")
        assert "echo" in given.tools()
        other.tools()
        assert "not in the allow list" in refused(other.call("slow", {"seconds": 0}))
        assert "denied by policy: deny echo.big" in refused(other.call("big"))
        assert refused(given.call("slow", {"seconds": 0})) == ""


def test_the_first_server_keeps_the_name_that_two_give_themselves(tmp_path: Path) -> None:
    """Where no person named either of two servers, the one that listed its tools first has the name, also in a later session."""
    with ProxyWorkspace(tmp_path, "use echo.*") as workspace:
        first = workspace.client()
        assert "echo" in first.tools()
        first.kill()
        other = workspace.client(server=("--page", "4"))
        other.tools()
        assert "not in the allow list" in refused(other.call("slow", {"seconds": 0}))
        assert refused(workspace.client().call("slow", {"seconds": 0})) == ""


def test_a_rule_that_names_no_tool_is_said_once_the_server_has_listed_its_tools(tmp_path: Path) -> None:
    """Typing errors are said on the proxy's stderr, and by check, effective and doctor; nothing is, before a list was seen."""
    with ProxyWorkspace(tmp_path, "use inv.ehco, file.read, later.*", "deny inv.file.wirte") as workspace:
        assert "AEX170" not in adjourn(workspace, "check", ".aex/policy.aex").out
        client = workspace.client("--name", "inv")
        assert "AEX170" not in client.stderr()
        client.tools()
        told = [line for line in client.stderr().splitlines() if "AEX17" in line]
        assert [line.partition("(did you mean ")[2] for line in told] == ["inv.echo?)", "inv.file.write?)"]
        client.tools()
        assert client.stderr().count("AEX170") == 2
        for words in (("check", ".aex/policy.aex"), ("effective",), ("doctor",)):
            done = adjourn(workspace, *words)
            assert (done.out + done.err).count("AEX170") == 2, words
            assert "did you mean inv.file.write?" in done.out + done.err
        (workspace.root / "aex.policy.json").write_text('{"allow": ["inv.ehco"], "deny": []}')
        assert "did you mean inv.echo?" in adjourn(workspace, "check", "aex.policy.json").out


def test_the_explanation_knows_the_state_of_the_task(tmp_path: Path) -> None:
    """`effective --explain` answers as the proxy would: no once the budget is spent, and a question for a call in doubt."""
    with ProxyWorkspace(tmp_path, "use inv.*", "budget calls=2") as workspace:
        client = workspace.client("--name", "inv")
        assert "echo" in client.tools()
        explain = ("effective", "--explain", "inv.slow", "--args", '{"seconds": 60}')
        assert adjourn(workspace, *explain).first == "yes: inv.slow may be called"
        client.begin("slow", {"seconds": 60})
        wait_for(lambda: workspace.executed() == ["slow"])
        client.kill()
        client = workspace.client("--name", "inv")
        assert refused(client.call("echo")) == ""
        spent = adjourn(workspace, *explain)
        assert (spent.code, "would be refused: Call budget exhausted: 2 of 2" in spent.first) == (3, True)
        workspace.write_policy("use inv.*", "budget calls=3")
        assert adjourn(workspace, *explain).first.startswith(
            "ask: inv.slow may be called once a person approves it: it repeats call"
        )
