"""The simulation: it loses and doubles nothing, obeys the laws of queues, repeats itself, and meets what was measured."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pytest

from sim import report, study, validate
from sim.database import MICRO
from sim.loop import Loop, Processors
from sim.model import RETRY, TAIL, Result, run
from sim.settings import Costs, Plan, figures

SMALL = Plan(gateways=4, tasks=2_000, rate=400, notify="never", warm=1, seconds=6)
KILLED = Plan(gateways=4, tasks=2_000, rate=400, notify="never", warm=1, seconds=12, kill_replica=3)
NO_PRIMARY = Plan(gateways=4, tasks=2_000, rate=400, notify="never", warm=1, seconds=12, kill_primary=3, gap=4)
TOLERANCE = 0.4
"""What a prediction is at least of what was measured, and what was measured at least of a prediction."""


@pytest.fixture(scope="module")
def costs() -> Costs:
    return Costs.load()


def test_a_queue_of_one_processor_waits_as_theory_says() -> None:
    """With Poisson arrivals and exponential service, a job is in the system for 1 / (service rate - arrival rate)."""
    loop, random, times = Loop(), Random(7), list[float]()
    processor = Processors(loop)

    def arrive() -> None:
        began = loop.now
        processor.use(random.expovariate(100), lambda: times.append(loop.now - began))
        loop.after(random.expovariate(60), arrive)

    arrive()
    loop.run(1_500)
    assert sum(times) / len(times) == pytest.approx(1 / (100 - 60), rel=0.05)
    assert processor.busy / loop.now == pytest.approx(0.6, rel=0.03)


def test_events_of_one_time_keep_their_order() -> None:
    """Actions happen by time, and in the order in which they were given where times are equal."""
    loop, seen = Loop(), list[str]()
    for name, seconds in (("c", 2.0), ("a", 1.0), ("b", 1.0), ("never", 3.0)):
        loop.after(seconds, partial(seen.append, name))
    loop.run(2.5)
    assert (seen, loop.now) == (["a", "b", "c"], 2.5)


def test_a_seed_gives_the_same_run(costs: Costs) -> None:
    """Two runs of a plan are equal in every figure; another seed gives other arrivals."""
    first = run(SMALL, costs)
    assert first == run(SMALL, costs)
    assert first.added != run(msgspec.structs.replace(SMALL, seed=2), costs).added


@pytest.mark.parametrize("plan", [SMALL, KILLED, NO_PRIMARY], ids=["quiet", "a replica killed", "the primary killed"])
def test_no_call_is_lost_or_made_twice(plan: Plan, costs: Costs) -> None:
    """Each call that arrived has one outcome or is still open, and no effect was executed twice."""
    found = run(plan, costs)
    assert found.arrived == sum(found.outcomes.values()) + found.still_open
    assert found.executed_twice == 0
    assert found.outcomes["answered"] > 0.98 * found.arrived


@pytest.mark.parametrize("batching", [True, False])
def test_little_s_law_holds(batching: bool, costs: Costs) -> None:
    """The mean number of calls in the system is their rate times their mean time in it."""
    plan = Plan(gateways=4, tasks=2_000, rate=200, notify="never", warm=2, seconds=20, batching=batching)
    found = run(plan, costs)
    assert found.open_mean == pytest.approx(found.per_s * found.time_mean, rel=0.03)


def test_a_killed_replica_s_tasks_wait_for_its_lease(costs: Costs) -> None:
    """Its calls with an effect under way are in doubt or have a recorded answer; its tasks are taken over after the lease, not before."""
    found = run(KILLED, costs)
    assert set(found.outcomes) <= {"answered", "in doubt", "recorded answer"}
    assert found.taken_over > 0
    longest = found.percentile(1)
    assert KILLED.lease_seconds - KILLED.lease_interval < longest < KILLED.lease_seconds + 1.5


def test_a_killed_primary_delays_calls_and_the_backlog_drains(costs: Costs) -> None:
    """No call is answered late by much more than the gap, and as few calls are open afterwards as before."""
    found = run(NO_PRIMARY, costs)
    assert NO_PRIMARY.gap - 0.5 < found.percentile(1) < NO_PRIMARY.gap + 1
    before, after = (_open_at(found, second) for second in (2.5, 12.5))
    assert max(number for _, number in found.waiting) > 5 * before
    assert after < 2 * before


def _open_at(found: Result, second: float) -> int:
    return next(number for at, number in found.waiting if at >= second)


def test_a_lease_for_each_task_costs_a_statement_for_each_task(costs: Costs) -> None:
    """With leases of sessions every task is renewed every 20 s; with those of replicas the number of tasks does not matter."""
    plan = {"gateways": 4, "rate": 50.0, "notify": "never", "warm": 1.0, "seconds": 24.0}
    sessions = run(Plan(tasks=4_000, leases="session", **plan), costs)  # type: ignore[arg-type]
    replicas = run(Plan(tasks=4_000, leases="replica", **plan), costs)  # type: ignore[arg-type]
    assert sessions.lease_statements_per_s > 4_000 / 25 * costs.heartbeat_statements
    assert replicas.lease_statements_per_s < 4 * costs.heartbeat_statements + 1


def test_a_killed_replica_s_sessions_start_again_once_each(costs: Costs) -> None:
    """Each session of the replica that is killed starts once at another; no start is lost, and calls arrive as they did without."""
    plan = msgspec.structs.replace(KILLED, sessions=400, starts=5.0, warm=0.0)
    found, without = run(plan, costs), run(msgspec.structs.replace(plan, starts=0.0), costs)
    assert found.arrived == run(msgspec.structs.replace(KILLED, warm=0.0), costs).arrived
    assert len(without.started) == pytest.approx(plan.sessions / plan.gateways, abs=1)
    begun = len(found.started) - len(without.started)
    assert begun == pytest.approx(plan.starts * (plan.seconds - TAIL), rel=0.35)
    assert min(found.started) == pytest.approx(costs.gateway_session_us * MICRO)


def test_more_starts_than_a_processor_bears_pile_up(costs: Costs) -> None:
    """Below what the processors bear a start waits little, beyond that longer and longer."""
    borne = 1e6 / (costs.gateway_session_us + costs.gateway_first_us) * SMALL.gateways
    few, many = (
        run(msgspec.structs.replace(SMALL, rate=1.0, starts=borne * part), costs).started for part in (0.3, 1.5)
    )
    assert few[len(few) // 2] < 3 * costs.gateway_session_us * MICRO
    assert many[len(many) // 2] > 10 * few[len(few) // 2]


def test_every_figure_says_how_it_was_measured() -> None:
    """Each cost has a unit, how and when it was measured, and no cost is left over."""
    assert set(figures()) == set(Costs.__struct_fields__)
    for name, one in figures().items():
        assert {"value", "unit", "how", "when"} <= set(one), name


def test_the_model_meets_the_measured_points() -> None:
    """Each measured rate is predicted within the tolerance that the page states."""
    points = list(validate.points())
    assert points
    wrong = [point for point in points if not TOLERANCE <= point.ratio <= 1 / TOLERANCE]
    assert wrong == []


def test_the_page_shows_the_answers_of_this_model() -> None:
    """The page and its plots are what the last study found, with the model and the costs as they are now: else run tests/sim/run.py."""
    answers = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))
    assert answers["stamp"] == study.stamp()
    texts = [path.read_text("utf-8") for path in report.PAGES]
    assert [report.page(answers, text) for text in texts] == texts
    assert all(any(report.PLACE.format(title) in text for text in texts) for title in report.tables(answers))
    for name, picture in report.pictures(answers).items():
        assert (report.ASSETS / name).read_text("utf-8") == picture


def test_the_page_names_the_plan() -> None:
    """What docs/explanation/scaling.md says in words of the plans, of their leases and of its assumptions is what was simulated."""
    text = " ".join((report.ASSETS.parent / "explanation" / "scaling.md").read_text("utf-8").split())
    plan, failing = Plan(), study.FAILURES["primary killed, gap 5 s"]
    for sentence in (
        f"{plan.tasks:,} live tasks, {plan.rate:,.0f} calls per second, half of them with an effect, {plan.gateways} gateways",
        f"{failing.gateways} gateways, {failing.tasks:,} tasks, {failing.rate:,.0f} calls per second",
        f"Servers take {plan.upstream * 1000:.0f} ms on average",
        f"PostgreSQL {plan.cores} cores",
        f"a round trip is {plan.hop * 1000} ms",
        f"repeats its call after {RETRY} s",
    ):
        assert sentence in text
    team = study.DEVELOPERS["3 gateways, a day"]
    assert (team.sessions, team.rate) == (50_000, 10_000 / 10)
    assert "## 10,000 developers Each has a session of the handshake at each of five servers, 50,000 in all" in text
    costs = Costs.load()
    readings = [round(cost / costs.gateway_reading_us) for cost in (costs.gateway_session_us, costs.gateway_first_us)]
    assert f"costs as much as {readings[0]} readings, and its first call as {readings[1]} more" in text
    assert f"within a factor of {1 / TOLERANCE:g}" in text
    assert (plan.effects, plan.lease_interval, plan.lease_seconds) == (0.5, 1, 3)


def test_three_gateways_do_not_bear_the_loss_of_one_and_ten_do() -> None:
    """Of 10,000 developers, as the last study found: after a kill starts pile up at two gateways that are left, and not at nine."""
    found = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))["developers"]
    assert found["3 gateways, a day"]["start_p99"] < 150
    assert found["3 gateways, one is killed"]["start_p99"] > 1_000
    assert found["10 gateways, one is killed"]["start_p99"] < 150
    assert max(one["cores"] for one in found.values()) < 1
