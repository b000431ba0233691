"""The order in which an exchange treats what a server says, and its silence."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from adjourn.gateway import exchange as module
from adjourn.gateway.exchange import Exchange, ExchangeResources
from adjourn.gateway.group_commit import GroupCommit
from adjourn.gateway.replies import ServerMessage
from adjourn.relay.ports import StderrLog


class BusyRelay:
    """A relay that makes a checkpoint at first, and reads the server's lines after that."""

    def __init__(self, *_parts: object) -> None:
        self.is_busy = True
        self.connection = SimpleNamespace(requests={1: "the request"}, fail=self._fail)
        self.answers = SimpleNamespace(handle=self._answer)
        self.done: list[str] = []

    def may_read_server(self) -> bool:
        return not self.is_busy

    def _answer(self, _lines: list[bytes]) -> None:
        self.connection.requests.clear()
        self.done.append("answered")

    def _fail(self, *_why: object) -> None:
        self.done.append("failed")


def test_an_answer_that_waits_is_no_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's answer is heard while a checkpoint is made, and its stream ends: the request is answered, it did not fail."""
    monkeypatch.setattr(module, "Relay", BusyRelay)
    stand_in: Any = SimpleNamespace()

    async def run() -> list[str]:
        with ThreadPoolExecutor(1) as workers:
            parts = ExchangeResources(workers, StderrLog(as_json=False), stand_in, GroupCommit(stand_in), stand_in)
            options = SimpleNamespace(principal=None, server="up")
            context: Any = SimpleNamespace(options=options, group="gateway/here/me")
            exchange = Exchange(parts, context)
            exchange.connect(stand_in)
            relay: Any = exchange.relay
            exchange.hear(ServerMessage(b"{}\n", 1))
            exchange.fail(1, "the server ended its answer too early", was_sent=True)
            assert relay.done == []
            relay.is_busy = False
            await asyncio.sleep(0.05)
            return list(relay.done)

    assert asyncio.run(run()) == ["answered"]
