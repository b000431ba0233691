"""Numbered schema files, and the one rule about versions: older is brought up to date, newer is refused.

Owns: finding `schema/<dialect>_<number>.sql` and judging a version. Must never: import a driver; the backend runs
the statements, in one transaction.
"""

from __future__ import annotations

from typing import Final, Literal

from adjourn.errors import SchemaError

LATEST: Final = 1
"""The schema this adjourn writes; equal to the highest number in `schema/`."""

Dialect = Literal["sqlite", "postgres"]


def is_current(version: int, where: str) -> bool:
    """Whether a store has the schema of this adjourn; False: bring it up to date. Refuses a newer one."""
    if version > LATEST:
        raise SchemaError(
            f"{where} has schema {version}, this adjourn knows schemas up to {LATEST}",
            "upgrade adjourn (pip install -U adjourn); the store was left as it is",
        )
    return version == LATEST


def scripts(dialect: Dialect, version: int) -> list[str]:
    """The texts that lead from schema `version` (0: nothing there) to `LATEST`, in order."""
    from importlib.resources import files  # noqa: PLC0415  # costs milliseconds; an existing store never needs it

    folder = files("adjourn.store") / "schema"
    return [
        (folder / f"{dialect}_{number:04}.sql").read_text(encoding="utf-8")
        for number in range(version + 1, LATEST + 1)
    ]
