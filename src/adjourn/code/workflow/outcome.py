"""The result of a submission: an `StepOutcome`, or a `FlowError` with what the client needs to continue.

Owns: `StepOutcome` and `FlowError`. Must never: know a phase's rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adjourn.code.model.session_state import Phase, SessionState
from adjourn.code.workflow import phases
from adjourn.errors import AdjournError


class StepOutcome(NamedTuple):
    """The phase to go to (None: none is left), or to stay; what the reply says beside it, and why."""

    to: Phase | None
    extras: dict[str, Any]
    reason: str = ""
    stays: bool = False
    over: bool = False


def proceed(state: SessionState, extras: dict[str, Any], reason: str = "") -> StepOutcome:
    """On to what follows for this session."""
    return StepOutcome(phases.following(state), extras, reason)


def stay(extras: dict[str, Any], reason: str = "") -> StepOutcome:
    return StepOutcome(None, extras, reason, stays=True)


class FlowError(AdjournError):
    """`code` is the published word for machines, `more` the members that the reply has beside the usual ones."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.more = more

    def reply(self) -> dict[str, Any]:
        return {"error": self.code, "message": self.message, **self.more}


def needs_user(code: str, error: AdjournError, **more: Any) -> FlowError:
    """What only the user can mend."""
    return FlowError(code, str(error), requires_user_intervention=True, **more)


def mismatch(message: str, **more: Any) -> FlowError:
    return FlowError("payload_mismatch", message, **more)
