"""A submission or call that does not go through, with what the client needs to go on.

Owns: `FlowError`. Must never: know a phase.
"""

from __future__ import annotations

from typing import Any

from adjourn.errors import AdjournError


class FlowError(AdjournError):
    """`code` is the published word for machines, `more` the members that the reply has beside the usual ones."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.more = more

    def reply(self) -> dict[str, Any]:
        return {"error": self.code, "message": self.message, **self.more}


def needs_a_person(code: str, error: AdjournError, **more: Any) -> FlowError:
    """What only the user can mend."""
    return FlowError(code, str(error), requires_user_intervention=True, **more)


def mismatch(message: str, **more: Any) -> FlowError:
    return FlowError("payload_mismatch", message, **more)
