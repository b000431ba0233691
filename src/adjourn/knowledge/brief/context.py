"""The input of a brief, and the formatting that its sections share.

Owns: `BriefContext`. Must never: choose what the brief says.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from adjourn.knowledge.cognition.checkpoints import HOUR
from adjourn.knowledge.model import Tree
from adjourn.knowledge.records.interventions import consumption_key
from adjourn.log import timestamp
from adjourn.text import one_line

Item = tuple[str, ...]
"""One item of a section: one or more parts, each on a new line."""
_MINUTE = 60_000
_LAST_TIME = 253_402_300_799_999


class BriefContext(NamedTuple):
    """The record and the checkpoint of a brief. Without a record, `record` is an empty one."""

    record: Tree
    checkpoint: Tree | None
    now: int
    consumed: Container[str]
    has_record: bool

    @property
    def written_at(self) -> int:
        at: int = self.checkpoint["timestamp"] if self.checkpoint else self.record["lastModifiedAt"]
        return at

    def is_consumed(self, point: Tree) -> bool:
        """Whether the approval of a resume point was used."""
        return point["approvalStatus"] in ("approved", "auto-approved") and (
            "consumedAt" in point or consumption_key(self.record, point["id"]) in self.consumed
        )

    @property
    def nodes(self) -> Sequence[Tree]:
        return self.checkpoint["nodes"] if self.checkpoint else ()

    @property
    def known(self) -> Tree:
        empty: Tree = {"facts": [], "assumptions": [], "openQuestions": [], "beliefs": []}
        return self.checkpoint["epistemicState"] if self.checkpoint else empty

    @property
    def graph(self) -> Tree:
        return self.checkpoint["intentGraph"] if self.checkpoint else {"goals": [], "rootIntentId": ""}


def author_of(author: Tree) -> str:
    model = f", {author['model']}" if author.get("model") else ""
    return f"{one_line(author.get('name') or author['id'])} ({author['type']}{model})"


def when(milliseconds: int) -> str:
    return timestamp(milliseconds) if milliseconds <= _LAST_TIME else "after the year 9999"


def duration(milliseconds: int) -> str:
    for unit, size in (("day", 24 * HOUR), ("hour", HOUR), ("minute", _MINUTE), ("second", 1000)):
        if milliseconds >= 2 * size or unit == "second":
            number = milliseconds // size
            return f"{number} {unit}{'' if number == 1 else 's'}"
    raise AssertionError
