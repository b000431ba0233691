"""`adjourn serve` reads its settings again at SIGHUP, while it serves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from support.gateway import GatewayWorkspace
from support.proxy import wait_for

STATELESS = "2026-07-28"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[GatewayWorkspace]:
    with GatewayWorkspace(tmp_path, "allow up.write, up.pause", settings="# limits") as workspace:
        yield workspace


def call(work: GatewayWorkspace, number: int, tool: str, **arguments: object) -> httpx.Response:
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": f"client-{number % 3}", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/call", "mcp-name": tool}
    return work.post(message, **headers)


def test_limits_change_and_no_call_is_dropped(work: GatewayWorkspace) -> None:
    """Calls in flight finish, new limits hold; a broken file changes nothing and is named, as is what needs a restart."""
    gateway = work.gateway
    assert gateway is not None
    assert gateway.stderr is not None
    said: list[str] = []
    file = work.root / "adjourn.toml"
    first = file.read_text(encoding="utf-8")

    def reload(text: str, awaited: str) -> None:
        file.write_text(text, encoding="utf-8")
        seen = len(said)
        gateway.send_signal(signal.SIGHUP)
        wait_for(lambda: any(awaited in line for line in said[seen:]))

    def large(number: int) -> int:
        return call(work, number, "write", text="x" * 3000).status_code

    def read(lines: Callable[[], str]) -> None:
        said.extend(iter(lines, ""))

    limited = first.replace("# limits", "[limits]\nbody_bytes = 2048")
    threading.Thread(target=read, args=(gateway.stderr.readline,), daemon=True).start()
    with ThreadPoolExecutor(8) as threads:
        paused = threads.submit(call, work, 0, "pause", text="held", seconds=4)
        wait_for(lambda: "held" in work.called())
        writing = [threads.submit(call, work, number, "write", text=str(number)) for number in range(1, 61)]
        reload(limited, "[limits] are in force")
        assert large(100) == 413
        reload("listen = \n", "line 1")
        assert large(101) == 413
        reload(first.replace("# limits", 'hosts = ["other.example"]'), "hosts changed; restart")
        assert large(102) == 200
        assert [one.result().status_code for one in [paused, *writing]] == [200] * 61
        assert "paused" in paused.result().text
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(30) == 0
    assert sorted(work.called()) == sorted(["held", "x" * 3000, *map(str, range(1, 61))])
    assert work.adjourn("verify").startswith("valid")
