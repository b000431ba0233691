"""A connection of `adjourn code` over pipes, in one process, with tools that do what a test needs.

Owns: `FakeTools`, `Client`. Must never: know what is tested.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from adjourn.code.deadline import CancelledError, Deadline
from adjourn.code.server.server import CodeServer
from adjourn.code.server.stdio_transport import StdioConnection
from adjourn.code.server.tool import ClientRoots, no_roots
from adjourn.code.workflow.active_session import ClientConnection

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
INFO = "io.modelcontextprotocol/clientInfo"
SERVER = "io.modelcontextprotocol/serverInfo"
ENVELOPE: dict[str, Any] = {VERSION: "2026-07-28", CAPABILITIES: {}, INFO: {"name": "tests", "version": "1"}}
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}
SECONDS = 20.0
BIG = 3_000_000
"""Characters of a reply that no pipe holds at once."""


class FakeTools(CodeServer):
    """A server with tools of its own, which wait for `release`, until they are cancelled, or answer at once."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.release = threading.Event()
        self.running = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)
        self.clients: list[str] = []

    def reply(
        self,
        client: ClientConnection,
        name: str,
        given: dict[str, Any],
        deadline: Deadline,
        *,
        roots: ClientRoots = no_roots,
    ) -> tuple[str, bool]:
        self.clients.append(client.name)
        self.running.release()
        if name == "wait":
            assert self.release.wait(SECONDS)
        elif name == "work":
            self._work(deadline)
        elif name == "fail":
            raise ValueError("a defect")
        elif name == "roots":
            return json.dumps(roots()), False
        elif name == "big":
            return "é" * BIG, False
        return json.dumps({"name": name, **given}), name == "refuse"

    def _work(self, deadline: Deadline) -> None:
        try:
            for done in range(1, 1_000_000):
                deadline.expired()
                deadline.report(done, 2_000_000)
                if self.release.wait(0.001):
                    return
        except CancelledError:
            self.cancelled.release()
            raise


class Client:
    """The other end of a connection's pipes."""

    def __init__(self, server: FakeTools) -> None:
        self.server = server
        server_input, self._writing = os.pipe()
        reading, server_output = os.pipe()
        self._answers = os.fdopen(reading, "rb")
        self._descriptors = [server_input, server_output]
        self._thread = threading.Thread(target=StdioConnection(server, server_input, server_output).serve, daemon=True)
        self._thread.start()

    def send(self, *lines: bytes | str) -> None:
        for line in lines:
            os.write(self._writing, (line.encode() if isinstance(line, str) else line) + b"\n")

    def ask(self, number: object, method: str, params: dict[str, Any] | None = None) -> None:
        body = {"jsonrpc": "2.0", "id": number, "method": method}
        self.send(json.dumps(body if params is None else {**body, "params": params}))

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        body = {"jsonrpc": "2.0", "method": method}
        self.send(json.dumps(body if params is None else {**body, "params": params}))

    def call(self, number: object, tool: str, **params: Any) -> None:
        self.ask(number, "tools/call", {"name": tool, "arguments": {}, **params})

    def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._answers.readline())
        assert answer["jsonrpc"] == "2.0"
        return answer

    def error(self) -> tuple[object, int]:
        """Id and code of the next answer, which must be an error."""
        answer = self.answer()
        return answer["id"], answer["error"]["code"]

    def greet(self, version: str = "2025-06-18") -> dict[str, Any]:
        self.ask(0, "initialize", {**HELLO, "protocolVersion": version})
        self.notify("notifications/initialized")
        greeting: dict[str, Any] = self.answer()["result"]
        return greeting

    def hang_up(self) -> list[dict[str, Any]]:
        """Close the input; return what the server still sends before it ends."""
        os.close(self._writing)
        self._writing = -1
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        os.close(self._descriptors.pop())
        return [json.loads(line) for line in self._answers]

    def close(self) -> None:
        self.server.release.set()
        if self._writing >= 0:
            self.hang_up()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._answers.close()
