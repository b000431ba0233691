"""Submissions of the phases before anything is changed: branches of earlier sessions, documents, the request, looking.

Owns: what each of them keeps in the session. Must never: write a file of the project.
"""

from __future__ import annotations

from typing import Any

import msgspec

from adjourn.code.git import stale_branches
from adjourn.code.model.codec import restore
from adjourn.code.model.session_state import (
    Exploration,
    Hypothesis,
    ImpactAnalysis,
    Phase,
    Semantic,
    SessionState,
    VerificationEvidence,
    VerificationResult,
    VerifiedFile,
    VerifiedHypothesis,
)
from adjourn.code.workflow import evidence, payloads, phases, query_frame
from adjourn.code.workflow.outcome import FlowError, StepOutcome, mismatch, proceed
from adjourn.code.workflow.worktree import Worktree


def branch_choice(worktree: Worktree, state: SessionState, payload: payloads.BranchChoice) -> StepOutcome:
    state.branch_policy = payload.choice
    if payload.choice == "continue":
        return proceed(state, {"choice": "continue", "cleanup_result": None})
    cleaned = stale_branches.clean_up(
        worktree.git, state.session_id, payload.choice, worktree.excluded_sessions()
    )
    result = msgspec.to_builtins(cleaned)
    if cleaned.errors:
        raise FlowError(
            "branch_operation_failed",
            "cannot clean up some branches: " + "; ".join(cleaned.errors),
            requires_user_intervention=True,
            cleanup_result=result,
        )
    return proceed(state, {"choice": payload.choice, "cleanup_result": result})


def documents(worktree: Worktree, state: SessionState, payload: payloads.ReviewedDocuments) -> StepOutcome:
    del worktree
    return proceed(state, {"documents_reviewed": len(payload.documents_reviewed)})


def frame(worktree: Worktree, state: SessionState, payload: payloads.RequestFrame) -> StepOutcome:
    del worktree
    found = state.query_frame = query_frame.build_frame(state.query, payload)
    if state.strictness == "strict":
        state.risk_level = found.risk
    return proceed(state, {"query_frame": found.slots, "missing_slots": found.missing})


def explored(worktree: Worktree, state: SessionState, payload: payloads.ExplorationFindings) -> StepOutcome:
    files = list(dict.fromkeys([*payload.explored_files, *payload.files_analyzed]))
    if state.strictness != "lenient":
        files = evidence.known_files(worktree.repository, files)
    found = Exploration(
        symbols_identified=payload.symbols_identified,
        entry_points=payload.entry_points,
        existing_patterns=payload.existing_patterns,
        files_analyzed=files,
        tools_used=list(state.tools_in_step),
        findings=payload.findings,
    )
    found.missing_requirements = evidence.missing_requirements(state, found)
    found.evaluated_confidence = "low" if found.missing_requirements else "high"
    state.exploration = found
    extras: dict[str, Any] = {"explored_files_count": len(files), "confidence": found.evaluated_confidence}
    if state.strictness == "strict" and found.missing_requirements:
        extras["missing_requirements"] = found.missing_requirements
    return proceed(state, extras)


def more_information(
    worktree: Worktree, state: SessionState, payload: payloads.MoreInformation
) -> StepOutcome:
    del worktree
    thin = state.strictness == "strict" and bool(state.exploration and state.exploration.missing_requirements)
    answer = {"needs_more_information": payload.needs_more_information, "reason": payload.reason}
    state.phase_assessments[Phase.Q1] = answer | ({"forced": True} if thin else {})
    return _decided(state, Phase.SEMANTIC)


def searched(worktree: Worktree, state: SessionState, payload: payloads.SemanticFindings) -> StepOutcome:
    del worktree
    hypotheses = [
        Hypothesis(one) if isinstance(one, str) else _restored(Hypothesis, one) for one in payload.hypotheses
    ]
    state.semantic = Semantic(
        hypotheses=hypotheses,
        semantic_reason=payload.semantic_reason or None,
        search_queries=[payload.search_query] if payload.search_query else [],
        search_results=payload.search_results,
    )
    return proceed(state, {"search_results_count": len(payload.search_results)})


def open_hypotheses(worktree: Worktree, state: SessionState, payload: payloads.OpenHypotheses) -> StepOutcome:
    del worktree
    answer = {"has_unverified_hypotheses": payload.has_unverified_hypotheses, "reason": payload.reason}
    state.phase_assessments[Phase.Q2] = answer
    return _decided(state, Phase.VERIFICATION)


def verified(worktree: Worktree, state: SessionState, payload: payloads.HypothesisResults) -> StepOutcome:
    del worktree
    found = []
    for one in payload.hypotheses_verified:
        given = evidence.as_evidence(one.evidence)
        rejected = one.result is False or str(one.result).strip().lower() in ("rejected", "false", "no")
        status = "rejected" if rejected else "confirmed"
        found.append(VerifiedHypothesis(one.hypothesis, status, _restored(VerificationEvidence, given)))
    rejected_ones = [one.hypothesis for one in found if one.status == "rejected"]
    state.verification = VerificationResult(found, all_confirmed=not rejected_ones)
    extras: dict[str, Any] = {"verified_count": len(found)}
    if rejected_ones:
        extras["warning"] = "do not rely on rejected hypotheses"
        extras["rejected"] = rejected_ones
    return proceed(state, extras)


def needs_impact(worktree: Worktree, state: SessionState, payload: payloads.NeedsImpact) -> StepOutcome:
    del worktree
    answer = {"needs_impact_analysis": payload.needs_impact_analysis, "reason": payload.reason}
    state.phase_assessments[Phase.Q3] = answer
    outcome = _decided(state, Phase.IMPACT_ANALYSIS)
    if outcome.to is None:
        return outcome._replace(extras={**outcome.extras, "decision": "SESSION_COMPLETE"})
    return outcome


def impact(worktree: Worktree, state: SessionState, payload: payloads.ImpactFindings) -> StepOutcome:
    del worktree
    found = state.impact_analysis or ImpactAnalysis()
    found.summary = payload.impact_summary
    found.verified_files = [_restored(VerifiedFile, one) for one in payload.verified_files]
    state.impact_analysis = found
    said = {one.file for one in found.verified_files}
    unsaid = [path for path in found.should_verify if path not in said]
    return proceed(state, {"warning": "not verified: " + ", ".join(unsaid[:20])} if said and unsaid else {})


def _decided(state: SessionState, optional: Phase) -> StepOutcome:
    """Proceed to the phase that the question decides on, or skip it."""
    needed = not phases.FIRST[optional].skipped(state)
    return proceed(state, {"decision": f"{optional} {'required' if needed else 'skipped'}"})


def _restored(kind: Any, given: dict[str, Any]) -> Any:
    try:
        return restore(kind, given)
    except msgspec.ValidationError as error:
        raise mismatch(str(error)) from error
