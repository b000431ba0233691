"""Reflection over archived checkpoints: the statistics, and the heuristics that `memory/MEMORY.md` keeps.

Owns: reading the archives, writing that section, marking the chains it covers. Must never: change another line of that file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from adjourn.checkpoints import charts
from adjourn.checkpoints.page_archive import MAX_ENTRIES, folder_of, projects, read_index, write_index
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
from adjourn.host import locked, make_folder, read_file, resolve_inside, write_file

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


def remember(root: str, found: Reflection) -> bool:
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
    after = remembered(before, found.statistics)
    if after != before:
        mode = stat.S_IMODE(os.lstat(path).st_mode) if os.path.lexists(path) else 0
        write_file(make_folder(root, MEMORY), FILE, after.encode(), mode=mode)
    for project in projects(root):
        with suppress(InvalidError, RefusedError):  # an index that cannot be read
            _mark(root, project)
    return after != before


def _mark(root: str, project: str) -> None:
    folder = resolve_inside(root, folder_of(project))
    with locked(folder):
        entries = read_index(root, project)
        marked = [msgspec.structs.replace(entry, status="reflected") for entry in entries]
        if marked != entries:
            write_index(folder, marked)


def draw(found: Reflection) -> dict[str, str]:
    """The plots as SVG, by file name."""
    chains: Sequence[Chain] = found.chains
    shares = [ratio * 100 for ratio, _ in positions(chains)]
    return {
        "budget-at-checkpoint.svg": charts.histogram(
            "Budget used at checkpoints", "% of the budget", shares, top=100
        ),
        "age-at-resume.svg": charts.histogram(
            "Age of the checkpoint at resume", "hours", ages(chains), top=24, mark=(24, "24 h")
        ),
        "calls-lost.svg": charts.histogram(
            "Calls lost at the end of a session", "calls", lost(chains), top=10, mark=(10, "10")
        ),
    }
