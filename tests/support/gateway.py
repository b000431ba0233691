"""A workspace that `adjourn serve` serves, with a real server behind it and clients of the official SDK before it.

Owns: `GatewayWorkspace`. Must never: know how the gateway works inside.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import httpx2
import jsonschema  # noqa: F401  # the SDK imports it in its first call, for seconds: not within the time of a test
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from support.ports import free_port
from support.proxy import wait_for

SERVER = Path(__file__).with_name("http_server.py")
_T = TypeVar("_T")


class GatewayWorkspace:
    """`over` is how the gateway reaches the server `up`: `http` or `stdio`; "" for a gateway without it. `settings` are further lines and tables of `adjourn.toml`,
    `arguments` those of `adjourn serve`, `variables` of its environment. The settings are in `work/adjourn.toml`, or in the file after `--config`.
    """

    def __init__(
        self, path: Path, *rules: str, over: str = "http", server: Path = SERVER, settings: str = "",
        arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.root = path / "work"
        (self.root / ".aex").mkdir(parents=True)
        text = "\n".join(("policy shop v1", *rules, ""))
        (self.root / ".aex" / "policy.aex").write_text(text, encoding="utf-8")
        self.environment = {**os.environ, **(variables or {}), "ADJOURN_CONFIG": str(path / "config")}
        self._arguments = arguments
        self.port, self.server_port = free_port(), free_port()
        self._serving, self._closing = ExitStack(), ExitStack()
        self._prepare()
        line = {
            "http": f'[servers.up]\nurl = "http://127.0.0.1:{self.server_port}/mcp"',
            "stdio": f"[servers.up]\ncommand = {json.dumps(self._command(server, path))}",
            "": "",
        }[over]
        self.settings = Path(arguments[1]) if arguments[:1] == ["--config"] else self.root / "adjourn.toml"
        self.settings.write_text(f'listen = "127.0.0.1:{self.port}"\n{settings}\n{line}\n', encoding="utf-8")
        self._calls = path / "calls"
        self.gateway: subprocess.Popen[str] | None = None
        try:
            if over == "http":
                self._start_server(server, path)
            self.start()
        except BaseException:
            self.__exit__()  # what it left open would fail a later test
            raise

    def _prepare(self) -> None:
        """Do what has to be done before anything starts."""

    def _command(self, server: Path, folder: Path) -> list[str]:
        """The words that start the server, where it is one over pipes."""
        return [sys.executable, str(server), "0", str(folder)]

    def _start_server(self, server: Path, folder: Path) -> None:
        """Start the server, where it is one over HTTP."""
        self._serving.enter_context(self._started([sys.executable, str(server), str(self.server_port), str(folder)]))
        wait_for_port(self.server_port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()
        self.stop_server()
        self._closing.close()

    def _started(self, command: Sequence[str]) -> ExitStack:
        process = subprocess.Popen(
            command, cwd=self.root, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        closing = ExitStack()
        closing.callback(process.wait)
        closing.callback(process.kill)
        return closing

    def start(self) -> None:
        """Start the gateway, and wait until it answers."""
        self.gateway = subprocess.Popen(
            [sys.executable, "-m", "adjourn", "serve", *self._arguments], cwd=self.root, env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.gateway.stdout is not None
        address = self.gateway.stdout.readline().strip()
        assert address == f"http://127.0.0.1:{self.port}", (address, self.gateway.communicate(timeout=10))

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the gateway by a signal; returns its exit code."""
        gateway, self.gateway = self.gateway, None
        if gateway is None:
            return 0
        gateway.send_signal(number)
        gateway.communicate(timeout=30)
        return gateway.returncode

    def stop_server(self) -> None:
        """End the server that is reached over HTTP: it has no more effects."""
        self._serving.close()

    def url(self, path: str = "/up/mcp") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def called(self) -> list[str]:
        """What the server's effects were."""
        return self._calls.read_text(encoding="utf-8").splitlines() if self._calls.exists() else []

    def wait_for_call(self, line: str) -> None:
        """Wait until a line is among the server's effects."""
        wait_for(lambda: line in self.called())

    def run(
        self, work: Callable[[Client], Awaitable[_T]], path: str = "/up/mcp", *, token: str = "", **options: Any
    ) -> _T:
        """Do something with a client of the SDK. `mode` is `auto` (the stateless revision, where the server has it) or `legacy`."""

        async def session() -> _T:
            async with Client(with_token(self.url(path), token), **options) as client:
                return await work(client)

        return asyncio.run(asyncio.wait_for(session(), 30))

    def post(self, message: object, at: str = "/up/mcp", **headers: str) -> httpx.Response:
        """A request as it is."""
        accepts = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return httpx.post(self.url(at), content=body, headers=accepts | headers, timeout=20)

    def key(self, name: str, *options: str) -> str:
        """Make an API key."""
        return self.adjourn("api-keys", "add", name, *options).strip()

    def adjourn(self, *arguments: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "adjourn", *arguments],
            cwd=self.root, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def with_token(url: str, token: str) -> Any:
    """What a client of the SDK is to connect to, with a bearer token."""
    return _authorized(url, token) if token else url


@asynccontextmanager
async def _authorized(url: str, token: str) -> AsyncIterator[Any]:
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=20) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


def wait_for_port(port: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on {port}")


def text_of(result: Any) -> str:
    return str(result.content[0].text)
