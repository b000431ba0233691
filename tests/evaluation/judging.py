"""The renderings of a hand-over, what they are held to, and how each of them does.

Owns: sizes, limits, the verdict. Must never: change a limit for a scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from evaluation.catalogue import Played, Plot, play
from evaluation.peers import peers
from evaluation.reader import Needle, Score, read, score

LARGE, SMALL = 8 * 1024, 2 * 1024
LIMITS = {LARGE: 0.97, SMALL: 0.85}
"""The least recall, by room in bytes."""
RENDERINGS = ("aex.resume", "session hook", "adjourn resume")
OPTION = "--brief-bytes"
"""What sets another room than the default, which is `LARGE`."""


class Reading(NamedTuple):
    """What one text was worth. `what` names a rendering or a peer, `given` is the text."""

    plot: Plot
    seed: int
    what: str
    room: int
    score: Score
    given: str

    @property
    def is_ours(self) -> bool:
        return self.what in RENDERINGS

    def faults(self) -> list[str]:
        """What must hold and does not."""
        found = []
        if self.score.recall < LIMITS[self.room]:
            found.append(f"recall {self.score.recall:.2f}, at least {LIMITS[self.room]} is needed")
        if self.score.next_step is False:
            found.append("the next step is missing")
        if self.plot.has_troubles and not self.score.told_first:
            found.append("what is wrong is not told first")
        if self.score.size > self.room:
            found.append(f"{self.score.size:,} bytes, at most {self.room:,} are allowed")
        found += [f"trap: {trap.kind}" for trap, _ in self.score.sprung]
        return found


def evaluate(plot: Plot, seed: int, folder: Path) -> tuple[Played, list[Reading]]:
    """Play a scenario, and read what a successor is given, in every rendering, and what the peers would give."""
    played = play(plot, seed, folder)
    needles, traps = played.needles, played.traps
    readings = []
    for what, room, text in _given(played):
        readings.append(Reading(plot, seed, what, room, score(text, needles, traps), text))
    return played, readings


def _given(played: Played) -> Iterator[tuple[str, int, str]]:
    for name, give in peers(played).items():
        for room in LIMITS:
            yield name, room, give(room)
    stage, name = played.stage, played.checkpoint
    ways: dict[str, tuple[str, Callable[..., str]]] = {
        "aex.resume": ("proxy", lambda *options: stage.told_by_resume(name, *options)),
        "session hook": ("hook", stage.told_by_hook),
        "adjourn resume": ("resume", lambda *options: stage.told_by_command(name, *options)),
    }
    kept = stage.keep()
    for what, (command, tell) in ways.items():
        for room in LIMITS:
            stage.put_back(kept)
            sized = room != LARGE and stage.has_option(command, OPTION)
            yield what, room, tell(*((OPTION, str(room)) if sized else ()))


def nearest(text: str, needle: Needle) -> str:
    """The unit of a text that comes nearest to a needle, for whoever looks for the reason."""
    units = read(text)
    if not units:
        return ""
    best = max(
        units,
        key=lambda unit: sum(needle._replace(patterns=(one,), within="").found_in([unit]) for one in needle.patterns),
    )
    hits = [one for one in needle.patterns if needle._replace(patterns=(one,), within="").found_in([best])]
    return f"{best.context} / {best.text}"[:300] if hits else ""


def misses(readings: list[Reading]) -> Iterator[str]:
    """For each of our texts: what it does not say, and what it tells wrong."""
    for one in readings:
        if not one.is_ours:
            continue
        where = f"{one.plot.trade}, {one.plot.title} (seed {one.seed}), {one.what} at {one.room}"
        yield f"## {where}: recall {one.score.recall:.2f}, {one.score.size} bytes"
        for needle in one.score.missed:
            near = nearest(one.given, needle)
            instead = f"; instead: {near}" if near else "; nothing like it"
            yield f"- missed ({'vital' if needle.weight > 1 else 'useful'}) {needle.kind}: {needle.said[1]!r}{instead}"
        for trap, unit in one.score.sprung:
            yield f"- TRAP {trap.kind}: {unit.context} / {unit.text}"[:400]


def as_json(one: Reading) -> dict[str, Any]:
    """One row of the detailed result."""
    return {
        "trade": one.plot.trade, "scenario": one.plot.title, "seed": one.seed, "what": one.what, "room": one.room,
        "recall": one.score.recall, "plainRecall": one.score.plain, "vitalRecall": one.score.vital,
        "nextStep": one.score.next_step, "bytes": one.score.size, "tokens": one.score.tokens, "bytesPerNeedle": round(one.score.per_needle, 1),
        "missed": [{"kind": needle.kind, "weight": needle.weight, "said": needle.said[1]} for needle in one.score.missed],
        "traps": [{"kind": trap.kind, "unit": unit.text} for trap, unit in one.score.sprung],
        "faults": one.faults() if one.is_ours else [],
    }  # fmt: skip
