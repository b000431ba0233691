"""Where all streams of a SQLite store end, for who asks again and again.

The database answers with one text: row by row, each of ten thousand rows would wait for the interpreter's other threads. What is the same
as before is not read again, and is the same object.

Owns: that question and its answer. Must never: open the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Self

from adjourn.errors import IntegrityError
from adjourn.store.base import Head

# No name has a control character (`checks.check_name`).
ALL_HEADS = """
SELECT group_concat(name || char(9) || (
    SELECT (position & 1099511627775) || char(9) || hash FROM event
    WHERE position BETWEEN id << 40 AND id << 40 | 1099511627775 ORDER BY position DESC LIMIT 1
), char(10)) FROM stream
"""


class KnownHeads(NamedTuple):
    """The answer, as of a version of the data."""

    version: int = -1
    lines: frozenset[str] = frozenset()
    heads: Mapping[str, Head] = MappingProxyType({})

    def updated(self, version: int, text: str, path: str) -> Self:
        """The answer as it is now. Raises `IntegrityError` for a text that no store of ours gives."""
        lines = frozenset(text.split("\n") if text else ())
        try:
            heads = {**self.heads, **dict(map(_read, lines - self.lines))}
            if len(heads) != len(self.heads) or len(heads) != len(lines):
                heads = dict(sorted(map(_read, lines)))
        except ValueError:
            raise IntegrityError(
                f"a stream in {path} has a name or a hash that no store writes",
                "restore a backup or a checkpoint: something else changed the file",
            ) from None
        return self._replace(version=version, lines=lines, heads=heads)


def _read(line: str) -> tuple[str, Head]:
    name, seq, digest = line.split("\t")
    return name, Head(int(seq), digest)
