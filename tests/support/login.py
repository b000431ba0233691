"""A server that wants a login, and a person with a browser.

Owns: `LoginWorkspace`. Must never: know how a login is kept.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
import httpx
import keyring
from mcp import Client, StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from adjourn.gateway.bridge import Bridge
from adjourn.gateway.login_flow import LoginOptions, log_in
from adjourn.gateway.login_store import KeptLogin, alone, keep
from support.gateway import wait_for_port
from support.ports import free_port
from support.terminal import at_terminal

SERVER = Path(__file__).with_name("oauth_server.py")
BROWSER = f"{sys.executable} {Path(__file__).with_name('following_browser.py')} %s"
OPTIONS = LoginOptions(browser=False)
_T = TypeVar("_T")


def without_keyring() -> None:
    """Have this process find no keyring."""
    keyring.core.set_keyring(keyring.backends.fail.Keyring())  # type: ignore[no-untyped-call]  # the package says no types


def visit(said: str) -> None:
    """Do as a person with a browser does."""
    if found := re.search(r"http://\S+/authorize\S+", said):
        threading.Thread(target=lambda: httpx.get(found[0], follow_redirects=True, timeout=20)).start()


@asynccontextmanager
async def bridged(url: str) -> AsyncIterator[Any]:
    """What a client of the SDK may connect to: the bridge of `adjourn connect` in this process, with the login that is kept."""
    to_client, read = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    write, from_client = anyio.create_memory_object_stream[SessionMessage](math.inf)

    def say(line: bytes) -> None:
        to_client.send_nowait(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))

    bridge = Bridge(url, KeptLogin(url), 60, say)

    async def pass_on() -> None:
        async for sent in from_client:
            bridge.take(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    async with to_client, from_client:
        passing = asyncio.ensure_future(pass_on())
        yield read, write
        passing.cancel()
        await bridge.end()


class LoginWorkspace:
    """A workspace with a policy that allows everything, an authorization server and an MCP server, `url`.

    With a `certificate` both speak TLS, and it is trusted.
    """

    def __init__(self, path: Path, *, certificate: Path | None = None) -> None:
        self.root, self.folder = path / "work", path
        (self.root / ".aex").mkdir(parents=True)
        (self.root / ".aex" / "policy.aex").write_text("policy shop v1\nallow *\n", encoding="utf-8")
        self.config = path / "config"
        self.environment = {
            **os.environ, "ADJOURN_CONFIG": str(self.config), "BROWSER": BROWSER,
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }  # fmt: skip
        self.authority_port, port = free_port(), free_port()
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{port}/mcp"
        self._closing = ExitStack()
        command = [sys.executable, str(SERVER), str(self.authority_port), str(port), str(path)]
        if certificate is not None:
            command.append(str(certificate))
            self.environment["SSL_CERT_FILE"] = str(certificate)
        with (path / "server.log").open("w") as log:
            process = subprocess.Popen(command, cwd=self.root, env=self.environment, stdout=log, stderr=log)
        self._closing.callback(process.wait)
        self._closing.callback(process.kill)
        wait_for_port(self.authority_port)
        wait_for_port(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._closing.close()

    def fresh(self, name: str) -> None:
        """Begin again: nobody has logged in, the authorization server behaves as usual, nothing has happened."""
        self.config = self.folder / "configs" / name
        os.environ["ADJOURN_CONFIG"] = self.environment["ADJOURN_CONFIG"] = str(self.config)
        for file in ("settings.json", "grants", "calls"):
            (self.folder / file).unlink(missing_ok=True)

    def kept(self) -> Path:
        """The file of the only login."""
        (found,) = (self.config / "keys" / "logins").glob("*/login.json")
        return found

    def secrets(self) -> list[str]:
        """The tokens of the only login."""
        login = json.loads(self.kept().read_text(encoding="utf-8"))["login"]
        return [login["access"], login["refresh"]]

    def behave(self, **settings: Any) -> None:
        """Have the authorization server behave otherwise from now on."""
        written = self.folder / "settings.json.new"
        written.write_text(json.dumps(settings), encoding="utf-8")
        written.rename(self.folder / "settings.json")

    def grants(self) -> list[str]:
        """What was asked of the authorization server."""
        return self._lines("grants")

    def called(self) -> list[str]:
        """What the MCP server's effects were."""
        return self._lines("calls")

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def person(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `adjourn WORDS` at a terminal."""
        return at_terminal(
            [sys.executable, "-m", "adjourn", *words], cwd=self.root, env=self.environment, seconds=60, **options
        )  # fmt: skip

    def login(self, options: LoginOptions = OPTIONS) -> None:
        """Log in as the command does, in this process."""
        with alone(self.url):
            keep(log_in(self.url, options, visit))

    def client(self, *words: str) -> StdioServerParameters:
        return StdioServerParameters(
            command=sys.executable,
            args=["-m", "adjourn", *(words or ("connect", self.url))],
            cwd=str(self.root),
            env=self.environment,
        )

    def run(self, work: Callable[[Client], Awaitable[_T]], *words: str) -> _T:
        """Do something with a client that starts `adjourn WORDS`; by default what `connect` does is done in this process."""

        async def session() -> _T:
            async with Client(self.client(*words) if words else bridged(self.url)) as client:
                return await work(client)

        return asyncio.run(asyncio.wait_for(session(), 60))
