"""`adjourn serve` in operation: what it refuses under load, how it ends, what it says of itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, types

from support.gateway import GatewayWorkspace, text_of
from support.in_process_gateway import InProcessGateway
from support.proxy import wait_for

RULES = ("allow up.echo, up.write, up.pause, up.ask",)
LIMITS = """
[limits]
header_seconds = 1
body_seconds = 1
body_bytes = 4096
connections = 12
client_rate = 0.2
client_burst = 3
drain_seconds = 15
"""


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayWorkspace]:
    with GatewayWorkspace(tmp_path_factory.mktemp("limited"), *RULES, settings=LIMITS) as workspace:
        yield workspace


@pytest.fixture
def work(tmp_path: Path) -> Iterator[GatewayWorkspace]:
    with GatewayWorkspace(tmp_path, *RULES) as workspace:
        yield workspace


def call(tool: str, number: int, **arguments: object) -> dict[str, Any]:
    """A call of the stateless revision, by a client of its own name."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": f"client-{number % 4}", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def drains(work: GatewayWorkspace) -> bool:
    return bool(httpx.get(work.url("/readyz")).json()["status"] == "draining")


def headers_of(message: dict[str, Any]) -> dict[str, str]:
    return {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": message["method"],
        "mcp-name": message["params"]["name"],
    }


def raw(work: GatewayWorkspace, *parts: bytes, pause: float = 0.0) -> bytes:
    """What the gateway says to bytes that come in parts, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", work.port), 10) as connection:
        connection.settimeout(10)
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        said = b""
        while chunk := connection.recv(1 << 16):
            said += chunk
        return said


POST = b"POST /up/mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((b"",), b"408 Request Timeout"),
        ((POST, b"x-slow: 1\r\n"), b"the request's headers did not arrive in time"),
        ((POST + b"content-length: 100\r\n\r\n", b'{"jsonrpc'), b"the request's body did not arrive in time"),
        ((POST + b"x-long: " + b"x" * 70_000,), b"431 Request Header Fields Too Large"),
        ((POST + b"content-length: 5000\r\n\r\n",), b"413 "),
        ((POST + b"transfer-encoding: chunked\r\n\r\n", b"1388\r\n" + b" " * 5000 + b"\r\n"), b"413 "),
    ],
)
def test_a_request_that_is_too_slow_or_too_large_ends_its_connection(
    limited: GatewayWorkspace, parts: tuple[bytes, ...], said: bytes
) -> None:
    """Headers, a body, or nothing at all that does not come in time; too many headers; a body over the limit, announced or not."""
    begun = time.monotonic()
    assert said in raw(limited, *parts, pause=0.1)
    assert time.monotonic() - begun < 8


def test_a_client_that_does_not_read_its_answer_loses_its_connection(tmp_path: Path) -> None:
    """After stalled_seconds, while one that reads slowly gets all of it; what it called is done and settled."""
    size = 7_800_000  # more than the buffers of both sides; the server says each text twice
    message = call("echo", 1, text="x" * (size // 2))
    body = json.dumps(message).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in headers_of(message).items())
    request = f"POST /up/mcp HTTP/1.1\r\nhost: localhost\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body

    def read_with(gateway: GatewayWorkspace, pauses: list[float]) -> int:
        with socket.create_connection(("127.0.0.1", gateway.port), 30) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            connection.sendall(request)
            received = 0
            with suppress(ConnectionError):
                while received < size and (chunk := connection.recv(1 << 20)):
                    received += len(chunk)
                    time.sleep(pauses.pop() if pauses else 0)
            return received

    with GatewayWorkspace(tmp_path, *RULES, settings="[limits]\nstalled_seconds = 1") as work:
        assert read_with(work, [0.4] * 4) >= size
        assert read_with(work, [4.5]) < size
        assert httpx.get(work.url("/healthz")).status_code == 200
        work.stop()
        assert json.loads(work.adjourn("inbox", "--json"))["waiting"] == []


def test_connections_beyond_the_limit_are_refused(limited: GatewayWorkspace) -> None:
    """With 503; those before them stay, and a place that one leaves is given to the next."""
    with httpx.Client() as kept:
        assert kept.get(limited.url("/healthz")).status_code == 200
        held = [socket.create_connection(("127.0.0.1", limited.port)) for _ in range(11)]
        answer = httpx.get(limited.url("/healthz"))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert kept.get(limited.url("/healthz")).status_code == 200
        for one in held:
            one.close()
        wait_for(lambda: httpx.get(limited.url("/healthz")).status_code == 200)


def test_a_client_beyond_its_rate_is_told_when_to_come_again(limited: GatewayWorkspace) -> None:
    """With 429 and Retry-After; nothing reaches the server, and another client is served."""
    with httpx.Client() as http:
        for number in (0, 4, 8, 12, 1):
            message = call("write", number, text=str(number))
            answer = http.post(limited.url(), json=message, headers=headers_of(message), timeout=20)
            assert answer.status_code == (429 if number == 12 else 200), (number, answer.text)
            if number == 12:
                assert 1 <= int(answer.headers["retry-after"]) <= 5
                assert "too many messages" in answer.json()["error"]["message"]
    assert limited.called() == ["0", "4", "8", "1"]


def test_what_is_open_when_the_gateway_is_told_to_end_is_finished(work: GatewayWorkspace) -> None:
    """Under load: each call that was answered happened once, each that was refused did not happen; /readyz says so meanwhile."""
    statuses: Counter[str] = Counter()
    written: list[str] = []
    numbers = iter(range(100_000))

    async def caller(http: httpx.AsyncClient, tool: str, seconds: float) -> None:
        while True:
            number = next(numbers)
            arguments = {"text": str(number)} | ({"seconds": seconds} if seconds else {})
            message = call(tool, number, **arguments)
            try:
                answer = await http.post(work.url(), json=message, headers=headers_of(message), timeout=30)
            except httpx.TransportError:
                statuses["gone"] += 1
                return
            statuses[str(answer.status_code)] += 1
            if answer.status_code == 503:
                assert answer.headers["retry-after"] == "1"
                await asyncio.sleep(0.05)
            else:
                assert '"isError":true' not in answer.text
                assert "paused" in answer.text or "written" in answer.text, answer.text
                written.append(str(number))

    async def run() -> None:
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None)) as http:
            callers = [asyncio.ensure_future(caller(http, "pause", 2.0)) for _ in range(4)]
            callers += [asyncio.ensure_future(caller(http, "write", 0)) for _ in range(8)]
            await asyncio.to_thread(wait_for, lambda: len(written) >= 40)
            assert work.gateway is not None
            work.gateway.send_signal(signal.SIGTERM)
            await asyncio.to_thread(wait_for, lambda: statuses["503"])
            ready = await http.get(work.url("/readyz"))
            assert (ready.status_code, ready.json()["status"]) == (503, "draining")
            assert (await http.get(work.url("/healthz"))).status_code == 200
            await asyncio.gather(*callers)
            assert await asyncio.to_thread(work.gateway.wait, 30) == 0

    asyncio.run(asyncio.wait_for(run(), 90))
    assert sorted(work.called()) == sorted(written)
    assert statuses["503"] > 0
    inbox = json.loads(work.adjourn("inbox", "--json"))
    assert inbox["waiting"] == []
    tasks = json.loads(work.adjourn("tasks", "--json"))["tasks"]
    assert sum(one["callsUsed"] for one in tasks) == len(written)
    assert work.adjourn("verify").startswith("valid")


def test_an_open_question_is_still_answered_while_it_drains(work: GatewayWorkspace) -> None:
    """The answer to what a server asked belongs to an open call, so it is let in; a second call is not."""

    async def answer(_context: Any, _params: Any) -> types.ElicitResult:
        assert work.gateway is not None
        work.gateway.send_signal(signal.SIGTERM)
        await asyncio.to_thread(wait_for, lambda: drains(work))
        return types.ElicitResult(action="accept", content={"colour": "blue"})

    async def session(client: Client) -> str:
        await client.list_tools()  # the SDK checks answers against the list
        return text_of(await client.call_tool("ask", {}))

    assert "blue" in work.run(session, mode="legacy", elicitation_callback=answer)
    assert work.gateway is not None
    assert work.gateway.wait(20) == 0


@pytest.mark.parametrize(("seconds", "again"), [(1, False), (300, True)])
def test_the_drain_and_a_second_signal_are_bounded(tmp_path: Path, *, seconds: int, again: bool) -> None:
    """An open call gets an error when the time is over, a second signal does not even wait for that; the call is in doubt."""
    with GatewayWorkspace(tmp_path, *RULES, settings=f"[limits]\ndrain_seconds = {seconds}") as work:
        gateway = work.gateway
        assert gateway is not None
        message = call("pause", 1, text="x", seconds=60)

        def post() -> str:
            try:
                return httpx.post(work.url(), json=message, headers=headers_of(message), timeout=60).text
            except httpx.TransportError:
                return "gone"

        with ThreadPoolExecutor(1) as threads:
            posted = threads.submit(post)
            wait_for(work.called)
            gateway.send_signal(signal.SIGTERM)
            if again:
                wait_for(lambda: drains(work))
                gateway.send_signal(signal.SIGTERM)
            gateway.wait(20)
            said = ("gone", "Internal Server Error") if again else ("the gateway ended",)
            assert any(one in posted.result(5) for one in said)
        wait_for(lambda: json.loads(work.adjourn("inbox", "--json"))["waiting"])
        (doubt,) = json.loads(work.adjourn("inbox", "--json"))["waiting"]
        assert doubt["kind"] == "in-doubt"


def test_readiness_follows_the_store(
    tmp_path: Path, new_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 while PostgreSQL cannot be reached, without its name; 200 again afterwards. A broken policy is named, and stops nothing."""
    url = new_postgres_url()
    folder, _, rest = url.partition("host=")[2].partition("&")
    link = tmp_path / "sockets"
    link.mkdir()
    name = next(one for one in os.listdir(folder) if one.startswith(".s.PGSQL") and not one.endswith("lock"))
    (link / name).symlink_to(Path(folder) / name)
    monkeypatch.setenv("ADJOURN_STORE", f"{url.partition('host=')[0]}host={link}&{rest}")
    with InProcessGateway(tmp_path, *RULES) as work:

        def ready() -> tuple[int, dict[str, str]]:
            answer = httpx.get(work.url("/readyz"))
            return answer.status_code, answer.json()

        assert ready() == (200, {"status": "ready", "store": "ok", "policy": "ok"})
        (link / name).unlink()
        import psycopg  # of an extra

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND application_name LIKE 'adjourn%'"
            )
        wait_for(lambda: ready() == (503, {"status": "not ready", "store": "failed", "policy": "ok"}))
        assert httpx.get(work.url("/healthz")).json() == {"status": "alive"}
        (link / name).symlink_to(Path(folder) / name)
        wait_for(lambda: ready()[0] == 200)
        (work.root / ".aex" / "policy.aex").write_text("policy shop v1\nallow", encoding="utf-8")
        wait_for(lambda: ready() == (200, {"status": "ready", "store": "ok", "policy": "failed"}))
