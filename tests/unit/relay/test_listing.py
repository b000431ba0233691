"""Several proxies of one client: the meta-tools are listed by one of them, and answered by each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.in_process import META_TOOLS, MODERN, NEW, Client, ProxyWorkspace, wait_for


def _own(client: Client) -> list[str]:
    return [tool for tool in client.tools() if tool in META_TOOLS]


def _is_told(client: Client) -> bool:
    return any(b"notifications/tools/list_changed" in line for line in client.received)


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_the_first_proxy_that_is_asked_lists_the_meta_tools(tmp_path: Path, era: str) -> None:
    """Of two proxies of a client, the one whose list is read first has the meta-tools, each time; the other answers them, too."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first, second = work.client(era=era), work.client(era=era, server=["--page", "4"])
        assert _own(second) == META_TOOLS
        assert _own(first) == []
        assert (_own(second), _own(first)) == (META_TOOLS, [])
        assert first.meta("aex_list_tasks") == {"tasks": []}


def test_each_proxy_lists_them_where_a_person_says_so(tmp_path: Path) -> None:
    """--meta-tools always lists them whatever other proxies do."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        assert _own(work.client()) == META_TOOLS
        assert _own(work.client("--meta-tools", "always")) == META_TOOLS


def test_proxies_of_other_clients_and_of_other_tasks_list_their_own(tmp_path: Path) -> None:
    """A client's meta-tools are of its task: those of another client, or of a proxy bound to another task, are listed, too."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        assert _own(work.client()) == META_TOOLS
        assert _own(work.client(foreign=True)) == META_TOOLS
        assert _own(work.client("--task", "other")) == META_TOOLS
        assert _own(work.client("--task", "other")) == []


@pytest.mark.parametrize("ends", ["orderly", "killed"])
def test_another_proxy_lists_them_once_the_first_has_ended(tmp_path: Path, ends: str) -> None:
    """When the lister ends, the others tell the client to ask again, and the first that is asked lists the meta-tools."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first, second = work.client(), work.client()
        assert (_own(first), _own(second)) == (META_TOOLS, [])
        if ends == "killed":
            first.kill()
        else:
            first.close()
        wait_for(lambda: _is_told(second))
        assert _own(second) == META_TOOLS
        assert _own(work.client()) == []


def test_a_client_of_the_stateless_era_is_told_through_its_subscription(tmp_path: Path) -> None:
    """A subscription that asks for changed tools gets the notification, with its id; one that does not ask gets none."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        first, second = work.client(era=MODERN), work.client(era=MODERN)
        assert (_own(first), _own(second)) == (META_TOOLS, [])
        wanted = second.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        other = second.message("subscriptions/listen", {"notifications": {"promptsListChanged": True}})
        second.post(wanted, other)
        first.kill()
        wait_for(lambda: _is_told(second))
        told = [json.loads(line) for line in second.received if b"list_changed" in line]
        assert [one["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for one in told] == [wanted["id"]]
        assert _own(second) == META_TOOLS


CONTRACT = 'task narrow v0\n\ngoal "Read."\n\nuse echo, aex.*\n\nreturn {\n  status: "done"\n}\n'


@pytest.mark.parametrize("era", [NEW, MODERN])
def test_a_resume_that_changes_what_is_permitted_is_followed_by_a_notification(tmp_path: Path, era: str) -> None:
    """The client is asked to ask again behind the answer, once; a resume under the same permissions tells nothing."""
    with ProxyWorkspace(tmp_path, "allow *") as work:
        (work.root / "narrow.aex").write_text(CONTRACT, encoding="utf-8")
        earlier = work.client("--contract", "narrow.aex", foreign=True)
        earlier.call("echo")
        earlier.meta("aex.checkpoint", name="narrow")
        earlier.close()
        plain = work.client(foreign=True)
        plain.call("echo")
        plain.meta("aex.checkpoint", name="plain")
        plain.close()

        client = work.client(era=era)
        wanted = client.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        if era == MODERN:
            client.post(wanted)
        everything = client.tools()
        assert "file.read" in everything
        client.meta("aex.resume", name="plain")
        client.call("echo")
        assert not _is_told(client)
        resumed = client.call("aex.resume", {"name": "narrow"})
        wait_for(lambda: _is_told(client))
        order = [json.loads(line) for line in client.received[-2:]]
        assert [one.get("id", one.get("method")) for one in order] == [
            resumed["id"],
            "notifications/tools/list_changed",
        ]
        assert "file.read" not in client.tools()
        client.call("echo")
        assert sum(b"list_changed" in line for line in client.received) == 1
