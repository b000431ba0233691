"""What a ledger knows of time: rates in slices that never let too much through, and the time that was worked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.log import kinds
from adjourn.tasks import entries as module
from adjourn.tasks.entries import rate_key, rate_used
from adjourn.tasks.ledger import PAUSE, Ledger
from support.clock import NOON
from support.events import TASK, chained
from support.ledger_facts import LIMIT, ONE, Facts, after, allowed
from support.strategies import histories

times = st.lists(st.integers(0, 40_000) | st.integers(0, 500), min_size=1, max_size=60)
"""Milliseconds from one event to the next: some quick, some slow."""


def at_times(ledger: Ledger, gaps: Sequence[int], decide: Any) -> list[int]:
    """Events at these distances, each with the fact that `decide(ledger, now)` names; the times of those that had one."""
    now, made = NOON, []
    for gap in gaps:
        now += gap
        item = decide(ledger, now)
        if item is None:
            continue
        made.append(now)
        (event, event_hash, _) = _next(ledger, item, now)
        ledger.apply(event, event_hash, item)
    return made


def _next(ledger: Ledger, item: kinds.Data, now: int) -> Any:
    first = chained([(item, "s1")], first_time=now)[0][0]
    event = msgspec.structs.replace(first, after=ledger.hash, seq=ledger.seq + 1)
    return event, ONE, b""


@given(times, st.integers(1, 5), st.sampled_from([1, 60, 3600]))
def test_a_rate_never_lets_more_through_in_any_period(gaps: list[int], amount: int, seconds: int) -> None:
    """Whenever calls come: no period of the limit's length holds more of them than the limit, and room is given back."""
    key = rate_key(amount, seconds, "deploy")

    def decide(ledger: Ledger, now: int) -> kinds.Data | None:
        return allowed("c", limits=[key])[0] if rate_used(ledger.rates, key, now) < amount else None

    ledger = Ledger(task=TASK)
    made = at_times(ledger, gaps, decide)
    period = seconds * 1000
    for start in made:
        assert sum(start <= other < start + period for other in made) <= amount
    assert rate_used(ledger.rates, key, made[-1] + period * 62 // 60) == 0


@given(times)
def test_a_rate_counts_the_very_calls_of_its_period_or_a_sixtieth_more(gaps: list[int]) -> None:
    """What a limit has used is never less than the calls of its period, and never more than those of 61 sixtieths."""
    key, period = rate_key(5, 60, "deploy"), 60_000
    ledger = Ledger(task=TASK)
    made = at_times(ledger, gaps, lambda *_: allowed("c", limits=[key])[0])
    used = rate_used(ledger.rates, key, made[-1])
    assert sum(made[-1] - at < period for at in made) <= used
    assert used <= sum(made[-1] - at <= period * 61 // 60 for at in made)


def test_a_clock_that_goes_back_gives_no_room() -> None:
    """Calls that were counted at a later time than now count now."""
    ledger = Ledger(task=TASK)
    for now in (NOON + 90_000, NOON):
        (event, event_hash, _) = _next(ledger, item := allowed("c", limits=[LIMIT])[0], now)
        ledger.apply(event, event_hash, item)
    assert rate_used(ledger.rates, LIMIT, NOON) == rate_used(ledger.rates, LIMIT, NOON + 90_000) == 2


def test_the_rates_are_bounded_and_those_that_count_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound a limit whose period is over is forgotten, and none that still counts calls before it."""
    monkeypatch.setattr(module, "MAX_RATES", 2)
    short, long, third = rate_key(1, 1, "a"), rate_key(1, 3600, "b"), rate_key(1, 3600, "c")
    ledger = Ledger(task=TASK)
    for at, key in ((0, long), (1, short), (9, third), (10, long)):
        item = allowed("c", limits=[key])[0]
        (event, event_hash, _) = _next(ledger, item, NOON + 1000 * at)
        ledger.apply(event, event_hash, item)
    assert set(ledger.rates) == {long, third}
    assert rate_used(ledger.rates, long, NOON + 10_000) == 2


def test_a_limit_that_counts_on_is_not_the_first_to_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """When all still count, the one that has counted nothing for longest makes room."""
    monkeypatch.setattr(module, "MAX_RATES", 2)
    keys = [rate_key(1, 3600, name) for name in "abc"]
    ledger = after(*(allowed(f"c{n}", limits=[keys[n]]) for n in (0, 1, 0, 2)))
    assert list(ledger.rates) == [keys[0], keys[2]]


@given(st.lists(st.integers(-PAUSE, 3 * PAUSE) | st.integers(0, 5000), max_size=40))
def test_worked_time_only_grows_and_a_pause_counts_five_minutes_at_most(gaps: list[int]) -> None:
    """Time between events is work, as long as it is no pause; a clock that goes back takes nothing away."""
    ledger = Ledger(task=TASK)
    now, expected = NOON, 0
    for number, gap in enumerate([0, *gaps]):
        now += gap
        before = ledger.worked
        (event, event_hash, _) = _next(ledger, item := kinds.UpstreamError(message="m"), now)
        ledger.apply(event, event_hash, item)
        expected += min(max(gap, 0), PAUSE) if number else 0
        assert before <= ledger.worked == expected


@given(histories)
def test_tokens_and_money_only_grow(facts: Facts) -> None:
    """Over any facts in any order, what was reported is never taken back."""
    ledger = Ledger(task=TASK)
    for (event, event_hash, _), (item, _) in zip(chained(facts), facts, strict=True):
        before = (ledger.tokens, ledger.micro_usd)
        ledger.apply(event, event_hash, item)
        assert ledger.tokens >= before[0]
        assert ledger.micro_usd >= before[1]


def test_events_with_impossible_times_do_not_stop_the_fold() -> None:
    """An imported event whose time stamp is no time counts no work and no rate, and is folded like any other."""
    ledger = after(allowed("c1", limits=[LIMIT]))
    item = allowed("c2", limits=[LIMIT])[0]
    (event, event_hash, _) = _next(ledger, item, NOON)
    ledger.apply(msgspec.structs.replace(event, timestamp="2026-05-02T15:30:xx"), event_hash, item)
    assert (ledger.calls_used, ledger.worked, rate_used(ledger.rates, LIMIT, NOON)) == (2, 0, 1)


@pytest.mark.parametrize("seconds", [1, 60, 3600, 86_400])
def test_a_call_at_the_end_of_its_slice_counts_for_the_whole_period(seconds: int) -> None:
    """It takes its room until the last millisecond of the period, and a sixtieth later none."""
    key, period = rate_key(1, seconds, "deploy"), seconds * 1000
    slice_end = (NOON // period + 1) * period - 1
    ledger = Ledger(task=TASK)
    (event, event_hash, _) = _next(ledger, item := allowed("c", limits=[key])[0], slice_end)
    ledger.apply(event, event_hash, item)
    assert rate_used(ledger.rates, key, slice_end + period - 1) == 1
    assert rate_used(ledger.rates, key, slice_end + period * 61 // 60 + 1) == 0
