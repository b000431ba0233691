"""What must be so between the parts of a state or a record is found where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adjourn.errors import InvalidError
from adjourn.knowledge.cognition.invariants import (
    check_record,
    check_working_state,
    find_cycle,
    has_circular_references,
    require,
)
from adjourn.knowledge.model.documents import Tree
from support.campaign import scaled
from support.cases import for_each
from support.documents import ANN, NOW, goal, node, sample, state


def knowing(**members: Any) -> Tree:
    base = state()
    return {**base, "epistemicState": {**base["epistemicState"], **members}}


def wanting(goals: list[Tree], root: str = "g1") -> Tree:
    return state(intentGraph={"goals": goals, "rootIntentId": root})


def test_a_whole_state_has_no_findings() -> None:
    """Nothing is found in a state and a record that hold."""
    assert check_working_state(state()) == []
    assert check_record(sample()) == []


STATES: list[tuple[str, Tree, str, str]] = [
    ("two nodes with one id", state(nodes=[node("n1"), node("n1")]), "duplicate-id", "/nodes/n1"),
    ("no such parent", state(nodes=[node("n1", parentId="x")]), "missing-parent", "/nodes/n1/parentId"),
    ("no such child", state(nodes=[node("n1", childIds=["x"])]), "missing-child", "/nodes/n1/childIds"),
    ("child not listed", state(nodes=[node("n1"), node("n2", parentId="n1")]), "one-sided", "/nodes/n2/parentId"),
    ("child of nobody", state(nodes=[node("n1", childIds=["n2"]), node("n2")]), "one-sided", "/nodes/n1/childIds"),
    ("own parent", state(nodes=[node("n1", parentId="n1", childIds=["n1"])]), "cycle", "/nodes"),
    ("waits for itself", state(nodes=[node("n1", blockedBy=["n1"])]), "deadlock", "/nodes/n1/blockedBy"),
    ("waits for nothing", state(nodes=[node("n1", blockedBy=["x"])]), "dangling", "/nodes/n1/blockedBy"),
    ("too sure", state(nodes=[node("n1", confidence=1.01)]), "confidence", "/nodes/n1/confidence"),
    ("no fact", knowing(beliefs=[{"id": "b", "statement": "", "confidence": 1, "evidence": ["x"]}]), "dangling",
     "/epistemicState/beliefs/b/evidence"),
    ("belief below zero", knowing(beliefs=[{"id": "b", "statement": "", "confidence": -1, "evidence": []}]), "confidence",
     "/epistemicState/beliefs/b/confidence"),
    ("no node waits", knowing(openQuestions=[{"id": "q", "question": "", "priority": "low", "blocksNodes": ["x"]}]),
     "dangling", "/epistemicState/openQuestions/q/blocksNodes"),
    ("assumed twice", knowing(assumptions=[{"id": "a", "content": ""}] * 2), "duplicate-id", "/epistemicState/assumptions/a"),
    ("no root", wanting([goal("g2")]), "missing-root", "/intentGraph/rootIntentId"),
    ("part of itself", wanting([goal("g1", subGoalIds=["g1"], parentGoalId="g1")]), "goal-cycle", "/intentGraph/goals"),
    ("no such goal", wanting([goal("g1", parentGoalId="x")]), "dangling", "/intentGraph/goals/g1/parentGoalId"),
    ("no such part", wanting([goal("g1", subGoalIds=["x"])]), "dangling", "/intentGraph/goals/g1/subGoalIds"),
    ("goal not listed", wanting([goal("g1"), goal("g2", parentGoalId="g1")]), "one-sided", "/intentGraph/goals/g2/parentGoalId"),
    ("part of another", wanting([goal("g1", subGoalIds=["g2"]), goal("g2")]), "one-sided", "/intentGraph/goals/g1/subGoalIds"),
]  # fmt: skip


@for_each(("tree", "code", "path"), [row[1:] for row in STATES], ids=[row[0] for row in STATES])
def test_a_state_that_does_not_hold_is_found_out(tree: Tree, code: str, path: str) -> None:
    """Each rule has a finding with a path, what is wrong and a remedy, and keeps the state from being written."""
    findings = check_working_state(tree)
    assert (code, path) in [(found.code, found.source) for found in findings]
    assert all(found.help and found.message for found in findings)
    with pytest.raises(InvalidError) as caught:
        require(findings)
    assert caught.value.message.startswith("/")
    assert caught.value.remedy


def test_an_achieved_goal_with_an_active_part_is_a_warning() -> None:
    """It is said, and keeps nothing from being written."""
    tree = wanting([goal("g1", subGoalIds=["g2"], status="achieved"), goal("g2", parentGoalId="g1")])
    (found,) = require(check_working_state(tree))
    assert (found.code, found.severity) == ("active-sub-goal", "warning")


def _set(collection: str, **members: Any) -> Callable[[Tree], None]:
    return lambda record: record[collection][0].update(members)


BLOCKING = {
    "question": _set("questionsForUser", blocksResumePoints=["p9"]),
    "blocker": _set("blockers", questionId="q9"),
}
RECORDS: list[tuple[str, Callable[[Tree], None], str, str, str]] = [
    ("two decisions", lambda r: r["decisions"].append(r["decisions"][0]), "duplicate-id", "/decisions/d/1", "error"),
    ("contested alone", _set("decisions", status="contested"), "no-variants", "/decisions/d~11/variants", "error"),
    ("no parent", lambda r: r.update(sequence=2), "missing-parent", "/parentCRHash", "error"),
    ("a parent of the first", lambda r: r.update(parentCRHash="0" * 64), "missing-parent", "/parentCRHash", "error"),
    ("answered by nobody", _set("questionsForUser", status="answered"), "untold", "/questionsForUser/q1/answer", "error"),
    ("open and answered", _set("questionsForUser", answer="x"), "untold", "/questionsForUser/q1/answer", "error"),
    ("approved by nobody", _set("resumePoints", approvalStatus="approved"), "untold", "/resumePoints/p1/approvedBy", "error"),
    ("denied by nobody", _set("resumePoints", approvalStatus="denied"), "untold", "/resumePoints/p1/deniedBy", "error"),
    ("resolved by nobody", _set("blockers", status="resolved"), "untold", "/blockers/b1/resolvedBy", "error"),
    ("no such point", BLOCKING["question"], "dangling", "/questionsForUser/q1/blocksResumePoints", "warning"),
    ("no such question", BLOCKING["blocker"], "dangling", "/blockers/b1/questionId", "warning"),
    ("done with a question", lambda r: r["task"].update(status="completed"), "open-question", "/task/status", "error"),
    ("a key twice", lambda r: r["toolEffects"].append({**r["toolEffects"][0], "id": "e2"}), "executed-twice", "/toolEffects",
     "warning"),
    ("an answer that is no option", _set("questionsForUser", status="answered", options=["a"], answer="b", answeredBy=ANN,
     answeredAt=NOW), "no-option", "/questionsForUser/q1/answer", "error"),
]  # fmt: skip


@for_each(("change", "code", "path", "severity"), [row[1:] for row in RECORDS], ids=[row[0] for row in RECORDS])
def test_a_record_that_does_not_hold_is_found_out(
    change: Callable[[Tree], None], code: str, path: str, severity: str
) -> None:
    """Each rule over a record has a finding with its path and severity."""
    record = sample()
    change(record)
    assert (code, path, severity) in [(found.code, found.source, found.severity) for found in check_record(record)]


def test_a_task_is_not_completed_with_a_broken_hard_invariant() -> None:
    """A completed task with a violated hard invariant is an error; a soft one is none."""
    record = sample()
    record["task"]["status"] = "completed"
    record["questionsForUser"][0]["priority"] = "low"
    record["invariants"][0]["status"] = "violated"
    assert [found.code for found in check_record(record)] == ["violated"]
    record["invariants"][0]["severity"] = "soft"
    assert check_record(record) == []


@pytest.mark.parametrize("nested", [True, False])
def test_many_nodes_are_checked(nested: bool) -> None:
    """A chain, or one node with all others under it, is checked without recursion, and in a time that grows with its size only."""
    count = scaled(100_000)
    names = [f"n{number}" for number in range(count)]
    if nested:
        nodes = [
            node(name, childIds=names[n + 1 : n + 2], **({"parentId": names[n - 1]} if n else {}))
            for n, name in enumerate(names)
        ]
    else:
        nodes = [node("n0", childIds=names[1:]), *(node(name, parentId="n0") for name in names[1:])]
    assert not has_circular_references(nodes)
    assert check_working_state(knowing(openQuestions=[]) | {"nodes": nodes}) == []
    nodes[-1] = {**nodes[-1], "childIds": ["n0"]}
    assert has_circular_references(nodes)


def test_a_cycle_is_found_over_both_kinds_of_edges() -> None:
    """A cycle of which one edge is shown by a child and the other by a parent is a cycle."""
    assert (
        has_circular_references(
            [node("a", childIds=["b"]), node("b", childIds=["c"]), node("c"), node("a2", parentId="c")]
        )
        is False
    )
    assert has_circular_references([node("a", childIds=["b"], parentId="b"), node("b")])
    assert find_cycle({"a": ["b", "x"], "b": ["c"], "c": ["a"]}) == "a"
    assert find_cycle({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}) is None
