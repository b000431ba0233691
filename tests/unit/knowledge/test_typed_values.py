"""Records and sessions come out as typed, frozen values, and go in again with all that they had."""

from __future__ import annotations

import copy
import pickle
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn import (
    AdjournError,
    CognitiveStore,
    ContinuationRecord,
    CRAuthor,
    CRDecision,
    CRStore,
    InvalidError,
    MemoryStore,
    TaskRecord,
    UsageError,
    create_checkpoint,
    diff_checkpoints,
    move_goal,
    restore_checkpoint,
    validate_checkpoint,
)
from adjourn.knowledge.model.documents import Tree, tree_of, view, without
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.versions import SEAL
from adjourn.log.canonical_json import canonical, digest
from support.cognition import opened, with_nodes
from support.documents import node, sample

ME = CRAuthor(id="a", type="agent")
BEA = {"id": "bea", "type": "human", "x-pronoun": "she"}
MISTAKES = runpy.run_path(str(Path(__file__).parents[2] / "typing" / "wrong_use.py"))["MISTAKES"]
OF_A_LATER_VERSION = {"x-later": {"deep": [1, {"x": None}]}}


@pytest.fixture
def records() -> CRStore:
    return CRStore(MemoryStore(), clock=lambda: 7, new_id=lambda: "r")


def foreign() -> Tree:
    """A record with members of a later version in it, everywhere."""
    tree = sample()
    tree = {**tree, **OF_A_LATER_VERSION, "task": {**tree["task"], **OF_A_LATER_VERSION}}
    decision = {**tree["decisions"][0], **OF_A_LATER_VERSION, "madeBy": BEA}
    return {**tree, "decisions": [decision, *tree["decisions"][1:]]}


def test_a_record_is_typed_and_keeps_what_a_later_version_wrote(records: CRStore) -> None:
    """What this version does not know is neither an attribute nor lost: its bytes, and so its hash, are the same again."""
    made = records.create(foreign(), author=ME)
    assert made.decisions[0].made_by.unknown == {"x-pronoun": "she"}
    assert made.unknown == made.task.unknown == OF_A_LATER_VERSION
    read = records.resolve("r")
    tree = RecordTrees(records.store).resolve("r")
    assert tree_of(read) == tree
    assert digest(canonical(without(tree_of(read), *SEAL))) == read.content_hash
    assert records.verify_chain("r").broken_at is None


def test_a_typed_value_goes_in_with_what_it_does_not_show(records: CRStore) -> None:
    """An update by typed values, one of them replaced in part, drops no member of a later version."""
    made = records.create(foreign(), author=ME)
    new = made.decisions[0].replace(id="new")
    after = records.update("r", {"decisions": (new, *made.decisions), "task": made.task.replace(goal="x")}, ME)
    assert (after.task.goal, after.task.unknown) == ("x", OF_A_LATER_VERSION)
    for decision in after.decisions[:2]:
        assert decision.unknown == OF_A_LATER_VERSION
        assert decision.made_by.unknown == {"x-pronoun": "she"}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_keeps_what_it_does_not_show(records: CRStore, again: Any) -> None:
    """Copying and pickling lose nothing."""
    made = records.create(foreign(), author=ME)
    assert tree_of(again(made)) == tree_of(made)


def test_values_that_differ_in_what_they_do_not_show_are_not_equal(records: CRStore) -> None:
    """Neither if it is a member of a part: equal values have the same tree."""
    made = records.create(foreign(), author=ME)
    assert made == copy.deepcopy(made)
    assert hash(made.task) == hash(copy.deepcopy(made.task))
    tree = tree_of(made)
    for other in (without(tree, "x-later"), {**tree, "task": {**tree["task"], "x-later": "other"}}):
        assert view(other, ContinuationRecord) != made
    assert made != tree


def test_a_value_is_also_read_by_published_names(records: CRStore) -> None:
    """A program that was written for JSON objects reads a typed value alike; what is absent is no member."""
    made = records.create({**foreign(), "metadata": {"tags": [], "priority": "low"}}, author=ME)
    assert (made["task"]["goal"], made["x-later"]) == (made.task.goal, OF_A_LATER_VERSION["x-later"])
    assert {**made.metadata} == {"tags": (), "priority": "low"}
    assert "estimatedRemainingWork" not in made.metadata
    assert made.metadata.get("estimatedRemainingWork", "none") == "none"
    assert "x-later" in list(made)
    with pytest.raises(KeyError):
        made["metadata"]["estimatedRemainingWork"]


def test_a_value_is_frozen_and_replaced(records: CRStore) -> None:
    """No attribute can be set; `replace` changes a copy, takes None for a member to leave out, and suggests a name."""
    task = records.create({"task": {"id": "t", "goal": "g"}}, author=ME).task
    with pytest.raises(AttributeError):
        task.goal = "other"  # type: ignore[misc]
    started = task.replace(goal="other", started_at=3)
    assert (task.goal, started.goal, started.replace(started_at=None).get("startedAt")) == ("g", "other", None)
    with pytest.raises(UsageError, match="CRTask has no member 'gaol'") as error:
        task.replace(gaol="x")
    assert error.value.remedy == "did you mean goal?"


def test_an_author_may_be_a_dict(records: CRStore) -> None:
    """A dict stands for a typed value in any method, checked; one of the wrong shape names the member."""
    records.create({"task": {"id": "t", "goal": "g"}, "questionsForUser": [{"id": "q", "question": "?"}]}, author=ME)
    asked = records.answer_question("r", "q", "yes", BEA)  # type: ignore[arg-type]
    assert asked.questions_for_user[0].answered_by == view(BEA, CRAuthor)
    with pytest.raises(InvalidError, match="CRAuthor /type"):
        records.update("r", {}, {"id": "b", "type": "robot"})  # type: ignore[arg-type]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_one_error_with_a_remedy(mistake: Any) -> None:
    """What mypy refuses in a program, adjourn refuses when it runs: with an error of its own that says what to do."""
    with pytest.raises(AdjournError) as error:
        mistake(MemoryStore())
    assert error.value.remedy


def test_the_published_functions_take_what_they_return() -> None:
    """Creating, checking, comparing and restoring a checkpoint passes typed values on, which lose nothing."""
    memory = CognitiveStore(MemoryStore(), "release", goal="Release version 2")
    memory.change(lambda state, _: {**state, **OF_A_LATER_VERSION})
    memory.change(with_nodes(node("n1", **OF_A_LATER_VERSION)))
    first, session = create_checkpoint(memory.session, "first", 1, new_id="c1")
    assert session.checkpoints["c1"].nodes[0].unknown == first.nodes[0].unknown == OF_A_LATER_VERSION
    later = first.replace(id="c2", nodes=(first.nodes[0].replace(label="renamed"),))
    assert diff_checkpoints(first, later).modified_nodes[0].changes == {"label": "renamed"}
    assert validate_checkpoint(later).valid
    restored = restore_checkpoint(later, 2, session=session)
    assert restored.session.working_state.nodes[0].unknown == OF_A_LATER_VERSION
    moved, warnings = move_goal(restored.session.working_state, "root", "achieved")
    assert (moved.intent_graph.goals[0].status, warnings) == ("achieved", [])
    memory.change(lambda _state, _at: moved)
    assert memory.state == moved


def test_a_session_takes_a_checkpoint_that_it_returned() -> None:
    """A typed checkpoint restores a session of another store."""
    made = opened(MemoryStore()).create_checkpoint("first")
    assert opened(MemoryStore(), "two").restore_from_checkpoint(made).session.checkpoints[made.id] == made


def test_a_merge_returns_a_record() -> None:
    """`merged` is the record with the merge, typed."""
    record = TaskRecord(MemoryStore(), "t", goal="g")
    other = record.fork("other")
    other.decide("Use SQLite")
    merged = record.merge(other).merged
    assert isinstance(merged, ContinuationRecord)
    assert isinstance(merged.decisions[0], CRDecision)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2)
)
_more = st.dictionaries(st.text(min_size=1, max_size=8).map("x-{}".format), _json, max_size=3)


@given(_more, _more, _more)
def test_any_members_come_through(of_record: Tree, of_task: Tree, of_author: Tree) -> None:
    """Whatever a foreign record has beside what is known: decoding and encoding is the identity."""
    tree = sample()
    tree = {**tree, **of_record, "task": {**tree["task"], **of_task}, "createdBy": {**tree["createdBy"], **of_author}}
    assert tree_of(view(tree, ContinuationRecord)) == tree
