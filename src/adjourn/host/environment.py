"""What programs that adjourn starts must not learn: where its history is and how to get in.

A program of the same user can read much of it elsewhere (the proxy's own environment under /proc, `~/.pgpass`). This keeps it from
being delivered, printed in a crash report of that program, or used by mistake.

Owns: which variables are ours. Must never: hand one of them on.
"""

from __future__ import annotations

from adjourn.store.passwords import is_postgres

TYPE_CHECKING = False  # as in adjourn/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = "ADJOURN_"
"""Prefix of adjourn's variables."""


def for_others(environment: Mapping[str, str], store: str = "") -> dict[str, str]:
    """The variables for a program that is not adjourn. `store` is the URL of the store where it is not in a variable.

    PGPASSWORD goes along only where the store is no PostgreSQL database: else it opens ours.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith(OURS)}
    if is_postgres(store or environment.get("ADJOURN_STORE", "")):
        kept.pop("PGPASSWORD", None)
    return kept
