"""The procedure as one table: payload, permitted tools, skip rule and instruction of each step, and its outcome.

The tools of a step are a policy, judged like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import msgspec

from adjourn.aex.permissions import from_text
from adjourn.aex.policy import Policy
from adjourn.code.session_state import Phase, SessionState
from adjourn.code.workflow import payloads
from adjourn.errors import AdjournError, sentences

READING = (
    "search_text", "search_files", "find_definitions", "find_references", "analyze_structure", "get_symbols",
    "get_function_at_line", "query", "fetch_chunk_detail",
)  # fmt: skip
SYMBOLS = ("read_symbol", "outline", "diagnostics")
"""The tools of `--symbols` that only read."""
ALWAYS = (
    "start_session", "submit_phase", "get_session_status", "revert_to_exploration", "cleanup_stale_branches", "sync_index",
    "update_context", *READING, *SYMBOLS,
)  # fmt: skip
"""The tools that every phase permits: session tools and reading."""
_MEANING = ("semantic_search",)
_IMPACT = (*_MEANING, "analyze_impact")
_REVIEW = (*_IMPACT, "review_changes")
_WRITING = (*_IMPACT, "check_write_target", "add_explored_files", "rename_symbol")


class PhaseStep(msgspec.Struct, frozen=True, kw_only=True):
    """A row. `needs`: tools that must be called first. `skipped`: whether a session skips the phase."""

    phase: Phase
    step: int
    payload: type[payloads.Payload]
    instruction: str
    substep: str = ""
    tools: tuple[str, ...] = _IMPACT
    needs: tuple[str, ...] = ()
    skipped: Callable[[SessionState], bool] = lambda _: False


def _hurried(state: SessionState) -> bool:
    return state.fast_mode or state.quick_mode


def _answered_no(question: Phase, flag: str) -> Callable[[SessionState], bool]:
    """Skip a phase that its question ruled out, unless the gate is full or the evidence is too thin."""

    def skipped(state: SessionState) -> bool:
        answer = state.phase_assessments.get(question, {})
        return _hurried(state) or not (state.gate_level == "full" or answer.get(flag) or answer.get("forced"))

    return skipped


def _ends_before(state: SessionState) -> bool:
    return state.quick_mode or not state.implements


STEPS: tuple[PhaseStep, ...] = (
    PhaseStep(
        phase=Phase.BRANCH_INTERVENTION,
        step=2,
        payload=payloads.BranchChoice,
        tools=(),
        skipped=lambda state: any(visit.phase == Phase.BRANCH_INTERVENTION for visit in state.phase_history),
        instruction=(
            "Branches of earlier sessions exist. Tell the user which, and that you can delete them, merge each into"
            " its base branch, or continue and leave them. Ask; do not choose for the user. Submit the choice."
        ),
    ),
    PhaseStep(
        phase=Phase.DOCUMENT_RESEARCH,
        step=3,
        payload=payloads.ReviewedDocuments,
        tools=(),
        skipped=lambda state: state.no_doc,
        instruction=(
            "Read the project's design documents and rules that concern the request, preferably in a sub-agent that reports"
            " the rules that apply to this change, each with its location, and the passages to read in full. Submit"
            " what you read; if the project has none, submit one entry that says so."
        ),
    ),
    PhaseStep(
        phase=Phase.QUERY_FRAME,
        step=4,
        payload=payloads.RequestFrame,
        tools=(),
        instruction=(
            "Split the request into its parts: target_feature, trigger_condition, observed_issue, desired_action. Give each as"
            " {value, quote}, with the quote copied verbatim from the request. Use null for what it does not say."
        ),
    ),
    PhaseStep(
        phase=Phase.EXPLORATION,
        step=5,
        payload=payloads.ExplorationFindings,
        tools=(),
        skipped=_hurried,
        instruction=(
            "Explore the code with the tools of this server, several calls at once: where things are defined, who uses them,"
            " how similar code works. Only files that you list here may be changed later. Submit files and findings."
        ),
    ),
    PhaseStep(
        phase=Phase.Q1,
        step=6,
        payload=payloads.MoreInformation,
        tools=(),
        skipped=_hurried,
        instruction="Is information missing that a semantic search could find? Answer, and give the reason.",
    ),
    PhaseStep(
        phase=Phase.SEMANTIC,
        step=7,
        payload=payloads.SemanticFindings,
        tools=_MEANING,
        needs=("semantic_search",),
        skipped=_answered_no(Phase.Q1, "needs_more_information"),
        instruction=(
            "Search by meaning with semantic_search; fetch a whole hit with fetch_chunk_detail. Submit your findings, with locations."
        ),
    ),
    PhaseStep(
        phase=Phase.Q2,
        step=8,
        payload=payloads.OpenHypotheses,
        tools=_MEANING,
        skipped=_hurried,
        instruction="Does your plan rely on an assumption that you have not verified? Answer, and give the reason.",
    ),
    PhaseStep(
        phase=Phase.VERIFICATION,
        step=9,
        payload=payloads.HypothesisResults,
        tools=_MEANING,
        skipped=_answered_no(Phase.Q2, "has_unverified_hypotheses"),
        instruction=(
            "Verify your hypotheses one by one in the code. Submit each with its result and the evidence: a file and line, or"
            " the output of a tool. An unsettled hypothesis keeps you in this phase."
        ),
    ),
    PhaseStep(
        phase=Phase.Q3,
        step=10,
        payload=payloads.NeedsImpact,
        tools=_MEANING,
        skipped=_hurried,
        instruction="Is it unknown what else the change affects? Answer, and give the reason.",
    ),
    PhaseStep(
        phase=Phase.IMPACT_ANALYSIS,
        step=11,
        payload=payloads.ImpactFindings,
        needs=("analyze_impact",),
        skipped=_answered_no(Phase.Q3, "needs_impact_analysis"),
        instruction=(
            "Call analyze_impact for the files that you will change. Read every file that it lists in must_verify. Submit a summary."
        ),
    ),
    PhaseStep(
        phase=Phase.READY,
        step=12,
        substep="plan",
        payload=payloads.TaskPlan,
        tools=_WRITING,
        skipped=lambda state: not state.implements,
        instruction=(
            "Split the work into tasks, in the order of execution; every location that must change belongs to a task."
            " Verification is a later phase, not a task. Name what each task changes in its `files`: they are checked as by"
            " check_write_target. Submit the whole list, with finished tasks as completed."
        ),
    ),
    PhaseStep(
        phase=Phase.READY,
        step=13,
        substep="implement",
        payload=payloads.TaskDone,
        tools=_WRITING,
        needs=("check_write_target",),
        instruction=(
            "Do the next task only. Before you change a file that is not in its `files`, call check_write_target. Then submit the task's id and"
            " what you did."
        ),
    ),
    PhaseStep(
        phase=Phase.READY,
        step=14,
        substep="complete",
        payload=payloads.EmptyPayload,
        tools=_WRITING,
        instruction="All tasks are done. Submit an empty object to continue.",
    ),
    PhaseStep(
        phase=Phase.POST_IMPL_VERIFY,
        step=15,
        payload=payloads.VerifierVerdict,
        tools=_REVIEW,
        skipped=lambda state: not state.implements or state.no_verify,
        instruction=(
            "Choose the verifier in .code-intel/verifiers/ that fits the change, and follow it: run the checks, do not guess."
            " Run at least one command that tests or builds, by itself and after the last change: reading is no evidence."
            " Submit whether it passed, with every command that you ran in `evidence`; if not, the ids of the failed tasks, and the"
            " failure. The server itself runs what `server_runs` names."
        ),
    ),
    PhaseStep(
        phase=Phase.VERIFY_INTERVENTION,
        step=16,
        payload=payloads.Intervention,
        tools=_REVIEW,
        skipped=lambda _: True,
        instruction=(
            "The same tasks failed several times. Choose a prompt in .code-intel/interventions/, follow it before you change"
            " anything, and submit which prompt you used and what you did."
        ),
    ),
    PhaseStep(
        phase=Phase.PRE_COMMIT,
        step=17,
        payload=payloads.CommitReview,
        tools=_REVIEW,
        needs=("review_changes",),
        skipped=_ends_before,
        instruction=(
            "Review every file of `review`, or call review_changes if the reply has none: keep what the task needs, discard what does not belong (leftover"
            " debug code, stray files), with the reason. Submit a decision for every file, and the commit message. Omit files"
            " with `before`: the user changed them before the session, and they stay unchanged."
        ),
    ),
    PhaseStep(
        phase=Phase.QUALITY_REVIEW,
        step=18,
        payload=payloads.QualityReview,
        tools=_REVIEW,
        skipped=lambda state: _ends_before(state) or state.fast_mode or not state.quality_review_enabled,
        instruction=(
            "Follow .code-intel/review_prompts/quality_review.md. Submit your score and the issues to fix; an"
            " empty list approves the commit."
        ),
    ),
    PhaseStep(
        phase=Phase.MERGE,
        step=19,
        payload=payloads.EmptyPayload,
        tools=_REVIEW,
        skipped=_ends_before,
        instruction="Submit an empty object to merge the branch.",
    ),
)
ESCALATION = msgspec.structs.replace(
    next(step for step in STEPS if step.phase == Phase.VERIFY_INTERVENTION),
    payload=payloads.UserDecision,
    instruction=(
        "Two interventions failed. Follow .code-intel/user_escalation.md: show the user what was tried and"
        " what happened, and ask how to continue. Submit their decision: retry (plan again), accept (continue as is), or stop (end"
        " the session; the work stays on its branch)."
    ),
)
FIRST = {row.phase: row for row in reversed(STEPS)}
_TOGETHER = {
    (Phase.DOCUMENT_RESEARCH, Phase.QUERY_FRAME), (Phase.EXPLORATION, Phase.Q1), (Phase.SEMANTIC, Phase.Q2),
    (Phase.VERIFICATION, Phase.Q3), (Phase.IMPACT_ANALYSIS, Phase.READY), (Phase.READY, Phase.POST_IMPL_VERIFY),
    (Phase.PRE_COMMIT, Phase.MERGE), (Phase.QUALITY_REVIEW, Phase.MERGE),
}  # fmt: skip
"""Neighbours of which the second asks only for what is known when the first is done."""


def step_of(state: SessionState) -> PhaseStep:
    """The current step of a session."""
    if state.current_phase == Phase.READY:
        return next(row for row in STEPS if row.substep == state.ready_substep)
    if state.current_phase == Phase.VERIFY_INTERVENTION and state.escalated:
        return ESCALATION
    return FIRST[state.current_phase]


def following(state: SessionState, phase: Phase | None = None) -> Phase | None:
    """The phase that comes after `phase` (default: the current one) for this session; None when it is over."""
    order = list(Phase)
    start = order.index(phase or state.current_phase) + 1
    return next((each for each in order[start:] if not FIRST[each].skipped(state)), None)


def first(state: SessionState, *, stale: bool) -> Phase:
    """The phase that a new session begins with."""
    if stale:
        return Phase.BRANCH_INTERVENTION
    return Phase.QUERY_FRAME if state.no_doc else Phase.DOCUMENT_RESEARCH


def block(state: SessionState) -> dict[str, Any]:
    """The part of every reply that describes the current phase, and the steps that may be submitted with it."""
    row = step_of(state)
    members: dict[str, Any] = {**_described(row), "call": "submit_phase"}
    needed = tools_needed(state, row)
    if needed and state.strictness != "lenient":
        members["call_first"] = list(needed)
    if then := _with_it(state, row):
        members["then"] = [_described(each) for each in then]
    return members


def _described(row: PhaseStep) -> dict[str, Any]:
    return {
        "phase": str(row.phase),
        "step": row.step,
        "instruction": row.instruction,
        "expected_payload": payloads.expected(row.payload),
    }


def _with_it(state: SessionState, row: PhaseStep) -> list[PhaseStep]:
    """The steps that certainly follow and need nothing but what this one does: one call may submit them all."""
    if row.substep == "plan" or (row.substep == "implement" and len(state.pending) > 1):
        return []
    if row.substep == "implement":
        done = next(each for each in STEPS if each.substep == "complete")
        return [done, *_with_it(state, done)]
    after = following(state, row.phase)
    if after is None or (row.phase, after) not in _TOGETHER:
        return []
    return [FIRST[after]]


def tools_needed(state: SessionState, row: PhaseStep) -> tuple[str, ...]:
    """The tools that must be called before a submission; none for a task whose files were checked with the plan."""
    checked = row.substep == "implement" and state.pending and state.pending[0].files
    return () if checked else row.needs


def allowed(row: PhaseStep) -> list[str]:
    """The tools that a step permits."""
    return sorted({*ALWAYS, *row.tools})


# --- the tools that a phase permits

_LATER = "{tool} belongs to a later phase. Finish {phase} first: use the simpler search tools, then call submit_phase."
_EARLIER = "{tool} is not allowed in {phase}. Submit the phase, or return to exploration with revert_to_exploration."


@cache
def policy_of(phase: str, substep: str) -> tuple[Policy, str]:
    """The policy of a step, and its text for the journal."""
    row = next(row for row in STEPS if (row.phase, row.substep) == (phase, substep))
    text = policy_text(row)
    policy, findings = from_text(text, f"phase {row.phase}")
    assert not [finding for finding in findings if finding.severity == "error"], findings
    return policy, text


def policy_text(row: PhaseStep) -> str:
    """A step in the contract language."""
    name = f"code-{row.step}-{row.phase.lower().replace('_', '-')}"
    return f'policy {name} v1\n\ngoal "What may be called in {row.phase}."\n\nuse {", ".join(allowed(row))}\n'


def policy_for(state: SessionState) -> tuple[Policy, str]:
    """The policy of a session's current step, and its text."""
    row = step_of(state)
    return policy_of(row.phase, row.substep)


def refusal(state: SessionState, tool: str, message: str) -> dict[str, Any]:
    """The reply to a call that the current phase does not permit."""
    row = step_of(state)
    later = any(tool in each.tools for each in STEPS if each.step > row.step)
    hint = (_LATER if later else _EARLIER).format(tool=tool, phase=row.phase)
    return {
        "error": "phase_blocked",
        "message": message,
        "allowed_tools": allowed(row),
        "hint": hint,
        "current_phase": str(row.phase),
        **block(state),
    }


# --- the result of a submission


class StepOutcome(NamedTuple):
    """The next phase (None: the session is over), or `stays`; extra members of the reply; the reason."""

    to: Phase | None
    extras: dict[str, Any]
    reason: str = ""
    stays: bool = False
    over: bool = False


def proceed(state: SessionState, extras: dict[str, Any], reason: str = "") -> StepOutcome:
    """Proceed to the next phase of this session."""
    return StepOutcome(following(state), extras, reason)


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
    return FlowError(code, sentences(error.message, error.remedy), requires_user_intervention=True, **more)


def mismatch(message: str, **more: Any) -> FlowError:
    return FlowError("payload_mismatch", message, **more)
