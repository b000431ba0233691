"""Several proxies of one client: the meta-tools are listed by one of them, and answered by each."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.proxy import META_TOOLS, Client, ProxyWorkspace, refused, wait_for


def _own(client: Client) -> list[str]:
    return [tool for tool in client.tools() if tool in META_TOOLS]


def _is_told(client: Client) -> bool:
    return any(b"notifications/tools/list_changed" in line for line in client.received)


@pytest.mark.parametrize("ends", ["orderly", "killed"])
def test_another_proxy_lists_them_once_the_first_has_ended(tmp_path: Path, ends: str) -> None:
    """When the lister ends, the others tell the client to ask again, and the first that is asked lists the meta-tools."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first, second = work.client(), work.client()
        assert (_own(first), _own(second)) == (META_TOOLS, [])
        if ends == "killed":
            first.kill()
        else:
            first.stdin.close()
        wait_for(lambda: _is_told(second))
        assert _own(second) == META_TOOLS
        assert _own(work.client()) == []


def test_the_lister_outlives_its_server_while_others_rely_on_it(tmp_path: Path) -> None:
    """A client that reads a list of tools once keeps the meta-tools when the lister's server ends: the lister stays, and says so of
    calls to the server.
    """
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first, second = work.client(), work.client()
        assert (_own(first), _own(second)) == (META_TOOLS, [])
        answer = first.call("crash")
        assert "the MCP server exited with code 3 (stderr: crashing)" in answer["error"]["message"]
        assert "error" in first.call("echo")
        assert first.meta("aex_list_tasks") == {"tasks": []}
        assert not refused(second.call("echo"))
        assert not _is_told(second)
        first.stdin.close()
        assert first.process.wait(10) == 1


def test_a_lister_alone_ends_with_its_server(tmp_path: Path) -> None:
    """A proxy on which no other relies ends with its server, as the client expects of a server that crashes."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        client = work.client()
        assert _own(client) == META_TOOLS
        assert "error" in client.call("crash")
        assert client.process.wait(10) == 1
