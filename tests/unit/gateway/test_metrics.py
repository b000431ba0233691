"""What the gateway counts: bounded, and the store that is timed stays a store."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from adjourn.errors import ConflictError, StoreError
from adjourn.gateway import metrics as module
from adjourn.gateway.limits import LoadLimits, Throttle
from adjourn.gateway.metrics import BOUNDS, Exposition, GatewayState, Metrics, Timing, observed
from adjourn.gateway.tracing import AppendTimes
from adjourn.log.canonical_json import digest
from adjourn.store import EMPTY, Entry, Head, Store
from adjourn.store.conformance import StoreConformance
from adjourn.store.memory import MemoryStore
from adjourn.tasks.ledger import Ledger


class TestObservedStore(StoreConformance):
    """It is used in the place of the one that it watches."""

    examples = 20

    def make_store(self) -> Store:
        return observed(MemoryStore(), Metrics({}), AppendTimes())


@given(st.lists(st.floats(0, 200), max_size=50))
def test_a_histogram_counts_each_time_once_and_in_its_bucket(times: list[float]) -> None:
    """As Prometheus has it: each bucket has all that took no longer than its bound."""
    metrics, timing = Metrics({}), Timing()
    for seconds in times:
        timing.add(seconds)
    metrics.deciding["up"] = timing
    shown = {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(Exposition(metrics, None).text().decode())
        for sample in family.samples
        if family.name == "adjourn_decision_seconds"
    }
    for bound in BOUNDS:
        within = sum(seconds <= bound for seconds in times)
        assert shown["adjourn_decision_seconds_bucket", f"{bound:g}", "up"] == within
    assert shown["adjourn_decision_seconds_count", "up"] == len(times)
    assert shown["adjourn_decision_seconds_sum", "up"] == pytest.approx(sum(times))


def test_tools_beyond_the_limit_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that lists ever new tools does not make ever new series."""
    monkeypatch.setattr(module, "MAX_TOOLS", 3)
    metrics = Metrics({})
    names = [metrics.name_of("up", f"tool-{number}") for number in range(10)]
    assert names == ["tool-0", "tool-1", "tool-2", *["other"] * 7]
    assert metrics.name_of("up", "tool-1") == "tool-1"


class Broken(MemoryStore):
    def streams(self, prefix: str = "") -> dict[str, Head]:
        raise StoreError("no streams", "try again")


def test_what_the_store_does_is_counted() -> None:
    """Appends with their time, those that came too late, and failures by what was asked; each passes on unchanged."""
    metrics = Metrics({})
    store = observed(Broken(), metrics, AppendTimes())
    entry = Entry(digest(b"{}"), b"{}")
    store.append("a", [entry], expect=EMPTY)
    with pytest.raises(ConflictError):
        store.append("a", [entry], expect=EMPTY)
    with pytest.raises(StoreError):
        store.streams()
    assert (sum(metrics.appends.counts), metrics.conflicts, dict(metrics.store_errors)) == (1, 1, {"streams": 1})
    assert [one.data for one in store.read("a")] == [b"{}"]


def _exposed(*ledgers: Ledger) -> dict[str, float]:
    """What a gateway that works on tasks with these ledgers shows without labels; every family, also those without a value."""
    tasks = [SimpleNamespace(id=ledger.task, ledger=ledger, deferred=[]) for ledger in ledgers]
    context = SimpleNamespace(sessions=[SimpleNamespace(task=task) for task in tasks])
    with ThreadPoolExecutor(1) as workers:
        report: Any = SimpleNamespace(size=0)
        contexts: Any = lambda: [context]  # noqa: E731  # a Callable of the tuple
        state = GatewayState(list, contexts, Throttle(LoadLimits()), workers, report)
        text = Exposition(Metrics({}), state).text().decode()
    shown: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        shown[family.name] = next((sample.value for sample in family.samples), 0.0)
    return shown


def test_budgets_that_run_out_are_shown() -> None:
    """Without names: how many tasks have no call left, and how little one has left."""
    ledgers = [
        Ledger(task="free"),
        Ledger(task="half", budget=10, calls_used=5),
        Ledger(task="over", budget=4, calls_used=4),
    ]
    for count, spent, left in ((1, 0, 1.0), (2, 0, 0.5), (3, 1, 0.0)):
        shown = _exposed(*ledgers[:count])
        assert (shown["adjourn_budgets_spent"], shown["adjourn_budget_left_ratio"]) == (spent, left)


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    """Each name in `deploy/grafana.json` is shown by the gateway."""
    board = json.loads((Path(__file__).parents[3] / "deploy" / "grafana.json").read_text("utf-8"))
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"adjourn_[a-z_]+", target["expr"])
    }
    assert len(asked) > 10
    endings = "", "_total", "_bucket"
    assert asked <= {f"{name}{ending}" for name in _exposed() for ending in endings}


def test_the_time_of_a_call_is_that_of_its_tool() -> None:
    """Two tools of a server are two series; their sum is the server's."""
    metrics = Metrics({})
    for tool, seconds in (("get", 0.01), ("set", 2.0), ("set", 3.0)):
        metrics.upstream["up", tool].add(seconds)
    sums = {
        sample.labels["tool"]: sample.value
        for family in text_string_to_metric_families(Exposition(metrics, None).text().decode())
        for sample in family.samples
        if sample.name == "adjourn_upstream_seconds_sum"
    }
    assert sums == {"get": 0.01, "set": 5.0}
