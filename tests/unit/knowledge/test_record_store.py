"""Records in a store: making and reading them, versions, folds and the index."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from adjourn.errors import ConflictError, IntegrityError, InvalidError, NotFoundError, RefusedError
from adjourn.knowledge.model.documents import Tree, tree_of, view
from adjourn.knowledge.model.record import COLLECTIONS, ContinuationRecord
from adjourn.knowledge.records.store import RecordTrees
from adjourn.knowledge.records.task_record import record_of
from adjourn.knowledge.records.version_log import FOLD_BYTES, FOLD_VERSIONS, VersionStore
from adjourn.log.merkle import root
from adjourn.store import EMPTY, Entry
from adjourn.store.memory import MemoryStore
from adjourn.tasks.work_index import ALL, INDEXED
from support.clock import Clock
from support.records import AGENT, ANN, BY_AGENT, NOW, fields, grown, tagged


def test_what_is_not_given_is_empty_and_the_store_adds_the_rest(store: RecordTrees) -> None:
    """A record is made of a task; ids, hashes, times and authors are the store's, and it is a whole record of the published type."""
    made = store.create({"task": {"id": "t1", "goal": "g"}}, author=AGENT)
    view(made, ContinuationRecord)
    assert made["sequence"] == 0
    assert "parentCRHash" not in made
    assert made["createdBy"] == made["lastModifiedBy"] == tree_of(AGENT)
    assert NOW < made["createdAt"] == made["lastModifiedAt"]
    assert made["task"] == {"id": "t1", "goal": "g", "status": "not-started", "successCriteria": []}
    assert all(made[name] == [] for name in COLLECTIONS)
    assert made["merkleRoot"] == root([bytes.fromhex(made["contentHash"])]).hex()
    assert store.get(made["id"]) == store.get_by_hash(made["contentHash"]) == made
    assert store.ids() == [made["id"]]


def test_the_author_of_a_record_can_stand_in_it(store: RecordTrees) -> None:
    """Without `author`, the record's own `createdBy` is its author; hashes and ids in it are not believed."""
    given = fields(createdBy=tree_of(ANN), contentHash="ab" * 32, sequence=7, id="mine")
    made = store.create(given)
    assert made["createdBy"] == tree_of(ANN)
    assert (made["sequence"], made["id"] == "mine") == (0, False)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "/task: Object missing required field"),
        ({"task": {"id": "t1", "goal": 3}}, "/task/goal"),
        ({**fields(), "decisions": [{"id": "d1"}]}, "/decisions"),
        (fields(learnings="x"), "learnings"),
        ({**fields(), "metadata": {"tags": ["\ud800"], "priority": "low"}}, "canonical"),
    ],
)
def test_what_is_no_record_is_refused_and_not_written(store: RecordTrees, wrong: Tree, message: str) -> None:
    """A record of the wrong shape is an `InvalidError` that says where, and leaves nothing behind."""
    with pytest.raises(InvalidError, match=message):
        store.create(wrong, author=AGENT)
    assert store.ids() == []


def test_a_new_record_cannot_bring_its_own_approvals(store: RecordTrees) -> None:
    """What only a person may say cannot be said by creating a record in which it was said."""
    given = fields()
    given["resumePoints"][0] |= {"approvalStatus": "approved", "approvedBy": tree_of(ANN), "approvedAt": NOW}
    with pytest.raises(RefusedError, match="resume point go"):
        store.create(given, author=AGENT)


def test_unknown_members_are_kept(store: RecordTrees) -> None:
    """What a newer writer has added comes back as it was, and counts for the hash."""
    made = store.create(fields(later={"x": [1, None]}), author=AGENT)
    after = grown(store, made, 2)
    assert after["later"] == {"x": [1, None]}


@pytest.fixture(params=["all records are read", "the index is"])
def listing(store: RecordTrees, request: pytest.FixtureRequest) -> RecordTrees:
    """A store without the index of records by task, and one that has it."""
    if request.param == "the index is":
        store.store.swap(INDEXED, ALL, expect=None)
    return store


def test_the_record_of_a_task(listing: RecordTrees) -> None:
    """The one under the task's id; else, of its forks, the one that was written last."""
    assert listing.of_task("t1") is None
    made = listing.create(fields(), author=AGENT)
    fork = listing.fork(made["contentHash"], {}, AGENT)
    assert listing.of_task("t1") == fork
    own = listing.create(fields(), author=AGENT, cr_id="t1")
    listing.update(made["id"], tagged(made, "x"), AGENT)
    assert listing.of_task("t1") == own
    assert listing.of_task("t2") is None


def test_the_record_of_a_task_is_the_one_written_last_of_many(listing: RecordTrees, clock: Clock) -> None:
    """Among records of a task with other ids, the latest `lastModifiedAt` wins; the highest id decides a tie."""
    made = [listing.create(fields(), author=AGENT, cr_id=f"r{number}") for number in (3, 1, 2)]
    assert listing.of_task("t1") == made[-1]
    older = listing.update("r1", tagged(made[1], "x"), AGENT)
    assert listing.of_task("t1") == older
    clock.now -= 1  # the clock of the next write shows the same millisecond
    newest = listing.update("r3", tagged(made[0], "x"), AGENT)
    assert newest["lastModifiedAt"] == older["lastModifiedAt"]
    assert listing.of_task("t1") == newest
    clock.now -= 1
    listing.update("r2", tagged(made[2], "x"), AGENT)
    assert listing.of_task("t1") == newest


def test_the_record_of_a_task_is_found_beside_unreadable_ones(listing: RecordTrees) -> None:
    """An unreadable record hides no other one, unless it has the task's own id."""
    made = listing.create(fields(), author=AGENT, cr_id="mine")
    listing.store.append("record/zzz", [Entry("0" * 64, b"{}")], expect=EMPTY)
    assert listing.of_task("t1") == made
    listing.store.append("record/t1", [Entry("0" * 64, b"{}")], expect=EMPTY)
    with pytest.raises(IntegrityError):
        listing.of_task("t1")
    assert record_of(listing.store, "t1") is None


def test_the_record_of_a_task_may_bear_the_id_of_another(listing: RecordTrees) -> None:
    """A record counts for the task that it names, also where its id is the id of another task."""
    other = listing.create(fields(), author=AGENT, cr_id="t2")
    assert listing.of_task("t2") is None
    assert listing.of_task("t1") == other


def test_records_of_other_tasks_are_not_read(store: RecordTrees) -> None:
    """With the index, who looks for the record of a task reads those that name it, however many others there are."""
    store.store.swap(INDEXED, ALL, expect=None)
    mine = store.create(fields(), author=AGENT, cr_id="mine")
    for number in range(20):
        store.create(fields(task={"id": f"other {number}", "goal": "g"}), author=AGENT)
    reader = RecordTrees(store.store)
    assert (reader.of_task("t1"), reader.of_task("none")) == (mine, None)
    assert list(reader.versions._cache) == ["mine"]


def test_there_is_one_record_of_an_id(store: RecordTrees) -> None:
    """Creating a record under an id that is taken is a conflict."""
    store.create(fields(), author=AGENT, cr_id="mine")
    with pytest.raises(ConflictError, match="record mine already exists"):
        store.create(fields(), author=AGENT, cr_id="mine")


def test_unknown_names(store: RecordTrees) -> None:
    """Looking for what is not there gives None; working on it is a `NotFoundError`, and a `KeyError`."""
    assert store.get("x") is None
    assert store.get_by_hash("ab" * 32) is None
    work: list[Callable[[], object]] = [
        lambda: store.verify_chain("x"),
        lambda: store.update("x", {}, AGENT),
        lambda: store.get_history("x"),
        lambda: store.get_ancestors("ab" * 32),
        lambda: store.fork("ab" * 32, {}, AGENT),
        lambda: store.diff("x", "y"),
        lambda: store.inclusion_proof("ab" * 32),
        lambda: store.tick("x"),
    ]
    for step in work:
        with pytest.raises(KeyError) as caught:
            step()
        assert isinstance(caught.value, NotFoundError)
        assert "no record has" in str(caught.value)


# --- versions


def test_an_update_adds_a_version_and_leaves_the_older_ones(store: RecordTrees) -> None:
    """Each version names the one before, and what was stored of the older ones stays the same bytes."""
    first = store.create(fields(), author=AGENT)
    before = list(store.versions.entries(first["id"]))
    second = store.update(first["id"], tagged(first, "x"), ANN)
    assert second["parentCRHash"] == first["contentHash"]
    assert second["sequence"] == 1
    assert (second["createdBy"], second["lastModifiedBy"]) == (tree_of(AGENT), tree_of(ANN))
    assert list(store.versions.entries(first["id"], 0, 1)) == before
    assert store.get_history(first["id"]) == [first, second]


def test_an_update_that_changes_nothing_adds_nothing(store: RecordTrees) -> None:
    """The head is returned, and stays the head."""
    made = store.create(fields(), author=AGENT)
    same = store.update(made["id"], {"metadata": made["metadata"], "decisions": made["decisions"]}, ANN)
    assert same == made
    assert len(store.get_history(made["id"])) == 1


@pytest.mark.parametrize(
    "name", ["id", "contentHash", "parentCRHash", "merkleRoot", "sequence", "createdBy", "createdAt"]
)
def test_an_update_cannot_touch_what_the_store_keeps(store: RecordTrees, name: str) -> None:
    """Identity, hashes and authorship are refused by name."""
    made = store.create(fields(), author=AGENT)
    with pytest.raises(RefusedError, match=name):
        store.update(made["id"], {name: "ab" * 32}, AGENT)
    assert store.get(made["id"]) == made


def test_what_is_handed_out_is_the_callers_own(store: RecordTrees) -> None:
    """Changing a returned record, or one that was given, changes nothing in the store."""
    given = fields()
    made = store.create(given, author=AGENT)
    kept = copy.deepcopy(made)
    for mine in (given, made, store.get(made["id"]), store.get_history(made["id"])[0]):
        assert mine is not None
        mine["decisions"][0]["description"] = "spoilt"
        mine["metadata"] = {}
    assert store.get(kept["id"]) == kept
    assert store.update(kept["id"], {"checkpointId": "c1"}, AGENT)["decisions"] == kept["decisions"]


def test_compare_and_swap(store: RecordTrees) -> None:
    """With `expected_head` only the newest version can be changed, and the loser learns how to continue."""
    made = store.create(fields(), author=AGENT)
    newer = store.update(made["id"], tagged(made, "x"), AGENT, expected_head=made["contentHash"])
    with pytest.raises(ConflictError, match="fork") as caught:
        store.update(made["id"], tagged(made, "y"), ANN, expected_head=made["contentHash"])
    assert "merge" in caught.value.remedy
    assert newer["contentHash"] in caught.value.message
    assert store.get(made["id"]) == newer


def test_the_loser_of_a_race_can_fork_and_merge(store: RecordTrees) -> None:
    """The remedy of the conflict works: nothing of either writer is lost."""
    made = store.create(fields(), author=AGENT)
    store.update(made["id"], tagged(made, "x"), AGENT)
    mine = store.fork(made["contentHash"], tagged(made, "y"), ANN)
    result = store.merge(made["id"], mine["id"], "manual", author=ANN)
    assert result.success
    merged = store.resolve(made["id"])
    assert result.merged == view(merged, ContinuationRecord)
    assert set(merged["metadata"]["tags"]) == {"x", "y"}
    assert merged["mergeParentHashes"] == [mine["contentHash"]]
    assert result.base_hash == made["contentHash"]


def test_a_writer_whose_read_is_old_by_now_does_not_overwrite(
    store: RecordTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading the head and writing, another store object writes: an update is refused, an intervention is made again."""
    made = store.create(fields(), author=AGENT)
    append = VersionStore.append
    due: list[RecordTrees] = []

    def late(self: VersionStore, *args: Any, **named: Any) -> Any:
        if due:
            other = due.pop()
            head = other.resolve(made["id"])
            other.update(made["id"], tagged(head, f"other {head['sequence']}"), AGENT)
        return append(self, *args, **named)

    monkeypatch.setattr(VersionStore, "append", late)
    due.append(store)
    with pytest.raises(ConflictError, match="changed since you read it"):
        RecordTrees(store.store).update(made["id"], tagged(made, "mine"), ANN)
    due.append(store)
    answered = RecordTrees(store.store).answer_question(made["id"], "q1", "this", ANN)
    assert answered["sequence"] == 3
    assert answered["metadata"]["tags"] == ["other 0", "other 1"]


def test_what_another_store_object_wrote_is_seen_before_anything_is_decided(store: RecordTrees) -> None:
    """A head that is kept in memory and is not the newest any more decides nothing: not a refusal, not what is new."""
    made = store.create(fields(), author=AGENT)
    other = RecordTrees(store.store)
    answered = other.answer_question(made["id"], "q1", "this", ANN)
    approved = store.approve_resume_point(made["id"], "go", ANN)  # refused, as far as the head in memory knows
    assert approved["parentCRHash"] == answered["contentHash"]
    tags = other.update(made["id"], tagged(approved, "x"), AGENT)["metadata"]
    again = store.update(made["id"], {"metadata": tags}, AGENT)  # new, as far as the head in memory knows
    assert (again["sequence"], again["metadata"]) == (3, tags)
    with pytest.raises(ConflictError, match="changed since you read it"):
        store.update(made["id"], tagged(again, "y"), AGENT, expected_head=approved["contentHash"])
    assert other.update(made["id"], tagged(again, "z"), AGENT, expected_head=again["contentHash"])["sequence"] == 4
    assert store.verify_chain(made["id"]).valid


# --- folds and the index


def test_any_version_is_found_by_its_hash_at_any_age(store: RecordTrees) -> None:
    """With folds between and after, in this store object and in one that knows nothing yet."""
    made = store.create(fields(), author=AGENT)
    grown(store, made, 2 * FOLD_VERSIONS + 5)
    history = store.get_history(made["id"])
    for version in history[::7] + history[-6:]:
        assert store.get_by_hash(version["contentHash"]) == version
        assert RecordTrees(store.store).get_by_hash(version["contentHash"]) == version
    leaves = [bytes.fromhex(version["contentHash"]) for version in history]
    assert [version["merkleRoot"] for version in history] == [root(leaves[: n + 1]).hex() for n in range(len(leaves))]


def test_a_fold_is_due_by_bytes_too(store: RecordTrees) -> None:
    """Big versions are not read again and again when a line is opened."""
    made = store.create(fields(), author=AGENT)
    big = [{"id": f"l{n}", "type": "insight", "source": "observation", "content": "x" * 60_000, "learnedBy": BY_AGENT, "learnedAt": NOW, "affects": []} for n in range(FOLD_BYTES // 60_000 + 1)]  # fmt: skip
    store.update(made["id"], {"learnings": big}, AGENT)
    fold = store.versions.fold(made["id"])
    assert fold is not None
    assert fold.position == 1


@pytest.mark.parametrize(
    "broken",
    [
        None,
        "",
        "{}",
        '{"position":3,"hash":"ab","size":4,"nodes":["zz"]}',
        '{"position":99,"hash":"ab","size":0,"nodes":[]}',
    ],
)
def test_a_lost_or_broken_fold_loses_nothing(store: RecordTrees, broken: str | None) -> None:
    """Folds are a cache: without one, or with one that cannot be, a record reads the same."""
    head = grown(store, store.create(fields(), author=AGENT), FOLD_VERSIONS + 3)
    name = f"record/{head['id']}"
    store.store.swap(name, broken, expect=store.store.ref(name))
    again = RecordTrees(store.store)
    assert again.get(head["id"]) == head
    assert grown(again, head, 2)["merkleRoot"] == again.get_history(head["id"])[-1]["merkleRoot"]


def test_changed_bytes_are_not_read(store: RecordTrees) -> None:
    """A version whose bytes are not those that were hashed is an `IntegrityError`, not a record."""
    made = store.create(fields(), author=AGENT)
    backend = store.store
    assert isinstance(backend, MemoryStore)
    entry = backend._streams[f"record/{made['id']}"][0]
    backend._streams[f"record/{made['id']}"][0] = entry._replace(data=entry.data.replace(b"Use this", b"Use that"))
    again = RecordTrees(backend)
    for read in (again.get, again.get_history, again.resolve):
        with pytest.raises(IntegrityError, match="fails verification"):
            read(made["id"])
    with pytest.raises(IntegrityError):
        again.get_by_hash(made["contentHash"])
