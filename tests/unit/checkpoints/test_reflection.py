"""What archived chains tell: the statistics, when one becomes a heuristic, and the section of MEMORY.md that keeps them."""

from __future__ import annotations

import random
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.checkpoints import reflect as charts
from adjourn.checkpoints.reflection import (
    DAY,
    HEADING,
    SUPPORT,
    Indexed,
    ResumeFact,
    SessionEnding,
    Statistic,
    chains_of,
    percentile,
    remembered,
    statistics,
)
from support.cases import for_each


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


CASES: list[tuple[str, Any, str]] = [
    ("position", lambda n: [one(n, used=30 + n % 3)], "always taken at about 62 % of the budget"),
    ("position", lambda n: [one(n, used=n * 10)], ""),
    ("position", lambda n: [one(n, trigger="at 75% of calls=50", used=38)], ""),
    ("age", lambda n: [one(n, resumes=(resume(DAY),))], "never resumed after more than 24 hours"),
    ("age", lambda n: [one(n, resumes=(resume(DAY + 1), resume(5)))], ""),
    ("age", lambda n: [one(n, resumes=(resume(DAY + 1, -1), resume(5)))], "succeed less often (0%, else 100%)"),
    ("rollback", lambda n: [one(n, trigger="before deploy", failed=True, rolled_back=n < 3)], "prepare the rollback before deploy"),
    ("rollback", lambda n: [one(n, trigger="before deploy", failed=True, rolled_back=n < 2)], ""),
    ("budget", lambda n: [one(n, used=50, endings=(SessionEnding(reason="x", used=50 + n, lost=n),))], "raise the budget: nine of ten tasks took up to 54 calls"),
    ("budget", lambda n: [one(n, endings=(SessionEnding(reason="x", used=40, lost=0),))], ""),
    ("lost", lambda n: [one(n, endings=(SessionEnding(reason="dead", used=40, lost=8 + n),))], "make a checkpoint every 10 calls"),
    ("lost", lambda n: [one(n, endings=(SessionEnding(reason="dead", used=40, lost=10),))], ""),
    ("stuck", lambda n: [one(n, s, session=s, todo=("report",)) for s in range(3)], 'stuck on "report"'),
    ("stuck", lambda n: [one(n, s, session=s, todo=("report",)) for s in range(2)], ""),
    ("question", lambda n: [one(n, s, session=s, questions=("which?",)) for s in range(2)], '"which?"'),
    ("question", lambda n: [one(n, s, session=0, questions=("which?",)) for s in range(2)], ""),
    ("artifacts", lambda n: [one(n, recreated=("a.md",) if n == 1 else ())], "read Artifacts Produced first"),
    ("artifacts", lambda n: [one(n)], ""),
    ("resumes", lambda n: [one(n, resumes=(resume(1),))], ""),
]  # fmt: skip


@for_each(("name", "chain", "text"), CASES)
def test_when_a_statistic_becomes_a_heuristic(name: str, chain: Any, text: str) -> None:
    """The table of rules: each holds for five tasks and is silent where it does not hold, or for four."""
    entries = [entry for n in range(SUPPORT) for entry in chain(n)]
    found = told(name, entries)
    assert (text in found.heuristic) if text else found.heuristic == ""
    if text:
        assert found.n == SUPPORT
        assert found.evidence
        assert set(found.evidence) <= {entry.id for entry in entries}
        few = told(name, [entry for n in range(SUPPORT - 1) for entry in chain(n)])
        assert (few.heuristic, few.evidence) == ("", ())


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

A = Statistic("lost", "", 7, "", -1, "make a checkpoint every 9 calls", ("0" * 64,))
B = Statistic("budget", "", 8, "", 0.75, "raise the budget", ("1" * 64, "2" * 64))
LINE_A = "- `lost`: make a checkpoint every 9 calls (n=7; evidence: 000000000000)"
LINE_B = "- `budget`: raise the budget (n=8, 75%; evidence: 111111111111 222222222222)"


@pytest.mark.parametrize(
    ("before", "found", "after"),
    [
        ("", [A], f"{HEADING}\n{LINE_A}\n"),
        ("", [], ""),
        ("# Memory\n- a fact\n", [A, B], f"# Memory\n- a fact\n\n{HEADING}\n{LINE_A}\n{LINE_B}\n"),
        (f"x\n\n{HEADING}\n{LINE_A}\n\n## Other\ny\n", [B._replace(n=9), A._replace(heuristic="")],
         f"x\n\n{HEADING}\n{LINE_B.replace('n=8', 'n=9')}\n\n## Other\ny\n"),
        (f"{HEADING}\n- by hand\n{LINE_A}\n- `mine`: too\n", [A._replace(n=8)],
         f"{HEADING}\n{LINE_A.replace('n=7', 'n=8')}\n- by hand\n- `mine`: too\n"),
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
