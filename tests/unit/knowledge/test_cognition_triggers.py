"""The six event triggers, each at its edge; several at once are one checkpoint."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.knowledge.cognition import transitions
from adjourn.knowledge.cognition.checkpoints import fork_branch, new_session
from adjourn.knowledge.cognition.repository import (
    TRIGGERS,
    FiredTrigger,
    TriggerState,
    combined_label,
    fired_by_record,
    fired_triggers,
    trigger_state,
)
from adjourn.knowledge.model.documents import MAX_TEXT, Tree
from support.documents import NOW, node, sample

EMPTY = new_session("s", NOW, session_id="s")


def session(*nodes: Tree) -> Tree:
    return {**EMPTY, "workingState": {**EMPTY["workingState"], "nodes": list(nodes)}}


def fired(before: Tree, after: Tree, **more: Any) -> list[str]:
    return [found.trigger for found in fired_triggers(before, after, trigger_state(before), **more)[0]]


def follow(*sessions: Tree) -> list[list[str]]:
    """What fires from each session to the next, with what is watched handed on."""
    watched, found = trigger_state(sessions[0]), list[list[str]]()
    for before, after in pairwise(sessions):
        now, watched = fired_triggers(before, after, watched)
        found.append([str(one.trigger) for one in now])
    return found


def test_a_change_of_phase() -> None:
    """The phase of the last node counts; the first node is a change, the removal of all is none."""
    planning, execution = node("n1"), node("n2", phase="execution")
    (found,) = fired_triggers(session(planning), session(planning, execution))[0]
    assert found == FiredTrigger("phase_change", "Phase: execution", "Entering execution phase")
    assert fired(session(), session(planning)) == ["phase_change"]
    assert fired(session(planning), session()) == []
    assert fired(session(planning), session(planning, node("n2"))) == []
    assert fired(session(planning, execution), session(node("n0"), planning, execution)) == []


def test_a_tool_call_that_completes() -> None:
    """Each tool-call node that becomes completed, once, under the name of its tool."""
    binding = {"toolName": "shell", "inputs": {}, "inputsComplete": True}
    active = node("n1", type="tool-call", status="active", toolBinding=binding, label="run the tests")
    done = {**active, "status": "completed"}
    (found,) = fired_triggers(session(active), session(done))[0]
    assert found == FiredTrigger("tool_complete", "Tool: shell", "Completed run the tests")
    assert fired(session(done), session({**done, "label": "x"})) == []
    assert fired(session(active), session({**active, "status": "failed"})) == []
    assert fired(session(node("n1", status="active")), session(node("n1", status="completed"))) == []


def test_a_decision_that_is_made() -> None:
    """A decision node that becomes completed; a decision of the record that leaves `tentative`."""
    asked = node("n1", type="decision", status="active")
    assert fired(session(asked), session({**asked, "status": "completed"})) == ["decision_made"]
    record = sample()
    tentative = {**record, "decisions": [{**record["decisions"][0], "status": "tentative"}]}
    assert fired_by_record(tentative, record) == [
        FiredTrigger("decision_made", "Decision: use SQLite", "use SQLite is accepted")
    ]
    assert fired_by_record(record, record) == []
    assert fired_by_record({**record, "decisions": []}, tentative) == []
    assert fired_by_record({**record, "decisions": []}, record) == []


def test_confidence_that_gets_high() -> None:
    """Crossing 0.9 from below, or beginning there; exactly 0.9 counts; once per node, also after it fell again."""
    low, high = session(node("n1", confidence=0.89)), session(node("n1", confidence=0.9))
    assert follow(low, high, high, low, high) == [["high_confidence"], [], [], []]
    assert fired(session(), high) == ["phase_change", "high_confidence"]
    assert fired(low, high, threshold=0.95) == []
    assert follow(high, low, high) == [[], []]


def test_a_new_branch() -> None:
    """A branch that was not there before; other changes of branches are none."""
    forked = fork_branch(EMPTY, "try", NOW, new_id="b2")
    (found,) = fired_triggers(EMPTY, forked)[0]
    assert found == FiredTrigger("branch_created", "Branch: try", "Created branch try")
    assert fired(forked, {**forked, "currentBranchId": "main"}) == []


def test_a_recovery_from_an_error() -> None:
    """A node that failed, was tried again, and completed: through its states, and in one change."""
    working = session(node("n1", status="active"))["workingState"]
    states = [working]
    for status in ("failed", "active", "completed"):
        states.append(transitions.move_node(states[-1], "n1", status, NOW))
    steps = [{**EMPTY, "workingState": one} for one in states]
    assert follow(*steps) == [[], [], ["error_recovery"]]
    assert fired(steps[1], steps[3]) == ["error_recovery"]
    assert fired(steps[0], steps[3]) == []


def test_another_node_that_makes_good() -> None:
    """A node that completes with the parent and the tool of a failed one; another parent or tool is another thing."""
    binding = {"toolName": "shell", "inputs": {}, "inputsComplete": True}
    failed = node("n1", status="failed", toolBinding=binding, parentId="n0")
    retry = node("n2", status="active", toolBinding=binding, parentId="n0")
    assert fired(session(failed, retry), session(failed, {**retry, "status": "completed"})) == ["error_recovery"]
    for other in ({"parentId": "nx"}, {"toolBinding": {**binding, "toolName": "curl"}}):
        begun = {**retry, **other}
        assert fired(session(failed, begun), session(failed, {**begun, "status": "completed"})) == []


def test_several_at_once_are_one_checkpoint_that_names_all() -> None:
    """Its description has each occasion; what is too much is cut, and still fits the type."""
    binding = {"toolName": "shell", "inputs": {}, "inputsComplete": True}
    active = [node(f"n{n}", type="tool-call", status="active", toolBinding=binding) for n in range(3)]
    done = [{**one, "status": "completed", "confidence": 0.95} for one in active]
    found = fired_triggers(session(*active), session(*done))[0]
    label, description = combined_label(found)
    assert label == "Tool: shell; Confidence: n0; Confidence: n1; Confidence: n2"
    assert all(f"Completed n{n}" in description and f"n{n} has confidence 0.95" in description for n in range(3))
    label, description = combined_label(
        [FiredTrigger("tool_complete", f"Tool: {n}" * 99, "x\n" * 99) for n in range(999)]
    )
    assert 0 < len(label) <= 200
    assert 0 < len(description) <= MAX_TEXT


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_only_the_chosen_triggers_fire(trigger: Any) -> None:
    """Each can be had alone; what is watched is watched all the same."""
    binding = {"toolName": "shell", "inputs": {}, "inputsComplete": True}
    before = session(
        node("n1", type="tool-call", status="failed", toolBinding=binding), node("n2", type="decision", status="active")
    )
    nodes = [
        {**one, "status": "completed", "confidence": 1, "phase": "execution"} for one in before["workingState"]["nodes"]
    ]
    after = fork_branch(session(*nodes), "b", NOW, new_id="b")
    assert set(fired(before, after)) == set(TRIGGERS)
    assert set(fired(before, after, triggers=[trigger])) == {trigger}
    assert fired_triggers(before, after, triggers=[])[1].confident == {"n1", "n2"}


@given(st.lists(st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from([0, 0.5, 0.9, 1])), max_size=20))
def test_high_confidence_fires_at_most_once_a_node(moves: list[tuple[str, float]]) -> None:
    """The high-confidence trigger fires at most once for a node, whatever its confidence does."""
    sessions = [session(node("n1", confidence=0), node("n2", confidence=0))]
    for name, value in moves:
        nodes = [
            {**one, "confidence": value} if one["id"] == name else one for one in sessions[-1]["workingState"]["nodes"]
        ]
        sessions.append(session(*nodes))
    found = [trigger for step in follow(*sessions) for trigger in step]
    reached = {name for name, value in moves if value >= 0.9}
    assert found.count("high_confidence") == len(reached)


def test_what_completed_is_not_watched_any_more() -> None:
    """A completed node cannot fail again: it takes no room in what is watched."""
    before, after = session(node("n1", status="failed")), session(node("n1", status="completed"))
    assert fired_triggers(before, after, trigger_state(before))[1] == TriggerState()
