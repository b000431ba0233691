"""What the gateway counts: bounded, and the store that is timed stays a store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from adjourn.errors import ConflictError, StoreError
from adjourn.gateway import metrics as module
from adjourn.gateway.metrics import BOUNDS, Exposition, Metrics, Timing, observed
from adjourn.gateway.tracing import AppendTimes
from adjourn.log.canonical_json import digest
from adjourn.store import EMPTY, Entry, Head, Store
from adjourn.store.conformance import StoreConformance
from adjourn.store.memory import MemoryStore


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
