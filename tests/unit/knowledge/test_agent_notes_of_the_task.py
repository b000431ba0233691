"""Notes of an agent about its task: goal, status, criteria, tags, resume points, blockers and invariants."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.cognition.store import CognitiveStore
from adjourn.knowledge.model.documents import tree_of
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records import agent_notes
from adjourn.knowledge.records.store import RecordTrees
from support.workspace import Workspace

ANN = CRAuthor(id="ann", type="human")
WHOLE = {
    "goal": "Move every note",
    "status": "failed",
    "successCriteria": ["all are there", "none is twice"],
    "tags": ["notes"],
    "resumePoints": [{"label": "Copy them", "when": "a backup exists", "nextSteps": ["copy", "count"]}],
    "blockers": [{"description": "the disk is full", "blocks": ["copy  THEM."], "severity": "high"}],
    "invariants": [{"description": "no note is lost", "severity": "hard", "status": "holding", "evidence": "counted"}],
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path, monkeypatch)


def add(context: Any, **said: Any) -> agent_notes.NoteResult:
    return agent_notes.add(context.sessions.open(), agent_notes.read_note(said))


def test_the_rest_of_the_record_is_noted_too_and_only_once(workspace: Workspace) -> None:
    """Goal, status, criteria, tags, resume points, blockers and invariants land in the record; the same words change nothing."""
    context = workspace.context()
    record, added, *_ = add(context, **WHOLE)
    assert added == {"task": 1, "metadata": 1, "resumePoints": 1, "blockers": 1, "invariants": 1}
    task, (point,), (blocker,), (invariant,) = (
        record[name] for name in ("task", "resumePoints", "blockers", "invariants")
    )
    assert (task["goal"], task["status"], task["successCriteria"]) == (
        "Move every note", "failed", ["all are there", "none is twice"],
    )  # fmt: skip
    assert record["metadata"]["tags"] == ["notes"]
    assert (point["requiredAuthority"], point["approvalStatus"], point["nextSteps"]) == (
        "human",
        "pending",
        ["copy", "count"],
    )
    assert (point["safeToAutoExecute"], "timeoutMs" in point) == (False, False)
    assert (blocker["blocksResumePoints"], blocker["createdBy"]["type"]) == ([point["id"]], "agent")
    assert (invariant["status"], invariant["evidence"]) == ("holding", "counted")
    again, none, *_ = add(context, **WHOLE)
    assert (again["sequence"], none) == (record["sequence"], {})


def test_an_agent_resolves_its_own_obstacle_and_the_same_may_come_back(workspace: Workspace) -> None:
    """A resolution closes the blocker of the same words; noted again it is a new one; an unknown one is nothing."""
    context = workspace.context()
    add(context, blockers=[{"description": "the disk is full"}])
    closing = [{"description": "The disk is full", "resolution": "cleaned"}]
    after = add(context, blockers=closing).record
    assert [(one["status"], one["resolution"]) for one in after["blockers"]] == [("resolved", "cleaned")]
    assert add(context, blockers=closing).added == {}
    back = add(context, blockers=[{"description": "the disk is full"}]).record["blockers"]
    assert [one["status"] for one in back] == ["resolved", "active"]
    assert back[0]["id"] != back[1]["id"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"blockers": [{"description": "sign", "resolution": "done"}]}, "waits for a person"),
        ({"blockers": [{"description": "x", "blocks": ["nothing"]}]}, "unknown resume point"),
        ({"status": "in-progress", "facts": ["f"]}, "completed and cannot become"),
        ({"tags": [f"t{number}" for number in range(101)]}, "length <= 100"),
        ({"status": "blocked"}, "'blocked' is not a value at `status`"),
        ({"resumePoints": [{"label": "x", "approvalStatus": "approved"}]}, "`approvalStatus` is not a member"),
        ({"invariants": [{"description": ""}]}, "length >= 1"),
    ],
)
def test_what_an_agent_may_not_say_is_refused_before_anything_is_written(
    workspace: Workspace, said: dict[str, Any], why: str
) -> None:
    """People's blockers, unknown names, final statuses, answers and malformed values: no version is added."""
    context = workspace.context()
    before = add(context, blockers=[{"description": "sign", "type": "human-required"}], status="completed").record
    with pytest.raises((InvalidError, RefusedError), match=re.escape(why)):
        add(context, **said)
    assert RecordTrees(workspace.store).resolve(before["id"])["sequence"] == before["sequence"]
    assert CognitiveStore(workspace.store, context.task.current()).session["checkpoints"] == {}


def test_a_hard_invariant_that_is_violated_keeps_the_task_open(workspace: Workspace) -> None:
    """A later check of the same words changes the invariant, and the task can then be completed."""
    context = workspace.context()
    rule = {"description": "no note is lost", "severity": "hard"}
    add(context, invariants=[rule | {"status": "violated"}])
    with pytest.raises(RefusedError, match="is violated"):
        add(context, status="completed")
    after = add(context, invariants=[rule | {"status": "holding"}], status="completed").record
    assert (after["invariants"][0]["status"], after["task"]["status"]) == ("holding", "completed")


def test_an_agent_revises_what_it_noted(workspace: Workspace) -> None:
    """A decision noted with another status changes; statements and learnings are withdrawn; an answer closes a question."""
    context = workspace.context()
    add(
        context,
        facts=["The port is 8080"],
        assumptions=["Nobody uses v1"],
        questions=["Is paper 17 retracted?"],
        goals=["ship v2"],
        decisions=[{"decision": "Use the median", "because": "outliers"}],
        learnings=[{"content": "p.py is generated"}],
    )
    agent_notes.ask(context.sessions.open(), agent_notes.read_question({"question": "Which port?"}))
    revised = add(
        context,
        facts=["The port is 9090"],
        decisions=[{"decision": "use the median", "status": "rejected", "because": "replaced"}],
        withdraw=["the port is 8080", "Nobody uses v1.", "ship v2", "p.py is generated"],
        answers=[
            {"question": "Is paper 17 retracted?", "answer": "Yes, in 2024"},
            {"question": "Which port?", "answer": "9090"},
        ],
    )
    assert revised.revised == {"decisions": 1, "withdrawn": 4, "answered": 2}
    assert (revised.added, revised.ignored) == ({"facts": 1}, [])
    [decision] = revised.record["decisions"]
    assert (decision["status"], decision["rationale"]) == ("rejected", "replaced")
    assert [variant["rationale"] for variant in decision["variants"]] == ["outliers"]
    assert revised.record["learnings"] == []
    assert [(q["status"], q["answer"]) for q in revised.record["questionsForUser"]] == [("answered", "9090")]
    mind = CognitiveStore(workspace.store, context.sessions.open().task.id).session["workingState"]
    knowledge = mind["epistemicState"]
    assert [fact["content"] for fact in knowledge["facts"]] == [
        "Is paper 17 retracted? Yes, in 2024",
        "The port is 9090",
    ]
    assert (knowledge["assumptions"], knowledge["openQuestions"]) == ((), ())
    assert [goal["status"] for goal in mind["intentGraph"]["goals"] if goal["description"] == "ship v2"] == [
        "abandoned"
    ]


def test_a_persons_word_is_not_revised_and_whatever_is_ignored_is_said(workspace: Workspace) -> None:
    """What a person decided, said or has to answer stays, and so does what is not there; the answer names each with the reason."""
    context = workspace.context()
    first = add(
        context,
        decisions=[{"decision": "Use A"}, {"decision": "Use B"}],
        resumePoints=[{"label": "Go", "nextSteps": ["one"]}],
        invariants=[{"description": "lag below 30 s"}],
    )
    records, name = RecordTrees(workspace.store, clock=workspace.clock), first.record["id"]
    ids = {decision["description"]: decision["id"] for decision in first.record["decisions"]}
    records.settle_decision(name, ids["Use A"], "rejected", ANN)
    records.contest_decision(name, ids["Use B"], "Use C", "cheaper", ANN)
    records.update(
        name,
        {
            "learnings": [
                {
                    "id": "l",
                    "type": "constraint",
                    "source": "feedback",
                    "content": "no Fridays",
                    "learnedBy": tree_of(ANN),
                    "learnedAt": 0,
                    "affects": [],
                }
            ]
        },
        ANN,
    )
    question = {"question": "May I?", "priority": "blocking"}
    agent_notes.ask(context.sessions.open(), agent_notes.read_question(question))
    result = add(
        context,
        decisions=[{"decision": "Use A"}, {"decision": "Use B"}],
        resumePoints=[{"label": "Go", "nextSteps": ["drop all"]}],
        blockers=[{"description": "db07 lags", "resolution": "fixed"}],
        invariants=[{"description": "lag below 30 s", "severity": "hard"}],
        withdraw=["no Fridays", "May I?", "Use B", "unknown"],
        answers=[{"question": "May I?", "answer": "yes"}, {"question": "What?", "answer": "no"}],
    )
    assert (result.added, result.revised) == ({}, {})
    assert {line.partition(": ")[2] for line in result.ignored} == {
        "Use A: a person decided it: ask with adjourn.ask",
        f"Use B: contested: a person settles it with `adjourn decide {ids['Use B']}`",
        "Go: known already: note changed steps under another label",
        "db07 lags: no active blocker has these words",
        "lag below 30 s: stays soft: only a person changes that",
        "no Fridays: a person said it",
        "May I?: only a person can skip this question",
        "Use B: note the decision with the status rejected instead",
        "unknown: nothing that can be withdrawn has these words",
        "May I?: a person has to answer it",
        "What?: no open question has these words",
    }
