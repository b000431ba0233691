"""Forks, merges and decisions of records in a store."""

from __future__ import annotations

import threading

import pytest

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.model.documents import tree_of, view
from adjourn.knowledge.model.record import ContinuationRecord
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.merkle import root
from support.clock import Clock
from support.records import AGENT, ANN, BY_AGENT, NOW, fields, grown, tagged


def test_a_fork_goes_on_from_any_version(store: RecordTrees) -> None:
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


def test_ancestors_are_told_nearest_first_and_once(store: RecordTrees) -> None:
    """Over forks and merges, without the version itself."""
    first = store.create(fields(), author=AGENT)
    fork = store.fork(first["contentHash"], {"checkpointId": "c1"}, ANN)
    second = store.update(first["id"], tagged(first, "x"), AGENT)
    store.merge(first["id"], fork["id"], "manual")
    merged = store.resolve(first["id"])
    assert store.get_ancestors(merged["contentHash"]) == [second, fork, first]
    assert store.get_ancestors(first["contentHash"]) == []


def test_merging_what_is_there_already_adds_nothing(store: RecordTrees) -> None:
    """A record with itself, with its own past, and with what was merged before."""
    first = store.create(fields(), author=AGENT)
    fork = store.fork(first["contentHash"], {"checkpointId": "c1"}, ANN)
    for other in (first["id"], first["contentHash"]):
        assert store.merge(first["id"], other, "manual").fast_forward
    assert store.resolve(first["id"]) == first
    merged = store.merge(first["id"], fork["id"], "manual").merged
    assert (
        store.merge(first["id"], fork["id"], "prefer-b").merged
        == merged
        == view(store.resolve(first["id"]), ContinuationRecord)
    )
    assert store.merge(fork["id"], first["id"], "manual").fast_forward
    assert store.diff(fork["id"], first["id"]).identical


def test_a_conflict_is_kept_until_it_is_resolved(store: RecordTrees) -> None:
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


def test_records_of_two_tasks_are_not_merged(store: RecordTrees) -> None:
    """What was used up is counted by task, so a merge cannot make a record one of another task."""
    one = store.create(fields(), author=AGENT)
    two = store.create({"task": {"id": "t2", "goal": "another"}}, author=AGENT)
    with pytest.raises(RefusedError, match="different tasks"):
        store.merge(one["id"], two["id"], "prefer-b")
    assert store.resolve(one["id"]) == one


def test_diff_of_ids_and_hashes(store: RecordTrees) -> None:
    """Either may be named by id or hash; for two lines the common ancestor is returned."""
    first = store.create(fields(), author=AGENT)
    second = store.update(first["id"], tagged(first, "x"), AGENT)
    found = store.diff(first["contentHash"], first["id"])
    assert [change.path for change in found.changes] == ["/metadata/tags"]
    assert (found.hash_a, found.hash_b) == (first["contentHash"], second["contentHash"])
    fork = store.fork(first["contentHash"], {}, ANN)
    assert store.diff(first["id"], fork["id"]).base_hash == first["contentHash"]
    assert store.diff(fork["id"], first["contentHash"]).identical


# --- deciding


def test_answer_approve_use(store: RecordTrees) -> None:
    """A question keeps a gate shut; answered, a person opens it; its steps start once."""
    made = store.create(fields(), author=AGENT)
    assert made["task"]["status"] == "blocked"
    with pytest.raises(RefusedError, match="question q1 is unanswered"):
        store.approve_resume_point(made["id"], "go", ANN)
    with pytest.raises(InvalidError, match="not an option"):
        store.answer_question(made["id"], "q1", "neither", ANN)
    assert store.answer_question(made["id"], "q1", "this", ANN, learn=True)["learnings"][0]["source"] == "feedback"
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


def test_an_older_version_revives_no_used_approval(store: RecordTrees) -> None:
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


def test_an_approval_is_used_by_one_of_many(store: RecordTrees) -> None:
    """Forks that race for one approval: exactly one gets it."""
    made = store.create(fields(), author=AGENT)
    store.answer_question(made["id"], "q1", "this", ANN)
    approved = store.approve_resume_point(made["id"], "go", ANN)
    forks = [store.fork(approved["contentHash"], {}, AGENT)["id"] for _ in range(8)]
    used: list[str] = []

    def use(name: str) -> None:
        try:
            RecordTrees(store.store).consume_resume_point(name, "go", AGENT)
            used.append(name)
        except RefusedError:
            pass

    threads = [threading.Thread(target=use, args=(name,)) for name in forks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(used) == 1


def test_deny_override_contest_settle(store: RecordTrees) -> None:
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


def test_of_two_answers_to_a_contested_decision_the_first_counts(store: RecordTrees) -> None:
    """Whoever settles it at the same instant as others succeeds alone; the others are refused, and change nothing."""
    name = store.create(fields(), author=AGENT)["id"]
    store.contest_decision(name, "d1", "Use that", "it is better", AGENT)
    refusals: list[RefusedError] = []

    def settle(text: str) -> None:
        try:
            store.answer_contested(name, "d1", ANN, text=text)
        except RefusedError as error:
            refusals.append(error)

    threads = [threading.Thread(target=settle, args=(f"Use {number}",)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refusals) == 4
    settled = store.resolve(name)
    assert settled["sequence"] == 2
    with pytest.raises(RefusedError, match="d1 is settled: accepted"):
        store.answer_contested(name, "d1", ANN, variant=0)
    assert store.resolve(name) == settled


def test_blockers_and_invariants(store: RecordTrees) -> None:
    """An obstacle is resolved, an invariant is examined, each as a version of its own."""
    blocker = {"id": "b1", "type": "dependency", "description": "no network", "status": "active", "severity": "high", "createdBy": BY_AGENT, "createdAt": NOW, "blocksResumePoints": ["go"]}  # fmt: skip
    invariant = {"id": "i1", "description": "tests pass", "scope": [], "severity": "hard", "status": "unknown", "establishedBy": BY_AGENT, "establishedAt": NOW}  # fmt: skip
    made = store.create(fields(blockers=[blocker], invariants=[invariant]), author=AGENT)
    assert store.resolve_blocker(made["id"], "b1", "it is back", AGENT)["blockers"][0]["status"] == "resolved"
    seen = store.check_invariant(made["id"], "i1", "violated", AGENT, evidence="two fail")
    assert (seen["invariants"][0]["status"], seen["invariants"][0]["evidence"]) == ("violated", "two fail")


def test_what_is_due_takes_effect_before_a_decision(store: RecordTrees, clock: Clock) -> None:
    """A time-out that nobody has examined is written first, as the system's; then a person decides."""
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
