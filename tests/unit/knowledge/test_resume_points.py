"""Approvals of resume points: authority, expiry, time-outs and used approvals."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from adjourn.errors import RefusedError
from adjourn.knowledge.cognition.transitions import check_invariant, move_task, resolve_blocker
from adjourn.knowledge.model.documents import Tree, without
from adjourn.knowledge.records import interventions as use
from adjourn.knowledge.records.interventions import expire_due
from adjourn.knowledge.records.updating import update_record
from support.documents import ANN, NOW, sample
from support.transitions import BY, LATER, PERSON, ROBOT, holds, with_

MAY = {"any": {"human", "agent", "system"}, "human": {"human"}, "agent": {"agent", "human"}, "system": {"system"}}


@pytest.mark.parametrize("required", MAY)
@pytest.mark.parametrize("kind", BY)
def test_the_table_of_authority(free: Tree, required: str, kind: str) -> None:
    """any: anyone; human: a person; agent: an agent or a person; system: the system only. For approving and for denying."""
    gate = with_(free, "resumePoints", requiredAuthority=required)
    for decide in (use.approve_resume_point, lambda r, p, by, now: use.deny_resume_point(r, p, "no", by, now)):
        if kind in MAY[required]:
            holds(decide(gate, "p1", BY[kind], LATER))
        else:
            before = copy.deepcopy(gate)
            with pytest.raises(RefusedError, match="needs the authority of"):
                decide(gate, "p1", BY[kind], LATER)
            assert gate == before


def test_an_approval_is_refused_while_something_is_in_the_way(record: Tree) -> None:
    """An open question, an active blocker or a broken hard invariant is named; with all gone, it goes."""
    broken = with_(record, "invariants", status="violated")
    with pytest.raises(RefusedError, match="question q1 is unanswered; blocker b1 is active; invariant i1 is violated"):
        use.approve_resume_point(broken, "p1", PERSON, LATER)
    after = holds(use.answer_question(broken, "q1", "x", PERSON, LATER))
    after = holds(resolve_blocker(after, "b1", "done", ROBOT, LATER))
    after = holds(check_invariant(after, "i1", "holding", LATER, evidence="looked"))
    step = use.approve_resume_point(after, "p1", PERSON, LATER)
    point = holds(step)["resumePoints"][0]
    assert (point["approvalStatus"], point["approvedBy"], point["approvedAt"]) == ("approved", ANN, LATER)
    assert step.events[0].detail == {"when": "tests are green", "preconditions": ["backup"], "status": "approved"}
    with pytest.raises(RefusedError, match="approved is final"):
        use.deny_resume_point(step.record, "p1", "late", PERSON, LATER)


def test_a_denial_says_why_and_what_else(free: Tree) -> None:
    """Who, when and why are kept; the alternatives are shown; with no other gate open the task is blocked."""
    paths = [{"condition": "else", "steps": ["stop"]}]
    step = use.deny_resume_point(with_(free, "resumePoints", alternativePaths=paths), "p1", "too early", PERSON, LATER)
    after = holds(step)
    point = after["resumePoints"][0]
    assert (point["deniedBy"], point["deniedAt"], point["deniedReason"]) == (ANN, LATER, "too early")
    assert step.events[0].detail == {"reason": "too early", "alternativePaths": paths}
    assert after["task"]["status"] == "blocked"


@pytest.mark.parametrize(
    ("safe", "required", "blocked", "allowed"),
    [(True, "agent", False, True), (True, "any", False, True), (False, "any", False, False), (True, "human", False, False),
     (True, "any", True, False)],
)  # fmt: skip
def test_the_rule_of_automatic_approval(record: Tree, safe: bool, required: str, blocked: bool, allowed: bool) -> None:
    """Only what is safe by itself, is not a person's to decide and has nothing in its way opens by itself, as the system's."""
    gate = with_(record, "resumePoints", safeToAutoExecute=safe, requiredAuthority=required)
    if not blocked:
        gate |= {"questionsForUser": [], "blockers": []}
    if allowed:
        point = holds(use.auto_approve_resume_point(gate, "p1", LATER))["resumePoints"][0]
        assert (point["approvalStatus"], point["approvedBy"]["type"]) == ("auto-approved", "system")
    else:
        with pytest.raises(RefusedError):
            use.auto_approve_resume_point(gate, "p1", LATER)


def late(record: Tree, **members: Any) -> Tree:
    return with_(record, "resumePoints", timeoutMs=1000, **members)


def test_time_is_up_at_the_time(free: Tree) -> None:
    """createdAt + timeoutMs is the time; without a limit a point waits for ever; a late one cannot be decided."""
    assert expire_due(late(free), LATER - 1) is None
    assert expire_due(late(free), LATER) is not None
    assert expire_due(free, LATER * 2) is None
    with pytest.raises(RefusedError, match="resume point p1 has timed out"):
        use.approve_resume_point(late(free), "p1", PERSON, LATER)


def test_a_point_without_a_start_counts_from_its_version(free: Tree) -> None:
    """A stored point without createdAt, as other programs write it, times out timeoutMs after its version was written."""
    unstarted = late({**free, "resumePoints": [without(free["resumePoints"][0], "createdAt")]})
    written = unstarted["lastModifiedAt"]
    assert expire_due(unstarted, written + 999) is None
    assert expire_due(unstarted, written + 1000) is not None


def test_a_start_is_added_and_later_versions_do_not_move_it(free: Tree) -> None:
    """A written point with a time-out gets the time of its version as its start, and keeps it when it is written again."""
    point = without(late(free)["resumePoints"][0], "createdAt")
    first = update_record({**free, "resumePoints": []}, {"resumePoints": [point]}, PERSON, 5000).record
    assert first["resumePoints"][0]["createdAt"] == 5000
    again = update_record(first, {"resumePoints": [{**point, "label": "again"}]}, PERSON, 9000).record
    assert (again["resumePoints"][0]["label"], again["resumePoints"][0]["createdAt"]) == ("again", 5000)


def test_time_out_abort(free: Tree) -> None:
    """The point is denied by the system and the task has failed."""
    step = expire_due(late(free, onTimeout="abort"), LATER)
    assert step is not None
    after = holds(step)
    assert (after["resumePoints"][0]["approvalStatus"], after["resumePoints"][0]["deniedBy"]["type"]) == (
        "denied",
        "system",
    )
    assert (after["task"]["status"], after["task"]["completedAt"]) == ("failed", LATER)
    assert [(event.type, event.detail) for event in step.events] == [("resume-point-timeout", {"action": "abort"})]


def test_time_out_escalate(free: Tree) -> None:
    """The point stays pending and one question is raised, once; a person's decision answers it, an agent's is refused."""
    step = expire_due(late(free, onTimeout="escalate", requiredAuthority="agent"), LATER)
    assert step is not None
    after = holds(step)
    (question,) = after["questionsForUser"]
    assert (question["type"], question["priority"], question["status"]) == ("approval", "blocking", "open")
    assert after["resumePoints"][0]["approvalStatus"] == "pending"
    assert expire_due(after, LATER + 10**9) is None
    with pytest.raises(RefusedError, match=f"question {question['id']} is unanswered"):
        use.approve_resume_point(after, "p1", ROBOT, LATER)
    approved = holds(use.approve_resume_point(after, "p1", PERSON, LATER))
    assert (approved["questionsForUser"][0]["status"], approved["questionsForUser"][0]["answer"]) == (
        "answered",
        "approved",
    )
    assert approved["task"]["status"] == "in-progress"


@pytest.mark.parametrize("safe", [True, False])
def test_time_out_continue(free: Tree, safe: bool) -> None:
    """It continues by itself only under the rule of automatic approval; else a person is asked."""
    step = expire_due(late(free, onTimeout="continue", requiredAuthority="any", safeToAutoExecute=safe), LATER)
    assert step is not None
    after = holds(step)
    assert after["resumePoints"][0]["approvalStatus"] == ("auto-approved" if safe else "pending")
    assert len(after["questionsForUser"]) == (0 if safe else 1)
    person = expire_due(late(free, onTimeout="continue", safeToAutoExecute=True), LATER)
    assert person is not None
    assert person.record["resumePoints"][0]["approvalStatus"] == "pending", "it is a person's to decide"


def test_time_out_retry(free: Tree) -> None:
    """The time limit starts again three times; then a person is asked."""
    now, after = LATER, late(free, onTimeout="retry")
    for attempt in (1, 2, 3):
        step = expire_due(after, now)
        assert step is not None
        after = holds(step)
        assert after["resumePoints"][0]["attempts"] == attempt
        assert expire_due(after, now + 999) is None
        now += 1000
    step = expire_due(after, now)
    assert step is not None
    assert step.events[0].detail == {"action": "escalate"}


def test_a_task_that_is_over_times_out_no_more(free: Tree) -> None:
    """Points of a completed or failed task are left as they are."""
    assert expire_due(move_task(late(free, onTimeout="abort"), "failed", NOW), LATER) is None


def test_an_approval_is_used_once(free: Tree) -> None:
    """Its steps start once; an older version, or a fork, in which it is unused cannot start them again."""
    approved = holds(use.approve_resume_point(free, "p1", PERSON, LATER))
    assert [point["id"] for point in use.usable_resume_points(approved)] == ["p1"]
    used = holds(use.consume_resume_point(approved, "p1", LATER))
    assert use.usable_resume_points(used) == []
    with pytest.raises(RefusedError, match="was used already"):
        use.consume_resume_point(used, "p1", LATER)
    ledger = {use.consumption_key(approved, "p1")}
    fork = {**approved, "id": "fork"}
    assert use.usable_resume_points(fork, consumed=ledger) == []
    with pytest.raises(RefusedError, match="was used already"):
        use.consume_resume_point(fork, "p1", LATER, consumed=ledger)
    with pytest.raises(RefusedError, match="is pending"):
        use.consume_resume_point(free, "p1", LATER)
    broken = with_(approved, "invariants", status="violated")
    with pytest.raises(RefusedError, match="invariant i1 is violated"):
        use.consume_resume_point(broken, "p1", LATER)


def test_a_task_is_blocked_while_no_gate_can_be_used(free: Tree) -> None:
    """It is set by the version that causes it and cleared by the one that lifts it; a second open gate keeps it going."""
    blocker = sample()["blockers"][0]
    step = update_record(free, {"blockers": [blocker]}, ROBOT, LATER)
    assert holds(step)["task"]["status"] == "blocked"
    assert holds(resolve_blocker(step.record, "b1", "ok", ROBOT, LATER))["task"]["status"] == "in-progress"
    other = {**free["resumePoints"][0], "id": "p2"}
    two = {**free, "resumePoints": [*free["resumePoints"], other]}
    assert update_record(two, {"blockers": [blocker]}, ROBOT, LATER).record["task"]["status"] == "in-progress"
    assert use.deny_resume_point(two, "p1", "no", PERSON, LATER).record["task"]["status"] == "in-progress"
