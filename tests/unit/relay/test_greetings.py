"""The answer to initialize waits for the notice of pending work, which a worker composes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adjourn.relay.ports import NEVER, Outcome, StderrLog
from adjourn.relay.relay import Relay, RelayOptions
from support.workspace import Workspace

CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}
SERVER = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "up", "version": "1"}}


class Outlet:
    """Keeps what is sent."""

    size, since = 0, NEVER

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, data: bytes, about: Any = None) -> None:
        del about
        self.sent += map(json.loads, data.splitlines())


class SlowWorker:
    """An event loop whose worker does nothing until `finish`."""

    def __init__(self) -> None:
        self._jobs: list[Callable[[], None]] = []

    def time(self) -> float:
        return 0.0

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Nothing that takes a while is waited for."""

    def soon(self, action: Callable[[], None]) -> None:
        action()

    def work(self, job: Callable[[], Any], then: Callable[[Outcome[Any]], None]) -> None:
        self._jobs.append(lambda: then(Outcome(job)))

    def finish(self) -> None:
        while self._jobs:
            self._jobs.pop(0)()


class Opening:
    """A relay that has sent a client's `initialize` to the server, and got its answer."""

    def __init__(self, workspace: Workspace, **members: object) -> None:
        loop: Any = SlowWorker()
        outlets: tuple[Any, Any] = (Outlet(), Outlet())
        self.worker = loop
        self.relay = Relay(loop, workspace.context(), StderrLog(as_json=False), RelayOptions())
        self.relay.connection.client, self.relay.connection.server = self.client, _ = outlets
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}
        self.relay.gate.handle([json.dumps(opening).encode() + b"\n"])
        loop.finish()
        self.answer(**members)

    def answer(self, **members: object) -> None:
        """The server answers, with a result unless other members are given."""
        line = {"jsonrpc": "2.0", "id": 1, **(members or {"result": SERVER})}
        self.relay.answers.handle([json.dumps(line).encode() + b"\n"])


@pytest.fixture
def opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    workspace = Workspace(tmp_path, monkeypatch)
    workspace.write_policy("allow *")
    return Opening(workspace)


def test_an_answer_is_delivered_once_its_notice_is_composed(opening: Opening) -> None:
    """Until then the client has none, and no more of the server is read."""
    assert opening.client.sent == []
    assert not opening.relay.may_read_server()
    opening.worker.finish()
    assert [answer["result"]["serverInfo"] for answer in opening.client.sent] == [SERVER["serverInfo"]]
    assert opening.relay.may_read_server()
    assert not opening.relay.connection.requests


def test_a_server_that_answers_twice_is_heard_once(opening: Opening) -> None:
    """A second answer that comes while the first one waits is dropped."""
    opening.answer()
    opening.worker.finish()
    assert len(opening.client.sent) == 1


def test_a_request_that_failed_meanwhile_gets_no_second_answer(opening: Opening) -> None:
    """The connection ends while the answer waits: the client gets the error alone."""
    (request,) = opening.relay.connection.requests.values()
    opening.relay.connection.fail(request, "the server ended", "no-answer")
    opening.worker.finish()
    (answer,) = opening.client.sent
    assert answer["error"]["message"] == "the server ended"


@pytest.mark.parametrize("members", [{"extra": 1}, {"result": 7}, {"result": {"serverInfo": []}}])
def test_an_odd_answer_leaves_no_request_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, object]
) -> None:
    """Whatever a server answers to initialize, without a result or with one of another form, the client gets one answer."""
    workspace = Workspace(tmp_path, monkeypatch)
    workspace.write_policy("allow *")
    opening = Opening(workspace, **members)
    opening.worker.finish()
    assert [answer["id"] for answer in opening.client.sent] == [1]
    assert not opening.relay.connection.requests


def test_a_greeting_with_half_a_character_is_handed_over_and_completed(opening: Opening) -> None:
    """A server whose instructions are cut in the middle of a character is met like any other."""
    opening.worker.finish()
    relay = opening.relay
    opening.client.sent.clear()
    again = {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": CLIENT}
    relay.gate.handle([json.dumps(again).encode() + b"\n"])
    opening.worker.finish()
    result = json.dumps(SERVER | {"instructions": "cut @"}).replace("@", "\\ud83d")
    relay.answers.handle([b'{"jsonrpc":"2.0","id":2,"result":%b}\n' % result.encode()])
    opening.worker.finish()
    (answer,) = opening.client.sent
    assert answer["result"]["capabilities"]["tools"] == {"listChanged": True}
    assert answer["result"]["instructions"].startswith("cut \ud83d")
    assert relay.connection.upstream.revision == "2025-11-25"
