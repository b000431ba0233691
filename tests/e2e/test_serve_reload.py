"""`adjourn serve` reads its settings again at SIGHUP, while it serves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from mcp import Client, types

from adjourn.policy.contract import Contract, reread_policy
from support.gateway import GatewayWorkspace, text_of, with_token
from support.in_process_gateway import InProcessGateway
from support.in_process_servers import InProcessServers
from support.processes import command, processes
from support.proxy import wait_for

SECONDS = 60.0
LASTING = "[limits]\ndrain_seconds = 300\n"
STATELESS = "2026-07-28"
Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")


class Reloading:
    """The settings of a gateway that runs, and what it says of them."""

    def __init__(self, work: GatewayWorkspace) -> None:
        assert work.gateway is not None
        self._gateway = work.gateway
        self._file = work.root / "adjourn.toml"
        self.first = self._file.read_text(encoding="utf-8")
        self._said: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._gateway.stderr is not None
        self._said.extend(iter(self._gateway.stderr.readline, ""))

    def with_(self, text: str, awaited: str) -> None:
        """Have a file read, and wait until the log says something."""
        self._file.write_text(text, encoding="utf-8")
        seen = len(self._said)
        self._gateway.send_signal(signal.SIGHUP)
        end = time.monotonic() + SECONDS
        while not any(awaited in line for line in self._said[seen:]):
            assert time.monotonic() < end, self._said[seen:]
            time.sleep(0.01)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[GatewayWorkspace]:
    with InProcessGateway(tmp_path, "allow *", settings="# settings") as workspace:
        yield workspace


@pytest.fixture
def process(tmp_path: Path) -> Iterator[GatewayWorkspace]:
    with GatewayWorkspace(tmp_path, "allow *", settings="# settings") as workspace:
        yield workspace


def call(work: GatewayWorkspace, number: int, tool: str, **arguments: object) -> httpx.Response:
    return post(work, "/up/mcp", tool, {}, number, **arguments)


def post(
    work: GatewayWorkspace, path: str, tool: str, headers: dict[str, str], number: int = 1, **arguments: object
) -> httpx.Response:
    """A call of the stateless revision."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": f"client-{number % 3}", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    given = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/call", "mcp-name": tool}
    accepts = {"accept": "application/json, text/event-stream"}
    return httpx.post(work.url(path), json=message, headers=accepts | given | headers, timeout=60)


def piped(folder: Path) -> list[int]:
    """The processes of servers that are commands, and write into a folder."""
    written = os.fsencode(folder)
    return [one.pid for one in processes() if (b"0", written) in pairwise(command(one.pid))]


def settled(work: GatewayWorkspace) -> bool:
    """Whether nothing is in doubt, and the history is valid."""
    waiting = json.loads(work.adjourn("inbox", "--json"))["waiting"]
    return waiting == [] and work.adjourn("verify").startswith("valid")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")  # the newest revision lacks the handshake
def test_lists_follow_an_edited_policy(work: GatewayWorkspace, mode: Mode) -> None:
    """The next list of an open session, and the first one of a new client, are by the policy as it is, without a call or a restart."""

    async def names(client: Client) -> set[str]:
        listed = await client.list_tools(cache_mode="bypass")
        return {"echo", "write"} & {tool.name for tool in listed.tools}

    async def session(client: Client) -> None:
        assert await names(client) == {"echo", "write"}
        (work.root / ".aex" / "policy.aex").write_text("policy shop v1\nallow up.echo\n", encoding="utf-8")
        assert await names(client) == {"echo"}
        async with Client(work.url("/up/t/other/mcp"), mode=mode) as other:
            assert await names(other) == {"echo"}

    work.run(session, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["/up/mcp", "/mcp"])
def test_open_sessions_hear_of_an_edited_policy(tmp_path: Path, mode: Mode, path: str) -> None:
    """A client that does nothing hears within a second that its tools changed, once for each edit that changes them; one with errors changes none."""
    servers = InProcessServers(tmp_path).http("more")
    with servers, InProcessGateway(tmp_path, "allow *", settings=servers.toml) as work:
        told: list[float] = []

        async def heard(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                told.append(time.monotonic())

        async def edit(*rules: str) -> float:
            """The seconds until the client hears of it; 2 if it does not."""
            before, count = time.monotonic(), len(told)
            (work.root / ".aex" / "policy.aex").write_text("\n".join(("policy shop v1", *rules, "")), encoding="utf-8")
            await asyncio.sleep(1.3)
            assert len(told) - count <= 1
            return min(told[count:], default=before + 2) - before

        async def run() -> None:
            async with Client(work.url(path), mode=mode, message_handler=heard) as client, AsyncExitStack() as stack:
                if mode == "auto":
                    await stack.enter_async_context(client.listen(tools_list_changed=True))
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert await edit("allow up.echo, more.echo") < 1
                listed = {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}
                assert listed < names
                assert {"echo", "write"} & {name.rpartition(".")[2] for name in listed} == {"echo"}
                assert await edit("allowed nonsense") == 2
                assert await edit("allow *") < 1
                assert {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools} == names

        asyncio.run(asyncio.wait_for(run(), 60))


def test_a_fault_stops_no_later_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit that could not be read, for whatever reason, is named in the log, and the next one is followed."""
    faults = iter([OSError("odd")])

    def reread(root: str, base: Contract) -> Contract:
        for fault in faults:
            raise fault
        return reread_policy(root, base)

    monkeypatch.setattr("adjourn.gateway.contexts.reread_policy", reread)
    with InProcessGateway(tmp_path, "allow *") as work:
        policy = work.root / ".aex" / "policy.aex"
        heard = asyncio.Event()

        async def hear(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                heard.set()

        async def run() -> None:
            async with Client(work.url("/up/mcp"), mode="legacy", message_handler=hear) as client:
                await client.list_tools()
                policy.write_text("policy shop v1\nallow up.write\n", encoding="utf-8")
                await asyncio.sleep(1)
                assert not heard.is_set()
                policy.write_text("policy shop v1\nallow up.echo\n", encoding="utf-8")
                await heard.wait()

        asyncio.run(asyncio.wait_for(run(), 60))


def test_limits_change_and_no_call_is_dropped(process: GatewayWorkspace, tmp_path: Path) -> None:
    """Calls in flight finish, new limits hold; a broken file changes nothing and is named, as is what needs a restart."""
    gateway, reload = process.gateway, Reloading(process)
    assert gateway is not None

    def large(number: int) -> int:
        return call(process, number, "write", text="x" * 3000).status_code

    limited = reload.first.replace("# settings", "[limits]\nbody_bytes = 2048")
    other = reload.first.replace("# settings", 'hosts = ["other.example"]').replace("listen", "log = 'json'\nlisten")
    with ThreadPoolExecutor(8) as threads:
        paused = threads.submit(call, process, 0, "pause", text="held", seconds=300)
        wait_for(lambda: "held" in process.called())
        writing = [threads.submit(call, process, number, "write", text=str(number)) for number in range(1, 61)]
        reload.with_(limited, "limits changed")
        assert large(100) == 413
        reload.with_("listen = \n", "line 1")
        assert large(101) == 413
        reload.with_(other, "log changed; restart the gateway")
        assert large(102) == 200
        (tmp_path / "go").touch()
        assert [one.result().status_code for one in [paused, *writing]] == [200] * 61
        assert "paused" in paused.result().text
        named = {"host": "other.example"}
        assert httpx.post(process.url(), json={}, headers=named).status_code != 421
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(30) == 0
    assert sorted(process.called()) == sorted(["held", "x" * 3000, *map(str, range(1, 61))])
    assert process.adjourn("verify").startswith("valid")


@pytest.mark.parametrize("mode", MODES)
def test_servers_and_who_may_ask_change_under_a_call(tmp_path: Path, mode: Mode) -> None:
    """A call that takes seconds gets its answer while its server is taken away and its key is refused; the server ends, what is new is there."""
    keys, proxy = ("[auth]\nkeys = true", '[auth.proxy]\ntrusted = ["127.0.0.1"]\nheader = "x-client"\n' + LASTING)
    with (
        InProcessServers(tmp_path).http("more") as servers,
        InProcessGateway(tmp_path, "allow *", over="stdio", settings=keys) as work,
    ):
        reload, key = Reloading(work), work.key("ann")
        bearer, named = {"authorization": f"Bearer {key}"}, {"x-client": "bob"}

        def change() -> None:
            work.wait_for_call("held")
            assert piped(tmp_path)
            both = reload.first + servers.toml
            reload.with_(both, "server more added")
            assert "written" in post(work, "/more/mcp", "write", bearer, text="new").text
            assert "written" in post(work, "/up/mcp", "write", bearer, text="old").text
            only = f'listen = "127.0.0.1:{work.port}"\n{proxy}\n{servers.toml}'
            reload.with_(only, "server up removed, auth changed")
            assert post(work, "/more/mcp", "write", bearer, text="refused").status_code == 401
            assert "written" in post(work, "/more/mcp", "write", named, text="named").text
            gone = post(work, "/up/mcp", "write", named, text="gone")
            assert (gone.status_code, gone.text) == (404, "no server is here. Use /more/mcp.")

        async def session() -> str:
            async with Client(with_token(work.url(), key), mode=mode) as client:
                await client.list_tools()  # the SDK checks answers against the list
                held = asyncio.ensure_future(client.call_tool("pause", {"text": "held", "seconds": 300}))
                await asyncio.to_thread(change)
                assert not held.done()
                (tmp_path / "go").touch()
                return text_of(await held)

        assert asyncio.run(asyncio.wait_for(session(), 90)) == "paused"
        wait_for(lambda: not piped(tmp_path), SECONDS)
        assert work.called() == ["held", "new", "old", "named"]
        assert work.stop() == 0
        assert settled(work)


def test_a_server_with_other_settings_is_another_one(work: GatewayWorkspace, tmp_path: Path) -> None:
    """A call in flight is answered by the server that it was for, the next one goes to the new one, and sessions begin again there."""
    reload = Reloading(work)
    with InProcessServers(tmp_path).http("up", "legacy") as servers:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        session = {"mcp-session-id": work.post(begin).headers["mcp-session-id"]}
        with ThreadPoolExecutor(1) as threads:
            paused = threads.submit(call, work, 0, "pause", text="held", seconds=300)
            work.wait_for_call("held")
            old = f'url = "http://127.0.0.1:{work.server_port}/mcp"'
            new = servers.toml.splitlines()[1]
            reload.with_(reload.first.replace("# settings", LASTING).replace(old, new), "server up changed")
            late = work.post({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, **session)
            assert (late.status_code, "no such session" in late.text) == (404, True)
            assert work.post(begin).status_code == 200
            (tmp_path / "go").touch()
            assert "paused" in paused.result().text
        work.stop_server()
        assert "result" in work.post(begin).text
    assert work.stop() == 0
    assert settled(work)


@pytest.mark.parametrize("mode", MODES)
def test_clients_of_all_servers_hear_of_others(tmp_path: Path, mode: Mode) -> None:
    """A session with all servers hears of a new one, lists and calls its tools; a call that is open at a server that is left out is answered."""
    servers = InProcessServers(tmp_path).pipe("more").http("late")
    more, late = servers.toml.split("[servers.late]")
    with servers, InProcessGateway(tmp_path, "allow *", settings=more) as work:
        reload, changed = Reloading(work), asyncio.Event()

        async def heard(message: Any) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                changed.set()

        async def listed(client: Client, *servers: str) -> None:
            """Wait until these servers are listed, and no others: one may take its time to start."""
            echoes, found = [f"{server}.echo" for server in servers], [""]
            while found != echoes:
                tools = (await client.list_tools()).tools
                found = [tool.name for tool in tools if tool.name.endswith(".echo")]
                await asyncio.sleep(0.2)

        async def told() -> None:
            await changed.wait()
            changed.clear()

        async def session(client: Client) -> None:
            await listed(client, "more", "up")
            changed.clear()
            held = asyncio.ensure_future(client.call_tool("more.pause", {"text": "held", "seconds": 300}))
            await asyncio.to_thread(work.wait_for_call, "held")
            both = f"{reload.first}[servers.late]{late}{LASTING}"
            await asyncio.to_thread(reload.with_, both, "server late added")
            await told()
            await listed(client, "more", "up", "late")
            assert text_of(await client.call_tool("late.write", {"text": "late"})) == "written"
            await asyncio.to_thread(reload.with_, both.replace(more, ""), "server more removed")
            await told()
            await listed(client, "up", "late")
            assert not held.done()
            (tmp_path / "go").touch()
            assert text_of(await held) == "paused"
            refused = await asyncio.gather(client.call_tool("more.write", {"text": "no"}), return_exceptions=True)
            assert "no server has a tool named more.write" in str(refused)
            assert text_of(await client.call_tool("up.echo", {"text": "still"})) == "still"

        async def run() -> None:
            async with Client(work.url("/mcp"), mode=mode, message_handler=heard) as client, AsyncExitStack() as stack:
                if mode == "auto":
                    await stack.enter_async_context(client.listen(tools_list_changed=True))
                await session(client)

        asyncio.run(asyncio.wait_for(run(), 240))
        assert work.called() == ["held", "late"]
        assert work.stop() == 0
        assert settled(work)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("bearer_env = 'NO_SUCH_VARIABLE_HERE'", "NO_SUCH_VARIABLE_HERE has no token"),
        ("command = ['true']", "server more needs either a url or a command"),
        ("nothing = 1", "unknown field"),
        ("[auth]", "names no way to authenticate"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(work: GatewayWorkspace, told: str, why: str) -> None:
    """Not even the parts that are right: the server of before is served, the new one is not, and the log says what is wrong."""
    reload = Reloading(work)
    more = f'[servers.more]\nurl = "http://127.0.0.1:9/mcp"\n{told}\n'
    reload.with_(reload.first.replace("[servers.up]", "[servers.other]") + more, why)
    assert post(work, "/more/mcp", "write", {}).status_code == 404
    assert "written" in call(work, 1, "write", text="as before").text
