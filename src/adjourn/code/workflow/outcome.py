"""What a submission comes to.

Owns: `Outcome`. Must never: know a phase's rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adjourn.code.model.session_state import Phase, State
from adjourn.code.workflow import phases


class Outcome(NamedTuple):
    """The phase to go to (None: none is left), or to stay; what the reply says beside it, and why."""

    to: Phase | None
    extras: dict[str, Any]
    reason: str = ""
    stays: bool = False
    over: bool = False


def onward(state: State, extras: dict[str, Any], reason: str = "") -> Outcome:
    """On to what follows for this session."""
    return Outcome(phases.following(state), extras, reason)


def stay(extras: dict[str, Any], reason: str = "") -> Outcome:
    return Outcome(None, extras, reason, stays=True)
