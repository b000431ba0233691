"""The table of the procedure: order, skipping, permissions, and the blocks that are shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import from_text
from adjourn.code.server.server import TOOLS
from adjourn.code.session_state import Phase, SessionState
from adjourn.code.workflow import payloads, phases
from adjourn.code.workflow import phases as phase_policy
from adjourn.code.workflow.phases import STEPS
from adjourn.errors import InvalidError
from support.cases import for_each

FLAGS = ("no_verify", "no_quality", "fast_mode", "quick_mode", "no_doc", "no_intervention", "only_explore")
sessions = st.builds(
    SessionState,
    session_id=st.just("s"),
    intent=st.sampled_from(["IMPLEMENT", "MODIFY", "INVESTIGATE", "QUESTION"]),
    gate_level=st.sampled_from(["auto", "full"]),
    **{name: st.booleans() for name in FLAGS},
)
NUMBERS = {
    Phase.BRANCH_INTERVENTION: 2, Phase.DOCUMENT_RESEARCH: 3, Phase.QUERY_FRAME: 4, Phase.EXPLORATION: 5, Phase.Q1: 6,
    Phase.SEMANTIC: 7, Phase.Q2: 8, Phase.VERIFICATION: 9, Phase.Q3: 10, Phase.IMPACT_ANALYSIS: 11, Phase.READY: 12,
    Phase.POST_IMPL_VERIFY: 15, Phase.VERIFY_INTERVENTION: 16, Phase.PRE_COMMIT: 17, Phase.QUALITY_REVIEW: 18,
    Phase.MERGE: 19,
}  # fmt: skip


def way(state: SessionState, start: Phase = Phase.BRANCH_INTERVENTION) -> list[Phase]:
    found: list[Phase] = []
    after = phases.following(state, start)
    while after is not None:
        found.append(after)
        after = phases.following(state, after)
    return found


def test_every_phase_has_its_step() -> None:
    """The numbers are the published ones; READY has three."""
    assert {phase: phases.FIRST[phase].step for phase in Phase} == NUMBERS
    assert [row.step for row in STEPS] == list(range(2, 20))
    assert [row.substep for row in STEPS if row.phase == Phase.READY] == ["plan", "implement", "complete"]


@given(sessions)
def test_every_way_goes_forward_and_ends(state: SessionState) -> None:
    """With any flags, phases come in order, each once, and never through intervention."""
    found = way(state)
    assert found == sorted(found, key=list(Phase).index)
    assert len(set(found)) == len(found)
    assert Phase.VERIFY_INTERVENTION not in found


@given(sessions)
def test_flags_skip_what_they_say(state: SessionState) -> None:
    """Flags skip phases as in the published matrix."""
    found = set(way(state))
    exploring = {phase for phase, number in NUMBERS.items() if 5 <= number <= 11}
    if state.fast_mode or state.quick_mode:
        assert not found & exploring
    elif state.gate_level == "full":
        assert found >= exploring
    assert (Phase.DOCUMENT_RESEARCH in found) is not state.no_doc
    assert (Phase.READY in found) is state.implements
    if not state.implements:
        assert not found & {Phase.POST_IMPL_VERIFY, Phase.PRE_COMMIT, Phase.MERGE}
    if state.no_verify:
        assert Phase.POST_IMPL_VERIFY not in found
    if state.quick_mode:
        assert not found & {Phase.PRE_COMMIT, Phase.QUALITY_REVIEW, Phase.MERGE}
    if state.fast_mode:
        assert Phase.QUALITY_REVIEW not in found


@pytest.mark.parametrize(
    ("question", "flag", "phase"),
    [
        (Phase.Q1, "needs_more_information", Phase.SEMANTIC),
        (Phase.Q2, "has_unverified_hypotheses", Phase.VERIFICATION),
        (Phase.Q3, "needs_impact_analysis", Phase.IMPACT_ANALYSIS),
    ],
)
def test_a_question_decides_on_its_phase(question: Phase, flag: str, phase: Phase) -> None:
    """Yes leads to it, no past it, a full gate to it in any case."""
    for answer, gate_level, expected in (
        (True, "auto", True),
        (False, "auto", False),
        (False, "full", True),
        (True, "none", True),
    ):
        answers = {question: {flag: answer}}
        state = SessionState(session_id="s", gate_level=gate_level, phase_assessments=answers)  # type: ignore[arg-type]
        assert (phases.following(state, question) == phase) is expected


def test_blocks_say_how_to_go_on() -> None:
    """Each step has an instruction, and an expected payload whose empty answer shows what is missing."""
    for row in STEPS:
        state = SessionState(session_id="s", current_phase=row.phase, ready_substep=row.substep or "plan")  # type: ignore[arg-type]
        block = phases.block(state)
        assert (block["phase"], block["step"], block["call"]) == (row.phase, row.step, "submit_phase")
        assert len(block["instruction"]) > 20
        assert all(isinstance(kind, str) for kind in block["expected_payload"].values())
        assert block.get("call_first", []) == list(row.needs)


@for_each("row", STEPS, ids=lambda row: f"{row.step}")
def test_a_step_is_a_policy_that_the_judge_knows(row: phases.PhaseStep) -> None:
    """Its text has no finding, and the one judge allows just the tools of the row."""
    policy, findings = from_text(phase_policy.policy_text(row), "phase")
    assert findings == []
    allowed = {tool.name for tool in TOOLS if policy.judge(tool.name).effect == "allow"}
    assert allowed == set(phases.allowed(row)) == {*phases.ALWAYS, *row.tools}
    assert policy.judge("anything.else").effect == "closed"


def test_tools_that_a_step_names_exist() -> None:
    """Whatever a row permits or needs is a tool, and what it needs is permitted."""
    for row in STEPS:
        assert set(phases.allowed(row)) <= {tool.name for tool in TOOLS}
        assert set(row.needs) <= set(phases.allowed(row))


def test_meaning_is_for_later() -> None:
    """semantic_search is refused before SEMANTIC, permitted from there on; looking is permitted everywhere."""
    for row in STEPS:
        assert ("semantic_search" in phases.allowed(row)) is (row.step >= 7)
        assert set(phases.READING) <= set(phases.allowed(row))


def test_a_refusal_says_whether_the_tool_is_for_later() -> None:
    """A tool of a later phase, and one of an earlier one, have hints of their own."""
    early = phase_policy.refusal(SessionState(session_id="s", current_phase=Phase.EXPLORATION), "semantic_search", "no")
    assert "later phase" in early["hint"]
    late = phase_policy.refusal(SessionState(session_id="s", current_phase=Phase.MERGE), "check_write_target", "no")
    assert "revert_to_exploration" in late["hint"]
    assert (late["error"], late["message"]) == ("phase_blocked", "no")


@for_each(
    ("payload", "message"),
    [
        ({}, "`choice` is missing"),
        ({"choice": "fly"}, "'fly' is not a value at `choice`"),
        ({"choice": 5}, "Expected `str`, got `int` at `choice`"),
    ],
)
def test_a_payload_that_cannot_be_read_says_which_member(payload: dict[str, object], message: str) -> None:
    """What is wrong with a payload is said of the member by its name; the remedy is what the caller knows."""
    with pytest.raises(InvalidError) as raised:
        payloads.read(payloads.BranchChoice, payload, "look it up")
    assert (raised.value.message, raised.value.remedy) == (message, "look it up")


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (payloads.ReviewedDocuments, {"documents_reviewed": '["a"]'}, {"documents_reviewed": ["a"]}),
        (
            payloads.MoreInformation,
            {"needs_more_information": "True", "reason": "1"},
            {"needs_more_information": True, "reason": "1"},
        ),
        (payloads.ImpactFindings, {"impact_summary": '{"a": 1}'}, {"impact_summary": {"a": 1}}),
        (payloads.TaskDone, {"task_id": "[x]", "summary": "{}"}, {"task_id": "[x]", "summary": "{}"}),
        (payloads.CommitReview, {"reviewed_files": '["a"]'}, {"reviewed_files": ["a"]}),
    ],
)
def test_json_text_is_taken_where_no_text_is_wanted(kind: Any, given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Arrays, objects and flags may come as text; texts stay texts, whatever they look like."""
    found = payloads.read(kind, given)
    assert {name: getattr(found, name) for name in expected} == expected


def test_what_is_expected_is_shown_in_words() -> None:
    """The types of a payload as the reply shows them."""
    assert payloads.expected(payloads.TaskPlan) == {
        "tasks": "list[{id: str, description: str, status: pending | completed}]"
    }
    assert payloads.expected(payloads.BranchChoice) == {"choice": "delete | merge | continue"}
    assert payloads.expected(payloads.EmptyPayload) == {}
