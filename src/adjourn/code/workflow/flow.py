"""Handles submissions: the only way in which a session changes phase.

Owns: reading a submission for the step it is for, the moves, and what is done on the way into a phase. Must never: change the session it
is given: it hands back a new one, or raises `FlowError` and nothing was changed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from adjourn.code.git import backup_refs, branches, changes
from adjourn.code.model.deadline import Deadline
from adjourn.code.model.session_state import MAX_SUMMARY, Phase, PhaseVisit, SessionState, stamp
from adjourn.code.workflow import delivery, evidence, payloads, phases, research, tasks
from adjourn.code.workflow.outcome import FlowError, StepOutcome, mismatch, needs_user
from adjourn.code.workflow.phases import PhaseStep
from adjourn.code.workflow.worktree import Worktree
from adjourn.errors import AdjournError, InvalidError

MAX_DATA = 1 << 20
_ALIASES = {
    "explored_files": ("files_analyzed",),
    "findings": ("symbols_identified", "entry_points", "existing_patterns"),
}

HANDLERS = {
    payloads.BranchChoice: research.branch_choice,
    payloads.ReviewedDocuments: research.documents,
    payloads.RequestFrame: research.frame,
    payloads.ExplorationFindings: research.explored,
    payloads.MoreInformation: research.more_information,
    payloads.SemanticFindings: research.searched,
    payloads.OpenHypotheses: research.open_hypotheses,
    payloads.HypothesisResults: research.verified,
    payloads.NeedsImpact: research.needs_impact,
    payloads.ImpactFindings: research.impact,
    payloads.TaskPlan: tasks.plan,
    payloads.TaskDone: tasks.done,
    payloads.Intervention: tasks.intervention,
    payloads.UserDecision: tasks.user_decision,
    payloads.CommitReview: delivery.pre_commit,
    payloads.QualityReview: delivery.quality,
}


class SubmissionResult(NamedTuple):
    """The new session state, the reply, and whether the session is over."""

    state: SessionState
    reply: dict[str, Any]
    over: bool = False


def submit(
    worktree: Worktree, before: SessionState, data: Any, deadline: Deadline | None = None
) -> SubmissionResult:
    """Handle a submission. Raises `FlowError`, with nothing changed. `deadline` reports the progress of checks."""
    given = _parsed(data)
    _check_phase(before, given)
    row = _step_for(before, given)
    try:
        payload = payloads.read(
            row.payload, _with_aliases(given) if row.phase == Phase.EXPLORATION else given
        )
    except InvalidError as error:
        raise mismatch(str(error), given=sorted(given)[:50]) from error
    evidence.check(before, row, payload)
    state = copy.deepcopy(before)
    outcome = _handle(worktree, state, row, payload, deadline or Deadline())
    _keep_summary(state, row, payload)
    if outcome.over or (outcome.to is None and not outcome.stays):
        _leave(state)
        return SubmissionResult(
            state, {"success": True, **outcome.extras, "session_complete": True}, over=True
        )
    extras = dict(outcome.extras)
    if not outcome.stays and outcome.to is not None:
        extras |= enter(worktree, state, outcome.to, outcome.reason)
    elif phases.step_of(state).step != row.step:
        _visit(state, row.phase, outcome.reason)
    state.tools_in_step = []
    return SubmissionResult(state, {"success": True, **extras, **phases.block(state)})


def enter(worktree: Worktree, state: SessionState, phase: Phase, reason: str = "") -> dict[str, Any]:
    """Enter a phase. Raises `FlowError` if its prerequisites fail, such as creating the branch."""
    extras: dict[str, Any] = {}
    left = state.current_phase
    if phase == Phase.READY:
        extras = _branch(worktree, state, changed_by_others=True)
        state.ready_substep = "plan"
    elif phase == Phase.PRE_COMMIT:  # a session of the published form may come here without a branch
        extras = _branch(worktree, state, changed_by_others=False)
    elif phase == Phase.POST_IMPL_VERIFY and worktree.test_commands:
        extras = {"server_runs": worktree.server_runs}
    state.current_phase = phase
    state.escalated = state.escalated and phase == Phase.VERIFY_INTERVENTION
    _visit(state, left, reason)
    return extras


def begin(state: SessionState, phase: Phase) -> None:
    """Enter the first phase of a session."""
    state.current_phase = phase
    state.phase_history = [PhaseVisit(phase=str(phase), started_at=stamp(), step=phases.step_of(state).step)]


def revert(state: SessionState, *, keep_results: bool) -> SessionState:
    """The session, returned to EXPLORATION. Branch, tasks and counters are kept."""
    state = copy.deepcopy(state)
    left = state.current_phase
    if not keep_results:
        state.semantic = state.verification = None
    state.phase_assessments = {}
    state.current_phase, state.escalated, state.tools_in_step = Phase.EXPLORATION, False, []
    _visit(state, left, "revert_to_exploration")
    return state


def _parsed(data: Any) -> dict[str, Any]:
    try:
        found = payloads.as_object(data)
    except InvalidError as error:
        raise FlowError("invalid_data", str(error)) from error
    if len(msgspec.json.encode(found)) > MAX_DATA:
        raise FlowError(
            "invalid_data",
            f"`data` is larger than {MAX_DATA} bytes: submit the essentials, with file and line",
        )
    return found


def _check_phase(state: SessionState, given: Mapping[str, Any]) -> None:
    """Raise `FlowError` if the payload names another phase than the current one."""
    named = given.get("phase")
    if not named:
        return
    if named not in list(Phase):
        raise FlowError(
            "unknown_phase", f"unknown phase {str(named)[:80]!r}", phases=[str(each) for each in Phase]
        )
    if named != state.current_phase:
        raise FlowError("phase_mismatch", f"the session is in {state.current_phase}, not in {named}")


def _step_for(state: SessionState, given: Mapping[str, Any]) -> PhaseStep:
    """The step that a submission is for; in READY, its members decide."""
    if state.current_phase != Phase.READY:
        return phases.step_of(state)
    substep = "plan" if "tasks" in given else "implement" if "task_id" in given else "complete"
    return next(row for row in phases.STEPS if row.substep == substep)


def _with_aliases(given: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with the member names of older clients mapped to current ones."""
    found = dict(given)
    for name, older in _ALIASES.items():
        if name not in found and any(each in found for each in older):
            lists = [value for each in older if isinstance(value := found.get(each), list)]
            found[name] = [item for each in lists for item in each]
    return found


def _handle(
    worktree: Worktree, state: SessionState, row: PhaseStep, payload: payloads.Payload, deadline: Deadline
) -> StepOutcome:
    if isinstance(payload, payloads.VerifierVerdict):
        return tasks.verdict(worktree, state, payload, deadline)
    if row.phase == Phase.MERGE:
        return delivery.merge(worktree, state)
    if row.substep == "complete":
        return tasks.complete(state)
    handler: Any = HANDLERS[type(payload)]
    outcome: StepOutcome = handler(worktree, state, payload)
    return outcome


def _branch(worktree: Worktree, state: SessionState, *, changed_by_others: bool) -> dict[str, Any]:
    """Create the session's branch once. Changes that are there are recorded and backed up if the session cannot have made them."""
    if state.quick_mode or state.task_branch_enabled:
        return {}
    if not worktree.is_git:
        raise FlowError(
            "branch_creation_failed",
            f"{worktree.why_no_git}, or use --quick",
            requires_user_intervention=True,
        )
    git = worktree.git
    try:
        extras: dict[str, Any] = {}
        if changed_by_others and git.commit():
            state.dirty_before = changes.dirty_files(git)
        if before := changes.small_enough_to_back_up(git, state.dirty_before):
            held = backup_refs.back_up_files(git, state.session_id, before, "state before the session")
            extras["kept"] = msgspec.to_builtins(held)
        here = git.branch()
        if state.branch_policy == "continue" and here.startswith(branches.PREFIX):
            branch, base = here, branches.base_of(git, here)
            if not base:
                raise branches.BranchError(
                    f"the base branch of {here} no longer exists", "check out another branch"
                )
        else:
            branch, base = branches.start_branch(git, state.session_id)
    except AdjournError as error:
        raise needs_user("branch_creation_failed", error) from error
    state.task_branch_name, state.task_branch_enabled, state.base_branch = branch, True, base
    state.base_commit = git.line("merge-base", f"refs/heads/{base}", "HEAD")
    return {**extras, "branch": {"name": branch, "base": base}}


def _visit(state: SessionState, left: Phase, reason: str) -> None:
    _leave(state)
    state.phase_history.append(
        PhaseVisit(
            phase=str(state.current_phase),
            from_phase=str(left),
            reason=reason,
            started_at=stamp(),
            step=phases.step_of(state).step,
        )
    )


def _leave(state: SessionState) -> None:
    if state.phase_history and state.phase_history[-1].ended_at is None:
        last = state.phase_history[-1]
        last.ended_at = stamp()
        try:
            spent = datetime.fromisoformat(last.ended_at) - datetime.fromisoformat(last.started_at)
            last.duration_seconds = round(spent.total_seconds(), 3)
        except (ValueError, TypeError):  # a time of another make
            last.duration_seconds = None


def _keep_summary(state: SessionState, row: PhaseStep, payload: payloads.Payload) -> None:
    if payload.summary:
        name = f"step_{row.step:02}_{row.phase}"
        state.phase_payloads[name] = {"summary": payload.summary[:MAX_SUMMARY]}
