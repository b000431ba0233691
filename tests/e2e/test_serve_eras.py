"""`adjourn serve`: clients of either protocol era in front of servers that speak one era only, at the one address."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal

import pytest
from mcp import Client, types

from support.gateway import GatewayWorkspace, text_of
from support.in_process_gateway import InProcessGateway
from support.in_process_servers import InProcessServers
from support.proxy import wait_for

Mode = Literal["auto", "legacy"]
SPOKEN = {"auto": "2026-07-28", "legacy": "2025-11-25"}
SERVERS = ("old-pipe", "old-http", "new-pipe", "new-http")
NAMES = tuple(name.replace("-", "_") for name in SERVERS)
PATIENCE = 90

pytestmark = [
    pytest.mark.parametrize("mode", ["auto", "legacy"]),
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),  # the newest revision lacks it
]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    """Servers with a handshake only and without one only, over pipes and over HTTP."""
    path = tmp_path_factory.mktemp("eras")
    rules = ("allow " + ", ".join(f"{name}.*" for name in NAMES),)
    servers = InProcessServers(path).pipe("old-pipe", "legacy").http("old-http", "legacy")
    servers = servers.pipe("new-pipe", "modern").http("new-http", "modern")
    with servers, InProcessGateway(path, *rules, settings=servers.toml) as workspace:
        yield workspace


async def tools_of(client: Client, servers: Sequence[str] = NAMES) -> list[str]:
    """The tools, once all servers have answered: on a loaded machine some of them start slowly."""
    while True:
        names = [tool.name for tool in (await client.list_tools()).tools]
        if all(f"{server}.write" in names for server in servers):
            return names


def run(
    work: GatewayWorkspace, mode: Mode, task: str, session: Callable[[Client], Awaitable[None]], **options: Any
) -> None:
    """Have a client do something on a task of its own, after it has listed the tools."""

    async def whole() -> None:
        async with client_of(work, mode, task, **options) as client:
            assert client.protocol_version == SPOKEN[mode]
            await tools_of(client)
            await session(client)

    asyncio.run(asyncio.wait_for(whole(), PATIENCE))


@asynccontextmanager
async def client_of(work: GatewayWorkspace, mode: Mode, task: str, **options: Any) -> Any:
    name = types.Implementation(name=f"client-{task}", version="1")
    async with Client(work.url(f"/t/{task}/mcp"), mode=mode, client_info=name, **options) as client:
        yield client


def test_a_call_reaches_a_server_of_either_era(work: GatewayWorkspace, mode: Mode) -> None:
    """Each server lists its tools and makes the call once, with progress; the history counts it once, and verifies."""
    heard: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        assert (progress, total) == (1, 2)
        heard.append(message or "")

    async def session(client: Client) -> None:
        for server in NAMES:
            called = await client.call_tool(f"{server}.write", {"text": f"{mode} {server}"})
            assert (called.is_error, text_of(called)) == (False, "written"), server
            echo = await client.call_tool(f"{server}.echo", {"text": server}, progress_callback=progress)
            assert (text_of(echo), heard.pop()) == (server, "half")

    run(work, mode, f"call-{mode}", session)
    assert [one for one in work.called() if one.startswith(f"{mode} ")] == [f"{mode} {one}" for one in NAMES]
    tasks = {one["task"]: one for one in json.loads(work.adjourn("tasks", "--json"))["tasks"]}
    assert tasks[f"call-{mode}"]["callsUsed"] == 2 * len(NAMES)
    assert work.adjourn("verify").startswith("valid")


def test_templates_and_completion_find_their_server(work: GatewayWorkspace, mode: Mode) -> None:
    """All templates are listed; a resource of one is read from its server, which completes the template's and a prompt's arguments."""

    async def session(client: Client) -> None:
        templates = (await client.list_resource_templates()).resource_templates
        uris = [one.uri_template for one in templates]
        assert [uri for uri in uris if not uri.startswith("up:")] == [f"{one}://pages/{{page}}" for one in SERVERS]
        for server, name in zip(SERVERS, NAMES, strict=True):
            read: Any = (await client.read_resource(f"{server}://pages/1")).contents[0]
            assert read.text == f"1 of {server}"
            template = f"{server}://pages/{{page}}"
            completed = await client.complete(
                types.ResourceTemplateReference(uri=template), {"name": "page", "value": "2"}
            )
            assert completed.completion.values == [f"{server} {template} 2"]
            prompt = types.PromptReference(name=f"{name}.greet")
            completed = await client.complete(prompt, {"name": "name", "value": "A"})
            assert completed.completion.values == [f"{server} greet A"]

    run(work, mode, f"templates-{mode}", session)


def test_each_server_logs_at_the_level_of_the_client(work: GatewayWorkspace, mode: Mode) -> None:
    """A client that wants errors gets those of each server that it calls, and nothing below."""
    heard: list[str] = []

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        heard.append(str(params.data))

    async def session(client: Client) -> None:
        if mode == "legacy":
            await client.set_logging_level("error")
        for server in NAMES:
            await client.call_tool(f"{server}.log", {})
        await asyncio.to_thread(wait_for, lambda: len(heard) >= len(SERVERS))

    level = {"log_level": "error"} if mode == "auto" else {}
    run(work, mode, f"log-{mode}", session, logging_callback=logged, **level)
    assert sorted(heard) == sorted(f"{server} error" for server in SERVERS)


def test_a_server_of_either_era_asks_the_clients_model(work: GatewayWorkspace, mode: Mode) -> None:
    """The question of each server reaches the client, and its answer the call."""

    async def sampled(_context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        (message,) = params.messages
        content: Any = message.content
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(text=f"re: {content.text}"), model="m"
        )

    async def session(client: Client) -> None:
        for server, name in zip(SERVERS, NAMES, strict=True):
            said = text_of(await client.call_tool(f"{name}.think", {}))
            assert said == f"re: Who is {server}?"

    run(work, mode, f"think-{mode}", session, sampling_callback=sampled)


def test_a_cancelled_call_is_cancelled_at_its_server(work: GatewayWorkspace, mode: Mode) -> None:
    """The server stops, and only the cancelled call of two ends; it is in doubt, unless its server still answers."""

    async def noted(text: str) -> None:
        await asyncio.to_thread(wait_for, lambda: text in work.called())

    async def session(client: Client) -> None:
        for server in NAMES:
            text = f"{mode} pause {server}"
            call = client.call_tool(f"{server}.pause", {"text": text, "seconds": 60})
            going = asyncio.ensure_future(call)
            other = asyncio.ensure_future(client.call_tool(f"{server}.echo", {"text": "still"}))
            await noted(text)
            going.cancel()
            await noted(f"{text} cancelled")
            assert text_of(await other) == "still"

    run(work, mode, f"cancel-{mode}", session)
    waiting = json.loads(work.adjourn("inbox", "--json"))["waiting"]
    mine = {one["title"]: one["kind"] for one in waiting if one["task"] == f"cancel-{mode}"}
    silent = [name for name in NAMES if name != "old_http"]  # the SDK's answers there
    assert mine | {"old_http.pause": "in-doubt"} == {f"{name}.pause": "in-doubt" for name in ("old_http", *silent)}


def test_only_who_subscribed_hears_of_a_resource(work: GatewayWorkspace, mode: Mode) -> None:
    """Of two clients each hears of the resource that it subscribed to, at servers of either era, and not of the other's."""
    heard: dict[str, list[str]] = {"1": [], "2": []}

    @asynccontextmanager
    async def watching(page: str) -> Any:
        async def noted(message: Any) -> None:  # also of what a subscription hears
            if isinstance(message, types.ResourceUpdatedNotification):
                heard[page].append(str(message.params.uri))

        uris = [f"{server}://pages/{page}" for server in SERVERS]
        task = f"watch-{mode}-{page}"
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(client_of(work, mode, task, message_handler=noted))
            await tools_of(client)
            if mode == "legacy":
                for uri in uris:
                    await client.subscribe_resource(uri)
            else:
                await stack.enter_async_context(client.listen(resource_subscriptions=uris))
            yield client, uris

    async def both() -> None:
        async with watching("1") as (one, ones), watching("2") as (two, twos):
            for client in (one, two):  # each has processes of its own, and shares the servers over HTTP
                for name, *uris in zip(NAMES, ones, twos, strict=True):
                    for uri in uris:
                        await client.call_tool(f"{name}.touch", {"uri": uri})
            await asyncio.to_thread(wait_for, lambda: set(heard["1"]) == set(ones))
            await asyncio.to_thread(wait_for, lambda: set(heard["2"]) == set(twos))

    asyncio.run(asyncio.wait_for(both(), PATIENCE))
    assert not [uri for uri in heard["1"] if uri.endswith("2")]
    assert not [uri for uri in heard["2"] if uri.endswith("1")]
