"""What failures of one kind came to, and the table of all kinds.

Owns: `Outcome`, the values in the file of `run.py --json`, and their table. Must never: measure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tables import Table, median

from cluster.facts import Facts
from cluster.failures import FAILURES

TITLE = "Failures of a cluster under load"
COLUMNS = (
    "failure, times, silence: median s, longest s, aim s, longer, load: median, highest, acknowledged, "
    "lost, doubled, refunded, invalid, in doubt, wrongly"
)
NOTE = (
    "Silence: the longest time in which any client had no call acknowledged, from the failure until the cluster was whole again. "
    "Longer: how many silences were longer than the aim. Load: the load average of one minute at the end of each failure. Lost: acknowledged, "
    "and not settled in the history or without an effect. Invalid: findings of `adjourn verify`. In doubt: listed by `adjourn inbox`. "
    "Wrongly: in doubt although answered, not listed, or an effect without an intent."
)


class Outcome(NamedTuple):
    """Of one kind of failure. `silences` are the longest times, in seconds, in which any client had no call acknowledged."""

    name: str
    seed: int
    silences: list[float]
    loads: list[float]
    """The load average of one minute at the end of each failure."""
    facts: Facts
    refusals: dict[str, int]
    """What clients got in place of an answer, and how often."""


def together(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """One outcome for each kind, in the order of `FAILURES`."""
    found = []
    for name in FAILURES:
        if of_kind := [one for one in outcomes if one.name == name]:
            facts = Facts(*(sum(its[1:], its[0]) for its in zip(*(one.facts for one in of_kind), strict=True)))
            refusals = sum((Counter(one.refusals) for one in of_kind), Counter[str]())
            silences = [silence for one in of_kind for silence in one.silences]
            loads = [load for one in of_kind for load in one.loads]
            found.append(Outcome(name, of_kind[0].seed, silences, loads, facts, dict(refusals.most_common())))
    return found


def table(outcomes: Sequence[Outcome]) -> Table:
    """A row for each kind of failure."""
    found = Table(TITLE, COLUMNS.split(", "), NOTE)
    for one in together(outcomes):
        (title, _, aim), its = FAILURES[one.name], one.facts
        longer = None if aim is None else sum(silence > aim for silence in one.silences)
        wrong = (its.lost, its.doubled, its.refunded, its.invalid)
        found.add(
            title, len(one.silences), median(one.silences), max(one.silences), aim and f"≤ {aim:g}", longer,
            median(one.loads), max(one.loads), its.acknowledged,
            *map(len, wrong), len(its.in_doubt), len(its.wrong_doubts) + len(its.without_intent),
        )  # fmt: skip
    return found


def read(path: Path) -> list[Outcome]:
    """The outcomes that a file has; none where there is no file."""
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["outcomes"]
    return [Outcome(**{**one, "facts": Facts(**one["facts"])}) for one in found]


def write(path: Path, outcomes: Sequence[Outcome], about: dict[str, str]) -> None:
    """Write outcomes and their table into a file that `tests/bench/page.py` reads. `about` is the machine."""
    values = {
        "machine": about,
        "tables": [table(outcomes).as_json()],
        "outcomes": [{**one._asdict(), "facts": one.facts._asdict()} for one in outcomes],
    }
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
