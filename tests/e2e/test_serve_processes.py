"""The processes of a server that is a command: one for each session up to a limit, or one that all sessions share."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPDeprecationWarning, MCPError

from support.gateway import SERVER, text_of
from support.in_process_gateway import InProcessGateway

BOTH_ERAS = f"""
import os, runpy, sys
with open(os.path.join(sys.argv[2], "started"), "a") as file:
    print(os.getpid(), file=file)
runpy.run_path({str(SERVER)!r}, run_name="__main__")
"""
HANDSHAKE = """
import json, os, sys
with open(os.path.join(sys.argv[2], "started"), "a") as file:
    print(os.getpid(), file=file)


def say(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    with open(os.path.join(sys.argv[2], "read"), "a") as file:
        file.write(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message or method is None:
        continue
    result = {}
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"], "serverInfo": {"name": "raw", "version": "1"},
            "capabilities": {"tools": {"listChanged": True}, "logging": {}, "tasks": {}, "resources": {"subscribe": True}},
        }
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("pid", "die", "tell", "more")]}
    elif method == "tools/call":
        if params["name"] == "die":
            os._exit(1)
        if params["name"] == "tell":
            say(method="notifications/message", params={"level": "info", "data": "secret"})
            say(method="notifications/resources/updated", params={"uri": "notes://secret"})
            say(id="q", method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        if params["name"] == "more":
            say(method="notifications/tools/list_changed")
        result = {"content": [{"type": "text", "text": str(os.getpid())}]}
    say(id=message["id"], result=result)
"""


@contextmanager
def gateway(tmp_path: Path, program: str, *settings: str) -> Iterator[InProcessGateway]:
    """A gateway with the server `up`, which is a program that says who it is in `started`."""
    (tmp_path / "server.py").write_text(program, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "server.py"), "0", str(tmp_path)]
    lines = "\n".join(("[servers.up]", f"command = {json.dumps(command)}", *settings))
    with InProcessGateway(tmp_path, "allow up.*", over="", settings=lines) as work:
        yield work


def started(tmp_path: Path) -> list[str]:
    return (tmp_path / "started").read_text("utf-8").split()


async def said(client: Client, tool: str, **arguments: Any) -> str:
    return text_of(await client.call_tool(tool, arguments))


def test_sessions_of_a_revision_share_one_process(tmp_path: Path) -> None:
    """Of several clients with the same ids and progress tokens, in both eras, each gets its own answers and progress."""

    async def one(work: InProcessGateway, number: int) -> None:
        async def heard(progress: float, total: float | None, message: str | None) -> None:
            assert (total, message) == (2, "half")
            heard_of.append(progress)

        heard_of: list[float] = []
        async with Client(work.url(), mode="auto" if number % 2 else "legacy") as client:
            texts = [f"{number}-{call}" for call in range(8)]
            asked = (client.call_tool("echo", {"text": text}, progress_callback=heard) for text in texts)
            assert [text_of(answer) for answer in await asyncio.gather(*asked)] == texts
        assert heard_of == [1] * 8

    async def all_of_them(work: InProcessGateway) -> None:
        await asyncio.gather(*(one(work, number) for number in range(6)))

    with gateway(tmp_path, BOTH_ERAS, "shared = true") as work:
        asyncio.run(asyncio.wait_for(all_of_them(work), 60))
    assert len(started(tmp_path)) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in started(tmp_path))  # they end with the gateway


def test_nobody_hears_what_a_shared_server_says_to_somebody(tmp_path: Path) -> None:
    """What it logs, updates or asks has no addressee: clients hear nothing of it, and its question is refused. Changed lists are for all."""
    heard: list[str] = []

    async def on_message(message: Any) -> None:
        heard.append(getattr(message, "method", str(message)))

    async def both(work: InProcessGateway) -> None:
        async with (
            Client(work.url(), mode="legacy", message_handler=on_message) as listening,
            Client(work.url(), mode="legacy") as client,
        ):
            capabilities = listening.server_capabilities
            assert capabilities.logging is None
            assert capabilities.resources is not None
            assert not capabilities.resources.subscribe
            refused = pytest.raises(MCPError, match="not available at a server that sessions share")
            with pytest.warns(MCPDeprecationWarning), refused:
                await listening.subscribe_resource("notes://secret")
            await said(client, "tell")
            await said(client, "more")
            await said(listening, "pid")
            await asyncio.sleep(0.2)

    with gateway(tmp_path, HANDSHAKE, "shared = true") as work:
        asyncio.run(asyncio.wait_for(both(work), 30))
    assert set(heard) == {"notifications/tools/list_changed"}
    read = [json.loads(line) for line in (tmp_path / "read").read_text("utf-8").splitlines()]
    (refusal,) = [message for message in read if message.get("id") == "q"]
    assert "error" in refusal
    assert not [message for message in read if message.get("method") == "resources/subscribe"]
    assert [message.get("method") for message in read[:2]] == ["initialize", "notifications/initialized"]
    assert read[0]["params"]["capabilities"] == {}
    assert sum(message.get("method") == "initialize" for message in read) == 1


def test_a_shared_process_that_ended_is_started_by_the_next_call(tmp_path: Path) -> None:
    """The open call may have had an effect; the sessions of all clients continue."""

    async def both(work: InProcessGateway) -> None:
        async with Client(work.url(), mode="legacy") as one, Client(work.url(), mode="legacy") as other:
            first = await said(one, "pid")
            assert await said(other, "pid") == first
            with pytest.raises(MCPError, match="whether the call had an effect is not known"):
                await one.call_tool("die", {})
            second = await said(other, "pid")
            assert second != first
            assert await said(one, "pid") == second

    with gateway(tmp_path, HANDSHAKE, "shared = true") as work:
        asyncio.run(asyncio.wait_for(both(work), 30))


def test_a_server_has_no_more_processes_than_its_limit(tmp_path: Path) -> None:
    """A session beyond it is refused with the reason; once another one has ended there is room."""

    async def sessions(work: InProcessGateway) -> None:
        async with Client(work.url(), mode="legacy") as client:
            await said(client, "pid")
            with pytest.raises(Exception) as refused:  # noqa: PT011  # a group of what its tasks raised
                async with Client(work.url(), mode="legacy"):
                    pass
            assert "the server up has 1 processes" in str(refused.getrepr())
        await asyncio.sleep(0.5)
        async with Client(work.url(), mode="legacy") as client:
            await said(client, "pid")

    with gateway(tmp_path, HANDSHAKE, "processes = 1") as work:
        asyncio.run(asyncio.wait_for(sessions(work), 30))
    assert len(started(tmp_path)) == 2
