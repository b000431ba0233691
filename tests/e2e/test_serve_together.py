"""`adjourn serve` with several servers at one address: what clients see of them together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, types

from support.gateway import GatewayWorkspace, text_of
from support.in_process_gateway import InProcessGateway
from support.in_process_servers import InProcessServers
from support.proxy import wait_for

Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    """`up` over HTTP, `git-like` over pipes, both in both eras; `gone` that nobody can reach."""
    path = tmp_path_factory.mktemp("together")
    rules = ("allow up.echo, up.write, up.ask", "allow git_like.*", "deny git_like.slow")
    with InProcessServers(path).pipe("git-like") as servers:
        more = servers.toml + '[servers.gone]\nurl = "http://127.0.0.1:9/mcp"\n'
        with InProcessGateway(path, *rules, settings=more) as workspace:
            yield workspace


@pytest.mark.parametrize("mode", MODES)
def test_all_servers_are_one(work: GatewayWorkspace, mode: Mode) -> None:
    """Tools and prompts of all servers are there as SERVER.NAME, meta-tools once; each call reaches its server, progress its client."""
    heard: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        assert (progress, total) == (1, 2)
        heard.append(message or "")

    async def session(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert [name for name in names if name.endswith("echo")] == ["git_like.echo", "up.echo"]
        assert (names.count("aex.checkpoint"), "git_like.slow" in names) == (1, False)
        assert [one.name for one in (await client.list_prompts()).prompts] == ["git_like.greet", "up.greet"]
        for server in ("up", "git_like"):
            echo = await client.call_tool(f"{server}.echo", {"text": server}, progress_callback=progress)
            assert text_of(echo) == server
            prompt = await client.get_prompt(f"{server}.greet", {"name": server})
            content: Any = prompt.messages[0].content
            assert content.text == f"Say hello to {server}."
        assert text_of(await client.call_tool("git_like.write", {"text": f"by {mode}"})) == "written"
        refused = await client.call_tool("git_like.slow", {"text": "x"})
        assert (refused.is_error, "git_like.slow" in text_of(refused)) == (True, True)
        (resource,) = (await client.list_resources()).resources  # both list it: the first is named
        read: Any = (await client.read_resource(resource.uri)).contents[0]
        assert read.text == "a note"
        saved = text_of(await client.call_tool("aex.checkpoint", {"name": f"half-{mode}"}))
        assert json.loads(saved)["path"] == f".aex/checkpoints/half-{mode}/"

    name = types.Implementation(name=f"client-{mode}", version="1")
    work.run(session, path=f"/t/all-{mode}/mcp", mode=mode, client_info=name)
    assert heard == ["half", "half"]
    assert f"by {mode}" in work.called()
    tasks = {one["task"]: one for one in json.loads(work.adjourn("tasks", "--json"))["tasks"]}
    assert tasks[f"all-{mode}"]["callsUsed"] == 3
    assert work.adjourn("verify").startswith("valid")


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_gone_is_named(work: GatewayWorkspace, mode: Mode) -> None:
    """The others are listed; the answers, the instructions and an event say which one is missing, and why."""

    async def session(client: Client) -> None:
        listed = await client.list_tools()
        assert "up.echo" in [tool.name for tool in listed.tools]
        assert "cannot be reached (error " in (listed.meta or {})["dev.adjourn/unavailable"]["gone"]
        assert "Server gone is not available: the server cannot be reached" in (client.instructions or "")

    work.run(session, path="/mcp", mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_what_nobody_has_is_refused(work: GatewayWorkspace, mode: Mode) -> None:
    """A prompt, a resource, a page and a method that no server has get an error that says so."""

    async def session(client: Client) -> None:
        with pytest.raises(Exception, match="no server has a prompt"):
            await client.get_prompt("other.greet", {})
        with pytest.raises(Exception, match="no server lists this resource"):
            await client.read_resource("notes://other")
        with pytest.raises(Exception, match="no such page"):
            await client.list_tools(cursor="x")

    work.run(session, path="/mcp", mode=mode)


def test_each_client_is_asked_its_own(work: GatewayWorkspace) -> None:
    """Questions of two servers with equal ids reach the two clients whose calls they belong to, and the answers the servers."""

    async def one(colour: str, server: str) -> str:
        async def answer(context: Any, params: Any) -> types.ElicitResult:
            assert (context is not None, params.message) == (True, "Which colour?")
            return types.ElicitResult(action="accept", content={"colour": colour})

        async with Client(work.url("/mcp"), mode="legacy", elicitation_callback=answer) as client:
            return text_of(await client.call_tool(f"{server}.ask", {}))

    async def both() -> list[str]:
        asked = [("blue", "up"), ("red", "git_like"), ("green", "up")]
        return await asyncio.gather(*(one(*pair) for pair in asked))

    found = asyncio.run(asyncio.wait_for(both(), 60))
    assert [colour in text for colour, text in zip(("blue", "red", "green"), found, strict=True)] == [True] * 3


def test_a_server_comes_back(tmp_path: Path) -> None:
    """A server that was not there is listed when it is, and its client hears of it; one that restarts is reached again."""
    servers = InProcessServers(tmp_path).http("late", "legacy", started=False)
    with servers, InProcessGateway(tmp_path, "allow *", settings=servers.toml) as work:
        changed = asyncio.Event()

        async def heard(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                changed.set()

        async def session(client: Client) -> None:
            assert "late.echo" not in [tool.name for tool in (await client.list_tools()).tools]
            await asyncio.to_thread(servers.start, "late")
            await asyncio.wait_for(changed.wait(), 20)
            assert "late.echo" in [tool.name for tool in (await client.list_tools()).tools]
            assert text_of(await client.call_tool("late.write", {"text": "once"})) == "written"
            servers.kill("late")
            await asyncio.to_thread(servers.start, "late")
            assert text_of(await client.call_tool("late.write", {"text": "twice"})) == "written"

        work.run(session, path="/mcp", mode="legacy", message_handler=heard)
        assert work.called() == ["once", "twice"]
        wait_for(lambda: work.adjourn("verify").startswith("valid"))
