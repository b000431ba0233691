"""The replicas of `deploy/` under load: clients of both protocol eras, while replicas restart and are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from adjourn.store import open_store
from adjourn.tasks import work_index, workspace_calls
from support.balanced import BalancedReplicas
from support.foreign_tasks import fill
from support.proxy import wait_for
from support.recording_server import RecordingServer

SESSIONS, CALLS = 8, 10
OTHERS = 100_000 if os.environ.get("ADJOURN_CAMPAIGN") == "1" else 10_000
AT_ONCE = 40
Mode = Literal["auto", "legacy"]
SPOKEN = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@pytest.fixture
def server() -> Iterator[RecordingServer]:
    with RecordingServer() as recording:
        yield recording
        recording.shutdown()


@pytest.fixture(params=[0, OTHERS], ids=["few", "many"])
def replicas(
    tmp_path: Path, server: RecordingServer, new_postgres_url: Callable[[], str], request: pytest.FixtureRequest
) -> Iterator[BalancedReplicas]:
    """Two replicas on a new store, and on one with the tasks of many others."""
    url = new_postgres_url()
    if request.param:
        with closing(open_store(url)) as store:
            store.swap(work_index.INDEXED, work_index.ALL, expect=None)  # no tasks of an earlier version
            store.swap(workspace_calls.INDEXED, "1", expect=None)
            fill(store, 0, request.param)
    with BalancedReplicas(tmp_path, server.url, url) as running:
        yield running


def done(server: RecordingServer) -> list[str]:
    """What the server was asked to write, in its order."""
    return [message["params"]["arguments"]["text"] for _, message in server.of("tools/call")]


class Load:
    """Clients that call one after the other through one address, until it is over."""

    def __init__(self, replicas: BalancedReplicas) -> None:
        self._replicas = replicas
        self.statuses: Counter[int] = Counter()
        self.is_over = False

    async def run(self, clients: int) -> None:
        async with httpx.AsyncClient() as http:
            await asyncio.gather(*(self._caller(http, f"client-{number}") for number in range(clients)))

    async def _caller(self, http: httpx.AsyncClient, name: str) -> None:
        number = 0
        while not self.is_over:
            number += 1
            self.statuses[await self._call(http, name, number)] += 1

    async def _call(self, http: httpx.AsyncClient, name: str, number: int) -> int:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "write", "arguments": {"text": f"{name} {number}"}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        headers = {
            "accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call", "mcp-name": "write", "host": "localhost", **self._replicas.credentials,
        }  # fmt: skip
        answer = await http.post(self._replicas.url, json=message, headers=headers, timeout=30)
        if answer.status_code == 200:
            assert "isError" not in answer.text, answer.text
        return answer.status_code


def test_replicas_restart_in_turn_and_no_call_fails(replicas: BalancedReplicas, server: RecordingServer) -> None:
    """Stateless clients: under load each call is answered, and happens once."""
    load = Load(replicas)

    def restart_all() -> None:
        try:
            for number, process in enumerate(list(replicas.running)):
                seen = load.statuses[200]
                wait_for(lambda: load.statuses[200] > seen + 50)  # noqa: B023  # at once
                process.send_signal(signal.SIGTERM)
                assert process.wait(40) == 0
                replicas.start(number)
                time.sleep(1.5)  # HAProxy looks each second
        finally:
            load.is_over = True

    async def run() -> None:
        await asyncio.gather(load.run(4), asyncio.to_thread(restart_all))

    asyncio.run(asyncio.wait_for(run(), 120))
    assert load.statuses.keys() == {200}
    written = done(server)
    assert len(written) == len(set(written)) == load.statuses[200]


class HandshakeLoad:
    """Clients of the SDK that begin a session each and call in it; one that fails begins another one."""

    def __init__(self, replicas: BalancedReplicas) -> None:
        self._replicas = replicas
        self.answered: list[str] = []
        self.failed: Counter[str] = Counter()
        self.sessions: Counter[str] = Counter()

    async def call(self, name: str, calls: int, between: float) -> None:
        """Make so many calls, with seconds between two of them; a call that failed is made again under another text."""
        number = 0
        while number < calls:
            try:
                async with self._replicas.client("legacy", name) as client:
                    self.sessions[name] += 1
                    while number < calls:
                        text = f"{name} {number} {self.failed[name]}"
                        result = await client.call_tool("write", {"text": text})
                        assert not result.is_error, result
                        self.answered.append(text)
                        number += 1
                        await asyncio.sleep(between)
            except* MCPError:
                self.failed[name] += 1
                assert self.failed[name] < 20, "no session can be had"


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")  # the newest revision lacks the handshake
def test_a_session_with_a_handshake_stays_with_its_replica(replicas: BalancedReplicas, server: RecordingServer) -> None:
    """No call of the SDK's clients fails. When a replica is killed each of its sessions fails once, and begins again with the other."""
    quiet = HandshakeLoad(replicas)

    async def together(load: HandshakeLoad, name: str, between: float) -> None:
        callers = (load.call(f"{name}-{number}", CALLS, between) for number in range(SESSIONS))
        await asyncio.wait_for(asyncio.gather(*callers), 120)

    asyncio.run(together(quiet, "quiet", 0))
    assert quiet.failed.total() == 0
    assert set(quiet.sessions.values()) == {1}
    assert sorted(done(server)) == sorted(quiet.answered)

    cut = HandshakeLoad(replicas)

    async def killed() -> None:
        calling = asyncio.create_task(together(cut, "cut", 0.5))
        await asyncio.to_thread(wait_for, lambda: len(cut.answered) >= 2 * SESSIONS)
        replicas.running[0].kill()
        await calling

    asyncio.run(killed())
    assert 1 <= cut.failed.total() <= SESSIONS
    assert set(cut.failed.values()) <= {0, 1}
    assert len(cut.answered) == SESSIONS * CALLS
    written = [text for text in done(server) if text.startswith("cut")]
    assert len(written) == len(set(written))
    assert set(cut.answered) <= set(written)


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")  # the newest revision lacks the handshake
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_many_clients_start_at_once(replicas: BalancedReplicas, server: RecordingServer, mode: Mode) -> None:
    """Each of many clients that begin at the same moment lists the tools and has its call answered, once, in either era."""

    async def begin(name: str) -> str:
        async with replicas.client(mode, name) as client:
            assert "write" in [tool.name for tool in (await client.list_tools()).tools]
            result = await client.call_tool("write", {"text": name})
            assert not result.is_error, result
            return client.protocol_version

    async def whole() -> list[str]:
        return await asyncio.gather(*(begin(f"client-{number}") for number in range(AT_ONCE)))

    spoken = asyncio.run(asyncio.wait_for(whole(), 60))
    assert set(spoken) == {SPOKEN[mode]}
    assert sorted(done(server)) == sorted(f"client-{number}" for number in range(AT_ONCE))
