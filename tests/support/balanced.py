"""Two gateways on PostgreSQL behind HAProxy, as the files of `deploy/` define them, run as processes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import httpx
import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from support import deployed, tools
from support.deployed import DEPLOY, Place
from support.ports import free_port
from support.proxy import wait_for


class BalancedReplicas:
    """The processes. `server` is the URL of the server behind them, `store` that of their database."""

    def __init__(self, root: Path, server: str, store: str) -> None:
        program = tools.haproxy()
        if program is None:
            pytest.skip("haproxy is not installed: make tools")
        image, front = deployed.image(), free_port()
        self._place = Place(root, "/workspace", server)
        policy = self._place.workspace / ".aex/policy.aex"
        policy.write_text("policy gateway v1\nuse tracker.*\n", encoding="utf-8")
        self._environment = image["environment"] | {"ADJOURN_STORE": store}
        self._ports = [free_port(), free_port()]
        files = [self._place.configure(port, free_port(), f"{port}.toml") for port in self._ports]
        for file in files:  # so many clients are not slowed down; each shows the same key
            text = re.sub(r"client_\w+ = .*\n", "", file.read_text(encoding="utf-8"))
            file.write_text(f"{text}\n[auth]\nkeys = true\n", encoding="utf-8")
        self._commands = [[*image["command"][:-1], f"/etc/adjourn/{file.name}"] for file in files]
        text = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8").partition("resolvers docker\n")[0]
        servers = "".join(f"    server g{port} 127.0.0.1:{port}\n" for port in self._ports)
        text = re.sub(r"    server-template .*\n", servers, text).replace("bind :8080", f"bind 127.0.0.1:{front}")
        balancer = root / "haproxy.cfg"
        balancer.write_text(text, encoding="utf-8")
        self._balancer: list[str | Path] = [program, "-db", "-f", str(balancer)]
        self._front = f"http://127.0.0.1:{front}"
        self.url = f"{self._front}/tracker/mcp"
        self.credentials: dict[str, str] = {}
        self.running: list[subprocess.Popen[str]] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.running = [self._place.start(command, self._environment) for command in self._commands]
        self.credentials = {"authorization": f"Bearer {self._place.key('robot', self._environment)}"}
        balancer = subprocess.Popen(self._balancer, stdout=subprocess.DEVNULL)
        self._stack.callback(balancer.wait)
        self._stack.callback(balancer.kill)
        wait_for(self._is_ready)
        return self

    @asynccontextmanager
    async def client(self, mode: Literal["auto", "legacy"], name: str) -> AsyncIterator[Client]:
        """A client of the SDK, which shows the key."""
        known = types.Implementation(name=name, version="1")
        async with (
            httpx2.AsyncClient(headers=self.credentials, timeout=60) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode, client_info=known) as client,
        ):
            yield client

    def start(self, number: int) -> None:
        """Start a replica again that has ended."""
        self.running[number].communicate()
        self.running[number] = self._place.start(self._commands[number], self._environment)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self._front}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.running:
            process.kill()
            process.communicate()
        self._stack.close()
