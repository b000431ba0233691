"""The verbs of a session: a step, a fact, an assumption, a goal, and changes of each."""

from __future__ import annotations

import pytest

from adjourn import CognitiveStore, InvalidError, MemoryStore, NotFoundError, UsageError


@pytest.fixture
def memory() -> CognitiveStore:
    return CognitiveStore(MemoryStore(), "release", goal="Release version 2", triggers=["tool_complete"])


def test_steps_form_a_tree(memory: CognitiveStore) -> None:
    """A step below another is listed there; a pending one has no start."""
    tests = memory.step("Run the tests", type="tool-call")
    unit = memory.step("Unit tests", parent=tests, status="pending")
    above, below = memory.state.nodes
    assert (above.child_ids, below.parent_id) == ((unit.id,), tests.id)
    assert (above.started_at, hasattr(below.started_at, "real")) == (above.created_at, False)


def test_a_step_with_equal_words_is_another_step(memory: CognitiveStore) -> None:
    """The tests may run twice."""
    assert memory.step("Run the tests").id != memory.step("Run the tests").id


def test_a_completed_step_has_its_time_and_fires_its_trigger(memory: CognitiveStore) -> None:
    """Changing a step is a change like any other."""
    step = memory.step("Deploy", type="tool-call")
    assert memory.checkpoint_ids() == []
    done = memory.update(step, status="completed", confidence=0.9)
    assert (done.status, done.confidence, done.completed_at) == ("completed", 0.9, memory.state.nodes[0].completed_at)
    assert len(memory.checkpoint_ids()) == 1


def test_a_fact_verifies_the_assumption_in_its_words(memory: CognitiveStore) -> None:
    """And said again from a better source, it is one fact with that source."""
    assert not memory.assume("The port is 8080").validated_at
    memory.fact("the port is 8080")
    fact = memory.fact("The port is 8080.", source="config.toml", confidence=1)
    known = memory.state.epistemic_state
    assert known.facts == (fact,)
    assert (fact.source, fact.confidence) == ("config.toml", 1)
    assert known.assumptions[0].validated_at


def test_goals_are_parts_of_the_root_or_of_another(memory: CognitiveStore) -> None:
    """A goal said twice is one goal."""
    build = memory.goal("Build it", priority=3)
    test = memory.goal("Test it", parent=build)
    assert memory.goal("build it").id == build.id
    graph = memory.state.intent_graph
    assert (build.parent_goal_id, test.parent_goal_id) == (graph.root_intent_id, build.id)
    assert memory.update(build, status="achieved").sub_goal_ids == (test.id,)


def test_a_wrong_change_is_one_clear_error(memory: CognitiveStore) -> None:
    """A member that the type does not have, a value that it cannot have, an item that is gone."""
    step = memory.step("Deploy")
    with pytest.raises(InvalidError, match="CognitiveNode has no member 'state'"):
        memory.update(step, state="done")
    with pytest.raises(InvalidError, match="status"):
        memory.update(step, status="finished")
    with pytest.raises(UsageError, match="label"):
        memory.step(5)  # type: ignore[arg-type]
    memory.change(lambda state, _: {**state, "nodes": []})
    with pytest.raises(NotFoundError):
        memory.update(step, status="completed")
    assert memory.state.nodes == ()
