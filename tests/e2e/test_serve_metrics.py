"""`adjourn serve` says what it does: metrics for Prometheus, and a log of JSON lines."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from prometheus_client.parser import text_string_to_metric_families

from support.gateway import GatewayWorkspace
from support.in_process_gateway import InProcessGateway
from support.ports import free_port
from support.proxy import wait_for

RULES = ("allow up.echo, up.write, up.pause", "deny up.drop", "confirm before up.pause")
SECRET = "sk-ant-api03-" + "a1B2c3D4" * 6
SHOWN = "what only the arguments say"
Samples = dict[tuple[str, ...], float]


class Observing(GatewayWorkspace):
    """A gateway with metrics on an address of their own, and a log of JSON lines."""

    def __init__(self, path: Path, *rules: str, settings: str = "") -> None:
        self.metrics_port = free_port()
        settings = f'log = "json"\n{settings}\n[metrics]\nlisten = "127.0.0.1:{self.metrics_port}"'
        super().__init__(path, *rules, settings=settings)

    def scrape(self) -> Samples:
        """Each sample by its name and the values of its labels, in the order of their names."""
        answer = httpx.get(f"http://127.0.0.1:{self.metrics_port}/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }

    def log(self) -> list[dict[str, Any]]:
        """End the gateway; returns what it wrote on stderr."""
        assert self.gateway is not None
        self.gateway.send_signal(signal.SIGTERM)
        _, said = self.gateway.communicate(timeout=30)
        return [json.loads(line) for line in said.splitlines()]


class Observed(Observing, InProcessGateway):
    """That gateway in this process."""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Observed]:
    with Observed(tmp_path, *RULES) as workspace:
        yield workspace


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Observing]:
    with Observing(tmp_path, *RULES) as workspace:
        yield workspace


async def session(client: Client) -> None:
    await client.list_tools()
    for _ in range(3):
        await client.call_tool("echo", {"text": SHOWN})
    await client.call_tool("write", {"text": SECRET})
    assert (await client.call_tool("drop", {"text": SHOWN})).is_error


def test_calls_are_counted_and_timed(work: Observed) -> None:
    """By server, tool and outcome; a tool that no server lists has no name of its own, so clients cannot make series."""
    work.run(session, mode="legacy")
    samples = work.scrape()
    assert samples["adjourn_decisions_total", "allowed", "up", "echo"] == 3
    assert samples["adjourn_calls_total", "ok", "up", "echo"] == 3
    assert samples["adjourn_calls_total", "ok", "up", "write"] == 1
    assert samples["adjourn_decisions_total", "denied", "up", "other"] == 1
    assert "drop" not in {label for key in samples for label in key}
    for name, count, about in (("decision", 4, ()), ("upstream", 3, ("echo",)), ("upstream", 1, ("write",))):
        assert samples[f"adjourn_{name}_seconds_count", "up", *about] == count
        assert samples[f"adjourn_{name}_seconds_bucket", "+Inf", "up", *about] == count
        assert 0 < samples[f"adjourn_{name}_seconds_sum", "up", *about] < 60
    assert samples["adjourn_append_seconds_count",] >= 3
    assert samples["adjourn_upstream_up", "up"] == 1
    assert samples["adjourn_requests_in_flight",] == 0
    assert samples["adjourn_http_responses_total", "200"] >= 7
    assert samples["process_resident_memory_bytes",] > 0


def test_metrics_have_an_address_of_their_own(work: Observed) -> None:
    """There are they and the pages of health, and no server; at the servers' address they are only where a setting says so."""
    own = f"http://127.0.0.1:{work.metrics_port}"
    assert httpx.get(work.url("/metrics")).status_code == 404
    assert httpx.get(f"{own}/healthz").json() == {"status": "alive"}
    assert httpx.get(f"{own}/readyz").json()["status"] == "ready"
    assert httpx.post(f"{own}/up/mcp", json={}).status_code == 404
    work.stop()
    config = work.root / "adjourn.toml"
    shared = config.read_text().replace(f'listen = "127.0.0.1:{work.metrics_port}"', "shared = true")
    config.write_text(shared, encoding="utf-8")
    work.start()
    assert "adjourn_info{" in httpx.get(work.url("/metrics")).text


def test_the_log_says_who_called_what_and_not_with_what(process: Observing) -> None:
    """One object of JSON a line, with level, client, server and the request's id; arguments and secrets are not in it."""
    process.run(session, mode="legacy")
    refused = process.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, **{"x-request-id": "from-outside"})
    assert (refused.status_code, refused.headers["x-request-id"]) == (400, "from-outside")
    odd = process.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, **{"x-request-id": "x" * 65})
    assert odd.headers["x-request-id"] != "x" * 65
    lines = process.log()
    text = json.dumps(lines)
    assert SHOWN not in text
    assert SECRET not in text
    assert all({"data", "event", "level", "timestamp"} <= line.keys() for line in lines)
    settled = [line for line in lines if line["event"] == "tool.settled"]
    assert [line["data"]["tool"] for line in settled] == ["echo", "echo", "echo", "write"]
    assert {(line["server"], line["client"], line["level"]) for line in settled} == {("up", "mcp", "info")}
    assert len({line["data"]["request"] for line in settled}) == 4
    (denied,) = [line for line in lines if line["event"] == "tool.denied"]
    assert (denied["level"], denied["server"]) == ("warning", "up")
    said = [line["data"] for line in lines if line["event"] == "request.refused"]
    assert {"method": "POST", "status": 400, "request": "from-outside"} in said


def test_the_log_names_a_principal_beside_its_id(tmp_path: Path) -> None:
    """A line about a call has the id and the name of whoever the key belongs to."""
    with Observing(tmp_path, *RULES, settings="auth.keys = true") as process:
        process.run(session, token=process.key("ann", "--human"))
        settled = [line for line in process.log() if line["event"] == "tool.settled"]
    assert {(line["principal"][:4], line["principalName"]) for line in settled} == {("key:", "ann")}


def test_what_holds_and_waits_is_shown(work: Observed) -> None:
    """Sessions, leases, tasks, and a question to a person, as they are at the moment of the scrape."""

    async def ask(client: Client) -> Samples:
        await client.list_tools()
        call = asyncio.ensure_future(client.call_tool("pause", {"text": "x", "seconds": 0}))
        await asyncio.to_thread(wait_for, lambda: work.scrape()["adjourn_approvals_waiting",])
        samples = work.scrape()
        call.cancel()
        return samples

    samples = work.run(ask, mode="legacy")
    assert samples["adjourn_sessions", "up"] == 1
    assert (samples["adjourn_leases",], samples["adjourn_tasks",]) == (1, 1)
    assert samples["adjourn_approvals_waiting",] == 1
    assert samples["adjourn_decisions_total", "asked", "up", "pause"] == 1
    assert samples["adjourn_draining",] == 0
