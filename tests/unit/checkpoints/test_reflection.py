"""What archived chains tell: the statistics, when one becomes a heuristic, and the section of MEMORY.md that keeps them."""

from __future__ import annotations

import math
import random
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints import reflect as charts
from adjourn.checkpoints.plans import kept_rules
from adjourn.checkpoints.reflection import (
    DAY,
    ERROR,
    HEADING,
    SUPPORT,
    Indexed,
    ResumeFact,
    SessionEnding,
    Statistic,
    chains_of,
    is_supported,
    percentile,
    remembered,
    statistics,
)
from adjourn.log import kinds
from adjourn.store.memory import MemoryStore
from adjourn.tasks.task import NewEvent, Task
from support.cases import for_each
from support.chains import PLANTS, Plant, history
from support.clock import Clock


def one(task: int, number: int = 0, **more: Any) -> Indexed:
    facts: dict[str, Any] = {
        "id": f"{task:02}{number:02}" + "f" * 60, "task": f"t{task}", "file": "f", "time": number * 60_000,
        "trigger": "agent", "status": "archived", "used": 25, "resumed_count": 0, "budget": 50,
    }  # fmt: skip
    return Indexed(**facts | more)


def told(name: str, entries: list[Indexed]) -> Statistic:
    return next(each for each in statistics(chains_of(entries)) if each.name == name)


def resume(age: int, first_action: int = 1000) -> ResumeFact:
    return ResumeFact(at=1, age=age, first_action=first_action)


ENOUGH = 9
"""Chains of which all have to support a statement: the least with which the test finds it."""
CASES: list[tuple[str, Any, str]] = [
    ("position", lambda n: [one(n, used=30 + n % 3)], "made at about 60 % of the budget"),
    ("position", lambda n: [one(n, used=n * 5)], ""),
    ("position", lambda n: [one(n, trigger="at 75% of calls=50", used=38)], ""),
    ("age", lambda n: [one(n, resumes=(resume(DAY),))], "resumed within 24 hours"),
    ("age", lambda n: [one(n, resumes=(resume(DAY + 1), resume(5)))], ""),
    ("rollback", lambda n: [one(n, trigger="before deploy", failed=True, rolled_back=True)], "mostly deploy: prepare"),
    ("rollback", lambda n: [one(n, trigger="before deploy", failed=True, rolled_back=n < 5)], ""),
    ("budget", lambda n: [one(n, used=50, endings=(SessionEnding(reason="x", used=50 + n, lost=n),))], "the budget of 50 calls ends the sessions"),
    ("budget", lambda n: [one(n, endings=(SessionEnding(reason="x", used=40, lost=0),))], ""),
    ("lost", lambda n: [one(n, endings=(SessionEnding(reason="dead", used=40, lost=11 + n),))], "make a checkpoint every 10 calls"),
    ("lost", lambda n: [one(n, endings=(SessionEnding(reason="dead", used=40, lost=10),))], ""),
    ("stuck", lambda n: [one(n, s, session=s, todo=(f"report {n}",)) for s in range(3)], "stay undone over three sessions"),
    ("stuck", lambda n: [one(n, s, session=s, todo=(f"report {s}",)) for s in range(3)], ""),
    ("question", lambda n: [one(n, s, session=s, questions=("which?",)) for s in range(2)], "stay open over sessions"),
    ("question", lambda n: [one(n, s, session=0, questions=("which?",)) for s in range(2)], ""),
    ("artifacts", lambda n: [one(n, s, session=s, recreated=("a.md",)) for s in range(2)], "read Artifacts Produced first"),
    ("artifacts", lambda n: [one(n, s, session=s, recreated=("a.md",) * (n == 1)) for s in range(2)], ""),
    ("resumes", lambda n: [one(n, resumes=(resume(1),))], ""),
]  # fmt: skip


@for_each(("name", "chain", "text"), CASES)
def test_when_a_statistic_becomes_a_heuristic(name: str, chain: Any, text: str) -> None:
    """The table of rules: each holds for nine tasks of nine and is silent where it does not hold, or for eight."""
    entries = [entry for n in range(ENOUGH) for entry in chain(n)]
    found = told(name, entries)
    assert (text in found.heuristic) if text else found.heuristic == ""
    if text:
        assert (found.n, found.support, found.against) == (ENOUGH, ENOUGH, ())
        assert found.evidence
        assert set(found.evidence) <= {entry.id for entry in entries}
        few = told(name, [entry for n in range(ENOUGH - 1) for entry in chain(n)])
        assert (few.heuristic, few.evidence) == ("", ())


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 60))
def test_a_supported_statement_is_improbable_by_chance(support: int, more: int, looked_at: int) -> None:
    """Five chains at least, and a lower bound of the share above one half, whatever the number of statements."""
    n = support + more
    chance = sum(math.comb(n, count) for count in range(support, n + 1)) / 2**n
    assert is_supported(support, n, looked_at) is (support >= SUPPORT and chance < ERROR / looked_at)
    assert not is_supported(support, n, looked_at) or support / n > 0.5


def test_a_statement_that_holds_for_one_mission_is_said_of_it() -> None:
    """Where other missions do not have the pattern, it names the one that has; the evidence is of its tasks."""
    ended = SessionEnding(reason="x", used=50, lost=0)
    deploys = [one(n, mission="Deploy", endings=(ended,)) for n in range(15)]
    others = [one(n, mission="Write", endings=(msgspec.structs.replace(ended, used=9),)) for n in range(15, 45)]
    found = [each for each in statistics(chains_of([*deploys, *others])) if each.name == "budget" and each.heuristic]
    assert [each.heuristic for each in found] == [
        'for "Deploy": the budget of 50 calls ends the sessions: raise it, or plan the work for several sessions'
    ]
    assert (found[0].support, found[0].n) == (15, 15)
    assert set(found[0].evidence) <= {entry.id for entry in deploys}


def test_histories_without_a_pattern_have_no_heuristic() -> None:
    """At most one of twenty random histories of 60 tasks has one; each planted pattern is found in nine of ten."""

    def found(seed: int, plant: Plant | None = None) -> set[str]:
        return {each.name for each in statistics(history(seed, plant=plant)) if each.heuristic}

    assert sum(bool(found(seed)) for seed in range(20)) <= 1
    for name, plant in PLANTS.items():
        assert sum(name in found(seed, plant) for seed in range(10)) >= 9, name


def test_without_archives_nothing_is_told() -> None:
    """Every statistic is there, and says nothing."""
    found = statistics([])
    assert len(found) == 9
    assert all((each.n, each.heuristic) == (0, "") for each in found)


def test_the_order_of_the_archives_does_not_matter() -> None:
    """The same chains give the same statistics; an entry that is there twice counts once."""
    entries = [entry for _, chain, _ in CASES for n in range(6) for entry in chain(n)]
    entries = [msgspec.structs.replace(entry, id=f"{at:064x}") for at, entry in enumerate(entries)]
    expected = statistics(chains_of(entries))
    shuffled = [*entries, *entries[:5]]
    random.Random(1).shuffle(shuffled)
    assert statistics(chains_of(shuffled)) == expected


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.floats(0, 100))
def test_percentiles(values: list[float], percent: float) -> None:
    """Between the smallest and the largest value, and those at the ends."""
    assert min(values) - 1e-6 <= percentile(values, percent) <= max(values) + 1e-6
    assert (percentile(values, 0), percentile(values, 100)) == (min(values), max(values))
    assert percentile([1, 2, 3, 4], 50) == 2.5


# --- MEMORY.md

A = Statistic("lost", "", 7, "", 6, "make a checkpoint every 9 calls", ("0" * 64,), ("3" * 64,))
B = Statistic("budget", "", 8, "", 8, "raise the budget", ("1" * 64, "2" * 64))
LINE_A = "- `lost`: make a checkpoint every 9 calls (6 of 7 tasks; evidence: 000000000000; not: 333333333333)"
LINE_B = "- `budget`: raise the budget (8 of 8 tasks; evidence: 111111111111 222222222222)"


@pytest.mark.parametrize(
    ("before", "found", "after"),
    [
        ("", [A], f"{HEADING}\n{LINE_A}\n"),
        ("", [], ""),
        ("# Memory\n- a fact\n", [A, B], f"# Memory\n- a fact\n\n{HEADING}\n{LINE_A}\n{LINE_B}\n"),
        (f"x\n\n{HEADING}\n{LINE_A}\n\n## Other\ny\n", [B._replace(n=9), A._replace(heuristic="")],
         f"x\n\n{HEADING}\n{LINE_B.replace('of 8', 'of 9')}\n\n## Other\ny\n"),
        (f"{HEADING}\n- by hand\n{LINE_A}\n- `mine`: too\n", [A._replace(n=8)],
         f"{HEADING}\n{LINE_A.replace('of 7', 'of 8')}\n- by hand\n- `mine`: too\n"),
        (f"x\n\n{HEADING}\n{LINE_A}\n", [A._replace(heuristic="")], "x\n"),
    ],
)  # fmt: skip
def test_heuristics_are_added_replaced_and_withdrawn(before: str, found: list[Statistic], after: str) -> None:
    """One line each, never twice; what others wrote stays."""
    assert remembered(before, found) == after
    assert remembered(after, found) == after


@given(st.lists(st.sampled_from(["", "text", "# A", "## B", HEADING, LINE_A, "- `x`: y", "- z"]), max_size=9))
def test_nothing_of_others_is_lost(lines: list[str]) -> None:
    """Writing keeps every foreign line of any file, in order, and a second run changes nothing."""
    before = "\n".join(lines)
    after = remembered(before, [A, B])
    kept = [line for line in lines if line.strip() and line not in (HEADING, LINE_A)]
    assert [line for line in after.splitlines() if line in kept] == kept or HEADING in lines
    assert sorted(line for line in after.splitlines() if line in kept) == sorted(kept)
    assert remembered(after, [A, B]) == after


# --- plots


@pytest.mark.parametrize("values", [[], [0.0], [1, 2, 3, 30.5], [5] * 100])
def test_a_plot_is_a_picture_of_the_values(values: list[float]) -> None:
    """It is well-formed, has a title, and its bars hold as many values as there are."""
    drawn = charts.histogram("A <title> & more", "hours", values, top=24, mark=(24, "24 h"))
    root = ET.fromstring(drawn)
    name = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{name}title") is not None
    counts = [bar.find(f"{name}title") for bar in root.iter(f"{name}rect")]
    assert sum(int(count.text or 0) for count in counts if count is not None) == len(values)
    assert "<script" not in drawn


# --- what the store proves


def finished_task(store: MemoryStore, clock: Clock, number: int, *, calls: int, is_finished: bool = True) -> None:
    """A task whose session was killed `calls` calls after its only checkpoint."""
    task = Task(store, f"t{number}", clock=clock, secret=b"s")
    digest = "1" * 64
    session = kinds.SessionOpened(budget=50, group="g", host="h", pid=1, policy=digest, started=1)
    point = kinds.CheckpointCreated(
        document=digest, key="k", name=f"p{number}", root=digest, signature="s", trigger="agent"
    )
    made = [kinds.ToolAllowed(call=f"c{at}", digest=digest, effectful=False, tool="t") for at in range(calls)]
    end = [
        kinds.SessionLost(calls=[], lost="s1", reason="dead"),
        *([kinds.TaskFinished(note="done")] if is_finished else []),
    ]
    facts: list[kinds.Data] = [kinds.TaskOpened(goal="do it"), session, point, *made, *end]
    task.commit(lambda _: [NewEvent(fact, session="s1") for fact in facts])


def test_rules_for_hand_overs_are_those_that_finished_tasks_in_the_store_prove() -> None:
    """With their numbers; open tasks do not count, and a rule that lost its support is withdrawn."""
    store, clock = MemoryStore(), Clock()
    for number in range(ENOUGH):
        finished_task(store, clock, number, calls=12, is_finished=number > 0)
    assert charts.keep_rules(store) == kept_rules(store) == []
    finished_task(store, clock, 99, calls=12)
    rule = f"make a checkpoint every 10 calls: sessions lose more at their end ({ENOUGH} of {ENOUGH} tasks)"
    assert rule in charts.keep_rules(store)
    assert kept_rules(store)[1:] == [rule]
    for number in range(20):
        finished_task(store, clock, 100 + number, calls=3)
    [other] = charts.keep_rules(store)
    assert other.endswith("`checkpoint at 10%` (29 of 29 tasks)")


def test_a_ref_that_cannot_be_read_has_no_rules() -> None:
    """It says nothing, and the next run replaces it."""
    store = MemoryStore()
    store.swap("reflection/rules", "{", expect=None)
    assert kept_rules(store) == []
    charts.keep_rules(store)
    assert store.ref("reflection/rules") is None
