"""Records in a store: versions, rules, events, ancestry, merging, proofs."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from adjourn.errors import ConflictError, IntegrityError, InvalidError, NotFoundError, RefusedError
from adjourn.knowledge.model.documents import Tree, same, tree_of, view, without
from adjourn.knowledge.model.record import COLLECTIONS, ContinuationRecord, CRAuthor, CREvent
from adjourn.knowledge.records import CRStore
from adjourn.knowledge.records.proofs import read_proof
from adjourn.knowledge.records.task_record import record_of
from adjourn.knowledge.records.version_log import FOLD_BYTES, FOLD_VERSIONS, VersionStore
from adjourn.log import canonical
from adjourn.log.merkle import root
from adjourn.log.signing import public_key
from adjourn.store import EMPTY, Entry
from adjourn.store.memory import MemoryStore
from support.clock import Clock
from support.strategies import forks

NOW = 1_777_735_812_345
AGENT = CRAuthor(id="agent-1", type="agent", model="some-model")
ANN = CRAuthor(id="ann", type="human", name="Ann €")
BY_AGENT = {"id": "agent-1", "type": "agent"}
KEY = bytes(range(32))


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW, step=1)


@pytest.fixture
def store(clock: Clock) -> CRStore:
    return CRStore(MemoryStore(), clock=clock)


def fields(**more: Any) -> Tree:
    """What a record is made of: a task with a question before its one resume point, and a decision."""
    question = {
        "id": "q1", "type": "question", "question": "Which one?", "context": "", "options": ["this", "that"], "status": "open",
        "blocksResumePoints": ["go"], "priority": "blocking",
    }  # fmt: skip
    point = {
        "id": "go", "label": "Go", "description": "", "when": "asked", "preconditions": ["a backup"], "requiredAuthority": "human",
        "safeToAutoExecute": False, "onTimeout": "escalate", "approvalStatus": "pending", "nextSteps": ["one", "two"],
    }  # fmt: skip
    decision = {
        "id": "d1", "description": "Use this", "status": "accepted", "rationale": "it is here", "madeBy": BY_AGENT, "madeAt": NOW,
        "affects": ["n1"], "overridableBy": ["human"],
    }  # fmt: skip
    task = {"id": "t1", "goal": "Get it done", "status": "in-progress"}
    return {
        "task": task,
        "questionsForUser": [question],
        "resumePoints": [point],
        "decisions": [decision],
        **more,
    }


def tagged(record: Tree, tag: str) -> Tree:
    return {"metadata": {**record["metadata"], "tags": [*record["metadata"]["tags"], tag]}}


def grown(store: CRStore, record: Tree, count: int) -> Tree:
    """The record after more versions."""
    for number in range(count):
        record = store.update(record["id"], tagged(record, f"{record['sequence']}.{number}"), AGENT)
    return record


# --- making and reading


def test_what_is_not_given_is_empty_and_the_store_adds_the_rest(store: CRStore) -> None:
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


def test_the_author_of_a_record_can_stand_in_it(store: CRStore) -> None:
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
        (fields(learnings=None), "learnings"),
        ({**fields(), "metadata": {"tags": ["\ud800"], "priority": "low"}}, "canonical"),
    ],
)
def test_what_is_no_record_is_refused_and_not_written(store: CRStore, wrong: Tree, message: str) -> None:
    """A record of the wrong shape is an `InvalidError` that says where, and leaves nothing behind."""
    with pytest.raises(InvalidError, match=message):
        store.create(wrong, author=AGENT)
    assert store.ids() == []


def test_a_new_record_cannot_bring_its_own_approvals(store: CRStore) -> None:
    """What only a person may say cannot be said by creating a record in which it was said."""
    given = fields()
    given["resumePoints"][0] |= {"approvalStatus": "approved", "approvedBy": tree_of(ANN), "approvedAt": NOW}
    with pytest.raises(RefusedError, match="resume point go"):
        store.create(given, author=AGENT)


def test_unknown_members_are_kept(store: CRStore) -> None:
    """What a newer writer has added comes back as it was, and counts for the hash."""
    made = store.create(fields(later={"x": [1, None]}), author=AGENT)
    after = grown(store, made, 2)
    assert after["later"] == {"x": [1, None]}


def test_the_record_of_a_task(store: CRStore) -> None:
    """The one under the task's id; else, of its forks, the one that was written last."""
    assert store.of_task("t1") is None
    made = store.create(fields(), author=AGENT)
    fork = store.fork(made["contentHash"], {}, AGENT)
    assert store.of_task("t1") == fork
    own = store.create(fields(), author=AGENT, cr_id="t1")
    store.update(made["id"], tagged(made, "x"), AGENT)
    assert store.of_task("t1") == own
    assert store.of_task("t2") is None


def test_the_record_of_a_task_is_the_one_written_last_of_many(store: CRStore, clock: Clock) -> None:
    """Among records of a task with other ids, the latest `lastModifiedAt` wins; the highest id decides a tie."""
    made = [store.create(fields(), author=AGENT, cr_id=f"r{number}") for number in (3, 1, 2)]
    assert store.of_task("t1") == made[-1]
    older = store.update("r1", tagged(made[1], "x"), AGENT)
    assert store.of_task("t1") == older
    clock.now -= 1  # the clock of the next write shows the same millisecond
    newest = store.update("r3", tagged(made[0], "x"), AGENT)
    assert newest["lastModifiedAt"] == older["lastModifiedAt"]
    assert store.of_task("t1") == newest
    clock.now -= 1
    store.update("r2", tagged(made[2], "x"), AGENT)
    assert store.of_task("t1") == newest


def test_the_record_of_a_task_is_found_beside_unreadable_ones(store: CRStore) -> None:
    """An unreadable record hides no other one, unless it has the task's own id."""
    made = store.create(fields(), author=AGENT, cr_id="mine")
    store.store.append("record/zzz", [Entry("0" * 64, b"{}")], expect=EMPTY)
    assert store.of_task("t1") == made
    store.store.append("record/t1", [Entry("0" * 64, b"{}")], expect=EMPTY)
    with pytest.raises(IntegrityError):
        store.of_task("t1")
    assert record_of(store.store, "t1") is None


def test_the_record_of_a_task_may_bear_the_id_of_another(store: CRStore) -> None:
    """A record counts for the task that it names, also where its id is the id of another task."""
    other = store.create(fields(), author=AGENT, cr_id="t2")
    assert store.of_task("t2") is None
    assert store.of_task("t1") == other


def test_there_is_one_record_of_an_id(store: CRStore) -> None:
    """Creating a record under an id that is taken is a conflict."""
    store.create(fields(), author=AGENT, cr_id="mine")
    with pytest.raises(ConflictError, match="record mine already exists"):
        store.create(fields(), author=AGENT, cr_id="mine")


def test_unknown_names(store: CRStore) -> None:
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


def test_an_update_adds_a_version_and_leaves_the_older_ones(store: CRStore) -> None:
    """Each version names the one before, and what was stored of the older ones stays the same bytes."""
    first = store.create(fields(), author=AGENT)
    before = list(store.versions.entries(first["id"]))
    second = store.update(first["id"], tagged(first, "x"), ANN)
    assert second["parentCRHash"] == first["contentHash"]
    assert second["sequence"] == 1
    assert (second["createdBy"], second["lastModifiedBy"]) == (tree_of(AGENT), tree_of(ANN))
    assert list(store.versions.entries(first["id"], 0, 1)) == before
    assert store.get_history(first["id"]) == [first, second]


def test_an_update_that_changes_nothing_adds_nothing(store: CRStore) -> None:
    """The head is returned, and stays the head."""
    made = store.create(fields(), author=AGENT)
    same = store.update(made["id"], {"metadata": made["metadata"], "decisions": made["decisions"]}, ANN)
    assert same == made
    assert len(store.get_history(made["id"])) == 1


@pytest.mark.parametrize(
    "name", ["id", "contentHash", "parentCRHash", "merkleRoot", "sequence", "createdBy", "createdAt"]
)
def test_an_update_cannot_touch_what_the_store_keeps(store: CRStore, name: str) -> None:
    """Identity, hashes and authorship are refused by name."""
    made = store.create(fields(), author=AGENT)
    with pytest.raises(RefusedError, match=name):
        store.update(made["id"], {name: "ab" * 32}, AGENT)
    assert store.get(made["id"]) == made


def test_what_is_handed_out_is_the_callers_own(store: CRStore) -> None:
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


def test_compare_and_swap(store: CRStore) -> None:
    """With `expected_head` only the newest version can be changed, and the loser is told how to go on."""
    made = store.create(fields(), author=AGENT)
    newer = store.update(made["id"], tagged(made, "x"), AGENT, expected_head=made["contentHash"])
    with pytest.raises(ConflictError, match="fork") as caught:
        store.update(made["id"], tagged(made, "y"), ANN, expected_head=made["contentHash"])
    assert "merge" in caught.value.remedy
    assert newer["contentHash"] in caught.value.message
    assert store.get(made["id"]) == newer


def test_the_loser_of_a_race_can_fork_and_merge(store: CRStore) -> None:
    """The remedy of the conflict works: nothing of either writer is lost."""
    made = store.create(fields(), author=AGENT)
    store.update(made["id"], tagged(made, "x"), AGENT)
    mine = store.fork(made["contentHash"], tagged(made, "y"), ANN)
    result = store.merge(made["id"], mine["id"], "manual", author=ANN)
    assert result.success
    merged = store.resolve(made["id"])
    assert result.merged == merged
    assert set(merged["metadata"]["tags"]) == {"x", "y"}
    assert merged["mergeParentHashes"] == [mine["contentHash"]]
    assert result.base_hash == made["contentHash"]


def test_a_writer_whose_read_is_old_by_now_does_not_overwrite(store: CRStore) -> None:
    """Between reading the head and writing, another store object writes: an update is refused, an intervention is made again."""
    made = store.create(fields(), author=AGENT)
    other = CRStore(store.store)
    lines = store.versions

    class Late(VersionStore):
        """Lets somebody else write after the head was read."""

        raced = False

        def append(self, *args: Any, **named: Any) -> Any:
            if not self.raced:
                self.raced = True
                head = other.resolve(made["id"])
                other.update(made["id"], tagged(head, f"other {head['sequence']}"), AGENT)
            return super().append(*args, **named)

    store.versions = Late(lines.store)
    with pytest.raises(ConflictError, match="changed since you read it"):
        store.update(made["id"], tagged(made, "mine"), ANN)
    store.versions = Late(lines.store)
    answered = store.answer_question(made["id"], "q1", "this", ANN)
    assert answered["sequence"] == 3
    assert answered["metadata"]["tags"] == ["other 0", "other 1"]


def test_what_another_store_object_wrote_is_seen_before_anything_is_decided(store: CRStore) -> None:
    """A head that is kept in memory and is not the newest any more decides nothing: not a refusal, not what is new."""
    made = store.create(fields(), author=AGENT)
    other = CRStore(store.store)
    answered = other.answer_question(made["id"], "q1", "this", ANN)
    approved = store.approve_resume_point(
        made["id"], "go", ANN
    )  # refused, as far as the head in memory knows
    assert approved["parentCRHash"] == answered["contentHash"]
    tags = other.update(made["id"], tagged(approved, "x"), AGENT)["metadata"]
    again = store.update(made["id"], {"metadata": tags}, AGENT)  # new, as far as the head in memory knows
    assert (again["sequence"], again["metadata"]) == (3, tags)
    with pytest.raises(ConflictError, match="changed since you read it"):
        store.update(made["id"], tagged(again, "y"), AGENT, expected_head=approved["contentHash"])
    assert (
        other.update(made["id"], tagged(again, "z"), AGENT, expected_head=again["contentHash"])["sequence"]
        == 4
    )
    assert store.verify_chain(made["id"]).valid


# --- folds and the index


def test_any_version_is_found_by_its_hash_at_any_age(store: CRStore) -> None:
    """With folds between and after, in this store object and in one that knows nothing yet."""
    made = store.create(fields(), author=AGENT)
    grown(store, made, 2 * FOLD_VERSIONS + 5)
    history = store.get_history(made["id"])
    for version in history[::7] + history[-6:]:
        assert store.get_by_hash(version["contentHash"]) == version
        assert CRStore(store.store).get_by_hash(version["contentHash"]) == version
    leaves = [bytes.fromhex(version["contentHash"]) for version in history]
    assert [version["merkleRoot"] for version in history] == [
        root(leaves[: n + 1]).hex() for n in range(len(leaves))
    ]


def test_a_fold_is_due_by_bytes_too(store: CRStore) -> None:
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
def test_a_lost_or_broken_fold_loses_nothing(store: CRStore, broken: str | None) -> None:
    """Folds are a cache: without one, or with one that cannot be, a record reads the same."""
    head = grown(store, store.create(fields(), author=AGENT), FOLD_VERSIONS + 3)
    name = f"record/{head['id']}"
    store.store.swap(name, broken, expect=store.store.ref(name))
    again = CRStore(store.store)
    assert again.get(head["id"]) == head
    assert grown(again, head, 2)["merkleRoot"] == again.get_history(head["id"])[-1]["merkleRoot"]


def test_changed_bytes_are_not_read(store: CRStore) -> None:
    """A version whose bytes are not those that were hashed is an `IntegrityError`, not a record."""
    made = store.create(fields(), author=AGENT)
    backend = store.store
    assert isinstance(backend, MemoryStore)
    entry = backend._streams[f"record/{made['id']}"][0]
    backend._streams[f"record/{made['id']}"][0] = entry._replace(
        data=entry.data.replace(b"Use this", b"Use that")
    )
    again = CRStore(backend)
    for read in (again.get, again.get_history, again.resolve):
        with pytest.raises(IntegrityError, match="fails verification"):
            read(made["id"])
    with pytest.raises(IntegrityError):
        again.get_by_hash(made["contentHash"])


# --- forks, ancestors, merging


def test_a_fork_goes_on_from_any_version(store: CRStore) -> None:
    """It has a new id, the next sequence, the content of its parent, and a root over the whole first-parent line."""
    head = grown(store, store.create(fields(), author=AGENT), 5)
    parent = store.get_history(head["id"])[2]
    fork = store.fork(parent["contentHash"], {"checkpointId": "c9"}, ANN, cr_id="fork")
    assert (fork["id"], fork["sequence"], fork["parentCRHash"]) == ("fork", 3, parent["contentHash"])
    assert fork["metadata"] == parent["metadata"]
    line = [*store.get_history(head["id"])[:3], fork]
    assert fork["merkleRoot"] == root([bytes.fromhex(one["contentHash"]) for one in line]).hex()
    assert grown(store, fork, 2)["merkleRoot"] == store.get_history("fork")[-1]["merkleRoot"]
    assert store.verify_chain("fork").checked == 6
    assert store.get_history("fork")[0] == fork


def test_ancestors_are_told_nearest_first_and_once(store: CRStore) -> None:
    """Over forks and merges, without the version itself."""
    first = store.create(fields(), author=AGENT)
    fork = store.fork(first["contentHash"], {"checkpointId": "c1"}, ANN)
    second = store.update(first["id"], tagged(first, "x"), AGENT)
    store.merge(first["id"], fork["id"], "manual")
    merged = store.resolve(first["id"])
    assert store.get_ancestors(merged["contentHash"]) == [second, fork, first]
    assert store.get_ancestors(first["contentHash"]) == []


def test_merging_what_is_there_already_adds_nothing(store: CRStore) -> None:
    """A record with itself, with its own past, and with what was merged before."""
    first = store.create(fields(), author=AGENT)
    fork = store.fork(first["contentHash"], {"checkpointId": "c1"}, ANN)
    for other in (first["id"], first["contentHash"]):
        assert store.merge(first["id"], other, "manual").fast_forward
    assert store.resolve(first["id"]) == first
    merged = store.merge(first["id"], fork["id"], "manual").merged
    assert store.merge(first["id"], fork["id"], "prefer-b").merged == merged == store.resolve(first["id"])
    assert store.merge(fork["id"], first["id"], "manual").fast_forward
    assert store.diff(fork["id"], first["id"]).identical


def test_a_conflict_is_kept_until_it_is_resolved(store: CRStore) -> None:
    """A merge by hand with a clash is written, is no success, and can be resolved later by a side or a value."""
    first = store.create(fields(), author=AGENT)
    fork = store.fork(first["contentHash"], {"task": {**first["task"], "goal": "theirs"}}, ANN)
    store.update(first["id"], {"task": {**first["task"], "goal": "ours"}}, AGENT)
    result = store.merge(first["id"], fork["id"], "manual", author=ANN)
    assert not result.success
    assert [one.path for one in result.conflicts] == ["/task/goal"]
    kept = store.resolve(first["id"])
    assert (kept["task"]["goal"], kept["conflicts"][0]["b"]) == ("Get it done", "theirs")
    settled = store.resolve_conflict(first["id"], "/task/goal", ANN, value="both of ours")
    assert settled["task"]["goal"] == "both of ours"
    assert "conflicts" not in settled


def test_records_of_two_tasks_are_not_merged(store: CRStore) -> None:
    """What was used up is counted by task, so a merge cannot make a record one of another task."""
    one = store.create(fields(), author=AGENT)
    two = store.create({"task": {"id": "t2", "goal": "another"}}, author=AGENT)
    with pytest.raises(RefusedError, match="different tasks"):
        store.merge(one["id"], two["id"], "prefer-b")
    assert store.resolve(one["id"]) == one


def test_diff_of_ids_and_hashes(store: CRStore) -> None:
    """Either may be named by id or hash; two lines are told their common ancestor."""
    first = store.create(fields(), author=AGENT)
    second = store.update(first["id"], tagged(first, "x"), AGENT)
    found = store.diff(first["contentHash"], first["id"])
    assert [change.path for change in found.changes] == ["/metadata/tags"]
    assert (found.hash_a, found.hash_b) == (first["contentHash"], second["contentHash"])
    fork = store.fork(first["contentHash"], {}, ANN)
    assert store.diff(first["id"], fork["id"]).base_hash == first["contentHash"]
    assert store.diff(fork["id"], first["contentHash"]).identical


# --- deciding


def test_answer_approve_use(store: CRStore) -> None:
    """A question keeps a gate shut; answered, a person opens it; its steps start once."""
    made = store.create(fields(), author=AGENT)
    assert made["task"]["status"] == "blocked"
    with pytest.raises(RefusedError, match="question q1 is unanswered"):
        store.approve_resume_point(made["id"], "go", ANN)
    with pytest.raises(InvalidError, match="not an option"):
        store.answer_question(made["id"], "q1", "neither", ANN)
    assert (
        store.answer_question(made["id"], "q1", "this", ANN, learn=True)["learnings"][0]["source"]
        == "feedback"
    )
    with pytest.raises(RefusedError, match="authority of a person"):
        store.approve_resume_point(made["id"], "go", AGENT)
    assert store.usable_resume_points(made["id"]) == []
    store.approve_resume_point(made["id"], "go", ANN)
    assert [point["id"] for point in store.usable_resume_points(made["id"])] == ["go"]
    used = store.consume_resume_point(made["id"], "go", AGENT)
    assert used["resumePoints"][0]["consumedAt"] > NOW
    with pytest.raises(RefusedError, match="was used already"):
        store.consume_resume_point(made["id"], "go", AGENT)
    assert store.usable_resume_points(made["id"]) == []


def test_an_older_version_revives_no_used_approval(store: CRStore) -> None:
    """A fork of the version before the use has the approval in it, and cannot use it."""
    made = store.create(fields(), author=AGENT)
    store.answer_question(made["id"], "q1", "this", ANN)
    approved = store.approve_resume_point(made["id"], "go", ANN)
    store.consume_resume_point(made["id"], "go", AGENT)
    fork = store.fork(approved["contentHash"], {}, AGENT)
    assert "consumedAt" not in fork["resumePoints"][0]
    assert store.usable_resume_points(fork["id"]) == []
    with pytest.raises(RefusedError, match="was used already"):
        store.consume_resume_point(fork["id"], "go", AGENT)


def test_an_approval_is_used_by_one_of_many(store: CRStore) -> None:
    """Forks that race for one approval: exactly one gets it."""
    made = store.create(fields(), author=AGENT)
    store.answer_question(made["id"], "q1", "this", ANN)
    approved = store.approve_resume_point(made["id"], "go", ANN)
    forks = [store.fork(approved["contentHash"], {}, AGENT)["id"] for _ in range(8)]
    used: list[str] = []

    def use(name: str) -> None:
        try:
            CRStore(store.store).consume_resume_point(name, "go", AGENT)
            used.append(name)
        except RefusedError:
            pass

    threads = [threading.Thread(target=use, args=(name,)) for name in forks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(used) == 1


def test_deny_override_contest_settle(store: CRStore) -> None:
    """The rest of the interventions, each a version by its author."""
    made = store.create(fields(), author=AGENT)
    name = made["id"]
    denied = store.deny_resume_point(name, "go", "not today", ANN)
    assert denied["resumePoints"][0]["deniedReason"] == "not today"
    with pytest.raises(RefusedError, match="d1 can be changed by human"):
        store.override_decision(name, "d1", "Use that", AGENT)
    contested = store.contest_decision(name, "d1", "Use that", "it is better", AGENT)
    assert contested["decisions"][0]["status"] == "contested"
    assert [side["decision"] for side in contested["decisions"][0]["variants"]] == ["Use this", "Use that"]
    settled = store.settle_decision(name, "d1", "accepted", ANN, variant=1)
    assert settled["decisions"][0]["description"] == "Use that"
    overridden = store.override_decision(name, "d1", "Use none", ANN, rationale="enough")
    assert len(overridden["decisions"][0]["variants"]) >= 2
    assert overridden["lastModifiedBy"] == tree_of(ANN)
    assert store.skip_question(name, "q1", "no matter", ANN)["questionsForUser"][0]["status"] == "skipped"
    assert store.verify_chain(name).valid


def test_blockers_and_invariants(store: CRStore) -> None:
    """An obstacle is resolved, an invariant is looked at, each as a version of its own."""
    blocker = {"id": "b1", "type": "dependency", "description": "no network", "status": "active", "severity": "high", "createdBy": BY_AGENT, "createdAt": NOW, "blocksResumePoints": ["go"]}  # fmt: skip
    invariant = {"id": "i1", "description": "tests pass", "scope": [], "severity": "hard", "status": "unknown", "establishedBy": BY_AGENT, "establishedAt": NOW}  # fmt: skip
    made = store.create(fields(blockers=[blocker], invariants=[invariant]), author=AGENT)
    assert store.resolve_blocker(made["id"], "b1", "it is back", AGENT)["blockers"][0]["status"] == "resolved"
    seen = store.check_invariant(made["id"], "i1", "violated", AGENT, evidence="two fail")
    assert (seen["invariants"][0]["status"], seen["invariants"][0]["evidence"]) == ("violated", "two fail")


def test_what_is_due_takes_effect_before_a_decision(store: CRStore, clock: Clock) -> None:
    """A time-out that nobody has looked at is written first, as the system's; then a person decides."""
    given = fields()
    given["questionsForUser"] = []
    given["resumePoints"][0] |= {"createdAt": NOW, "timeoutMs": 1000, "requiredAuthority": "any"}
    made = store.create(given, author=AGENT)
    assert store.tick(made["id"]) is None
    clock.now += 2000
    with pytest.raises(RefusedError, match="unanswered"):
        store.approve_resume_point(made["id"], "go", AGENT)
    raised = store.resolve(made["id"])
    assert (raised["sequence"], raised["lastModifiedBy"]["type"]) == (1, "system")
    assert store.tick(made["id"]) is None
    approved = store.approve_resume_point(made["id"], "go", ANN)
    assert approved["questionsForUser"][0]["status"] == "answered"


# --- events


def test_events_come_after_the_write_in_order_and_once(store: CRStore) -> None:
    """A subscriber sees each version when it can be read, until it unsubscribes; one that raises disturbs nobody."""
    told: list[CREvent] = []

    def note(event: CREvent) -> None:
        head = store.get(event.cr_id)
        assert head is not None
        assert head["contentHash"] == event.content_hash
        told.append(event)

    def break_(event: CREvent) -> None:
        raise ValueError(event.type)

    store.subscribe(break_)
    stop = store.subscribe(note)
    made = store.create(fields(), author=AGENT)
    store.answer_question(made["id"], "q1", "this", ANN)
    store.approve_resume_point(made["id"], "go", ANN)
    store.update(made["id"], {"metadata": made["metadata"]}, ANN)  # changes nothing
    store.override_decision(made["id"], "d1", "Use that", ANN)
    stop()
    stop()
    store.contest_decision(made["id"], "d1", "x", "y", AGENT)
    kinds = [event.type for event in told]
    assert kinds == ["created", "question-answered", "resume-point-approved", "decision-overridden"]
    assert [event.previous_hash for event in told[1:]] == [event.content_hash for event in told[:-1]]
    assert told[2].author == ANN
    assert told[2].detail["preconditions"] == ["a backup"]
    assert told[3].path == "/decisions/d1"
    assert len(store.failed_callbacks) == 5
    assert not isinstance(store.failed_callbacks[0], AssertionError)


def test_what_subscribers_are_told_is_their_own(store: CRStore) -> None:
    """Changing the details of an event changes nothing of the record."""
    made = store.create(fields(questionsForUser=[]), author=AGENT)
    store.subscribe(lambda event: event.detail["preconditions"].append("spoilt"))
    approved = store.approve_resume_point(made["id"], "go", ANN)
    after = store.update(made["id"], {"checkpointId": "c1"}, AGENT)
    assert not store.failed_callbacks[1:]
    for record in (approved, after, store.get(made["id"]) or {}):
        assert record["resumePoints"][0]["preconditions"] == ["a backup"]


def test_a_subscriber_that_writes_is_told_in_order(store: CRStore) -> None:
    """Its own write is told after the event it is being told of, to all, and does not nest."""
    told: list[tuple[str, str]] = []

    def react(event: CREvent) -> None:
        told.append(("first", event.type))
        if event.type == "created":
            store.update(event.cr_id, {"checkpointId": "c1"}, AGENT)

    store.subscribe(react)
    store.subscribe(lambda event: told.append(("second", event.type)))
    store.create(fields(), author=AGENT)
    assert told == [("first", "created"), ("second", "created"), ("first", "updated"), ("second", "updated")]


def test_threads_on_one_store_lose_no_event(store: CRStore) -> None:
    """Versions of several threads are told in the order in which they were written."""
    made = store.create(fields(), author=AGENT)
    told: list[str] = []
    store.subscribe(lambda event: told.append(event.content_hash))

    def work(name: str) -> None:
        for number in range(20):
            store.contest_decision(made["id"], "d1", f"{name} {number}", "because", AGENT)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [version["contentHash"] for version in store.get_history(made["id"])[1:]]
    assert len(told) == 80


# --- proofs


def test_proofs_speak_for_themselves(store: CRStore) -> None:
    """A version is in its line, a line only grew, a head is signed; each proof holds as JSON, and not with another hash in it."""
    head = grown(store, store.create(fields(), author=AGENT), 12)
    history = store.get_history(head["id"])
    for version in history:
        proof = store.inclusion_proof(version["contentHash"])
        assert read_proof(tree_of(proof)) == proof
        assert proof.holds()
        assert (proof.sequence, proof.size, proof.merkle_root) == (
            version["sequence"],
            13,
            head["merkleRoot"],
        )
        wrong = read_proof(tree_of(proof) | {"contentHash": "ab" * 32})
        assert not wrong.holds()  # type: ignore[union-attr]  # it is an inclusion proof
        grew = store.consistency_proof(head["id"], version["sequence"] + 1)
        assert read_proof(tree_of(grew)) == grew
        assert grew.holds()
        assert grew.old_root == version["merkleRoot"]
        assert not read_proof(tree_of(grew) | {"oldRoot": "ab" * 32}).holds()  # type: ignore[union-attr]
    signed = store.signed_head(head["id"], KEY)
    signed.check(public_key(KEY))
    with pytest.raises(IntegrityError, match="did not sign it"):
        read_proof(tree_of(signed) | {"sequence": 11}).check(public_key(KEY))  # type: ignore[union-attr]
    with pytest.raises(IntegrityError):
        signed.check(public_key(bytes(32)))


def test_a_fork_proves_its_ancestors(store: CRStore) -> None:
    """A version of the line that a fork came from is in the fork's tree."""
    head = grown(store, store.create(fields(), author=AGENT), 3)
    first = store.get_history(head["id"])[0]
    fork = grown(store, store.fork(first["contentHash"], {}, ANN), 2)
    assert store.inclusion_proof(first["contentHash"], cr_id=fork["id"]).holds()
    with pytest.raises(InvalidError, match="is not a version of record"):
        store.inclusion_proof(head["contentHash"], cr_id=fork["id"])
    with pytest.raises(InvalidError):
        store.consistency_proof(head["id"], 99)


def test_versions_are_without_their_seal_in_the_store(store: CRStore) -> None:
    """What is stored is the canonical content that was hashed, and nothing else."""
    made = store.create(fields(), author=AGENT)
    (stored,) = store.versions.entries(made["id"])
    assert stored.hash == made["contentHash"]
    assert set(store.resolve(made["id"])) - set(without(made, "contentHash", "merkleRoot")) == {
        "contentHash",
        "merkleRoot",
    }
    assert b"merkleRoot" not in stored.data


@given(forks)
def test_what_is_shared_with_the_head_is_written_as_it_would_be_anew(fork: tuple[Tree, Tree, Tree]) -> None:
    """Whatever an update brings, in the caller's own copies, the stored bytes are the canonical JSON of what the version says."""
    base, one, other = fork
    store = CRStore(MemoryStore())
    made = store.create(fields(), author=AGENT)
    for record in (base, one, other, one):
        updates = {name: record[name] for name in ("learnings", "executionSummary", "metadata")}
        updates |= {name: value for name, value in record.items() if name.startswith("x")}
        made = store.update(made["id"], copy.deepcopy(updates), AGENT)
        stored = list(store.versions.entries(made["id"]))[-1]
        assert stored.data == canonical(without(made, "contentHash", "merkleRoot"))
        assert all(same(made[name], value) for name, value in updates.items() if value is not None)
    assert store.verify_chain(made["id"]).valid


def test_one_is_not_true(store: CRStore) -> None:
    """What Python takes for equal and JSON does not is a change."""
    made = store.create(fields(later=[1, 0, True]), author=AGENT)
    after = store.update(made["id"], {"later": [True, 0.0, 1]}, AGENT)
    assert after["sequence"] == 1
    assert [type(item) for item in after["later"]] == [bool, int, int]
