"""The tools that a phase permits: each step of the procedure is a policy, judged like any other.

Owns: writing a step as a policy's text, and the refusal of a call that it does not allow. Must never: decide by anything but
`Policy.judge`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from adjourn.aex import Policy, from_text
from adjourn.code.model.session_state import SessionState
from adjourn.code.workflow import phases
from adjourn.code.workflow.phases import PhaseStep

_LATER = "{tool} belongs to a later phase. Finish {phase} first: use the simpler search tools, then call submit_phase."
_EARLIER = (
    "{tool} is not allowed in {phase}. Submit the phase, or return to exploration with revert_to_exploration."
)


@cache
def policy_of(phase: str, substep: str) -> tuple[Policy, str]:
    """The policy of a step, and its text for the journal."""
    row = next(row for row in phases.STEPS if (row.phase, row.substep) == (phase, substep))
    text = policy_text(row)
    policy, findings = from_text(text, f"phase {row.phase}")
    assert not [found for found in findings if found.severity == "error"], findings
    return policy, text


def policy_text(row: PhaseStep) -> str:
    """A step in the contract language."""
    name = f"code-{row.step}-{row.phase.lower().replace('_', '-')}"
    return f'policy {name} v1\n\ngoal "What may be called in {row.phase}."\n\nuse {", ".join(phases.allowed(row))}\n'


def of(state: SessionState) -> tuple[Policy, str]:
    """The policy of a session's current step, and its text."""
    row = phases.step_of(state)
    return policy_of(row.phase, row.substep)


def refusal(state: SessionState, tool: str, message: str) -> dict[str, Any]:
    """The reply to a call that the current phase does not permit."""
    row = phases.step_of(state)
    later = any(tool in each.tools for each in phases.STEPS if each.step > row.step)
    hint = (_LATER if later else _EARLIER).format(tool=tool, phase=row.phase)
    return {
        "error": "phase_blocked",
        "message": message,
        "allowed_tools": phases.allowed(row),
        "hint": hint,
        "current_phase": str(row.phase),
        **phases.block(state),
    }
