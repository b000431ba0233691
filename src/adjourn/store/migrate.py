"""Numbered schema files, and the one rule about versions: older is brought up to date, newer is refused.

Owns: finding `schema/<dialect>_<number>.sql`, or its halves, and judging a version. Must never: import a driver; the backend
runs the statements.
"""

from __future__ import annotations

import os
from typing import Final, Literal

from adjourn.errors import SchemaError

Dialect = Literal["sqlite", "postgres"]
LATEST: Final[dict[Dialect, int]] = {"sqlite": 2, "postgres": 2}
"""The schema this adjourn writes; equal to the highest number in `schema/`."""
_HALVES: Final = {"postgres_0002": ("_copy", "_switch")}
"""Schemas that a store reaches in two transactions, while others write to it."""


def is_current(dialect: Dialect, version: int, where: str) -> bool:
    """Whether a store has the schema of this adjourn; False: bring it up to date. Refuses a newer one."""
    latest = LATEST[dialect]
    if version > latest:
        raise SchemaError(
            f"{where} has schema {version}; this adjourn supports schemas up to {latest}",
            "upgrade adjourn (pip install -U adjourn); the store was left as it is",
        )
    return version == latest


def scripts(dialect: Dialect, version: int) -> list[str]:
    """The texts that lead from schema `version` (0: nothing there) to `LATEST`, in order."""
    names = [f"{dialect}_{number:04}" for number in range(version + 1, LATEST[dialect] + 1)]
    return [_read(f"{name}{half}.sql") for name in names for half in _HALVES.get(name, ("",))]


def _read(name: str) -> str:
    # importlib.resources costs 25 ms, on the start path of the first session of a workspace
    with open(os.path.join(os.path.dirname(__file__), "schema", name), encoding="utf-8") as file:
        return file.read()
