"""How many Python functions a call through a relay enters: what each call costs, whatever else the machine does."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from profiling import calls_of

from adjourn.relay.ports import NEVER, Outcome, StderrLog
from adjourn.relay.relay import Relay, RelayOptions
from support.workspace import Workspace

REPEATED = 30
"""The least of so many calls: now and then one looks again at the policy or at a path."""
LISTED = {
    "tools": [
        {"name": "notes.get", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "notes.set", "inputSchema": {"type": "object"}},
    ]
}


class Kept:
    """An outlet that has room for everything."""

    size, since = 0, NEVER

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        self.sent.append(data)


class AtOnce:
    """An event loop that has nothing else to do."""

    def time(self) -> float:
        return 0.0

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Nothing that takes a while is waited for."""

    def soon(self, action: Callable[[], None]) -> None:
        action()

    def work(self, job: Callable[[], Any], then: Callable[[Outcome[Any]], None]) -> None:
        then(Outcome(job))


class Connected:
    """A client and a server on both sides of a relay."""

    def __init__(self, workspace: Workspace) -> None:
        loop: Any = AtOnce()
        outlets: tuple[Any, Any] = (Kept(), Kept())
        self.relay = Relay(loop, workspace.context(), StderrLog(as_json=False), RelayOptions())
        self.relay.connection.client, self.relay.connection.server = outlets
        self.client, self.server = outlets
        self._id = 0
        self.ask("tools/list", {}, LISTED)

    def ask(self, method: str, params: object, result: object) -> int:
        """Make a request of the client, and have the server answer it. Returns how many functions that entered."""
        self._id += 1
        asked = encoded(id=self._id, method=method, params=params)
        answer = encoded(id=self._id, result=result)
        entered = calls_of(partial(self._handle, [asked], [answer])) - 1
        assert self.server.sent[-1] == asked
        assert json.loads(self.client.sent[-1])["id"] == self._id
        return entered

    def _handle(self, asked: list[bytes], answer: list[bytes]) -> None:
        self.relay.gate.handle(asked)
        self.relay.answers.handle(answer)

    def call(self, tool: str) -> int:
        """Call a tool. Returns how many functions that entered."""
        result = {"content": [{"type": "text", "text": "done"}]}
        arguments = {"path": "notes/plan.md", "text": "Read the failing test first."}
        return self.ask("tools/call", {"name": tool, "arguments": arguments}, result)


def encoded(**members: object) -> bytes:
    """A message as a line."""
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


@pytest.mark.parametrize(("tool", "most"), [("notes.get", 40), ("notes.set", 88)])
def test_a_call_enters_few_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, most: int) -> None:
    """A call that is alone enters few Python functions (ADR 18), with two looks at what other tasks left open if it has effects."""
    workspace = Workspace(tmp_path, monkeypatch, store="sqlite")
    workspace.write_policy("use notes.*")
    connected = Connected(workspace)
    assert min(connected.call(tool) for _ in range(REPEATED)) <= most
