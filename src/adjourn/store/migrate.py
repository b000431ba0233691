"""Numbered schema files, and the one rule about versions: older is brought up to date, newer is refused.

Owns: finding `schema/<dialect>_<number>.sql` and what makes partitions, judging a version. Must never: import a driver; the backend
runs the statements of a version in one transaction.
"""

from __future__ import annotations

import os
from typing import Final, Literal

from adjourn.errors import SchemaError

Dialect = Literal["sqlite", "postgres"]
LATEST: Final[dict[Dialect, int]] = {"sqlite": 2, "postgres": 2}
"""The schema this adjourn writes; equal to the highest number in `schema/`."""


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
    return [_read(f"{dialect}_{number:04}.sql") for number in range(version + 1, LATEST[dialect] + 1)]


def partition_scripts() -> list[str]:
    """The two texts that put the events of a PostgreSQL store into partitions. Entries are copied between them."""
    return [_read(f"partitions_{half}.sql") for half in ("copy", "switch")]


def _read(name: str) -> str:
    # importlib.resources costs 25 ms, on the start path of the first session of a workspace
    with open(os.path.join(os.path.dirname(__file__), "schema", name), encoding="utf-8") as file:
        return file.read()
