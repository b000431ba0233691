"""Servers that speak HTTP+SSE, the transport before Streamable HTTP: behind the gateway, at both its addresses, and behind the proxy."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters, types

from support import tools
from support.gateway import GatewayWorkspace, free_port, text_of, wait_for_port
from support.in_process_gateway import InProcessGateway
from support.in_process_servers import InProcessServers
from support.missing import is_missing
from support.servers import Servers

Mode = Literal["auto", "legacy"]
PATIENCE = 180
RULES = ("allow old.*, up.*", "budget calls=100000")
ADDRESSES = {"/old/mcp": "", "/mcp": "old."}
"""Where the old server is reached, and what its tools' names begin with there."""


def ways(work: GatewayWorkspace, servers: Servers) -> dict[str, Any]:
    """What a client may connect to, to reach the server `old`."""
    command = ["-m", "adjourn", "proxy", "--name", "old", "--url", servers.url("old")]
    proxy = StdioServerParameters(command=sys.executable, args=command, cwd=str(work.root), env=work.environment)
    return {address: work.url(address) for address in ADDRESSES} | {"proxy": proxy}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with InProcessServers(tmp_path).http("old", "sse") as found:
        yield found


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Servers]:
    """The same server as a process, which can be killed in the middle of a call."""
    with Servers(tmp_path).http("old", "sse") as found:
        yield found


@pytest.fixture
def work(tmp_path: Path, servers: Servers) -> Iterator[GatewayWorkspace]:
    """`old` over HTTP+SSE, `up` over pipes."""
    with InProcessGateway(tmp_path, *RULES, over="stdio", settings=servers.toml) as workspace:
        yield workspace


@pytest.fixture
def before_process(tmp_path: Path, processes: Servers) -> Iterator[GatewayWorkspace]:
    """The gateway before that process."""
    with InProcessGateway(tmp_path, *RULES, over="stdio", settings=processes.toml) as workspace:
        yield workspace


def run(connect: Any, session: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    async def whole() -> None:
        async with Client(connect, **options) as client:
            await session(client)

    asyncio.run(asyncio.wait_for(whole(), PATIENCE))


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")  # of the server, which asks as old ones do
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_old_server_is_governed_like_any_other(work: GatewayWorkspace, servers: Servers, mode: Mode) -> None:
    """Tools, progress, an effect, a refusal, a question to the client's model, a resource; the history has it all."""

    async def sampled(_context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        content: Any = params.messages[0].content
        text = types.TextContent(text=f"re: {content.text}")
        return types.CreateMessageResult(role="assistant", content=text, model="m")

    for way, connect in ways(work, servers).items():
        prefix, heard = ADDRESSES.get(way, ""), list[str]()

        async def session(client: Client, prefix: str = prefix, heard: list[str] = heard) -> None:
            async def progress(progress: float, total: float | None, message: str | None) -> None:
                heard.append(f"{progress} {total} {message}")

            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {f"{prefix}echo", f"{prefix}write"} <= set(names)
            calls = (
                client.call_tool(f"{prefix}echo", {"text": f"ü{number}"}, progress_callback=progress)
                for number in range(5)
            )
            assert [text_of(one) for one in await asyncio.gather(*calls)] == [f"ü{n}" for n in range(5)]
            assert text_of(await client.call_tool(f"{prefix}write", {"text": mode})) == "written"
            assert text_of(await client.call_tool(f"{prefix}think", {})) == "re: Who is old?"
            read: Any = (await client.read_resource("old://pages/1")).contents[0]
            assert read.text == "1 of old"

        run(connect, session, mode=mode, sampling_callback=sampled)
        assert heard == ["1.0 2.0 half"] * 5, way
    assert work.called() == [mode] * 3
    tasks = json.loads(work.adjourn("tasks", "--json"))["tasks"]
    assert sum(task["callsUsed"] for task in tasks) == 3 * 7
    assert work.adjourn("verify").startswith("valid")


def test_a_question_and_a_cancellation_pass(work: GatewayWorkspace, servers: Servers) -> None:
    """What the server asks a person is answered; a call that the client cancels is cancelled at the server."""

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        assert params.message == "Which colour?"
        return types.ElicitResult(action="accept", content={"colour": "blue"})

    for way, connect in ways(work, servers).items():
        prefix = ADDRESSES.get(way, "")

        async def session(client: Client, prefix: str = prefix, way: str = way) -> None:
            assert "blue" in text_of(await client.call_tool(f"{prefix}ask", {}))
            call = client.call_tool(f"{prefix}pause", {"text": way, "seconds": 60})
            going = asyncio.ensure_future(call)
            await asyncio.to_thread(work.wait_for_call, way)
            going.cancel()
            await asyncio.to_thread(work.wait_for_call, f"{way} cancelled")
            assert text_of(await client.call_tool(f"{prefix}echo", {"text": "still"})) == "still"

        run(connect, session, mode="legacy", elicitation_callback=answer)


@pytest.mark.parametrize("way", [*ADDRESSES, "proxy"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_killed_server_leaves_its_call_in_doubt(
    before_process: GatewayWorkspace, processes: Servers, way: str, mode: Mode
) -> None:
    """The call gets an error at once, and is in doubt; the same client's next call begins a session with the server's successor."""
    prefix = ADDRESSES.get(way, "")

    async def session(client: Client) -> None:
        assert text_of(await client.call_tool(f"{prefix}write", {"text": "one"})) == "written"
        going = asyncio.ensure_future(client.call_tool(f"{prefix}pause", {"text": "pause", "seconds": 60}))
        await asyncio.to_thread(before_process.wait_for_call, "pause")
        processes.kill("old")
        with pytest.raises(Exception, match="whether the call had an effect is not known"):
            await going
        with pytest.raises(Exception, match=r"cannot connect|cannot be reached"):
            await client.call_tool(f"{prefix}write", {"text": "two"})
        await asyncio.to_thread(processes.start, "old")
        while True:
            try:
                answer = await client.call_tool(f"{prefix}write", {"text": "three"})
            except Exception as error:  # at the one address a server that failed is left alone for a moment
                assert "cannot connect" in str(error) or "cannot be reached" in str(error)  # noqa: PT017
                continue
            assert text_of(answer) == "written"
            return

    run(ways(before_process, processes)[way], session, mode=mode)
    assert before_process.called() == ["one", "pause", "three"]
    (doubt,) = json.loads(before_process.adjourn("inbox", "--json"))["waiting"]
    assert (doubt["kind"], doubt["title"]) == ("in-doubt", "old.pause"), doubt
    assert before_process.adjourn("verify").startswith("valid")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_server_of_that_transport_is_reached(tmp_path: Path, mode: Mode) -> None:
    """A server of the TypeScript SDK, which knows the handshake revisions only: a client of either era calls it at both addresses."""
    program = tools.npm_program("@modelcontextprotocol/server-everything")
    if program is None:
        is_missing("server-everything is not installed: run `python tests/support/tools.py`")
    port = free_port()
    settings = f'[servers.old]\nurl = "http://127.0.0.1:{port}/sse"\n'
    server = subprocess.Popen(
        [*program, "sse"], env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for_port(port)
        with InProcessGateway(tmp_path, "allow old.*", over="stdio", settings=settings) as work:
            for address, prefix in ADDRESSES.items():

                async def session(client: Client, prefix: str = prefix) -> None:
                    assert text_of(await client.call_tool(f"{prefix}echo", {"message": "hi"})) == "Echo: hi"

                run(work.url(address), session, mode=mode)
    finally:
        server.kill()
        server.wait()


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")  # the newest revision lacks it
@pytest.mark.parametrize(("mode", "is_early"), [("auto", False), ("auto", True), ("legacy", False)])
def test_a_subscription_survives_its_server(
    work: GatewayWorkspace, servers: Servers, mode: Mode, *, is_early: bool
) -> None:
    """At the address of all, a client that only listens hears of a resource once the server is back, without a request of its own.

    Early: the stateless client subscribes while the server is away. In the handshake revisions that request is refused.
    """
    uri, heard = "old://pages/1", list[str]()

    async def noted(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    async def touched() -> None:
        """Have another client touch the resource until the first one has heard of it."""
        heard.clear()
        async with Client(work.url("/old/mcp"), mode="legacy") as other:
            while not heard:
                await other.call_tool("touch", {"uri": uri})

    async def session(client: Client) -> None:
        if is_early:
            servers.kill("old")
            with pytest.raises(Exception, match=r"cannot be reached|event stream"):
                await client.call_tool("old.echo", {"text": "x"})
        async with AsyncExitStack() as stack:
            if mode == "legacy":
                await client.subscribe_resource(uri)
            else:
                await stack.enter_async_context(client.listen(resource_subscriptions=[uri]))
            if not is_early:
                await touched()
                servers.kill("old")
            await asyncio.to_thread(servers.start, "old")
            await touched()

    run(work.url("/mcp"), session, mode=mode, message_handler=noted)
