"""Notes of an agent about its task: goal, status, criteria, tags, resume points, blockers and invariants."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.cognition.store import CognitiveStore
from adjourn.knowledge.records import agent_notes
from adjourn.knowledge.records.store import CRStore
from support.workspace import Workspace

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
    record, added = add(context, **WHOLE)
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
    again, none = add(context, **WHOLE)
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
        ({"status": "blocked"}, "Invalid enum value"),
        ({"resumePoints": [{"label": "x", "approvalStatus": "approved"}]}, "unknown field"),
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
    assert CRStore(workspace.store).resolve(before["id"])["sequence"] == before["sequence"]
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
