"""The gateway is killed while many clients work on many tasks, whose calls are committed together.

Nothing that was answered is lost, no effect is without its intent, and every history verifies. Short here; ADJOURN_CAMPAIGN=1 kills 40
times on each store.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from adjourn.log.canonical_json import canonical, digest
from adjourn.log.event import decode
from adjourn.log.kinds import ToolAllowed, ToolSettled, data_of, facts_of
from adjourn.store import Store, open_store
from adjourn.verification.verify import verify_task
from support.gateway import GatewayWorkspace

KILLS = 40 if os.environ.get("ADJOURN_CAMPAIGN") == "1" else 2
CLIENTS = 12
ACCEPTED = {"accept": "application/json, text/event-stream"}


@pytest.fixture(params=["sqlite", "postgres"])
def work(
    tmp_path: Path, request: pytest.FixtureRequest, new_postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[GatewayWorkspace]:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    if request.param == "postgres":
        monkeypatch.setenv("ADJOURN_STORE", new_postgres_url())
    with GatewayWorkspace(tmp_path, "allow up.write") as workspace:
        yield workspace


class Caller:
    """A client on a task of its own, that calls until nobody answers. `answered` are the texts of calls that were."""

    def __init__(self, work: GatewayWorkspace, task: str, turn: int) -> None:
        self._url, self._name = work.url(f"/up/t/{task}/mcp"), f"{task}-{turn}"
        self._count = 0
        self.answered: list[str] = []

    async def call_until_killed(self) -> None:
        try:
            async with httpx.AsyncClient(headers=ACCEPTED, timeout=20) as client:
                await self._call(client)
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            return

    async def _call(self, client: httpx.AsyncClient) -> None:
        greeting = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": self._name.partition("-")[0], "version": "1"},
        }
        greeted = await client.post(self._url, json=_request("initialize", greeting, 0))
        session = {"mcp-session-id": greeted.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await client.post(self._url, json=initialized, headers=session)
        while True:
            self._count += 1
            text = f"{self._name}-{self._count}"
            call = {"name": "write", "arguments": {"text": text}}
            answer = await client.post(self._url, json=_request("tools/call", call, self._count), headers=session)
            assert answer.status_code == 200, answer.text
            assert "written" in answer.text, answer.text
            self.answered.append(text)


def _request(method: str, params: object, request_id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": request_id}


def _facts(store: Store, task: str) -> tuple[set[str], set[str]]:
    """The digests of the arguments of calls that were allowed, and of those that were settled as made."""
    allowed: dict[str, str] = {}
    settled: set[str] = set()
    for data in (data_of(fact) for entry in store.read(task) for fact in facts_of(decode(entry.data))):
        if isinstance(data, ToolAllowed):
            allowed[data.call] = data.digest
        elif isinstance(data, ToolSettled) and data.outcome == "ok":
            settled.add(allowed[data.call])
    return set(allowed.values()), settled


def _digest(text: str) -> str:
    return digest(canonical({"text": text}))


def test_a_kill_loses_nothing_that_was_answered(work: GatewayWorkspace) -> None:
    """After kills in the middle of calls: answered calls are settled, effects have intents, histories verify and continue."""
    chance = random.Random(18)
    answered: dict[str, list[str]] = {f"t{number}": [] for number in range(CLIENTS)}

    async def turn(number: int) -> None:
        callers = {task: Caller(work, task, number) for task in answered}
        running = [asyncio.create_task(caller.call_until_killed()) for caller in callers.values()]
        enough = chance.randrange(CLIENTS, 6 * CLIENTS)
        while sum(len(caller.answered) for caller in callers.values()) < enough:
            await asyncio.sleep(0.002)
            assert not any(one.done() for one in running), [one.exception() for one in running if one.done()]
        work.stop(signal.SIGKILL)
        await asyncio.wait_for(asyncio.gather(*running), 60)
        for task, caller in callers.items():
            answered[task] += caller.answered

    for number in range(KILLS):
        if work.gateway is None:
            work.start()
        asyncio.run(turn(number))
    work.stop_server()
    effects = work.called()
    made = set(effects)
    url = os.environ.get("ADJOURN_STORE") or str(work.root / ".aex" / "adjourn.db")
    with closing(open_store(url)) as store:
        for task, texts in answered.items():
            assert verify_task(store, task).findings == []
            allowed, settled = _facts(store, task)
            assert {_digest(text) for text in texts} <= settled
            assert {_digest(text) for text in made if text.startswith(f"{task}-")} <= allowed
    assert {text for texts in answered.values() for text in texts} <= made
    assert len(effects) == len(made)
