"""Reflection over archived checkpoints: the statistics, and the heuristics that `memory/MEMORY.md` keeps.

Must never: change another line of that file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from xml.sax.saxutils import escape

import msgspec

from adjourn.checkpoints.page_archive import MAX_ENTRIES, folder_of, lines_of_store, projects, read_index, write_index
from adjourn.checkpoints.plans import MAX_RULES, RULES
from adjourn.checkpoints.reflection import (
    Chain,
    Indexed,
    Statistic,
    ages,
    chains_of,
    lost,
    positions,
    remembered,
    statistics,
)
from adjourn.errors import AdjournError, InvalidError, NotFoundError, RefusedError
from adjourn.host.workspace import locked, make_folder, read_file, resolve_inside, write_file
from adjourn.store.base import Store
from adjourn.tasks.task import tasks_of

MEMORY, FILE = "memory", "MEMORY.md"
MAX_MEMORY = 4 * 1024 * 1024


class Reflection(NamedTuple):
    """The chains of all archives, and their statistics. `broken` are messages on indexes that could not be read."""

    chains: list[Chain]
    statistics: list[Statistic]
    broken: list[str]


def reflect(root: str) -> Reflection:
    """Compute the statistics over every archive of a workspace. Writes nothing."""
    entries: list[Indexed] = []
    broken = []
    for project in projects(root):
        try:
            entries += read_index(root, project)
            if len(entries) > MAX_ENTRIES:
                broken.append(f"only the first {len(entries):,} pages were read (limit {MAX_ENTRIES:,})")
                break
        except AdjournError as error:
            broken.append(str(error))
    chains = chains_of(entries)
    return Reflection(chains, statistics(chains), broken)


def remember(root: str, reflection: Reflection) -> bool:
    """Update the heuristics in `memory/MEMORY.md`, and mark the chains as reflected. Returns whether the file changed.

    Raises `InvalidError` for a file that is not text, `StoreError`.
    """
    path = os.path.join(resolve_inside(root, MEMORY), FILE)
    try:
        before = read_file(path, MAX_MEMORY).decode()
    except NotFoundError:
        before = ""
    except UnicodeDecodeError as error:
        raise InvalidError(f"{MEMORY}/{FILE} is not UTF-8 text", "save it as UTF-8") from error
    after = remembered(before, reflection.statistics)
    if after != before:
        mode = stat.S_IMODE(os.lstat(path).st_mode) if os.path.lexists(path) else 0
        write_file(make_folder(root, MEMORY), FILE, after.encode(), mode=mode)
    for project in projects(root):
        with suppress(InvalidError, RefusedError):  # an index that cannot be read
            _mark(root, project)
    return after != before


def keep_rules(store: Store) -> list[str]:
    """Keep in the store what its own histories prove: the rules for the next hand-overs. Returns them, each with its numbers.

    No page, index or `MEMORY.md` counts here: agents can write these.
    """
    found = statistics(chains_of(lines_of_store(store, tasks_of(store))))
    proven = sorted((one for one in found if one.heuristic), key=lambda one: -one.rate)
    rules = [f"{one.heuristic} ({one.support} of {one.n} tasks)" for one in proven[:MAX_RULES]]
    before = store.ref(RULES)
    after = msgspec.json.encode(rules).decode() if rules else None
    if before != after:
        store.swap(RULES, after, expect=before)
    return rules


def _mark(root: str, project: str) -> None:
    folder = resolve_inside(root, folder_of(project))
    with locked(folder):
        entries = read_index(root, project)
        marked = [msgspec.structs.replace(entry, status="reflected") for entry in entries]
        if marked != entries:
            write_index(folder, marked)


def draw(reflection: Reflection) -> dict[str, str]:
    """The plots as SVG, by file name."""
    chains: Sequence[Chain] = reflection.chains
    shares = [ratio * 100 for ratio, _ in positions(chains)]
    return {
        "budget-at-checkpoint.svg": histogram("Budget used at checkpoints", "% of the budget", shares, top=100),
        "age-at-resume.svg": histogram(
            "Age of the checkpoint at resume", "hours", ages(chains), top=24, mark=(24, "24 h")
        ),
        "calls-lost.svg": histogram(
            "Calls lost at the end of a session", "calls", lost(chains), top=10, mark=(10, "10")
        ),
    }


# --- the plots of a reflection

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 48, 48
BARS = 20


def histogram(
    title: str, unit: str, values: Sequence[float], *, top: float = 0.0, mark: tuple[float, str] | None = None
) -> str:
    """The SVG of a histogram from 0 to `top`, or to the largest value. `mark` is a value with a label: a dashed line there."""
    top = max(top, *values, 1e-9) if values else max(top, 1.0)
    counts = [0] * BARS
    for value in values:
        counts[min(BARS - 1, max(0, int(value / top * BARS)))] += 1
    most = max(*counts, 1)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    floor = TOP + high
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 26, f"{title} (n={len(values)})", size=16),
    ]
    step = wide / BARS
    for number, count in enumerate(counts):
        if count:
            tall = high * count / most
            parts.append(
                f'<rect x="{LEFT + number * step + 1:.1f}" y="{floor - tall:.1f}" width="{step - 2:.1f}" '
                f'height="{tall:.1f}" fill="#3b6ea5"><title>{count}</title></rect>'
            )
    parts.append(f'<path d="M{LEFT} {TOP}V{floor}H{LEFT + wide}" fill="none" stroke="#333333"/>')
    for number in range(5):
        at = LEFT + wide * number / 4
        parts.append(_text(at, floor + 18, _number(top * number / 4), anchor="middle"))
    parts += [
        _text(LEFT + wide / 2, HEIGHT - 8, unit, anchor="middle"),
        _text(LEFT - 6, TOP + 5, str(most), anchor="end"),
        _text(LEFT - 6, floor, "0", anchor="end"),
    ]
    if mark is not None and mark[0] <= top:
        at = LEFT + wide * mark[0] / top
        parts.append(
            f'<path d="M{at:.1f} {TOP}V{floor}" stroke="#a33b3b" stroke-dasharray="4 3"/>'
            + _text(at + 4, TOP + 12, mark[1])
        )
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#222222">{escape(text)}</text>'
    )


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
