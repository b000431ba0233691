"""A cognitive session outlives its process: each change is kept, each checkpoint can be had again, one process continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.errors import IntegrityError, InvalidError, NotFoundError, RefusedError, UsageError
from adjourn.knowledge.cognition import transitions
from adjourn.knowledge.cognition.deltas import MAX_DIFFS
from adjourn.knowledge.cognition.repository import SessionRepository
from adjourn.knowledge.cognition.store import CognitiveStore, SessionOptions
from adjourn.knowledge.model.cognition import CognitiveCheckpoint, CognitiveSession
from adjourn.knowledge.model.documents import same, tree_of
from adjourn.store import MemoryStore, SqliteStore, Store
from support.clock import Clock
from support.cognition import START, contents, opened, with_nodes
from support.documents import node, sample


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "s.db")
    yield store
    store.close()


def test_each_change_is_there_again(store: Store) -> None:
    """Another process that opens the session has its state, its branches and its figures, and counts a resume."""
    one = opened(store)
    assert not one.resumed
    one.update_from_response("FACT: a\nQUESTION: b?", tokens=18)
    one.change(with_nodes(node("n1")))
    made = one.create_checkpoint("first", "because")
    one.update_from_response("FACT: c")
    two = opened(store)
    assert two.resumed
    assert two.session["workingState"] == one.session["workingState"]
    assert two.session["branches"] == one.session["branches"]
    assert two.get_checkpoint(made["id"]) == made
    metrics = one.session.total_metrics
    assert two.session.total_metrics == metrics.replace(resume_count=1)
    assert (metrics.request_count, metrics.tokens_consumed, metrics.checkpoint_count) == (2, 18, 1)
    assert made.description == "because"


def test_checkpoints_are_kept_as_differences(store: Store) -> None:
    """A small change of a large state takes a fraction of its bytes, up to twenty in a row; then it is whole again."""
    memory = opened(store)
    memory.change(with_nodes(*(node(f"n{n}", description="x" * 200) for n in range(100))))
    pages, places, made = SessionRepository(store), [], []
    for number in range(MAX_DIFFS + 3):
        memory.update_from_response(f"FACT: {number}")
        made.append(memory.create_checkpoint(f"c{number}"))
        place = pages._find(made[-1]["id"])
        assert place is not None
        places.append((place.depth, len(store.get_blob(place.blob) or b"")))
    assert [depth for depth, _ in places] == [*range(MAX_DIFFS + 1), 0, 1]
    whole = places[0][1]
    assert all((size > whole / 2) is (depth == 0) for depth, size in places)
    assert all(pages.checkpoint(one.id) == tree_of(one) for one in made)
    assert memory.checkpoint_ids() == [one["id"] for one in made]


def test_a_restore_leaves_the_newer_line_alone(store: Store) -> None:
    """Continuing from an older checkpoint is a branch of its own, whose next checkpoint has the older one as its parent."""
    memory = opened(store, triggers=("branch_created",))
    memory.update_from_response("FACT: a")
    first = memory.create_checkpoint("first")
    memory.update_from_response("FACT: b")
    second = memory.create_checkpoint("second")
    restored = memory.restore_from_checkpoint(first["id"])
    assert restored.forked == f"restore-{first['id'][:8]}"
    assert memory.resumed_from == first["id"]
    branches = memory.session["branches"]
    assert branches["main"]["headCheckpointId"] == second["id"]
    fork = memory.get_checkpoint(branches[restored.forked]["headCheckpointId"])
    assert fork is not None
    assert (fork["parentCheckpointId"], fork["label"]) == (first["id"], f"Branch: {restored.forked}")
    assert contents(opened(store).session) == ["a"]
    assert memory.get_checkpoint(second["id"]) == second
    moved = memory.restore_from_checkpoint(second["id"], move_head=True)
    assert (moved.forked, contents(moved.session)) == ("", ["a", "b"])


def test_a_session_goes_on_from_anothers_checkpoint(store: Store) -> None:
    """A checkpoint is found by its id, whichever session made it; one from elsewhere is kept, unless another has its id."""
    made = _with_fact(store, "one").create_checkpoint("of one")
    two = opened(store, "two")
    assert two.restore_from_checkpoint(made["id"]).forked == ""
    assert contents(two.session) == ["a"]
    assert two.resumed
    elsewhere = MemoryStore()
    three = opened(elsewhere, "three")
    three.restore_from_checkpoint(made)
    assert opened(elsewhere, "three").get_checkpoint(made["id"]) == made
    with pytest.raises(InvalidError, match="another checkpoint"):
        three.restore_from_checkpoint({**made, "label": "forged"})
    with pytest.raises(NotFoundError, match="no checkpoint nothing"):
        three.restore_from_checkpoint("nothing")
    broken = {**made, "id": "b", "nodes": [node("n1", parentId="nowhere")]}
    with pytest.raises(InvalidError, match="references missing parent"):
        three.restore_from_checkpoint(broken)
    assert three.get_checkpoint("b") is None


def _with_fact(store: Store, session: str) -> CognitiveStore:
    memory = opened(store, session)
    memory.update_from_response("FACT: a")
    return memory


def test_a_restore_is_no_occasion_for_what_it_brings_back(store: Store) -> None:
    """Nodes that a checkpoint has completed were not completed now: only the branch is new."""
    memory = opened(store, triggers=("phase_change", "tool_complete", "high_confidence", "branch_created"))
    memory.change(with_nodes(node("n1", type="tool-call", status="completed", confidence=1)))
    (first,) = memory.checkpoint_ids()
    memory.change(with_nodes())
    memory.create_checkpoint("empty")
    memory.restore_from_checkpoint(first)
    labels = [_label(memory, name) for name in memory.checkpoint_ids()]
    assert labels == ["Phase: planning; Tool: n1; Confidence: n1", "empty", f"Branch: restore-{first[:8]}"]


def _label(memory: CognitiveStore, name: str) -> str:
    checkpoint = memory.get_checkpoint(name)
    assert checkpoint is not None
    return str(checkpoint["label"])


def test_several_triggers_in_one_change_make_one_checkpoint(store: Store) -> None:
    """It names them all, and also the count of answers where that is due."""
    memory = CognitiveStore(store, "job", options=SessionOptions(clock=Clock(START, step=1)))
    memory.change(with_nodes(node("n1", type="tool-call", status="active", confidence=0.2)))
    memory.change(lambda state, now: transitions.move_node(state, "n1", "completed", now))
    memory.update_from_response("nothing new", every=1)
    labels = [_label(memory, name) for name in memory.checkpoint_ids()]
    assert labels == ["Phase: planning", "Tool: n1", "Auto-checkpoint #1"]


def test_what_was_confident_or_failed_is_known_after_a_restart(store: Store) -> None:
    """High confidence is shown once per node, and a recovery is seen, though another process watches."""
    triggers = ("high_confidence", "error_recovery")
    one = opened(store, triggers=triggers)
    one.change(with_nodes(node("n1", confidence=1), node("n2", status="failed")))
    one.change(with_nodes(node("n1", confidence=0), node("n2", status="active")))
    two = opened(store, triggers=triggers)
    two.change(with_nodes(node("n1", confidence=1), node("n2", status="completed")))
    assert [_label(two, name) for name in two.checkpoint_ids()] == ["Confidence: n1", "Recovered: n2"]


def test_a_subscriber_that_checkpoints_does_not_trigger_itself(store: Store) -> None:
    """It receives each change of others once; its own checkpoint causes no event; its failure breaks nothing."""
    memory = opened(store)
    told: list[tuple[int, int]] = []

    def checkpoints(session: CognitiveSession, before: CognitiveSession) -> None:
        told.append((len(contents(before)), len(contents(session))))
        memory.create_checkpoint(f"after {len(told)}")

    def fails(_session: CognitiveSession, _before: CognitiveSession) -> None:
        raise ValueError("no luck")

    memory.subscribe(fails)
    unsubscribe = memory.subscribe(checkpoints)
    memory.update_from_response("FACT: a")
    memory.update_from_response("FACT: b")
    unsubscribe()
    memory.update_from_response("FACT: c")
    assert told == [(0, 1), (1, 2)]
    assert len(memory.checkpoint_ids()) == 2
    assert [str(error) for error in memory.failed] == ["no luck"] * 3
    assert contents(opened(store).session) == ["a", "b", "c"]


def test_a_state_that_does_not_hold_is_not_kept(store: Store) -> None:
    """The error names path, value and remedy; the session is as it was, here and in the store."""
    memory = _with_fact(store, "job")
    before = memory.session
    with pytest.raises(InvalidError, match=r"/nodes/n1/parentId: Node n1 references missing parent nx"):
        memory.change(with_nodes(node("n1", parentId="nx")))
    with pytest.raises(InvalidError, match=r"/nodes/0/status.*'done'"):
        memory.change(with_nodes(node("n1", status="done")))
    assert memory.session == before
    assert opened(store).session["workingState"] == before["workingState"]


def test_a_failed_write_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store cannot be written, the session is what the store has, and the next write continues from there."""
    memory = opened(store, triggers=("high_confidence",))
    first = _with_fact(store, "other").create_checkpoint("c")

    def fails(*_arguments: Any, **_options: Any) -> None:
        raise OSError("disk full")

    before = (memory.session, memory.resumed, memory.resumed_from, memory.warnings)
    with monkeypatch.context() as broken:
        broken.setattr(store, "append", fails)
        for change in (
            lambda: memory.change(with_nodes(node("n1", confidence=1))),
            lambda: memory.restore_from_checkpoint(first["id"]),
            lambda: memory.create_checkpoint("c"),
            lambda: memory.update_from_response("FACT: x"),
        ):
            with pytest.raises(OSError, match="disk full"):
                change()
    assert (memory.session, memory.resumed, memory.resumed_from, memory.warnings) == before
    memory.change(with_nodes(node("n1", confidence=1)))
    assert [_label(memory, name) for name in memory.checkpoint_ids()] == ["Confidence: n1"]


def test_a_fork_begins_where_it_is_told(store: Store) -> None:
    """A branch of a checkpoint by its id; the next checkpoint continues there."""
    memory = opened(store)
    first = memory.create_checkpoint("first")
    memory.create_checkpoint("second")
    session = memory.fork_branch("try", first["id"])
    assert memory.create_checkpoint("third")["parentCheckpointId"] == first["id"]
    assert session["branches"][session["currentBranchId"]]["name"] == "try"
    opened(store).create_checkpoint("fourth")


def test_a_decision_of_the_record_makes_a_checkpoint(store: Store) -> None:
    """When it leaves `tentative`, and that trigger is chosen."""
    record = sample()
    tentative = {**record, "decisions": [{**record["decisions"][0], "status": "tentative"}]}
    made = opened(store, triggers=("decision_made",)).record_changed(tentative, record)
    assert made is not None
    assert made["label"] == "Decision: use SQLite"
    assert opened(store).record_changed(tentative, record) is None


def test_what_rests_on_a_deleted_checkpoint_stays(store: Store) -> None:
    """A checkpoint goes permanently; those kept as differences against it are as they were; what a branch ends with stays."""
    memory, made = opened(store), []
    memory.change(with_nodes(*(node(f"n{n}") for n in range(50))))
    for number in range(6):
        memory.update_from_response(f"FACT: {number}")
        made.append(memory.create_checkpoint(f"c{number}"))
    blobs = [place.blob for one in made if (place := SessionRepository(store)._find(one["id"]))]
    for gone in (2, 0, 3):
        memory.delete_checkpoint(made[gone]["id"])
        assert memory.get_checkpoint(made[gone]["id"]) is None
        assert store.get_blob(blobs[gone]) is None
    for left in (1, 4, 5):
        assert memory.get_checkpoint(made[left]["id"]) == made[left]
    with pytest.raises(RefusedError, match="last one of a branch of session job"):
        memory.delete_checkpoint(made[5]["id"])
    with pytest.raises(NotFoundError):
        memory.delete_checkpoint(made[0]["id"])
    again = opened(store)
    assert contents(again.session) == [str(number) for number in range(6)]
    again.restore_from_checkpoint(made[1]["id"])
    assert contents(again.session) == ["0", "1"]
    with pytest.raises(RefusedError):
        again.delete_checkpoint(made[1]["id"])


@pytest.mark.parametrize("what", ["page", "blob", "gone", "place", "base"])
def test_what_was_changed_in_the_store_is_found(what: str, tmp_path: Path) -> None:
    """A changed page, a changed or missing blob, a ref that leads elsewhere: an IntegrityError that says what to do."""
    import sqlite3  # to do what the store would not

    path = tmp_path / "s.db"
    store = SqliteStore(path)
    memory = opened(store)
    memory.change(with_nodes(*(node(f"n{n}") for n in range(30))))
    first = memory.create_checkpoint("first")
    memory.update_from_response("FACT: a")
    second = memory.create_checkpoint("second")
    place = SessionRepository(store)._find(second["id"])
    assert place is not None
    assert place.base == first["id"]
    if what == "gone":
        store.forget(place.blob)
    elif what in ("place", "base"):
        other = SessionRepository(store)._find(first["id"] if what == "place" else second["id"])
        assert other is not None
        value = store.ref(f"snapshot/{first['id'] if what == 'place' else second['id']}")
        name = f"snapshot/{second['id'] if what == 'place' else first['id']}"
        store.swap(name, value, expect=store.ref(name))
    store.close()
    with sqlite3.connect(path) as raw:
        if what == "page":
            raw.execute("update event set data = cast(replace(cast(data as text), 'job', 'jab') as blob)")
        elif what == "blob":
            raw.execute("update blob set data = cast(replace(cast(data as text), '\"a\"', '\"b\"') as blob)")
    raw.close()
    again = SqliteStore(path)
    with pytest.raises(IntegrityError):  # noqa: PT012  # which of the two finds it depends on what was changed
        reopened = opened(again)
        reopened.get_checkpoint(second["id"])
    again.close()


def test_an_unknown_trigger_is_wrong_usage(store: Store) -> None:
    """A misspelled trigger would never fire."""
    with pytest.raises(UsageError, match=r"'phase'.*phase_change"):
        CognitiveStore(store, "job", triggers=("phase",))  # type: ignore[arg-type]


def _do(memory: CognitiveStore, name: str, number: int, made: dict[str, CognitiveCheckpoint]) -> None:
    if name == "say":
        memory.update_from_response(f"FACT: {number}\nINTENT: {number}", every=3)
    elif name == "checkpoint":
        checkpoint = memory.create_checkpoint(f"c{number}")
        made[checkpoint["id"]] = checkpoint
    elif name == "restore" and made:
        memory.restore_from_checkpoint(list(made)[number % len(made)], move_head=number % 2 == 0)
    elif name == "fork":
        memory.fork_branch(f"b{number}")
    elif name == "change":
        memory.change(with_nodes(*(node(f"n{n}") for n in range(number))))


_operations = st.lists(
    st.tuples(st.sampled_from(["say", "checkpoint", "restore", "fork", "change", "reopen"]), st.integers(0, 9)),
    max_size=25,
)


@given(_operations)
def test_whatever_is_done_the_store_has_it(operations: list[tuple[str, int]]) -> None:
    """After any operations, a session that is opened again is the one that was left, and every checkpoint is as it was made."""
    store, clock = MemoryStore(), Clock(START, step=1)
    memory = opened(store, clock=clock)
    made: dict[str, CognitiveCheckpoint] = {}
    for name, number in operations:
        if name == "reopen":
            memory = opened(store, clock=clock)
        else:
            _do(memory, name, number, made)
        again = opened(store, clock=clock)
        if again.resumed:
            for part in ("workingState", "branches", "currentBranchId", "checkpoints"):
                assert same(again.session[part], memory.session[part]), part
    for key, checkpoint in made.items():
        assert same(memory.get_checkpoint(key), checkpoint)
    assert set(made) <= set(memory.checkpoint_ids())
