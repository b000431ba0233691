"""A cognitive session has several writers and careless callers: no change is lost, and no copy leads back into the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from adjourn.errors import InvalidError, UsageError
from adjourn.knowledge.cognition.store import CognitiveStore, SessionOptions
from adjourn.knowledge.model.cognition import CognitiveSession
from adjourn.knowledge.model.documents import Tree
from adjourn.store import MemoryStore, SqliteStore, Store
from support.cognition import contents, opened, with_nodes
from support.documents import node

BINDING = {"toolName": "mail", "inputs": {"to": ["ann"]}, "inputsComplete": True}


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "s.db")
    yield store
    store.close()


def with_fact(store: Store) -> CognitiveStore:
    memory = opened(store)
    memory.update_from_response("FACT: a")
    return memory


def test_a_change_is_made_on_what_another_process_wrote(store: Store) -> None:
    """Of two processes that have the session open, the slower one changes the newest state, and counts its own resume."""
    one, two = opened(store), opened(store)
    one.update_from_response("FACT: a")
    mine = two.create_checkpoint("mine")
    assert [fact["content"] for fact in mine["epistemicState"]["facts"]] == ["a"]
    two.change(with_nodes(node("n1")))
    one.update_from_response("FACT: b")
    after = opened(store).session
    assert (contents(after), [item["id"] for item in after["workingState"]["nodes"]]) == (["a", "b"], ["n1"])
    assert one.checkpoint_ids() == [mine["id"]]
    assert after["totalMetrics"]["resumeCount"] == 1


def test_a_session_is_read_again_when_another_process_changed_it(store: Store) -> None:
    """`refresh` takes over the newest state; until then a reader has the one that it read."""
    one, two = opened(store), opened(store)
    one.update_from_response("FACT: a")
    assert contents(two.session) == []
    two.refresh()
    assert contents(two.session) == ["a"]


def test_concurrent_threads_lose_no_update(store: Store) -> None:
    """Every fact of every thread is there, whether the threads share one object or have one each."""
    shared = opened(store)

    def work(number: int) -> None:
        memory = shared if number % 2 else opened(store)
        for step in range(5):
            memory.change(lambda state, _now: _knowing(state, f"f{number}-{step}"))  # noqa: B023  # called at once

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(contents(opened(store).session)) == sorted(f"f{n}-{s}" for n in range(4) for s in range(5))


def _knowing(state: Tree, name: str) -> Tree:
    """The state with one more fact, changed in place as a careless program would."""
    state["epistemicState"]["facts"].append({"id": name, "content": name, "source": "test", "confidence": 1})
    return state


def test_an_edit_that_fails_leaves_nothing_behind(store: Store) -> None:
    """An exception after a change in place, or a state that is refused, changes neither this object nor the store."""
    memory = with_fact(store)
    before = memory.session

    def breaks(state: Tree, _now: int) -> Tree:
        _knowing(state, "half")
        raise LookupError("half way")

    with pytest.raises(LookupError, match="half way"):
        memory.change(breaks)
    with pytest.raises(InvalidError):
        memory.change(lambda state, _now: {**_knowing(state, "bad"), "nodes": [{}]})
    assert memory.session == before
    memory.change(lambda state, _now: _knowing(state, "b"))
    assert contents(opened(store).session) == ["a", "b"]


def test_what_is_returned_leads_nowhere(store: Store) -> None:
    """A returned value is frozen, and changing an object inside it changes neither the session nor what others get."""
    memory = opened(store)
    memory.change(with_nodes(node("n1", type="tool-call", toolBinding=BINDING)))
    seen: list[object] = []

    def spoils(session: CognitiveSession, before: CognitiveSession) -> None:
        seen.append(session.working_state.nodes[0]["toolBinding"]["inputs"]["to"].pop())
        assert before.id == "job"

    memory.subscribe(spoils)
    returned = memory.update_from_response("FACT: a")
    made = memory.create_checkpoint("c")
    restored = memory.restore_from_checkpoint(made)
    with pytest.raises(AttributeError):
        returned.working_state = made  # type: ignore[misc]
    for nodes in (returned.working_state.nodes, memory.state.nodes, made.nodes, memory.get_current_state().nodes):
        nodes[0]["toolBinding"]["inputs"].clear()
    memory.warnings.append("forged")
    restored.warnings.append("forged")
    assert seen == ["ann"] * 3
    assert memory.state.nodes[0]["toolBinding"]["inputs"] == {"to": ["ann"]}
    assert contents(memory.session) == ["a"]
    assert memory.warnings == []


def test_a_session_is_not_changed_by_the_function_that_edits_it(store: Store) -> None:
    """The inner change would be lost under the outer one, so it is refused and nothing is written."""
    memory = with_fact(store)

    def edits(state: Tree, _now: int) -> Tree:
        memory.update_from_response("FACT: lost")
        return state

    with pytest.raises(UsageError, match="by the function that edits it"):
        memory.change(edits)
    memory.update_from_response("FACT: b")
    assert contents(opened(store).session) == ["a", "b"]


def test_triggers_are_added_and_removed(store: Store) -> None:
    """An added trigger fires until it is taken back; one that others still want continues firing; a removed one never does."""
    memory = opened(store)
    steps = iter(range(9))

    def fired() -> bool:
        before = len(memory.checkpoint_ids())
        name = f"n{next(steps)}"
        memory.change(lambda state, _: {**state, "nodes": [*state["nodes"], node(name, confidence=1)]})
        return len(memory.checkpoint_ids()) > before

    assert not fired()
    take_back = memory.add_triggers("high_confidence", "decision_made")
    memory.add_triggers("high_confidence")
    both: tuple[str, ...] = memory.triggers
    assert both == ("decision_made", "high_confidence")
    take_back()
    take_back()
    left: tuple[str, ...] = memory.triggers
    assert left == ("high_confidence",)
    assert fired()
    memory.remove_triggers("high_confidence")
    assert not fired()
    with pytest.raises(UsageError, match=r"'phase'.*phase_change"):
        memory.add_triggers("phase")  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan"), 90])
def test_a_threshold_is_a_confidence(store: Store, threshold: float) -> None:
    """A threshold that no confidence can reach, or that every one does, is wrong usage."""
    with pytest.raises(UsageError, match="is not a confidence"):
        opened(store, options=SessionOptions(threshold=threshold))


@pytest.mark.parametrize("name", ["", "x" * 100_000, 5])
def test_what_could_not_be_read_again_is_not_written(store: Store, name: Any) -> None:
    """A branch name or a session id that no reader accepts is refused, and the session stays usable."""
    memory = with_fact(store)
    if name != "":
        with pytest.raises(InvalidError):
            memory.fork_branch(name)
        assert contents(opened(store).session) == ["a"]
    with pytest.raises((InvalidError, TypeError)):
        CognitiveStore(store, name)


def test_figures_stop_at_the_largest_number_of_json(store: Store) -> None:
    """A model that reports absurd token counts does not make the session unreadable."""
    memory = opened(store)
    for _ in range(2):
        memory.update_from_response("FACT: a", tokens=2**53)
    assert opened(store).session["totalMetrics"]["tokensConsumed"] == 2**53 - 1
    with pytest.raises(UsageError, match="negative"):
        memory.update_from_response("FACT: b", every=-1)
