"""What the next session receives about a task: one value, whatever reads it.

Owns: its type. Must never: do I/O, or know how it is shown (`rendering` does).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec


class SectionItem(NamedTuple):
    """One item, on one line. `data` is the same for machines, None where the text is all there is."""

    text: str
    data: Mapping[str, Any] | None = None


class Section(NamedTuple):
    """Things of one kind, the most important first.

    `name` is the member of a JSON answer, `title` the heading of a text. `wordings` say the same, each shorter than the one before:
    the first that fits is used, or as much of the last as fits. `floor` is the percentage of the room that it gets in any case. `beyond`
    counts what no wording contains. `rest` says where to read what was left out. `is_reversed`: shown with the most important last.
    """

    name: str
    title: str
    wordings: Sequence[Sequence[SectionItem]]
    floor: int
    beyond: int = 0
    rest: str = ""
    is_reversed: bool = False

    @property
    def items(self) -> Sequence[SectionItem]:
        """All of it, in full."""
        return self.wordings[0]


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """What a session that resumes a checkpoint receives: about the task as it is now, whichever of its checkpoints that is.

    `made` is the checkpoint's time, `state` says who must act next, `mission` what the agent said of the task where the contract
    says something else. `calls_left` is None without a budget. `notes` are remarks on what was read, `doubts` counts the calls in
    doubt, `page` is the path of the task's page, `events` counts the events of the history, `imported` describes a part of it that
    nobody could verify.
    """

    name: str
    task: str
    made: str
    state: str
    description: str = ""
    untrusted_signer: str = ""
    goal: str = ""
    mission: str = ""
    tools: tuple[str, ...] = ()
    calls_used: int = 0
    calls_left: int | None = None
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    doubts: int = 0
    page: str = ""
    events: int = 0
    imported: Mapping[str, Any] | None = None

    def section(self, name: str) -> Section | None:
        """The section of a name; None if it would be empty."""
        return next((section for section in self.sections if section.name == name), None)
