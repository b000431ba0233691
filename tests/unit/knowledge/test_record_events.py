"""What a store of records tells its subscribers, and what it can prove."""

from __future__ import annotations

import copy
import threading

import pytest
from hypothesis import given

from adjourn.errors import IntegrityError, InvalidError
from adjourn.knowledge.model.documents import Tree, same, tree_of, without
from adjourn.knowledge.model.record import CREvent
from adjourn.knowledge.records.proofs import read_proof
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log.canonical_json import canonical
from adjourn.log.signing import public_key
from adjourn.store.memory import MemoryStore
from support.records import AGENT, ANN, fields, grown
from support.strategies import forks

KEY = bytes(range(32))


# --- events


def test_events_come_after_the_write_in_order_and_once(store: RecordTrees) -> None:
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


def test_what_subscribers_are_told_is_their_own(store: RecordTrees) -> None:
    """Changing the details of an event changes nothing of the record."""
    made = store.create(fields(questionsForUser=[]), author=AGENT)
    store.subscribe(lambda event: event.detail["preconditions"].append("spoilt"))
    approved = store.approve_resume_point(made["id"], "go", ANN)
    after = store.update(made["id"], {"checkpointId": "c1"}, AGENT)
    assert not store.failed_callbacks[1:]
    for record in (approved, after, store.get(made["id"]) or {}):
        assert record["resumePoints"][0]["preconditions"] == ["a backup"]


def test_a_subscriber_that_writes_is_told_in_order(store: RecordTrees) -> None:
    """Its own write is delivered to all after the event that caused it, and does not nest."""
    told: list[tuple[str, str]] = []

    def react(event: CREvent) -> None:
        told.append(("first", event.type))
        if event.type == "created":
            store.update(event.cr_id, {"checkpointId": "c1"}, AGENT)

    store.subscribe(react)
    store.subscribe(lambda event: told.append(("second", event.type)))
    store.create(fields(), author=AGENT)
    assert told == [("first", "created"), ("second", "created"), ("first", "updated"), ("second", "updated")]


def test_threads_on_one_store_lose_no_event(store: RecordTrees) -> None:
    """Versions of several threads are shown in the order in which they were written."""
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


def test_proofs_speak_for_themselves(store: RecordTrees) -> None:
    """A version is in its line, a line only grew, a head is signed; each proof holds as JSON, and not with another hash in it."""
    head = grown(store, store.create(fields(), author=AGENT), 12)
    history = store.get_history(head["id"])
    for version in history:
        proof = store.inclusion_proof(version["contentHash"])
        assert read_proof(tree_of(proof)) == proof
        assert proof.holds()
        assert (proof.sequence, proof.size, proof.merkle_root) == (version["sequence"], 13, head["merkleRoot"])
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


def test_a_fork_proves_its_ancestors(store: RecordTrees) -> None:
    """A version of the line that a fork came from is in the fork's tree."""
    head = grown(store, store.create(fields(), author=AGENT), 3)
    first = store.get_history(head["id"])[0]
    fork = grown(store, store.fork(first["contentHash"], {}, ANN), 2)
    assert store.inclusion_proof(first["contentHash"], cr_id=fork["id"]).holds()
    with pytest.raises(InvalidError, match="is not a version of record"):
        store.inclusion_proof(head["contentHash"], cr_id=fork["id"])
    with pytest.raises(InvalidError):
        store.consistency_proof(head["id"], 99)


def test_versions_are_without_their_seal_in_the_store(store: RecordTrees) -> None:
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
    store = RecordTrees(MemoryStore())
    made = store.create(fields(), author=AGENT)
    for record in (base, one, other, one):
        updates = {name: record[name] for name in ("learnings", "executionSummary", "metadata")}
        updates |= {name: value for name, value in record.items() if name.startswith("x")}
        made = store.update(made["id"], copy.deepcopy(updates), AGENT)
        stored = list(store.versions.entries(made["id"]))[-1]
        assert stored.data == canonical(without(made, "contentHash", "merkleRoot"))
        assert all(same(made[name], value) for name, value in updates.items() if value is not None)
    assert store.verify_chain(made["id"]).valid


def test_one_is_not_true(store: RecordTrees) -> None:
    """What Python takes for equal and JSON does not is a change."""
    made = store.create(fields(later=[1, 0, True]), author=AGENT)
    after = store.update(made["id"], {"later": [True, 0.0, 1]}, AGENT)
    assert after["sequence"] == 1
    assert [type(item) for item in after["later"]] == [bool, int, int]
