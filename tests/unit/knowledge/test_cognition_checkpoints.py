"""Checkpoints of a session: taken, validated, restored, on branches."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from adjourn.errors import InvalidError, NotFoundError
from adjourn.knowledge.cognition.checkpoints import (
    HOUR,
    create_checkpoint,
    estimate_tokens,
    fork_branch,
    new_session,
    restore_checkpoint,
    validate_checkpoint,
)
from adjourn.knowledge.cognition.invariants import check_working_state
from adjourn.knowledge.model.cognition import CognitiveCheckpoint, CognitiveSession
from adjourn.knowledge.model.documents import Tree, accept
from adjourn.log.canonical_json import canonical, digest
from support.cases import for_each
from support.documents import NOW, goal, node, sample, state
from support.strategies import cognitive_checkpoints

DAY = 24 * HOUR


@pytest.fixture
def session() -> Tree:
    return {**new_session("work", NOW, session_id="s1", goal="be done"), "workingState": state()}


def taken(session: Tree, *names: str) -> Tree:
    """The session after checkpoints, an hour apart."""
    for number, name in enumerate(names, start=1):
        _, session = create_checkpoint(session, f"label {name}", NOW + number * HOUR, new_id=name)
    return session


def check_whole(session: Tree) -> None:
    """Its working state holds, and it has each branch and checkpoint that it names, under its id."""
    assert check_working_state(session["workingState"]) == []
    assert session["currentBranchId"] in session["branches"]
    for items in (session["branches"], session["checkpoints"]):
        assert all(item["id"] == key for key, item in items.items())
    heads = {branch.get("headCheckpointId") for branch in session["branches"].values()}
    assert heads - {None} <= set(session["checkpoints"])


def test_a_new_session_holds() -> None:
    """It is of the right type, and its one goal is the root."""
    made = accept(new_session("work", NOW, session_id="s1", goal="be done"), CognitiveSession)
    check_whole(made)
    assert made["workingState"]["intentGraph"]["goals"][0]["description"] == "be done"


def test_a_checkpoint_is_stored_and_is_the_head(session: Tree) -> None:
    """A taken checkpoint is in the session and heads its branch; the next one has it as its parent."""
    before = copy.deepcopy(session)
    after = taken(session, "c1", "c2")
    assert set(after["checkpoints"]) == {"c1", "c2"}
    assert after["branches"]["main"]["headCheckpointId"] == "c2"
    assert after["checkpoints"]["c2"]["parentCheckpointId"] == "c1"
    assert "parentCheckpointId" not in after["checkpoints"]["c1"]
    assert after["totalMetrics"]["checkpointCount"] == 2
    check_whole(accept(after, CognitiveSession))
    assert session == before


def test_the_figures_of_a_checkpoint(session: Tree) -> None:
    """Nodes, completed ones, four bytes a token of the state (or by a tokenizer), and the time since the session began."""
    session["workingState"]["nodes"][0]["status"] = "completed"
    checkpoint, _ = create_checkpoint(session, "l", NOW + 5, new_id="c", description="d")
    size = len(canonical(session["workingState"]))
    assert checkpoint["metrics"] == {
        "totalNodes": 2, "completedNodes": 1, "tokenEstimate": -(-size // 4), "elapsedMs": 5,
    }  # fmt: skip
    assert checkpoint["description"] == "d"
    assert create_checkpoint(session, "l", NOW - 5, new_id="c").checkpoint["metrics"]["elapsedMs"] == 0
    assert estimate_tokens({"a": "€"}, len) == len('{"a":"€"}')


def test_a_checkpoint_is_a_copy(session: Tree) -> None:
    """What is done to the working state afterwards does not reach it."""
    checkpoint, _ = create_checkpoint(session, "l", NOW, new_id="c")
    session["workingState"]["nodes"][0]["label"] = "other"
    assert checkpoint["nodes"][0]["label"] == "n1"


def test_what_cannot_be_taken_is_refused(session: Tree) -> None:
    """No label, an id that is taken, a branch that is not there."""
    with pytest.raises(InvalidError, match="/label"):
        create_checkpoint(session, "", NOW, new_id="c")
    with pytest.raises(InvalidError, match="has a checkpoint c1"):
        create_checkpoint(taken(session, "c1"), "l", NOW, new_id="c1")
    with pytest.raises(NotFoundError, match="no branch other"):
        create_checkpoint({**session, "currentBranchId": "other"}, "l", NOW, new_id="c1")


# --- validating


@given(cognitive_checkpoints)
def test_any_checkpoint_is_judged(checkpoint: Tree) -> None:
    """Validating never fails on a checkpoint of the right types, and errors alone make it invalid."""
    validity = validate_checkpoint(checkpoint)
    assert validity.valid == (not validity.errors)


def _checkpoint(**members: Any) -> Tree:
    session = {**new_session("work", NOW, session_id="s1"), "workingState": state()}
    return {**create_checkpoint(session, "the label", NOW, new_id="c1").checkpoint, **members}


ERRORS: list[tuple[Tree, str]] = [
    ({"id": ""}, "Missing checkpoint ID"),
    ({"label": ""}, "Missing label"),
    ({"branchId": ""}, "Missing branch ID"),
    ({"nodes": [node("n1", parentId="x")]}, "Node n1 references missing parent x"),
    ({"nodes": [node("n1", childIds=["x"])]}, "Node n1 references missing child x"),
    ({"nodes": [node("n1", parentId="n1", childIds=["n1"])]}, "Circular reference detected in node graph"),
    ({"nodes": [node("n1"), node("n1")]}, "2 have the id 'n1'"),
    ({"nodes": [node("n1", blockedBy=["n1"])]}, "node n1 is blocked by itself"),
    ({"intentGraph": {"goals": [goal("g", subGoalIds=["g"], parentGoalId="g")], "rootIntentId": "g"}}, "a goal is its own sub-goal"),
    ({"nodes": "none"}, "Expected `array`"),
]  # fmt: skip


@for_each(("members", "message"), ERRORS)
def test_what_makes_a_checkpoint_invalid(members: Tree, message: str) -> None:
    """Each error is said, and keeps the checkpoint from being restored."""
    checkpoint = _checkpoint(**members)
    validity = validate_checkpoint(checkpoint)
    assert not validity.valid
    assert any(message in error for error in validity.errors)
    with pytest.raises(InvalidError, match="Invalid checkpoint: "):
        restore_checkpoint(checkpoint, NOW, new_session_id="s2")


def test_a_changed_checkpoint_is_invalid() -> None:
    """Where its hash is known, any change is an error."""
    checkpoint = _checkpoint()
    known = digest(canonical(checkpoint))
    assert validate_checkpoint(checkpoint, expected_hash=known).valid
    assert "Hash mismatch" in validate_checkpoint({**checkpoint, "label": "x"}, expected_hash=known).errors[0]
    assert not validate_checkpoint({**checkpoint, "x": float("nan")}, expected_hash=known).valid


KNOWN: Tree = {"facts": [], "assumptions": [], "openQuestions": [], "beliefs": []}
WARNINGS: list[tuple[Tree, str]] = [
    ({"nodes": [node("n1", confidence=1.5)]}, "Node n1 has invalid confidence"),
    ({"nodes": [node("n1"), node("n2", parentId="n1")]}, "node n2 has parent n1, which does not list it"),
    ({"nodes": [node("n1", blockedBy=["x"])]}, "there is no node 'x'"),
    ({"intentGraph": {"goals": [], "rootIntentId": "g"}}, "there is no goal 'g'"),
    ({"nodes": []}, "The metrics do not agree with the nodes"),
    ({"nodes": [node("n1", confidence=float("nan"))]}, "Node n1 has invalid confidence"),
    ({"nodes": [node("n1", childIds=["n2"]), node("n2")]}, "node n1 lists child n2, which has another parent"),
    ({"epistemicState": {**KNOWN, "beliefs": [{"id": "b", "statement": "", "confidence": 1, "evidence": ["x"]}]}},
     "there is no fact 'x'"),
    ({"epistemicState": {**KNOWN, "openQuestions": [{"id": "q", "question": "", "priority": "low", "blocksNodes": ["x"]}]}},
     "there is no node 'x'"),
    ({"intentGraph": {"goals": [goal("g", subGoalIds=["h"]), goal("h")], "rootIntentId": "g"}},
     "goal g lists h, which has another parent"),
    ({"intentGraph": {"goals": [goal("g", subGoalIds=["h"], status="achieved"), goal("h", parentGoalId="g")],
      "rootIntentId": "g"}}, "goal g is achieved, but its sub-goal h is still active"),
]  # fmt: skip


@for_each(("members", "message"), WARNINGS)
def test_what_is_only_warned_of(members: Tree, message: str) -> None:
    """It is said when the checkpoint is restored."""
    restored = restore_checkpoint(_checkpoint(**members), NOW, new_session_id="s2")
    assert any(message in warning for warning in restored.warnings)


# --- restoring


def test_a_restored_session_goes_on_from_the_checkpoint(session: Tree) -> None:
    """Id, time of birth, branches and checkpoints stay; name and description tell; nothing is active; it counts as a resume."""
    before = taken({**session, "activeNodeId": "n1", "x-later": 1}, "c1")
    later = {**before, "workingState": state(nodes=[])}
    given_ = copy.deepcopy(later)
    restored = restore_checkpoint(before["checkpoints"]["c1"], NOW + 2 * HOUR, session=later, new_session_id="unused")
    after = accept(restored.session, CognitiveSession)
    assert (after["id"], after["createdAt"], after["x-later"]) == ("s1", NOW, 1)
    assert after["name"] == "Restored: label c1"
    assert after["description"] == "Restored from checkpoint at 2026-05-02T16:30:12.345Z"
    assert after["workingState"] == {**session["workingState"]}
    assert "activeNodeId" not in after
    assert after["totalMetrics"]["resumeCount"] == 1
    assert restored.forked == ""
    assert later == given_


def test_without_a_session_there_are_all_figures() -> None:
    """A session that begins with a restore has every total, and the branch of the checkpoint."""
    after = restore_checkpoint(_checkpoint(), NOW, new_session_id="s2").session
    assert after["id"] == "s2"
    assert after["totalMetrics"] == {
        "resumeCount": 1, "checkpointCount": 0, "requestCount": 0, "tokensConsumed": 0, "elapsedMs": 0,
    }  # fmt: skip
    assert after["branches"]["main"]["headCheckpointId"] == "c1"
    check_whole(after)


def test_an_older_checkpoint_is_restored_on_a_branch_of_its_own(session: Tree) -> None:
    """The next checkpoint then has the restored one as its parent, not the newer head, which stays where it was."""
    before = taken(session, "c1-0000-more", "c2")
    restored = restore_checkpoint(
        before["checkpoints"]["c1-0000-more"], NOW + 3 * HOUR, session=before, new_session_id=""
    )
    assert restored.forked == restored.session["currentBranchId"] == "restore-c1-0000-"
    checkpoint, after = create_checkpoint(restored.session, "l", NOW + 4 * HOUR, new_id="c3")
    assert (checkpoint["parentCheckpointId"], checkpoint["branchId"]) == ("c1-0000-more", "restore-c1-0000-")
    assert after["branches"]["main"]["headCheckpointId"] == "c2"
    again = restore_checkpoint(before["checkpoints"]["c1-0000-more"], NOW, session=after, new_session_id="")
    assert again.forked == "restore-c1-0000--2"
    check_whole(again.session)


def test_an_older_checkpoint_can_take_the_head_with_it(session: Tree) -> None:
    """With move_head the branch itself goes back."""
    before = taken(session, "c1", "c2")
    restored = restore_checkpoint(before["checkpoints"]["c1"], NOW, session=before, new_session_id="", move_head=True)
    assert restored.session["branches"]["main"]["headCheckpointId"] == "c1"
    assert (restored.forked, restored.session["currentBranchId"]) == ("", "main")


@pytest.mark.parametrize(
    ("age", "warning"),
    [(DAY, None), (DAY + 1, "Checkpoint is 24 hours old"), (24.5 * HOUR, "Checkpoint is 25 hours old"), (0, None),
     (-1, "Checkpoint is from the future: a clock is wrong")],
)  # fmt: skip
def test_an_old_checkpoint_is_warned_of(age: float, warning: str | None) -> None:
    """More than 24 hours (exactly 24 is none), rounded half up; and a time that is yet to come."""
    warnings = restore_checkpoint(_checkpoint(), NOW + int(age), new_session_id="s2").warnings
    assert warnings == ([warning] if warning else [])


def test_what_is_uncertain_outside_is_warned_of() -> None:
    """Active nodes, unfinished calls, doubtful effects, blocking questions and invariants that were not checked since."""
    binding = {"toolName": "bash", "inputs": {}, "inputsComplete": False}
    nodes = [node("n1", status="active"), node("n2", toolBinding=binding)]
    checkpoint = _checkpoint(nodes=nodes, metrics={**_checkpoint()["metrics"], "totalNodes": 2})
    record = sample()
    record["toolEffects"][0]["status"] = "claimed"
    assert restore_checkpoint(
        {**checkpoint, "epistemicState": _checkpoint()["epistemicState"]}, NOW, record=record, new_session_id="s"
    ).warnings == [
        "Node n1 was active: verify what it did outside first",
        "Node n2 has an incomplete call of bash",
        "Effect e1 of mail is claimed: verify whether it happened",
        "Question q1 is unanswered and blocks",
        "Invariant i1 was not checked since the checkpoint",
    ]
    record["toolEffects"][0]["status"] = "completed"
    record["questionsForUser"][0]["priority"] = "low"
    record["invariants"][0]["lastCheckedAt"] = NOW
    assert restore_checkpoint(_checkpoint(), NOW, record=record, new_session_id="s").warnings == []


# --- branches


def test_a_branch_begins_at_a_checkpoint(session: Tree) -> None:
    """A fork knows where it came from, is the current branch, and its first checkpoint has that one as its parent."""
    before = taken(session, "c1", "c2")
    forked = fork_branch(before, "try", NOW, new_id="b2", checkpoint_id="c1")
    branch = forked["branches"]["b2"]
    assert (branch["parentBranchId"], branch["forkedFromCheckpointId"], forked["currentBranchId"]) == (
        "main",
        "c1",
        "b2",
    )
    checkpoint, _ = create_checkpoint(forked, "l", NOW, new_id="c3")
    assert checkpoint["parentCheckpointId"] == "c1"
    assert fork_branch(before, "try", NOW, new_id="b2")["branches"]["b2"]["headCheckpointId"] == "c2"
    assert "headCheckpointId" not in fork_branch(session, "try", NOW, new_id="b2")["branches"]["b2"]
    with pytest.raises(NotFoundError):
        fork_branch(before, "try", NOW, new_id="b2", checkpoint_id="c9")
    with pytest.raises(InvalidError):
        fork_branch(before, "try", NOW, new_id="main")
    accept(_checkpoint(), CognitiveCheckpoint)
