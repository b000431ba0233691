"""What a program gives of a record or a session is completed, and what it misspells is refused."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest

from adjourn import (
    AdjournError,
    CognitiveNode,
    CognitiveStore,
    CRAuthor,
    CRDecision,
    CRStore,
    InvalidError,
    MemoryStore,
    create_checkpoint,
)
from adjourn.knowledge.model.documents import tree_of, view
from adjourn.knowledge.model.record import CRLearning
from adjourn.knowledge.records.store import RecordTrees

ME = CRAuthor(id="a", type="agent")
TASK = {"id": "t", "goal": "pay"}


@pytest.fixture
def records() -> CRStore:
    return CRStore(MemoryStore(), clock=lambda: 7, new_id=lambda: "r")


def test_an_item_needs_its_text_only(records: CRStore) -> None:
    """Of a decision, a question, a learning, a blocker, a resume point and an invariant, a record needs one member each."""
    record = records.create(
        {
            "task": TASK,
            "decisions": [{"description": "Use SQLite"}],
            "learnings": [{"content": "It is fast"}],
            "questionsForUser": [{"question": "Which?"}],
            "blockers": [{"description": "no key"}],
            "resumePoints": [{"label": "Go"}],
            "invariants": [{"description": "no loss"}],
        },
        author=ME,
    )
    (decision,) = record["decisions"]
    assert (decision["madeBy"], decision["madeAt"], decision["status"]) == (ME, 7, "accepted")
    assert decision["id"].startswith("decision-")
    assert record["resumePoints"][0]["approvalStatus"] == "pending"
    again = records.create({"task": TASK, "decisions": [{"description": "Use SQLite"}]}, author=ME, cr_id="s")
    assert again.decisions == (decision,)


def test_two_items_in_the_same_words_have_two_ids(records: CRStore) -> None:
    """An id that the list has is not given again."""
    record = records.create({"task": TASK, "learnings": [{"content": "x"}, {"content": "x"}]}, author=ME)
    assert len({item["id"] for item in record["learnings"]}) == 2


def test_typed_values_and_dicts_are_the_same(records: CRStore) -> None:
    """An exported type is taken wherever a dict is, alone or within one."""
    typed = CRDecision(
        id="d", description="x", status="accepted", rationale="", made_by=ME, made_at=1, affects=(), overridable_by=("human",)
    )  # fmt: skip
    given: dict[str, Any] = {**msgspec.to_builtins(typed), "madeBy": ME}
    first = records.create({"task": TASK, "decisions": [typed]}, author=ME)
    second = records.create({"task": TASK, "decisions": [given]}, author=ME, cr_id="s")
    assert first["decisions"] == second["decisions"]


def test_a_part_of_the_task_keeps_the_rest(records: CRStore) -> None:
    """An update of one member of the task leaves the others, in a fork too; metadata that is whole replaces the old."""
    made = records.create({"task": TASK, "metadata": {"estimatedRemainingWork": "1 h", "tags": [], "priority": "low"}})
    after = records.update("r", {"task": {"goal": "new"}, "metadata": {"tags": ["x"], "priority": "low"}}, ME)
    assert (after["task"]["id"], after["task"]["goal"]) == ("t", "new")
    assert tree_of(after.metadata) == {"tags": ["x"], "priority": "low"}
    fork = records.fork(made["contentHash"], {"task": {"goal": "other"}}, ME, cr_id="f")
    assert (fork["task"]["id"], fork["task"]["goal"]) == ("t", "other")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"task": TASK, "desicions": []}, "decisions"),
        ({"task": {**TASK, "success_criteria": ["x"]}}, "successCriteria"),
        ({"task": TASK, "decisions": [{"description": "x", "rational": "y"}]}, "rationale"),
    ],
)
def test_a_misspelt_member_is_refused(records: CRStore, given: dict[str, Any], meant: str) -> None:
    """A member that looks like a known one is an error that names that one, and nothing is written."""
    with pytest.raises(InvalidError, match=f"did you mean '{meant}'"):
        records.create(given, author=ME)
    assert records.ids() == []


def test_other_unknown_members_and_stored_ones_are_kept(records: CRStore) -> None:
    """What looks like no known member may stand in a record; a stored near miss is not questioned."""
    made = records.create({"task": TASK, "x-mine": 1, "decisions": [{"description": "x", "x-note": 2}]}, author=ME)
    assert (made["x-mine"], made["decisions"][0]["x-note"]) == (1, 2)


def test_a_step_of_a_session_needs_type_and_label() -> None:
    """A node may be typed, or a dict of two members; an edit that returns nothing says what to return."""
    memory = CognitiveStore(MemoryStore(), "x", goal="G")
    typed = CognitiveNode(
        id="a", type="reasoning", phase="planning", status="pending", label="a", assumptions=(), open_questions=(),
        confidence=0.5, child_ids=(), created_at=1, branch_id="main",
    )  # fmt: skip
    memory.change(lambda state, _now: {**state, "nodes": [typed, {"type": "decision", "label": "b"}]})
    assert [node["branchId"] for node in memory.session["workingState"]["nodes"]] == ["main", "main"]
    with pytest.raises(AdjournError, match="return the new working state"):
        memory.change(lambda state, _now: state["nodes"].clear())
    checkpoint, session = create_checkpoint(memory.session, label="now")
    assert checkpoint["id"] in session["checkpoints"]


def test_the_address_of_a_store_is_no_store() -> None:
    """Where a store is needed, its path is an error that says how to open it."""
    path: Any = "records.db"
    with pytest.raises(AdjournError, match="open_store"):
        CRStore(path)
    with pytest.raises(AdjournError, match="open_store"):
        CognitiveStore(path, "x")


@pytest.mark.parametrize("typed", [False, True], ids=["dicts", "typed"])
def test_an_update_handles_only_the_items_that_it_changes(typed: bool) -> None:
    """A stored learning that is repeated beside a new one costs no call of a function, or a few where it is typed; all are kept."""

    def calls_of_update(count: int) -> int:
        records = RecordTrees(MemoryStore())
        items = [{"content": f"learning {number}", "affects": [f"file {number}"]} for number in range(count)]
        record = records.create({"task": {"id": "t1", "goal": "g"}, "learnings": items}, author=ME)
        record = records.update(record["id"], {"learnings": [*record["learnings"], {"content": "first"}]}, ME)
        stored = [view(item, CRLearning) if typed else item for item in record["learnings"]]
        calls = 0

        def count_call(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count_call)
        try:
            changed = records.update(record["id"], {"learnings": [*stored, {"content": "new"}]}, ME)
        finally:
            sys.setprofile(None)
        assert changed["learnings"][:-1] == record["learnings"]
        assert changed["learnings"][-1]["content"] == "new"
        return calls

    calls_of_update(3)  # what is looked up once
    few, many = calls_of_update(30), calls_of_update(300)
    assert (many - few) / 270 < (25 if typed else 1)


@pytest.mark.parametrize(("before", "after"), [(1, True), (1, 2), ("a", None), ([1], [1.5])])
def test_a_changed_member_of_a_stored_item_is_stored(before: object, after: object) -> None:
    """A member that is unknown to this version is compared as JSON has it, in which 1 is not true."""
    records = RecordTrees(MemoryStore())
    record = records.create(
        {"task": {"id": "t1", "goal": "g"}, "learnings": [{"content": "c", "x": before}]}, author=ME
    )
    changed = records.update(record["id"], {"learnings": [{**record["learnings"][0], "x": after}]}, ME)
    assert json.dumps(changed["learnings"][0]["x"]) == json.dumps(after)


@pytest.mark.parametrize("name", [[1], {}, 5])
def test_an_id_that_is_no_text_is_refused_by_name(records: CRStore, name: object) -> None:
    """In a new record and in an update, also where the value could be no key of a dict."""
    items = [{"id": name, "content": "c"}]
    with pytest.raises(InvalidError, match="/learnings/0/id"):
        records.create({"task": TASK, "learnings": items}, author=ME)
    made = records.create({"task": TASK}, author=ME)
    with pytest.raises(InvalidError, match="/learnings/0/id"):
        records.update(made.id, {"learnings": items}, ME)
