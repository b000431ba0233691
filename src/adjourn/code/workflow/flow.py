"""Handles submissions: the only way in which a session changes phase.

INVARIANT: the session that is passed in never changes. `submit` returns a new one, or raises `FlowError` with nothing changed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from adjourn.code import branches, changes
from adjourn.code.deadline import Deadline
from adjourn.code.repository import back_up_files
from adjourn.code.session_state import (
    MAX_SUMMARY,
    Exploration,
    Hypothesis,
    ImpactAnalysis,
    Phase,
    PhaseVisit,
    Semantic,
    SessionState,
    VerificationEvidence,
    VerificationResult,
    VerifiedFile,
    VerifiedHypothesis,
    restore,
    stamp,
)
from adjourn.code.workflow import delivery, evidence, payloads, phases, tasks
from adjourn.code.workflow.phases import FlowError, PhaseStep, StepOutcome, mismatch, needs_user, proceed
from adjourn.code.workflow.request import Worktree
from adjourn.errors import AdjournError, InvalidError


def branch_choice(worktree: Worktree, state: SessionState, payload: payloads.BranchChoice) -> StepOutcome:
    state.branch_policy = payload.choice
    if payload.choice == "continue":
        return proceed(state, {"choice": "continue", "cleanup_result": None})
    cleaned = branches.clean_up(worktree.git, state.session_id, payload.choice, worktree.excluded_sessions())
    result = msgspec.to_builtins(cleaned)
    if cleaned.errors:
        raise FlowError(
            "branch_operation_failed",
            "cannot clean up some branches: " + "; ".join(cleaned.errors),
            requires_user_intervention=True,
            cleanup_result=result,
        )
    return proceed(state, {"choice": payload.choice, "cleanup_result": result})


def documents(_worktree: Worktree, state: SessionState, payload: payloads.ReviewedDocuments) -> StepOutcome:
    return proceed(state, {"documents_reviewed": len(payload.documents_reviewed)})


def frame(_worktree: Worktree, state: SessionState, payload: payloads.RequestFrame) -> StepOutcome:
    query_frame = state.query_frame = payloads.build_frame(state.query, payload)
    if state.strictness == "strict":
        state.risk_level = query_frame.risk
    return proceed(state, {"query_frame": query_frame.slots, "missing_slots": query_frame.missing})


def explored(worktree: Worktree, state: SessionState, payload: payloads.ExplorationFindings) -> StepOutcome:
    files = list(dict.fromkeys([*payload.explored_files, *payload.files_analyzed]))
    if state.strictness != "lenient":
        files = evidence.known_files(worktree.repository, files)
    exploration = Exploration(
        symbols_identified=payload.symbols_identified,
        entry_points=payload.entry_points,
        existing_patterns=payload.existing_patterns,
        files_analyzed=files,
        tools_used=list(state.tools_in_step),
        findings=payload.findings,
    )
    exploration.missing_requirements = evidence.missing_requirements(state, exploration)
    exploration.evaluated_confidence = "low" if exploration.missing_requirements else "high"
    state.exploration = exploration
    extras: dict[str, Any] = {"explored_files_count": len(files), "confidence": exploration.evaluated_confidence}
    if state.strictness == "strict" and exploration.missing_requirements:
        extras["missing_requirements"] = exploration.missing_requirements
    return proceed(state, extras)


def more_information(_worktree: Worktree, state: SessionState, payload: payloads.MoreInformation) -> StepOutcome:
    thin = state.strictness == "strict" and bool(state.exploration and state.exploration.missing_requirements)
    answer = {"needs_more_information": payload.needs_more_information, "reason": payload.reason}
    state.phase_assessments[Phase.Q1] = answer | ({"forced": True} if thin else {})
    return _proceed_as_answered(state, Phase.SEMANTIC)


def searched(_worktree: Worktree, state: SessionState, payload: payloads.SemanticFindings) -> StepOutcome:
    hypotheses = [
        Hypothesis(item) if isinstance(item, str) else _as_struct(Hypothesis, item) for item in payload.hypotheses
    ]
    state.semantic = Semantic(
        hypotheses=hypotheses,
        semantic_reason=payload.semantic_reason or None,
        search_queries=[payload.search_query] if payload.search_query else [],
        search_results=payload.search_results,
    )
    return proceed(state, {"search_results_count": len(payload.search_results)})


def open_hypotheses(_worktree: Worktree, state: SessionState, payload: payloads.OpenHypotheses) -> StepOutcome:
    answer = {"has_unverified_hypotheses": payload.has_unverified_hypotheses, "reason": payload.reason}
    state.phase_assessments[Phase.Q2] = answer
    return _proceed_as_answered(state, Phase.VERIFICATION)


def verified(_worktree: Worktree, state: SessionState, payload: payloads.HypothesisResults) -> StepOutcome:
    results = []
    for result in payload.hypotheses_verified:
        value = evidence.as_evidence(result.evidence)
        rejected = result.result is False or str(result.result).strip().lower() in ("rejected", "false", "no")
        status = "rejected" if rejected else "confirmed"
        results.append(VerifiedHypothesis(result.hypothesis, status, _as_struct(VerificationEvidence, value)))
    rejected_ones = [result.hypothesis for result in results if result.status == "rejected"]
    state.verification = VerificationResult(results, all_confirmed=not rejected_ones)
    extras: dict[str, Any] = {"verified_count": len(results)}
    if rejected_ones:
        extras["warning"] = "do not rely on rejected hypotheses"
        extras["rejected"] = rejected_ones
    return proceed(state, extras)


def needs_impact(_worktree: Worktree, state: SessionState, payload: payloads.NeedsImpact) -> StepOutcome:
    answer = {"needs_impact_analysis": payload.needs_impact_analysis, "reason": payload.reason}
    state.phase_assessments[Phase.Q3] = answer
    outcome = _proceed_as_answered(state, Phase.IMPACT_ANALYSIS)
    if outcome.to is None:
        return outcome._replace(extras={**outcome.extras, "decision": "SESSION_COMPLETE"})
    return outcome


def impact(_worktree: Worktree, state: SessionState, payload: payloads.ImpactFindings) -> StepOutcome:
    analysis = state.impact_analysis or ImpactAnalysis()
    analysis.summary = payload.impact_summary
    analysis.verified_files = [_as_struct(VerifiedFile, entry) for entry in payload.verified_files]
    state.impact_analysis = analysis
    answered = {entry.file for entry in analysis.verified_files}
    unsaid = [path for path in analysis.should_verify if path not in answered]
    return proceed(state, {"warning": "not verified: " + ", ".join(unsaid[:20])} if answered and unsaid else {})


def _proceed_as_answered(state: SessionState, optional: Phase) -> StepOutcome:
    """Proceed to the phase that the question decides on, or skip it."""
    needed = not phases.FIRST[optional].skipped(state)
    return proceed(state, {"decision": f"{optional} {'required' if needed else 'skipped'}"})


def _as_struct(kind: Any, members: dict[str, Any]) -> Any:
    try:
        return restore(kind, members)
    except msgspec.ValidationError as error:
        raise mismatch(str(error)) from error


MAX_DATA = 1 << 20
_ALIASES = {
    "explored_files": ("files_analyzed",),
    "findings": ("symbols_identified", "entry_points", "existing_patterns"),
}

HANDLERS = {
    payloads.BranchChoice: branch_choice,
    payloads.ReviewedDocuments: documents,
    payloads.RequestFrame: frame,
    payloads.ExplorationFindings: explored,
    payloads.MoreInformation: more_information,
    payloads.SemanticFindings: searched,
    payloads.OpenHypotheses: open_hypotheses,
    payloads.HypothesisResults: verified,
    payloads.NeedsImpact: needs_impact,
    payloads.ImpactFindings: impact,
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


def submit(worktree: Worktree, before: SessionState, data: Any, deadline: Deadline | None = None) -> SubmissionResult:
    """Handle a submission. Raises `FlowError`, with nothing changed. `deadline` reports the progress of checks."""
    submitted = _parsed(data)
    _check_phase(before, submitted)
    row = _step_for(before, submitted)
    try:
        payload = payloads.read(row.payload, _with_aliases(submitted) if row.phase == Phase.EXPLORATION else submitted)
    except InvalidError as error:
        raise mismatch(error.message, hint=error.remedy, given=sorted(submitted)[:50]) from error
    evidence.check(before, row, payload)
    state = copy.deepcopy(before)
    outcome = _handle(worktree, state, row, payload, deadline or Deadline())
    if payload.summary:
        name = f"step_{row.step:02}_{row.phase}"
        state.phase_payloads[name] = {"summary": payload.summary[:MAX_SUMMARY]}
    if outcome.over or (outcome.to is None and not outcome.stays):
        _leave(state)
        return SubmissionResult(state, {"success": True, **outcome.extras, "session_complete": True}, over=True)
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
        submitted = payloads.as_object(data)
    except InvalidError as error:
        raise FlowError("invalid_data", error.message, hint=error.remedy) from error
    if len(msgspec.json.encode(submitted)) > MAX_DATA:
        raise FlowError(
            "invalid_data", f"`data` is larger than {MAX_DATA} bytes: submit the essentials, with file and line"
        )
    return submitted


def _check_phase(state: SessionState, submitted: Mapping[str, Any]) -> None:
    """Raise `FlowError` if the payload names another phase than the current one."""
    named = submitted.get("phase")
    if not named:
        return
    if named not in list(Phase):
        raise FlowError("unknown_phase", f"unknown phase {str(named)[:80]!r}", phases=[str(each) for each in Phase])
    if named != state.current_phase:
        raise FlowError("phase_mismatch", f"the session is in {state.current_phase}, not in {named}")


def _step_for(state: SessionState, submitted: Mapping[str, Any]) -> PhaseStep:
    """The step that a submission is for; in READY, its members decide."""
    if state.current_phase != Phase.READY:
        return phases.step_of(state)
    substep = "plan" if "tasks" in submitted else "implement" if "task_id" in submitted else "complete"
    return next(row for row in phases.STEPS if row.substep == substep)


def _with_aliases(submitted: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with the member names of older clients mapped to current ones."""
    mapped = dict(submitted)
    for name, older in _ALIASES.items():
        if name not in mapped and any(each in mapped for each in older):
            lists = [value for each in older if isinstance(value := mapped.get(each), list)]
            mapped[name] = [item for each in lists for item in each]
    return mapped


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
            "branch_creation_failed", f"{worktree.why_no_git}, or use --quick", requires_user_intervention=True
        )
    git = worktree.git
    try:
        extras: dict[str, Any] = {}
        if changed_by_others and git.commit():
            state.dirty_before = changes.dirty_files(git)
        if before := changes.small_enough_to_back_up(git, state.dirty_before):
            held = back_up_files(git, state.session_id, before, "state before the session")
            extras["kept"] = msgspec.to_builtins(held)
        here = git.branch()
        if state.branch_policy == "continue" and here.startswith(branches.PREFIX):
            branch, base = here, branches.base_of(git, here)
            if not base:
                raise branches.BranchError(f"the base branch of {here} no longer exists", "check out another branch")
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
