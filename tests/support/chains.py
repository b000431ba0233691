"""Synthetic histories of archived chains: without any pattern, and with one that most chains have."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec.structs import replace

from adjourn.checkpoints.reflection import Chain, Indexed, ResumeFact, SessionEnding

HOUR = 3_600_000
BUDGET = 50
MISSIONS = ("review", "deploy", "write")
Plant = Callable[[list[Indexed], random.Random], list[Indexed]]


def chain(number: int, chance: random.Random) -> list[Indexed]:
    """One to four sessions with checkpoints at any place, a resume at any age, and every other event with a chance below one half."""
    links: list[Indexed] = []
    time, used, mission = 1_780_000_000_000 + number * 216 * HOUR, 0, MISSIONS[number % len(MISSIONS)]
    sessions = chance.randint(1, 4)
    for session in range(sessions):
        for _ in range(chance.randint(1, 3)):
            used, time = min(BUDGET, used + chance.randint(2, 12)), time + chance.randint(5, 60) * 60_000
            failed = chance.random() < 0.2
            links.append(
                Indexed(
                    id=f"{number:04}{len(links):04}" + "f" * 56, task=f"t{number}", file="f", time=time,
                    trigger="before deploy" if failed else "agent", status="archived", used=used, resumed_count=0,
                    budget=BUDGET, session=session, mission=mission, failed=failed,
                    rolled_back=failed and chance.random() < 0.4,
                    recreated=("a.md",) if chance.random() < 0.05 else (),
                    todo=(f"step {chance.randint(1, 6)}",), questions=(f"q{chance.randint(1, 9)}?",),
                )
            )  # fmt: skip
        lost = chance.randint(0, 14)
        links[-1] = replace(links[-1], endings=(SessionEnding(reason="eof", used=min(BUDGET, used + lost), lost=lost),))
        if session < sessions - 1:
            age = chance.choice([chance.randint(1, 20), chance.randint(25, 80)]) * HOUR
            links[-1] = replace(links[-1], resumes=(ResumeFact(at=time + age, age=age, first_action=5000),))
            time += age
    return links


def history(seed: int, tasks: int = 60, plant: Plant | None = None, share: float = 0.85) -> list[Chain]:
    """Chains of which a share has the planted pattern."""
    chance = random.Random(seed)
    chains: list[Chain] = []
    for number in range(tasks):
        links = chain(number, chance)
        chains.append(plant(links, chance) if plant is not None and chance.random() < share else links)
    return chains


def _each(change: Callable[[Indexed, random.Random], Indexed]) -> Plant:
    return lambda links, chance: [change(link, chance) for link in links]


def _resumed_soon(link: Indexed, chance: random.Random) -> Indexed:
    return replace(link, resumes=tuple(replace(one, age=chance.randint(1, 20) * HOUR) for one in link.resumes))


def _spent(link: Indexed, _: random.Random) -> Indexed:
    return replace(link, endings=tuple(replace(end, used=BUDGET) for end in link.endings))


def _lost(link: Indexed, chance: random.Random) -> Indexed:
    return replace(link, endings=tuple(replace(end, lost=chance.randint(11, 30)) for end in link.endings))


def _over_sessions(sessions: int, change: Callable[[Indexed], Indexed]) -> Plant:
    def plant(links: list[Indexed], _: random.Random) -> list[Indexed]:
        spread = [
            replace(link, session=at % sessions)
            for at, link in enumerate((links * sessions)[: max(sessions, len(links))])
        ]
        spread = [
            replace(link, id=f"{link.task[1:]:0>4}{at:04}" + "f" * 56, time=links[0].time + at)
            for at, link in enumerate(spread)
        ]
        return [change(link) for link in sorted(spread, key=lambda link: link.session)]

    return plant


PLANTS: dict[str, Plant] = {
    "position": _each(lambda link, chance: replace(link, used=chance.randint(18, 22))),
    "age": _each(_resumed_soon),
    "rollback": _each(lambda link, _: replace(link, failed=True, rolled_back=True, trigger="before deploy")),
    "budget": _each(_spent),
    "lost": _each(_lost),
    "stuck": _over_sessions(3, lambda link: replace(link, todo=("report",))),
    "question": _over_sessions(2, lambda link: replace(link, questions=("which?",))),
    "artifacts": _over_sessions(2, lambda link: replace(link, recreated=("a.md",))),
}
"""By the name of a statistic, how a chain gets the pattern that it looks for."""
