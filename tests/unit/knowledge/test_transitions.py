"""What may follow what in a Continuation Record, and what is refused: statuses, questions, decisions and updates."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import InvalidError, NotFoundError, RefusedError
from adjourn.knowledge.cognition.transitions import (
    EDGES,
    check_invariant,
    derived_id,
    move_goal,
    move_node,
    move_task,
    require_edge,
)
from adjourn.knowledge.model.documents import MAX_ID, Tree, without, write
from adjourn.knowledge.model.record import CRAuthor, RecordContent
from adjourn.knowledge.records import interventions as use
from adjourn.knowledge.records.interventions import expire_due
from adjourn.knowledge.records.updating import contest_decision, override_decision, settle_decision, update_record
from support.documents import AGENT, ANN, NOW, goal, node, sample, state
from support.strategies import records
from support.transitions import LATER, PERSON, ROBOT, SYSTEM, holds, with_

# --- the table of edges


def test_statuses_lead_where_they_should() -> None:
    """Every edge leads to a status of its machine, and what is final is known."""
    for kind, edges in EDGES.items():
        for old in edges:
            for new in edges:
                if new in edges[old]:
                    require_edge(kind, "x", old, new)
                else:
                    with pytest.raises(RefusedError, match=f"{kind} x is {old} and cannot become {new}"):
                        require_edge(kind, "x", old, new)
    final = {kind: {status for status, to in edges.items() if not to} for kind, edges in EDGES.items()}
    assert final == {
        "node": {"completed"}, "goal": {"achieved", "abandoned"}, "task": {"completed"}, "decision": set(),
        "resume point": {"approved", "denied", "auto-approved"}, "question": {"answered", "expired", "skipped"},
        "blocker": {"resolved"}, "invariant": set(), "effect": {"completed"},
    }  # fmt: skip


def test_nodes_move_and_keep_their_times() -> None:
    """startedAt is set once, completedAt when it is over; a node does not start before what it waits for is completed."""
    tree = state(nodes=[node("n1"), node("n2", blockedBy=["n1"])])
    with pytest.raises(RefusedError, match="node n2 waits for n1"):
        move_node(tree, "n2", "active", 1)
    moved = move_node(move_node(tree, "n1", "active", 5), "n1", "failed", 6)
    assert (moved["nodes"][0]["startedAt"], moved["nodes"][0]["completedAt"]) == (5, 6)
    again = move_node(moved, "n1", "active", 7)
    assert again["nodes"][0]["startedAt"] == 5
    assert "completedAt" not in again["nodes"][0]
    done = move_node(again, "n1", "completed", 8)
    assert move_node(done, "n2", "active", 9)["nodes"][1]["startedAt"] == 9
    with pytest.raises(RefusedError, match="completed is final"):
        move_node(done, "n1", "active", 9)
    with pytest.raises(NotFoundError):
        move_node(done, "n9", "active", 9)
    assert tree["nodes"][0]["status"] == "pending"


def test_goals_move_and_warn() -> None:
    """Achieving a goal with an active part is done, and said."""
    tree = state(
        intentGraph={"goals": [goal("g1", subGoalIds=["g2"]), goal("g2", parentGoalId="g1")], "rootIntentId": "g1"}
    )
    moved, warnings = move_goal(tree, "g1", "achieved")
    assert moved["intentGraph"]["goals"][0]["status"] == "achieved"
    assert warnings == ["goal g1 is achieved while g2 is active"]
    assert move_goal(tree, "g1", "abandoned")[1] == []
    with pytest.raises(NotFoundError):
        move_goal(tree, "g9", "achieved")


def test_tasks_move_and_keep_their_times(free: Tree) -> None:
    """completedAt follows; a retry clears it; completing is refused with a blocking question or a broken hard invariant."""
    failed = move_task(free, "failed", LATER)
    assert failed["task"]["completedAt"] == LATER
    again = move_task(failed, "in-progress", LATER + 1)
    assert (again["task"]["startedAt"], again["task"].get("completedAt")) == (NOW, None)
    assert move_task(again, "completed", 9)["task"]["completedAt"] == 9
    with pytest.raises(RefusedError, match="question q1 is open and blocks"):
        move_task(sample(), "completed", 9)
    with pytest.raises(RefusedError, match="invariant i1 is violated"):
        move_task(with_(free, "invariants", status="violated"), "completed", 9)


# --- questions


def test_an_answer_is_written_down(record: Tree) -> None:
    """Who answered what and when; with learn, the answer is a learning from feedback too."""
    step = use.answer_question(record, "q1", "this", PERSON, LATER, learn=True)
    after = holds(step)
    question = after["questionsForUser"][0]
    assert (question["status"], question["answer"], question["answeredBy"], question["answeredAt"]) == (
        "answered",
        "this",
        ANN,
        LATER,
    )
    assert [event.type for event in step.events] == ["question-answered"]
    assert (after["learnings"][0]["source"], after["learnings"][0]["content"]) == ("feedback", "which?\nthis")
    with pytest.raises(RefusedError, match="answered is final"):
        use.answer_question(after, "q1", "that", PERSON, LATER)
    with pytest.raises(NotFoundError, match="question q9"):
        use.answer_question(record, "q9", "that", PERSON, LATER)


@pytest.mark.parametrize("kind", ["question", "approval", "override", "scope-change"])
def test_what_people_are_asked_people_answer(record: Tree, kind: str) -> None:
    """An agent answers a plain question, and none of the other kinds; nor can it skip them."""
    asked = with_(record, "questionsForUser", type=kind)
    holds(use.answer_question(asked, "q1", "x", PERSON, LATER))
    with pytest.raises(RefusedError, match="only a person"):
        use.skip_question(asked, "q1", "r", ROBOT, LATER)
    if kind == "question":
        holds(use.answer_question(asked, "q1", "x", ROBOT, LATER))
    else:
        for author in (ROBOT, SYSTEM):
            with pytest.raises(RefusedError, match="asks for a person's"):
                use.answer_question(asked, "q1", "x", author, LATER)


def test_options_bind(record: Tree) -> None:
    """Where there are options the answer is one of them."""
    asked = with_(record, "questionsForUser", options=["yes", "no"])
    with pytest.raises(InvalidError, match=r"'maybe' is not an option.*yes, no"):
        use.answer_question(asked, "q1", "maybe", PERSON, LATER)
    holds(use.answer_question(asked, "q1", "yes", PERSON, LATER))


def test_the_time_of_a_question_is_up_at_its_time(record: Tree) -> None:
    """At expiresAt it is expired and cannot be answered; a moment before it can."""
    asked = with_(record, "questionsForUser", expiresAt=LATER, priority="high")
    assert expire_due(asked, LATER - 1) is None
    holds(use.answer_question(asked, "q1", "x", PERSON, LATER - 1))
    with pytest.raises(RefusedError, match="has expired"):
        use.answer_question(asked, "q1", "x", PERSON, LATER)
    step = expire_due(asked, LATER)
    assert step is not None
    assert [question["status"] for question in holds(step)["questionsForUser"]] == ["expired"]
    assert [event.type for event in step.events] == ["question-expired"]
    assert expire_due(step.record, LATER + 1) is None
    assert "question q1 is unanswered" not in use.obstacles(step.record, "p1"), "it releases its resume points"


def test_an_expired_blocking_question_keeps_blocking_through_the_one_in_its_place(record: Tree) -> None:
    """A new question is raised, once; only its answer releases the resume point."""
    step = expire_due(with_(record, "questionsForUser", expiresAt=LATER), LATER)
    assert step is not None
    after = holds(step)
    old, new = after["questionsForUser"]
    assert (old["status"], new["status"], new["priority"], new["blocksResumePoints"]) == (
        "expired",
        "open",
        "blocking",
        ["p1"],
    )
    assert use.obstacles(after, "p1")[:2] == ["question q1 is unanswered", f"question {new['id']} is unanswered"]
    assert expire_due(after, LATER + 10**9) is None
    answered = holds(use.answer_question(after, new["id"], "x", PERSON, LATER))
    assert use.obstacles(answered, "p1") == ["blocker b1 is active"]


def test_a_skipped_question_releases(record: Tree) -> None:
    """A person may skip a question, with the reason kept."""
    after = holds(use.skip_question(record, "q1", "not needed", PERSON, LATER))
    assert after["questionsForUser"][0]["skippedReason"] == "not needed"
    assert use.obstacles(after, "p1") == ["blocker b1 is active"]


# --- decisions


def test_an_override_keeps_the_old_text(record: Tree) -> None:
    """The old decision becomes a variant with its author; what it affects is to be revisited; who may not, may contest."""
    step = override_decision(record, "d/1", "use files", PERSON, LATER)
    (decision,) = holds(step)["decisions"]
    assert (decision["description"], decision["madeBy"], decision["madeAt"], decision["status"]) == (
        "use files",
        ANN,
        LATER,
        "accepted",
    )
    assert [(v["author"], v["decision"], v["rationale"]) for v in decision["variants"]] == [
        (AGENT, "use SQLite", "small")
    ]
    assert decision["affects"] == ["n1"]
    assert step.events[0].detail == {"revisit": ["n1"]}
    before = copy.deepcopy(record)
    with pytest.raises(RefusedError, match=r"can be changed by human; agent-1 is an agent.*contest it"):
        override_decision(record, "d/1", "use files", ROBOT, LATER)
    assert record == before


def test_a_contested_decision_shows_all_sides_for_ever(record: Tree) -> None:
    """Anyone contests; the original is a variant too; settling needs the right, may take a variant, and loses none."""
    after = holds(contest_decision(record, "d/1", "use files", ROBOT, LATER, rationale="simple"))
    after = holds(contest_decision(after, "d/1", "use none", SYSTEM, LATER, rationale="simpler"))
    (decision,) = after["decisions"]
    assert (decision["status"], decision["description"]) == ("contested", "use SQLite")
    assert [variant["decision"] for variant in decision["variants"]] == ["use SQLite", "use files", "use none"]
    with pytest.raises(RefusedError):
        settle_decision(after, "d/1", "accepted", ROBOT, LATER)
    (settled,) = holds(settle_decision(after, "d/1", "accepted", PERSON, LATER, variant=1))["decisions"]
    assert (settled["status"], settled["description"], settled["madeBy"]) == ("accepted", "use files", ANN)
    assert settled["variants"] == decision["variants"]
    with pytest.raises(InvalidError, match="no variant 3"):
        settle_decision(after, "d/1", "accepted", PERSON, LATER, variant=3)


def test_who_made_a_decision_moves_it_on(record: Tree) -> None:
    """The maker may accept or reject a tentative decision; another agent may not."""
    tentative = with_(record, "decisions", status="tentative")
    holds(settle_decision(tentative, "d/1", "rejected", ROBOT, LATER))
    with pytest.raises(RefusedError):
        settle_decision(tentative, "d/1", "accepted", CRAuthor(id="agent-2", type="agent"), LATER)


# --- invariants


def test_a_hard_violation_is_told_once(record: Tree) -> None:
    """invariant-violated comes with the version in which it turned; evidence and time are kept."""
    step = check_invariant(record, "i1", "violated", LATER, evidence="rows are gone")
    assert [event.type for event in step.events] == ["invariant-violated"]
    again = check_invariant(holds(step), "i1", "violated", LATER + 1)
    assert [event.type for event in again.events] == ["updated"]
    assert again.record["invariants"][0]["lastCheckedAt"] == LATER + 1
    soft = with_(record, "invariants", severity="soft")
    assert [event.type for event in check_invariant(soft, "i1", "violated", LATER).events] == ["updated"]


# --- updates


def test_an_update_is_told(record: Tree) -> None:
    """Its members, new effects and new violations; an update of nothing tells nothing."""
    updates = {
        "invariants": [{**record["invariants"][0], "status": "violated"}],
        "toolEffects": [*record["toolEffects"], {**record["toolEffects"][0], "id": "e2", "idempotencyKey": "k2"}],
        "metadata": record["metadata"],
        "x-later": {"kept": 1},
    }
    step = update_record(record, updates, ROBOT, LATER)
    assert [(event.type, event.path) for event in step.events] == [
        ("updated", ""), ("effect-recorded", "/toolEffects/e2"), ("invariant-violated", "/invariants/i1"),
    ]  # fmt: skip
    assert step.events[0].detail == {"members": ["invariants", "toolEffects", "x-later"]}
    assert update_record(record, {"metadata": dict(record["metadata"])}, ROBOT, LATER).events == ()


def _item(collection: str, **members: Any) -> Callable[[Tree], Tree]:
    return lambda record: {collection: with_(record, collection, **members)[collection]}


ROUND_THE_RULES: list[tuple[str, Callable[[Tree], Tree]]] = [
    ("approve", _item("resumePoints", approvalStatus="approved", approvedBy=ANN, approvedAt=NOW)),
    ("weaken a gate", _item("resumePoints", requiredAuthority="any")),
    ("stop its clock", _item("resumePoints", timeoutMs=10**12)),
    ("un-use an approval", _item("resumePoints", consumedAt=NOW)),
    ("remove a gate", lambda _: {"resumePoints": []}),
    ("add an open gate", lambda r: {"resumePoints": [*r["resumePoints"], {
        **r["resumePoints"][0], "id": "p2", "approvalStatus": "approved", "approvedBy": ANN, "approvedAt": NOW}]}),
    ("answer", _item("questionsForUser", status="answered", answer="x", answeredBy=ANN, answeredAt=NOW)),
    ("let a question block less", _item("questionsForUser", priority="low")),
    ("unbind a question", _item("questionsForUser", blocksResumePoints=[])),
    ("remove a question", lambda _: {"questionsForUser": []}),
    ("put words in a mouth", _item("decisions", description="other")),
    ("widen who may override", _item("decisions", overridableBy=["agent"])),
    ("settle by update", lambda r: {"decisions": [{**r["decisions"][0], "status": "tentative"}]}),
    ("remove a decision", lambda _: {"decisions": []}),
    ("remove a blocker", lambda _: {"blockers": []}),
    ("forget an effect", lambda _: {"toolEffects": []}),
    ("change what an effect did", _item("toolEffects", outputs={"n": 2})),
    ("do an effect under another key", _item("toolEffects", idempotencyKey="other")),
    ("call it another task", lambda r: {"task": {**r["task"], "id": "t2"}}),
    ("soften an invariant", _item("invariants", severity="soft")),
    ("remove an invariant", lambda _: {"invariants": []}),
    ("complete with a question open", lambda r: {"task": {**r["task"], "status": "completed"}}),
    ("an edge that is none", lambda r: {"task": {**r["task"], "status": "not-started"}}),
    ("set a hash", lambda _: {"contentHash": "0" * 64}),
    ("set an author", lambda _: {"createdBy": ANN}),
    ("settle conflicts", lambda _: {"conflicts": [{"path": "/task/goal", "resolution": "a"}]}),
]  # fmt: skip


@pytest.mark.parametrize("updates", [row[1] for row in ROUND_THE_RULES], ids=[row[0] for row in ROUND_THE_RULES])
def test_an_update_does_not_go_round_the_rules(record: Tree, updates: Callable[[Tree], Tree]) -> None:
    """What has an operation with authority cannot be done by a plain update of an agent."""
    before = copy.deepcopy(record)
    with pytest.raises(RefusedError) as caught:
        update_record(record, updates(record), ROBOT, LATER)
    assert caught.value.remedy
    assert record == before


ALLOWED: list[tuple[str, Callable[[Tree], Tree]]] = [
    ("resolve a blocker", _item("blockers", status="resolved", resolvedBy=AGENT, resolvedAt=NOW)),
    ("find a violation", _item("invariants", status="violated", lastCheckedAt=NOW)),
    ("reject its own decision", _item("decisions", status="rejected")),
    ("add context", _item("questionsForUser", context="more")),
    ("name next steps", _item("resumePoints", nextSteps=["test", "deploy"])),
    ("what it does not know", _item("resumePoints", **{"x-later": 1})),
    ("fail", lambda r: {"task": {**r["task"], "status": "failed"}}),
    ("another goal", lambda r: {"task": {**r["task"], "goal": "less"}}),
    ("drop a member", lambda _: {"x-later": None}),
]


@pytest.mark.parametrize("updates", [row[1] for row in ALLOWED], ids=[row[0] for row in ALLOWED])
def test_an_update_does_the_rest(record: Tree, updates: Callable[[Tree], Tree]) -> None:
    """What needs nobody's authority is done by an update, and the record holds."""
    holds(update_record(record, updates(record), ROBOT, LATER))


@pytest.mark.parametrize("value", ["x", [1], [{}], {"a": 1}, None, [{"id": 1}]])
def test_an_update_of_the_wrong_type_is_said_so(record: Tree, value: Any) -> None:
    """An update with what is no collection raises InvalidError, not some other error."""
    with pytest.raises((InvalidError, RefusedError)):
        write(without(update_record(record, {"decisions": value}, ROBOT, LATER).record, "contentHash"), RecordContent)


@given(records, st.integers(NOW, NOW + 20))
def test_the_clock_leaves_a_record_that_holds(record: Tree, now: int) -> None:
    """Expiring what is due leaves any record valid, with nothing due."""
    for item in record["resumePoints"]:
        item["timeoutMs"] = max(1, item.get("timeoutMs", 0) - NOW)
    step = expire_due(record, now)
    if step is not None:
        holds(step)
        assert expire_due(step.record, now) is None


def test_made_ids_fit() -> None:
    """An id that is made from another is never too long."""
    assert derived_id("escalate", "p1") == "escalate-p1"
    assert len(derived_id("escalate", "p" * MAX_ID)) <= MAX_ID
