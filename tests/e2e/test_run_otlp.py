"""`adjourn run --otlp-endpoint`: the events of a run reach a collector, and a collector in trouble is none of the run's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.collector import Collector
from support.run_command import RunWorkspace


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        yield server
        server.shutdown()


@pytest.fixture
def work(tmp_path: Path) -> RunWorkspace:
    return RunWorkspace(tmp_path)


def _attributes(span: dict[str, Any]) -> dict[str, str]:
    return {one["key"]: one["value"]["stringValue"] for one in span["attributes"]}


@pytest.mark.parametrize("shown", [(), ("--log-json",), ("--json",)])
def test_each_event_is_a_span_whatever_is_printed(
    work: RunWorkspace, collector: Collector, shown: tuple[str, ...]
) -> None:
    """In order, with the event's data as texts, a name and ids in the form of OTLP; also without --log-json."""
    work.write("a.txt", "grüße")
    file = work.contract('do file.read(paths="a.txt") -> a', "check a", "return a")
    done = work.adjourn("run", file, "--otlp-endpoint", collector.url, *shown)
    assert (done.returncode, done.stderr) == (0, "")
    names = ["run.started", "tool.allowed", "tool.result", "check.passed", "run.finished"]
    assert [span["name"] for span in collector.spans] == names
    assert {(path, kind) for path, kind, _ in collector.posted} == {("/v1/traces", "application/json")}
    result = collector.spans[2]
    told = _attributes(result)
    assert (told["aex.event"], told["aex.tool"], told["aex.bind"]) == ("tool.result", "file.read", "a")
    assert json.loads(told["aex.result"]) == {"a.txt": "grüße"}
    assert result["startTimeUnixNano"] == result["endTimeUnixNano"]
    assert abs(int(result["startTimeUnixNano"]) / 1e9 - time.time()) < 60
    assert all(len(bytes.fromhex(span["traceId"])) == 16 for span in collector.spans)
    assert len({bytes.fromhex(span["spanId"]) for span in collector.spans}) == len(names)
    if shown == ("--log-json",):
        printed = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event"')]
        ids = [(span["traceId"], span["spanId"]) for span in collector.spans]
        assert [(one["traceId"], one["spanId"]) for one in printed] == ids


def test_an_address_with_a_path_is_taken_as_it_is(work: RunWorkspace, collector: Collector) -> None:
    """A collector may listen elsewhere than at /v1/traces."""
    assert work.adjourn("run", work.contract("return 1"), "--otlp-endpoint", f"{collector.url}/in?k=1").returncode == 0
    assert {path for path, _, _ in collector.posted} == {"/in?k=1"}


def test_a_collector_in_trouble_is_a_warning(work: RunWorkspace, collector: Collector) -> None:
    """One that refuses, is not there, or never answers: the run succeeds within the time, and stderr says what was lost."""
    file = work.contract("return 1")
    collector.status = 503
    for url, why in ((collector.url, "it answered 503"), ("http://127.0.0.1:1", "refused")):
        done = work.adjourn("run", file, "--otlp-endpoint", url)
        assert done.returncode == 0
        assert f"2 of 2 events did not reach {url}/v1/traces" in done.stderr
        assert why in done.stderr
    collector.delay = 30
    began = time.monotonic()
    done = work.adjourn("run", file, "--otlp-endpoint", collector.url)
    assert time.monotonic() - began < 15
    assert done.returncode == 0
    assert "within 5 seconds" in done.stderr or "timed out" in done.stderr


def test_what_is_no_address_is_wrong_usage(work: RunWorkspace) -> None:
    """Before anything runs."""
    for url in ("localhost:4318", "file:///etc/passwd", "http://[", "http://h:99999"):
        done = work.adjourn("run", work.contract("return 1"), "--otlp-endpoint", url)
        assert done.returncode == 2
        assert "--otlp-endpoint" in done.stderr
    assert not (work.root / ".aex" / "adjourn.db").exists()
