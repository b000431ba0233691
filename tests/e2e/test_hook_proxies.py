"""What a hook leaves to a proxy: tools that a living proxy of the same client has listed, and nothing by its name alone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.clients.served_tools import PROXY
from adjourn.host.process import current
from support.hooks import HOOK, HookWorkspace
from support.proxy import Client

SEVERAL = ("--proxied", "adjourn,files")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[HookWorkspace]:
    with HookWorkspace(tmp_path, "use echo, file.read", "budget calls=9") as work:
        yield work


def listed(work: HookWorkspace, *, foreign: bool = False) -> Client:
    """A client whose proxy has listed its tools."""
    client = work.client(foreign=foreign)
    assert "echo" in client.tools()
    return client


def test_a_tool_that_no_proxy_lists_is_gated(work: HookWorkspace) -> None:
    """Whatever its server is called, and though a proxy of the client lives: a repository chooses names."""
    listed(work)
    for name in ("mcp__adjourn__shell_exec", "mcp__adjourn__unknown", "mcp__adjourn__aex_destroy"):
        assert work.ask(name, {"command": "make"}).decision == "deny", name


def test_a_listed_tool_is_left_to_its_proxy_and_counted_once(work: HookWorkspace) -> None:
    """The hook says nothing of it; of the proxy's own tools it says that nobody needs to be asked."""
    client = listed(work)
    for number in range(3):
        assert work.ask("mcp__adjourn__echo", {"a": number}).decision == ""
        client.call("echo", {"a": number})
    assert work.ledger().calls_used == 3
    assert work.ask("mcp__adjourn__aex_resume", {"name": "x"}).decision == "allow"
    assert work.ask("mcp__files__aex_resume", {"name": "x"}, *SEVERAL).decision == "allow"


def test_nothing_is_left_to_a_proxy_that_is_gone(work: HookWorkspace) -> None:
    """Killed or ended: what it wrote down counts for nothing any more."""
    for kill in (True, False):
        client = listed(work)
        assert work.ask("mcp__adjourn__echo", {"a": 1}).decision == ""
        if kill:
            client.process.send_signal(signal.SIGKILL)
            client.process.wait()
        else:
            client.close()
        assert work.ask("mcp__adjourn__echo", {"a": 1}).decision == "deny"
        assert work.ask("mcp__adjourn__aex_resume", {"name": "x"}).decision == "deny"


def test_a_reading_call_whose_proxy_was_killed_just_before_is_never_in_doubt(tmp_path: Path) -> None:
    """The hook decides on it, as it does on one of a server that is not behind a proxy, which has effects for all it knows."""
    with HookWorkspace(tmp_path, "use recording.file.read") as work:
        client = work.client("--name", "recording")
        assert "file.read" in client.tools()
        client.process.kill()
        client.process.wait()
        for options, effects in ((("--proxied", "recording"), 0), ((), 1)):
            asked = work.ask("mcp__recording__file_read", {}, "--settle", *options, tool_use_id=f"toolu_{effects}")
            assert asked.decision == "allow", asked.reason
            assert sum(data.effectful for data in work.facts("tool.allowed")) == effects


def test_nothing_is_left_to_the_proxy_of_another_client(work: HookWorkspace) -> None:
    """A proxy that another process started is not this client's."""
    listed(work, foreign=True)
    assert work.ask("mcp__adjourn__echo", {"a": 1}).decision == "deny"


def test_nothing_is_left_to_a_server_that_is_not_named(work: HookWorkspace) -> None:
    """Also where its tool has the name of one that a proxy lists."""
    listed(work)
    assert work.ask("mcp__other__echo", {"a": 1}).decision == "deny"
    assert work.ask("mcp__adjourn__echo", {"a": 1}, "--proxied", "files").decision == "deny"


def test_nothing_is_left_to_what_an_agent_wrote_down(work: HookWorkspace) -> None:
    """A registration without the user's seal, or one that is moved to another process, is none."""
    client = listed(work)
    with work.store() as store:
        ((name, value),) = store.refs(PROXY).items()
        client.kill()
        client.process.wait()
        here = current()
        forged = name.rpartition(f"/{client.process.pid}/")[0] + f"/{here.pid}/{here.started}"
        for text in (value, json.dumps(["echo"]), f"{'0' * 64}:{json.dumps(['echo'])}", ""):
            store.swap(forged, text, expect=store.ref(forged))
            assert work.ask("mcp__adjourn__echo", {"a": 1}).decision == "deny"


def test_names_are_compared_as_the_client_spells_them(work: HookWorkspace) -> None:
    """A client writes `_` for a dot."""
    assert "adjourn.note" in listed(work).tools()
    assert work.ask("mcp__adjourn__adjourn_note").decision == "allow"


def test_registrations_of_dead_proxies_are_removed(work: HookWorkspace) -> None:
    """By the next proxy; one that ends in peace takes its own away."""
    for _ in range(3):
        listed(work).kill()
    last = listed(work)
    with work.store() as store:
        (name,) = store.refs(PROXY)
        assert f"/{last.process.pid}/" in name
        assert str(os.getpid()) in name
    last.close()
    with work.store() as store:
        assert store.refs(PROXY) == {}


BEHIND_SHELL = ["sh", "-c", '"$@"; exit $?', "sh", *HOOK]
"""A client's shell, which stays while the hook runs."""


@pytest.mark.parametrize("client", ["claude-code", "gemini"])
@pytest.mark.parametrize("is_hook_first", [True, False], ids=["hook-first", "proxy-first"])
def test_unfinished_work_is_shown_once_whoever_comes_first(
    client: str, is_hook_first: bool, work: HookWorkspace
) -> None:
    """The hook of a session's start and the greeting of a proxy could both show it; where the client's shell runs the hook, too."""
    left = work.client(foreign=True)
    left.call("echo", {"a": 1})
    left.kill()
    event = {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": str(work.root), "source": "startup"}
    options = ("--client", client, *SEVERAL)

    def told_by_hook() -> str:
        pid = {"CLAUDE_PID": str(os.getpid())} if client == "claude-code" else {}
        return work.answer_to(json.dumps(event).encode(), *options, command=BEHIND_SHELL, env=pid).out

    def told_by_proxy() -> str:
        return str(work.client().greeting["result"].get("instructions", ""))

    sources = [told_by_hook, told_by_proxy] if is_hook_first else [told_by_proxy, told_by_hook]
    first, second = (source().lower() for source in sources)
    assert "unfinished work in this workspace" in first
    assert "unfinished work in this workspace" not in second
