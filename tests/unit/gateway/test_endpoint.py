"""The endpoint of a server: how many sessions there may be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from adjourn.gateway import endpoint
from adjourn.gateway.endpoint import Endpoint, Sender
from adjourn.mcp import frames

HEADERS = [(b"content-type", b"application/json")]


class Silent:
    """An exchange whose server has nothing to say yet."""

    def __init__(self) -> None:
        self.ids: set[object] = set()

    def in_use(self, request_id: object) -> bool:
        return request_id in self.ids

    def receive(self, _line: bytes, _stream: object, request_id: object) -> None:
        self.ids.add(request_id)

    def leave(self, request_id: object, _stream: object) -> None:
        self.ids.discard(request_id)


async def posted(at: Endpoint, message: object) -> int:
    """The status of the answer to a message; 0 where it waits."""
    found: list[int] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": json.dumps(message).encode()}

    async def send(event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            found.append(event["status"])

    work = asyncio.ensure_future(at.handle({"method": "POST", "headers": HEADERS}, receive, send, Sender(None, "")))
    await asyncio.wait([work], timeout=0.05)
    work.cancel()
    return found[0] if found else 0


@pytest.mark.parametrize("modern", [True, False])
def test_there_is_an_end_to_sessions(monkeypatch: pytest.MonkeyPatch, *, modern: bool) -> None:
    """In both eras a client beyond the limit is told to come later, and those that are there stay."""
    monkeypatch.setattr(endpoint, "MAX_EXCHANGES", 2)
    made: list[Silent] = []

    def new(_client: str, _sender: Sender) -> Any:
        made.append(Silent())
        return made[-1]

    def message(client: str) -> object:
        info = {"name": client, "version": "1"}
        if not modern:
            return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": info}}
        meta = {frames.META_VERSION: "2026-07-28", frames.META_CLIENT: info}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}

    async def run() -> list[int]:
        at = Endpoint(new)
        return [await posted(at, message(client)) for client in ("a", "b", "c", "d")]

    assert asyncio.run(run()) == [0, 0, 503, 503]
    assert len(made) == 2
