"""The lines of a record in a hand-over, as values: for readers that load no code of records where a store has none."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class RecordLine(msgspec.Struct, frozen=True):
    """What a line says, and what more it says where there is room for that: a reason, a command."""

    text: str
    more: str = ""


class Recorded(msgspec.Struct, frozen=True):
    """Lines by what they are for. `steps` say what to do next, `waiting` what a person must do, `decisions` what binds, `notes` what to
    beware of.
    """

    is_finished: bool = False
    is_blocked: bool = False
    steps: Sequence[str] = ()
    progress: Sequence[str] = ()
    waiting: Sequence[RecordLine] = ()
    decisions: Sequence[RecordLine] = ()
    facts: Sequence[RecordLine] = ()
    notes: Sequence[str] = ()
