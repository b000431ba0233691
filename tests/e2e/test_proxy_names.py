"""Names with servers at the proxy: rules of the form SERVER.TOOL take effect, and so does the short form."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.proxy import ERAS, ProxyWorkspace


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


def test_a_name_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    """A server's name needs a letter or a digit: the proxy says so, and starts nothing."""
    with ProxyWorkspace(tmp_path, "use *") as workspace:
        client = workspace.client("--name", "--", greet=False)
        assert client.process.wait(10) == 2
        assert "--name is a server's name" in client.stderr()
        assert workspace.forwarded() == []
