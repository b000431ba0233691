"""Gateways before a PostgreSQL server that fails: a synchronous standby is promoted by hand, or the server comes back.

The short form of `python tests/cluster/run.py`, which breaks a cluster under Patroni.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.facts import facts
from cluster.load import Load
from cluster.run import afterwards
from support.proxy import wait_for
from support.replicas import Replicas
from support.standby import Pair

RULES = ("allow up.soon, up.held", "budget calls=100000")


@pytest.fixture
def pair(postgres_server: Any) -> Iterator[Pair]:
    pair = Pair(postgres_server)
    yield pair
    pair.stop(1)


def test_calls_continue_on_a_promoted_standby(tmp_path: Path, pair: Pair) -> None:
    """The primary is killed under load: no acknowledged call is lost, no effect doubled, none refunded; all in doubt are listed."""
    with Replicas(tmp_path, pair.url, *RULES, count=2) as replicas:

        async def fail_over() -> tuple[Load, dict[str, str]]:
            load = Load(replicas, ["t0", "t1"], 2, seed=1)
            async with load:
                await load.all_continue()
                await asyncio.to_thread(pair.stop, 0)
                await asyncio.to_thread(pair.promote)
                await load.all_continue()
            answers = await afterwards(replicas, load)
            await load.close()
            return load, answers

        load, answers = asyncio.run(fail_over())
        found = facts(replicas, load, answers)
        assert found.is_right, found
        assert found.acknowledged >= 24


def test_a_call_that_fails_while_the_store_is_away_is_in_doubt(tmp_path: Path, pair: Pair) -> None:
    """The server is killed while PostgreSQL is down: that no answer came is recorded with the task's next call, and a person is asked."""
    with Replicas(tmp_path, pair.url, *RULES, count=1) as replicas, ThreadPoolExecutor() as pool:
        called = pool.submit(replicas.call, 0, "held", "one", key="k1")
        wait_for(lambda: "one" in replicas.called())
        pair.stop(0)
        replicas.server.kill()
        called.result()
        pair.start(pair.folders[0], 6001)
        replicas.start_server()
        wait_for(lambda: replicas.call(0, "soon", "two", key="k2") == "soon: two")
        (doubt,) = json.loads(replicas.adjourn("inbox", "--json"))["waiting"]
        assert doubt["kind"] == "in-doubt"
        assert replicas.called() == ["one", "two"]
    pair.stop(0)


def test_a_call_that_was_refused_is_not_in_doubt(tmp_path: Path, pair: Pair) -> None:
    """The primary is killed while it writes an intent, and has it when it is back: the call was not sent, and is made when it is repeated."""
    with Replicas(tmp_path, pair.url, *RULES, count=2) as replicas, ThreadPoolExecutor() as pool:
        for number in (0, 1):
            assert replicas.call(number, "soon", f"before {number}") == f"soon: before {number}"
        pair.stop(1)  # no commit is acknowledged from now on
        called = pool.submit(replicas.call, 0, "soon", "one", key="k1")
        wait_for(pair.is_waiting)
        pair.stop(0)
        assert "it could not be recorded" in called.result()
        for number, port in enumerate((6001, 6002)):
            pair.start(pair.folders[number], port)
        wait_for(lambda: replicas.call(1, "soon", "one", key="k1") == "soon: one")
        assert json.loads(replicas.adjourn("inbox", "--json"))["waiting"] == []
        assert replicas.called() == ["before 0", "before 1", "one"]
        assert replicas.status("job")["callsUsed"] == 4
        assert replicas.adjourn("verify").startswith("valid: 1 task")
    pair.stop(0)


@pytest.mark.parametrize("way", ["DELETE", "SIGTERM"])
def test_an_answer_that_waits_is_recorded_though_its_session_ends(tmp_path: Path, pair: Pair, way: str) -> None:
    """A session is deleted, or its client leaves and the gateway ends, while PostgreSQL is down: what the server answered is not in doubt."""
    lasting = "[limits]\ndrain_seconds = 300"
    with (
        Replicas(tmp_path, pair.url, *RULES, count=1, settings=lasting) as replicas,
        closing(HTTPConnection("127.0.0.1", replicas.ports[0], timeout=120)) as client,
    ):
        accepts = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

        def post(method: str, params: dict[str, Any]) -> None:
            message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
            client.request("POST", "/up/t/job/mcp", json.dumps(message), accepts)

        info = {"name": "c", "version": "1"}
        post("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        greeted = client.getresponse()
        greeted.read()
        accepts["mcp-session-id"] = greeted.headers["mcp-session-id"]
        post("tools/call", {"name": "held", "arguments": {"text": "one"}})
        wait_for(lambda: "one" in replicas.called())
        pair.stop(0)
        replicas.effects.with_name(f"{replicas.effects.name}.free").touch()
        wait_for(lambda: "answer.waits" in replicas.log(0))
        gateway = replicas.gateways[0]
        assert gateway is not None
        if way == "DELETE":
            deleted = httpx.delete(replicas.url(0, "job"), headers=accepts)
            assert (deleted.status_code, b"held: one" in client.getresponse().read()) == (200, True)
        else:
            client.close()
            gateway.send_signal(signal.SIGTERM)
            wait_for(lambda: not listens(replicas.ports[0]), 60)
        pair.start(pair.folders[0], 6001)
        wait_for(lambda: "tool.settled" in replicas.adjourn("log", "job", "--json"), 60)
        if way == "DELETE":  # else it ends by the first one, and a second one may meet an interpreter without handlers
            gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(60) == 0
        assert json.loads(replicas.adjourn("inbox", "--json"))["waiting"] == []
        pair.stop(0)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_an_answer_waits_for_a_store_that_is_away(tmp_path: Path, pair: Pair) -> None:
    """A call is answered while PostgreSQL is down: the client gets the answer once it is recorded, and again when it repeats the call."""
    with Replicas(tmp_path, pair.url, *RULES, count=1) as replicas, ThreadPoolExecutor() as pool:
        called = pool.submit(replicas.call, 0, "held", "one", key="k1")
        wait_for(lambda: "one" in replicas.called())
        pair.stop(0)
        replicas.effects.with_name(f"{replicas.effects.name}.free").touch()
        wait_for(lambda: "answer.waits" in replicas.log(0))
        pair.start(pair.folders[0], 6001)
        assert called.result() == "held: one"
        assert replicas.call(0, "held", "one", key="k1") == "held: one"
        assert replicas.called() == ["one"]
        pair.stop(0)
