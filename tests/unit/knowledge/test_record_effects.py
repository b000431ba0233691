"""Tool effects: the whole table of what is found for a key, and the plan of a way back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import InvalidError, RefusedError
from adjourn.knowledge.model.documents import Tree, tree_of
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.effect_lookup import EffectCall
from adjourn.knowledge.records.effects import DONE, NOT_DONE, EffectClaim
from adjourn.knowledge.records.store import RecordTrees
from adjourn.store.memory import MemoryStore

AGENT = CRAuthor(id="agent-1", type="agent")
ANN = CRAuthor(id="ann", type="human")
PAY = EffectCall("payments", "charge", {"amount": 100}, key="invoice:1")
READ = EffectCall("files", "read", {"path": "a"}, replayable=True)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordTrees:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    return RecordTrees(MemoryStore())


@pytest.fixture
def record(store: RecordTrees) -> Tree:
    return store.create({"task": {"id": "t1", "goal": "g"}}, author=AGENT, cr_id="line")


def claim(store: RecordTrees, call: EffectCall = PAY, name: str = "line", **more: Any) -> EffectClaim:
    return store.effects.claim(name, call, AGENT, **more)


def in_doubt(store: RecordTrees) -> str:
    """The id of the question that stands in the way of the payment."""
    with pytest.raises(RefusedError, match="must not run twice") as caught:
        claim(store)
    (question,) = [one for one in store.resolve("line")["questionsForUser"] if one["status"] == "open"]
    assert question["id"] in caught.value.remedy
    assert (question["type"], question["priority"]) == ("approval", "blocking")
    return str(question["id"])


def test_a_claim_is_written_before_the_tool_runs(store: RecordTrees, record: Tree) -> None:
    """Nothing is known of the key: run it. The record says `claimed` already."""
    first = claim(store)
    assert first.run
    (effect,) = store.resolve("line")["toolEffects"]
    assert effect == tree_of(first.effect)
    assert (effect["status"], effect["idempotencyKey"], effect["inputs"]) == ("claimed", "invoice:1", {"amount": 100})
    assert store.effects.unsettled("line") == [effect]


def test_what_is_completed_is_not_run_again(store: RecordTrees, record: Tree) -> None:
    """The recorded outputs are returned instead, also where it is replayable."""
    for call in (PAY, READ):
        store.effects.complete(claim(store, call), {"ok": 1}, AGENT, took_ms=5)
        again = claim(store, call)
        assert (again.run, again.effect["outputs"], again.effect["durationMs"]) == (False, {"ok": 1}, 5)
    assert store.effects.unsettled("line") == []


def test_a_key_of_another_call_is_refused(store: RecordTrees, record: Tree) -> None:
    """The same key with other inputs, or another tool, is a mistake and not the same effect."""
    claim(store)
    for other in (
        PAY._replace(inputs={"amount": 1}),
        PAY._replace(tool="refunds"),
        PAY._replace(inputs={"amount": 100.5}),
    ):
        with pytest.raises(RefusedError, match="belongs to another call"):
            claim(store, other)


def test_without_a_key_the_call_itself_is_the_key(store: RecordTrees, record: Tree) -> None:
    """The same tool, operation and inputs, in whatever order, are one effect; others are another."""
    one = EffectCall("files", "append", {"path": "a", "text": "x"})
    assert one.idempotency_key == EffectCall("files", "append", {"text": "x", "path": "a"}).idempotency_key
    store.effects.complete(claim(store, one), None, AGENT)
    assert not claim(store, EffectCall("files", "append", {"text": "x", "path": "a"})).run
    assert claim(store, one._replace(inputs={"path": "b", "text": "x"})).run


def test_a_replayable_claim_is_run_again(store: RecordTrees, record: Tree) -> None:
    """Nobody settled it, and it does no harm twice: the same effect, again."""
    first = claim(store, READ)
    again = claim(store, READ)
    assert again.run
    assert again.effect["id"] == first.effect["id"]


@pytest.mark.parametrize(("happened", "run"), [(True, False), (False, True)])
def test_a_probe_decides_what_is_in_doubt(store: RecordTrees, record: Tree, happened: bool, run: bool) -> None:
    """It examines the effect; done is done, and what was not done is run."""
    first = claim(store)
    seen: list[Tree] = []

    def probe(effect: Tree) -> bool:
        seen.append(effect)
        return happened

    second = claim(store, probe=probe)
    assert second.run is run
    assert second.effect["status"] == ("claimed" if run else "completed")
    assert seen == [tree_of(first.effect)]


@pytest.mark.parametrize(("answer", "run"), [(DONE, False), (NOT_DONE, True)])
def test_a_person_decides_what_no_probe_knows(store: RecordTrees, record: Tree, answer: str, run: bool) -> None:
    """One question is asked, however often it is tried; an agent cannot answer it."""
    claim(store)
    question = in_doubt(store)
    with pytest.raises(RefusedError):
        claim(store, probe=lambda _: None)
    with pytest.raises(RefusedError, match="a person's approval"):
        store.answer_question("line", question, answer, AGENT)
    store.answer_question("line", question, answer, ANN)
    assert claim(store).run is run


def test_an_answer_counts_for_one_attempt(store: RecordTrees, record: Tree) -> None:
    """When the attempt after a `not done` is in doubt again, it is asked again."""
    claim(store)
    first = in_doubt(store)
    store.answer_question("line", first, NOT_DONE, ANN)
    assert claim(store).run
    assert in_doubt(store) != first


def test_what_failed(store: RecordTrees, record: Tree) -> None:
    """Replayable: run again. Else a person says whether nothing was done."""
    store.effects.fail(claim(store, READ), "no such file", AGENT)
    again = claim(store, READ)
    assert again.run
    assert "error" not in again.effect
    store.effects.fail(claim(store), "declined", AGENT)
    question = in_doubt(store)
    store.answer_question("line", question, NOT_DONE, ANN)
    assert claim(store).run


def test_a_failure_that_was_done_after_all_is_not_run_again(store: RecordTrees, record: Tree) -> None:
    """A person's `done` stands, whatever the tool has said."""
    store.effects.fail(claim(store), "timed out", AGENT)
    store.answer_question("line", in_doubt(store), DONE, ANN)
    again = claim(store)
    assert (again.run, again.effect["status"]) == (False, "completed")
    assert again.effect["settledBy"] == {"id": "ann", "type": "human"}


def test_what_is_settled_stays_settled(store: RecordTrees, record: Tree) -> None:
    """A completed effect is not made a failed one."""
    first = claim(store)
    store.effects.complete(first, {"ok": 1}, AGENT)
    with pytest.raises(RefusedError, match="completed"):
        store.effects.fail(first, "no", AGENT)


def test_forks_and_older_versions_share_the_effects_of_their_task(store: RecordTrees, record: Tree) -> None:
    """A fork from before the claim does not do it again; another task has effects of its own."""
    store.effects.complete(claim(store), {"ok": 1}, AGENT)
    fork = store.fork(record["contentHash"], {}, AGENT)
    assert fork["toolEffects"] == []
    again = claim(store, name=fork["id"])
    assert (again.run, again.record, again.effect["outputs"]) == (False, fork["id"], {"ok": 1})
    assert again.effect["inputs"] == PAY.inputs
    other = store.create({"task": {"id": "t2", "goal": "g"}}, author=AGENT)
    assert claim(store, name=other["id"]).run


def test_of_many_who_claim_one_runs(store: RecordTrees, record: Tree) -> None:
    """Threads with stores of their own, at once."""
    ran: list[EffectClaim] = []

    def work() -> None:
        try:
            got = claim(RecordTrees(store.store))
        except RefusedError:
            return
        if got.run:
            ran.append(got)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ran) == 1
    assert len(store.resolve("line")["toolEffects"]) == 1


def test_a_claim_that_was_cut_off_before_the_record_knew_of_it_is_in_doubt(store: RecordTrees, record: Tree) -> None:
    """A process died between claiming an effect and telling the record: the chain knows, so somebody has to look."""

    class Dies(RecordTrees):
        def _act(self, *args: Any) -> Tree:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        claim(Dies(store.store))
    assert store.resolve("line")["toolEffects"] == []
    (effect,) = store.effects.unsettled("line")
    assert effect["inputs"] == {"redacted": '{"amount":100}'}
    question = in_doubt(store)
    (effect,) = store.resolve("line")["toolEffects"]
    assert (effect["inputs"], effect["idempotencyKey"]) == (PAY.inputs, PAY.key)
    store.answer_question("line", question, NOT_DONE, ANN)
    assert claim(store).run


def test_an_answer_that_was_cut_off_before_the_record_knew_of_it_is_given(store: RecordTrees, record: Tree) -> None:
    """A process died between settling an effect and telling the record: it is done, and its outputs are kept."""

    class Dies(RecordTrees):
        def _act(self, *args: Any) -> Tree:
            raise KeyboardInterrupt

    first = claim(store)
    with pytest.raises(KeyboardInterrupt):
        Dies(store.store).effects.complete(first, {"ok": 1}, AGENT)
    again = claim(store)
    assert (again.run, again.effect["outputs"], again.effect["status"]) == (False, {"ok": 1}, "completed")


def test_an_effect_that_came_without_its_history_counts(store: RecordTrees, record: Tree) -> None:
    """A record that was carried here by itself tells of its effects: done is done, the rest is in doubt."""
    store.effects.complete(claim(store), {"ok": 1}, AGENT)
    claim(store, EffectCall("payments", "charge", {"amount": 7}, key="invoice:2"))
    told = store.resolve("line")["toolEffects"]
    other = RecordTrees(MemoryStore())
    other.create({"task": {"id": "t1", "goal": "g"}, "toolEffects": told}, author=AGENT, cr_id="line")
    again = claim(other)
    assert (again.run, again.effect["outputs"]) == (False, {"ok": 1})
    with pytest.raises(RefusedError, match="must not run twice"):
        claim(other, EffectCall("payments", "charge", {"amount": 7}, key="invoice:2"))
    with pytest.raises(RefusedError, match="belongs to another call"):
        claim(other, PAY._replace(inputs={"amount": 1}))


def test_a_name_that_no_task_can_have_is_refused(store: RecordTrees) -> None:
    """Effects are claimed in the history of the record's task, so there has to be one."""
    store.create({"task": {"id": "a task", "goal": "g"}}, author=AGENT, cr_id="odd")
    assert store.effects.unsettled("odd") == []
    with pytest.raises(InvalidError, match="not a task id"):
        claim(store, name="odd")


def test_the_way_back(store: RecordTrees, record: Tree) -> None:
    """Effects after a version: what to undo, the newest first, and what cannot be undone; failed ones are none."""
    store.effects.complete(claim(store, EffectCall("t", "before", {}, reversible=True)), None, AGENT)
    point = store.resolve("line")["contentHash"]
    for name, reversible in (("one", True), ("two", False), ("three", True)):
        store.effects.complete(claim(store, EffectCall("t", name, {}, reversible=reversible)), None, AGENT)
    store.effects.fail(claim(store, EffectCall("t", "four", {}, reversible=True)), "no", AGENT)
    plan = store.effects.compensation("line", point)
    assert [effect["operation"] for effect in plan.undo] == ["three", "one"]
    assert [effect["operation"] for effect in plan.irreversible] == ["two"]
