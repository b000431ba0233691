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
    State,
    Verification,
    VerificationEvidence,
    VerifiedFile,
    VerifiedHypothesis,
)
from adjourn.code.workflow import evidence, payloads, phases, query_frame
from adjourn.code.workflow.outcome import FlowError, Outcome, mismatch, onward
from adjourn.code.workflow.worktree import Place


def branch_choice(place: Place, state: State, payload: payloads.BranchChoice) -> Outcome:
    state.branch_policy = payload.choice
    if payload.choice == "continue":
        return onward(state, {"choice": "continue", "cleanup_result": None})
    cleaned = stale_branches.clean(place.git, state.session_id, payload.choice, place.spared())
    result = msgspec.to_builtins(cleaned)
    if cleaned.errors:
        raise FlowError(
            "branch_operation_failed",
            "some branches could not be cleaned up: " + "; ".join(cleaned.errors),
            requires_user_intervention=True,
            cleanup_result=result,
        )
    return onward(state, {"choice": payload.choice, "cleanup_result": result})


def documents(place: Place, state: State, payload: payloads.Documents) -> Outcome:
    del place
    return onward(state, {"documents_reviewed": len(payload.documents_reviewed)})


def frame(place: Place, state: State, payload: payloads.Frame) -> Outcome:
    del place
    found = state.query_frame = query_frame.framed(state.query, payload)
    if state.strictness == "strict":
        state.risk_level = found.risk
    return onward(state, {"query_frame": found.slots, "missing_slots": found.missing})


def explored(place: Place, state: State, payload: payloads.Explored) -> Outcome:
    files = list(dict.fromkeys([*payload.explored_files, *payload.files_analyzed]))
    if state.strictness != "lenient":
        files = evidence.known_files(place.repository, files)
    found = Exploration(
        symbols_identified=payload.symbols_identified,
        entry_points=payload.entry_points,
        existing_patterns=payload.existing_patterns,
        files_analyzed=files,
        tools_used=list(state.tools_in_step),
        findings=payload.findings,
    )
    found.missing_requirements = evidence.weigh(state, found)
    found.evaluated_confidence = "low" if found.missing_requirements else "high"
    state.exploration = found
    extras: dict[str, Any] = {"explored_files_count": len(files), "confidence": found.evaluated_confidence}
    if state.strictness == "strict" and found.missing_requirements:
        extras["missing_requirements"] = found.missing_requirements
    return onward(state, extras)


def more_information(place: Place, state: State, payload: payloads.MoreInformation) -> Outcome:
    del place
    thin = state.strictness == "strict" and bool(state.exploration and state.exploration.missing_requirements)
    answer = {"needs_more_information": payload.needs_more_information, "reason": payload.reason}
    state.phase_assessments[Phase.Q1] = answer | ({"forced": True} if thin else {})
    return _decided(state, Phase.SEMANTIC)


def searched(place: Place, state: State, payload: payloads.Searched) -> Outcome:
    del place
    hypotheses = [
        Hypothesis(one) if isinstance(one, str) else _restored(Hypothesis, one) for one in payload.hypotheses
    ]
    state.semantic = Semantic(
        hypotheses=hypotheses,
        semantic_reason=payload.semantic_reason or None,
        search_queries=[payload.search_query] if payload.search_query else [],
        search_results=payload.search_results,
    )
    return onward(state, {"search_results_count": len(payload.search_results)})


def open_hypotheses(place: Place, state: State, payload: payloads.OpenHypotheses) -> Outcome:
    del place
    answer = {"has_unverified_hypotheses": payload.has_unverified_hypotheses, "reason": payload.reason}
    state.phase_assessments[Phase.Q2] = answer
    return _decided(state, Phase.VERIFICATION)


def verified(place: Place, state: State, payload: payloads.Verifications) -> Outcome:
    del place
    found = []
    for one in payload.hypotheses_verified:
        given = evidence.as_evidence(one.evidence)
        rejected = one.result is False or str(one.result).strip().lower() in ("rejected", "false", "no")
        status = "rejected" if rejected else "confirmed"
        found.append(VerifiedHypothesis(one.hypothesis, status, _restored(VerificationEvidence, given)))
    rejected_ones = [one.hypothesis for one in found if one.status == "rejected"]
    state.verification = Verification(found, all_confirmed=not rejected_ones)
    extras: dict[str, Any] = {"verified_count": len(found)}
    if rejected_ones:
        extras["warning"] = "do not build on what was rejected"
        extras["rejected"] = rejected_ones
    return onward(state, extras)


def needs_impact(place: Place, state: State, payload: payloads.NeedsImpact) -> Outcome:
    del place
    answer = {"needs_impact_analysis": payload.needs_impact_analysis, "reason": payload.reason}
    state.phase_assessments[Phase.Q3] = answer
    outcome = _decided(state, Phase.IMPACT_ANALYSIS)
    if outcome.to is None:
        return outcome._replace(extras={**outcome.extras, "decision": "SESSION_COMPLETE"})
    return outcome


def impact(place: Place, state: State, payload: payloads.Impact) -> Outcome:
    del place
    found = state.impact_analysis or ImpactAnalysis()
    found.summary = payload.impact_summary
    found.verified_files = [_restored(VerifiedFile, one) for one in payload.verified_files]
    state.impact_analysis = found
    said = {one.file for one in found.verified_files}
    unsaid = [path for path in found.should_verify if path not in said]
    return onward(
        state, {"warning": "not said to be verified: " + ", ".join(unsaid[:20])} if said and unsaid else {}
    )


def _decided(state: State, optional: Phase) -> Outcome:
    """On to the phase that a question is about, or past it."""
    needed = not phases.FIRST[optional].skipped(state)
    return onward(state, {"decision": f"{optional} {'required' if needed else 'skipped'}"})


def _restored(kind: Any, given: dict[str, Any]) -> Any:
    try:
        return restore(kind, given)
    except msgspec.ValidationError as error:
        raise mismatch(str(error)) from error
