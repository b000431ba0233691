"""The result of a submission: a `StepOutcome`, or a `FlowError` with what the client needs to continue.

Owns: `StepOutcome` and `FlowError`. Must never: know a phase's rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adjourn.code.model.session_state import Phase, SessionState
from adjourn.code.workflow import phases
from adjourn.errors import AdjournError


class StepOutcome(NamedTuple):
    """The next phase (None: the session is over), or `stays`; extra members of the reply; the reason."""

    to: Phase | None
    extras: dict[str, Any]
    reason: str = ""
    stays: bool = False
    over: bool = False


def proceed(state: SessionState, extras: dict[str, Any], reason: str = "") -> StepOutcome:
    """Proceed to the next phase of this session."""
    return StepOutcome(phases.following(state), extras, reason)


def stay(extras: dict[str, Any], reason: str = "") -> StepOutcome:
    return StepOutcome(None, extras, reason, stays=True)


class FlowError(AdjournError):
    """A refused submission. `code` is the published error code, `more` holds extra members of the reply."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.more = more

    def reply(self) -> dict[str, Any]:
        return {"error": self.code, "message": self.message, **self.more}


def needs_user(code: str, error: AdjournError, **more: Any) -> FlowError:
    """An error that only the user can fix."""
    return FlowError(code, str(error), requires_user_intervention=True, **more)


def mismatch(message: str, **more: Any) -> FlowError:
    return FlowError("payload_mismatch", message, **more)
