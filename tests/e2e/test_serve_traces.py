"""`adjourn serve` and OpenTelemetry: one trace from the client to the server behind the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.collector import Collector
from support.in_process_gateway import InProcessGateway
from support.proxy import wait_for
from support.recording_server import RecordingServer

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{TRACE}-{SPAN}-01"
RULES = ("allow up.echo, up.write", "deny up.drop")


class Traced(InProcessGateway):
    """A gateway that sends spans to a collector, before a server that keeps its requests."""

    def __init__(self, path: Path, collector: str, server: RecordingServer) -> None:
        self.upstream = server
        settings = f'[traces]\nendpoint = "{collector}"\nsample = 0.0\n[servers.up]\nurl = "{server.url}"'
        super().__init__(path, *RULES, over="", settings=settings)

    def ask(self, method: str, *, meta: str = "", header: str = "", **params: object) -> httpx.Response:
        told: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        if meta:
            told["traceparent"] = meta
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if "name" in params:
            headers["mcp-name"] = str(params["name"])
        if header:
            headers["traceparent"] = header
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": told}}
        return self.post(message, **headers)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        yield server
        server.shutdown()


@pytest.fixture
def work(tmp_path: Path, collector: Collector) -> Iterator[Traced]:
    with RecordingServer() as server, Traced(tmp_path, collector.url, server) as workspace:
        yield workspace
        server.shutdown()


def by_name(collector: Collector) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for span in collector.spans:
        found.setdefault(span["name"], []).append(span)
    return found


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def test_one_trace_leads_from_the_client_to_the_server(work: Traced, collector: Collector) -> None:
    """Client, request, decision, append and the request to the server, each beneath the right one; the server gets ours in both places."""
    work.ask("tools/list")
    assert work.ask("tools/call", name="write", arguments={"text": "private"}, meta=GIVEN).status_code == 200
    wait_for(lambda: "append" in by_name(collector))
    spans = [span for found in by_name(collector).values() for span in found]
    assert {span["traceId"] for span in spans} == {TRACE}
    served, asked = sorted(by_name(collector)["tools/call write"], key=lambda span: span["kind"])
    (decided,) = by_name(collector)["decide"]
    appends = by_name(collector)["append"]
    assert (served["kind"], served["parentSpanId"]) == (2, SPAN)
    assert (asked["kind"], asked["parentSpanId"]) == (3, served["spanId"])
    assert decided["parentSpanId"] == served["spanId"]
    assert appends
    assert all(one["parentSpanId"] == served["spanId"] for one in appends)
    start, end = int(served["startTimeUnixNano"]), int(served["endTimeUnixNano"])
    for span in (decided, asked, *appends):
        assert start <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) <= end
    told = attributes(served)
    assert (told["adjourn.decision"], told["adjourn.outcome"], told["adjourn.server"]) == ("allowed", "ok", "up")
    assert (told["mcp.method.name"], told["http.response.status_code"]) == ("tools/call", "200")
    assert "private" not in json.dumps(collector.posted)
    ((headers, message),) = work.upstream.of("tools/call")
    ours = f"00-{TRACE}-{asked['spanId']}-01"
    assert headers["traceparent"] == ours
    assert message["params"]["_meta"]["traceparent"] == ours
    assert message["params"]["arguments"] == {"text": "private"}


def test_a_refused_call_has_a_trace_and_one_that_is_not_sampled_has_none(work: Traced, collector: Collector) -> None:
    """A refusal shows its decision and asks no server; what the client does not sample passes on as it is."""
    work.ask("tools/list")
    plain = f"00-{'a' * 32}-{SPAN}-00"
    assert work.ask("tools/call", name="echo", arguments={}, header=plain).status_code == 200
    refused = work.ask("tools/call", name="drop", arguments={}, header=GIVEN)
    assert "up.drop" in refused.text
    work.stop()
    assert by_name(collector).keys() == {"tools/call", "decide"}
    (served,) = by_name(collector)["tools/call"]
    assert attributes(served)["adjourn.decision"] == "denied"
    ((headers, _),) = work.upstream.of("tools/call")
    assert headers["traceparent"] == plain


def test_a_collector_that_is_gone_is_none_of_the_calls(work: Traced, collector: Collector) -> None:
    """Calls are answered as before, and the log says at the end how much was lost."""
    collector.status = 503
    for _ in range(5):
        assert work.ask("tools/call", name="write", arguments={}, header=GIVEN).status_code == 200
    gateway = work.gateway
    assert gateway is not None
    gateway.terminate()
    _, said = gateway.communicate(timeout=30)
    assert "traces.lost" in said
    assert "Service Unavailable" in said
