"""Several gateways before one store and one server, each as if on a machine of its own.

Each replica has a host name of its own, so that none can examine the processes of another: only its lease says that it lives.

Owns: `Replicas`. Must never: know how the gateway works inside.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from support.gateway import wait_for_port
from support.ports import free_port

SERVER = Path(__file__).with_name("counting_server.py")
VERSION = "2026-07-28"
_PREFIX = "io.modelcontextprotocol/"
NEW_HOST = ["unshare", "--uts", *([] if os.geteuid() == 0 else ["--map-root-user", "--user"]), "sh", "-c"]


class Replicas:
    """`store` is the URL of the store, or one for each gateway; `count` is how many gateways there are. `settings` are further lines and
    tables of their `adjourn.toml`.
    """

    def __init__(self, path: Path, store: str | Sequence[str], *rules: str, count: int = 3, settings: str = "") -> None:
        if subprocess.run([*NEW_HOST, "hostname x"], check=False, capture_output=True).returncode:
            pytest.skip("a process cannot get a host name of its own here (unshare --uts)")
        self.root = path / "work"
        (self.root / ".aex").mkdir(parents=True)
        self.policy(*rules)
        self._stores = [store] * count if isinstance(store, str) else store
        self.environment = {**os.environ, "ADJOURN_CONFIG": str(path / "config"), "ADJOURN_STORE": self._stores[0]}
        self.effects = path / "effects"
        self.ports = [free_port() for _ in range(count)]
        self.gateways: list[subprocess.Popen[str] | None] = [None] * count
        self._closing = ExitStack()
        self._logs = path
        self._ids = itertools.count(1)
        self._server_port = port = free_port()
        self.start_server()
        for number, listen in enumerate(self.ports):
            text = f'listen = "127.0.0.1:{listen}"\n{settings}\n[servers.up]\nurl = "http://127.0.0.1:{port}/mcp"\n'
            self._config(number).write_text(text, encoding="utf-8")
        for number in range(count):
            self.start(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the replicas and the server."""
        for number in range(len(self.ports)):
            self.end(number, signal.SIGTERM)
        self._closing.close()

    def start_server(self) -> None:
        """Start the server of the tools, or start it again."""
        command = [sys.executable, str(SERVER), str(self._server_port), str(self.effects)]
        self.server = subprocess.Popen(command)
        self._closing.callback(self.server.wait)
        self._closing.callback(self.server.kill)
        wait_for_port(self._server_port)

    def _config(self, number: int) -> Path:
        return self.root / f"replica{number}.toml"

    def policy(self, *rules: str) -> None:
        """Write the policy of all replicas."""
        text = "\n".join(("policy shop v1", *rules, ""))
        (self.root / ".aex" / "policy.aex").write_text(text, encoding="utf-8")

    def log(self, number: int) -> str:
        """What a replica has reported."""
        return (self._logs / f"replica{number}.log").read_text(encoding="utf-8")

    def start(self, number: int) -> None:
        """Start a replica, and wait until it answers."""
        command = [sys.executable, "-m", "adjourn", "serve", "--config", str(self._config(number))]
        with (self._logs / f"replica{number}.log").open("ab") as log:
            gateway = self.gateways[number] = subprocess.Popen(
                [*NEW_HOST, f'hostname replica{number} && exec "$@"', "sh", *command],
                cwd=self.root, env={**self.environment, "ADJOURN_STORE": self._stores[number]},
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert gateway.stdout is not None
        assert gateway.stdout.readline().startswith("http://"), self.log(number)

    def end(self, number: int, by: int = signal.SIGKILL) -> None:
        """End a replica by a signal, if it runs."""
        gateway, self.gateways[number] = self.gateways[number], None
        if gateway is not None:
            gateway.send_signal(by)
            gateway.communicate(timeout=60)

    def url(self, number: int, task: str) -> str:
        return f"http://127.0.0.1:{self.ports[number]}/up/t/{task}/mcp"

    def message(self, tool: str, text: str, client: str = "first", key: str = "") -> dict[str, Any]:
        """A call in the stateless revision; `key` is its idempotency key."""
        meta = {
            f"{_PREFIX}protocolVersion": VERSION,
            f"{_PREFIX}clientCapabilities": {},
            f"{_PREFIX}clientInfo": {"name": client, "version": "1"},
            **({"dev.adjourn/idempotencyKey": key} if key else {}),
        }
        params = {"name": tool, "arguments": {"text": text}, "_meta": meta}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": "tools/call", "params": params}

    def call(self, number: int, tool: str, text: str, *, client: str = "first", key: str = "") -> str:
        """What a call of the task `job` answers, through one of the replicas."""
        message = self.message(tool, text, client, key)
        answer = httpx.post(self.url(number, "job"), json=message, headers=HEADERS, timeout=30)
        return text_of(answer.json())

    def called(self) -> list[str]:
        """What the effects were."""
        return self.effects.read_text(encoding="utf-8").splitlines() if self.effects.exists() else []

    def adjourn(self, *arguments: str) -> str:
        """What a command prints."""
        return subprocess.run(
            [sys.executable, "-m", "adjourn", *arguments],
            cwd=self.root, env=self.environment, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    def status(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.adjourn("status", task, "--json"))
        return found


HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION}


def text_of(answer: dict[str, Any]) -> str:
    """The text of a call's answer, or of an error."""
    if "error" in answer:
        return str(answer["error"]["message"])
    return str(answer["result"]["content"][0]["text"])
