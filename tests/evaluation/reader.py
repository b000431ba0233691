"""The scripted reader of a hand-over: which needles it finds, which traps it falls into.

A text is read as *units*: a line of text, or of JSON the smallest object or string. A unit has a *context*: the headings above it, or
the names of the members that lead to it. A needle is found where all of its patterns are in one unit, and the unit or its context
says the word that gives it its sense (`within`: "refused", "next"). A trap is fallen into in the same way, unless a word takes it back
(`unless`).

Owns: units, needles, traps, the score. Must never: know who wrote a text, or how it is laid out beyond lines, headings and JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

VITAL, USEFUL = 3, 1
"""The weights of needles: without a vital one the successor does harm or stands still; a useful one saves time."""
TROUBLE = "trouble"
"""The kind of a needle for what is known to be wrong: it must come before any next step."""
MAX_OBJECT = 1_500
"""Characters of an object that is one unit; of a larger one, each member is read by itself."""
_HEADING = re.compile(r"#{1,6} ")
_BULLET = re.compile(r"[-*•] ")
_WRAPPED = re.compile(r"\s{8,}\S")
_WRAPPED_BULLET = re.compile(r"\s{3,}(?![-*•] )\S")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Unit(NamedTuple):
    """One thing that a text says. `quoted`: it is marked as data."""

    text: str
    context: str = ""
    quoted: bool = False


class Needle(NamedTuple):
    """What a successor must know. `said` is how a perfect hand-over would have it: heading and line."""

    kind: str
    weight: int
    patterns: tuple[str, ...]
    within: str
    said: tuple[str, str]

    def found_in(self, units: Iterable[Unit]) -> bool:
        return any(_is_about(unit, self.patterns, self.within) for unit in units)


class Trap(NamedTuple):
    """What a successor must not believe. `lie` is a line that says it; `unquoted`: it is harmless where it is marked as data."""

    kind: str
    patterns: tuple[str, ...]
    within: str
    unless: str
    lie: tuple[str, str]
    unquoted: bool = False

    def sprung_by(self, units: Iterable[Unit]) -> Unit | None:
        """The first unit that says it, or None."""
        for unit in units:
            if self.unquoted and unit.quoted:
                continue
            if _is_about(unit, self.patterns, self.within) and not (
                self.unless and _has(self.unless, f"{unit.context} {unit.text}")
            ):
                return unit
        return None


class Score(NamedTuple):
    """How one text does. `recall` is by weight, `plain` by number; `next_step` and `told_first`, whether troubles come before
    it, are None in a scenario that has none. `found` counts the needles that were found.
    """

    recall: float
    plain: float
    vital: float
    next_step: bool | None
    missed: list[Needle]
    sprung: list[tuple[Trap, Unit]]
    size: int
    told_first: bool | None = None
    found: int = 0

    @property
    def per_needle(self) -> float:
        """Bytes of the text for each needle that was found."""
        return self.size / max(1, self.found)

    @property
    def tokens(self) -> int:
        """An estimate: four bytes make a token."""
        return -(-self.size // 4)


def score(text: str, needles: Sequence[Needle], traps: Sequence[Trap]) -> Score:
    """Read a text for what a successor must know, and must not believe."""
    units = read(text)
    missed = [needle for needle in needles if not needle.found_in(units)]
    steps = [needle for needle in needles if needle.kind == "next step"]
    vital = [needle for needle in needles if needle.weight == VITAL]
    return Score(
        recall=1 - _weight(missed) / _weight(needles),
        plain=1 - len(missed) / len(needles),
        vital=1 - len([one for one in missed if one.weight == VITAL]) / max(1, len(vital)),
        next_step=not any(step in missed for step in steps) if steps else None,
        missed=missed,
        sprung=[(trap, unit) for trap in traps if (unit := trap.sprung_by(units))],
        size=len(text.encode()),
        told_first=_is_first(units, [needle for needle in needles if needle.kind == TROUBLE], steps),
        found=len(needles) - len(missed),
    )


def _is_first(units: Sequence[Unit], troubles: Sequence[Needle], steps: Sequence[Needle]) -> bool | None:
    """Whether each trouble stands among the next steps, before any that was stated."""
    if not troubles:
        return None
    listed = [unit for unit in units if re.search("next step", unit.context, re.IGNORECASE)]
    stated = next((at for at, unit in enumerate(listed) if any(step.found_in([unit]) for step in steps)), len(listed))
    return all(trouble.found_in(listed[:stated]) for trouble in troubles)


def _weight(needles: Iterable[Needle]) -> int:
    return sum(needle.weight for needle in needles)


def _is_about(unit: Unit, patterns: Iterable[str], within: str) -> bool:
    return all(_has(pattern, unit.text) for pattern in patterns) and (
        not within or _has(within, f"{unit.context} {unit.text}")
    )


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def whole(text: str) -> str:
    """A pattern for a text as it was said, whatever stands around it."""
    return rf"(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])"


# --- units


def read(text: str) -> list[Unit]:
    """The units of a hand-over: one JSON document, lines of JSON, or text."""
    try:
        return list(_of_value(json.loads(text), "", root=True))
    except ValueError:
        return list(_of_lines(text, ""))


def _of_value(value: Any, path: str, *, root: bool = False) -> Iterator[Unit]:
    if isinstance(value, dict):
        if not root and _is_small(value):
            yield Unit(_flat(value), path, quoted=True)
            return
        for name, item in value.items():
            label = _CAMEL.sub(" ", name)
            below = f"{path} {label}".strip()
            if isinstance(item, dict | list) or (isinstance(item, str) and "\n" in item):
                yield from _of_value(item, below)
            else:
                yield Unit(f"{label}: {item}", path, quoted=True)
    elif isinstance(value, list):
        for item in value:
            yield from _of_value(item, path)
    elif isinstance(value, str) and "\n" in value:
        yield from _of_lines(value, path)
    else:
        yield Unit(str(value), path, quoted=True)


def _is_small(value: dict[str, Any]) -> bool:
    text = json.dumps(value)
    return len(text) <= MAX_OBJECT and "\\n" not in text.replace("\\\\", "")


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{_CAMEL.sub(' ', name)}: {_flat(item)}" for name, item in value.items())
    return ", ".join(map(_flat, value)) if isinstance(value, list) else str(value)


def _of_lines(text: str, path: str) -> Iterator[Unit]:
    """Each line, under its heading and the label above it. A label ends in a colon, or stands above bullets."""
    heading, label, inner = "", "", ""
    lines = _joined(line for line in text.splitlines() if line.strip("|> \t"))
    for number, line in enumerate(lines):
        bare = line.strip()
        marked = bare.startswith(("|", ">"))
        quoted = marked or line.startswith("  ")
        said = bare.lstrip("|> ")
        if said.startswith("{") and (value := _object(said)) is not None:
            yield Unit(_flat(value), path, quoted=True)
            continue
        if _HEADING.match(said):
            heading, label, inner = (heading, label, said) if marked else (said, "", "")
            continue
        if not marked:
            inner = ""
            listed = quoted or bool(_BULLET.match(bare))
            below = next((one.lstrip("| ") for one in lines[number + 1 :] if not one.startswith("(")), "")
            if not listed and not bare.startswith("("):  # "(12 earlier)" is no label
                label = bare if bare.endswith(":") or _BULLET.match(below) else ""
        yield Unit(said, f"{path} {heading} {label} {inner}".strip(), quoted)


def _joined(lines: Iterable[str]) -> list[str]:
    """Lines, with those that a terminal's width has cut put together again."""
    joined: list[str] = []
    for line in lines:
        wrapped = _WRAPPED_BULLET if joined and _BULLET.match(joined[-1].lstrip("| ")) else _WRAPPED
        if joined and wrapped.match(line):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    return joined


def _object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
