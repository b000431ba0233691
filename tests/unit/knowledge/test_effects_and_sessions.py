"""One ledger of effects: what one door of a task has done, a library or a proxy's session, the other knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import RefusedError
from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.model.record import CRAuthor
from adjourn.knowledge.records.effect_lookup import MAX_SETTLED, EffectCall, current, omitted_count
from adjourn.knowledge.records.effects import DONE, NOT_DONE, EffectClaim
from adjourn.knowledge.records.store import RecordTrees
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import Actor
from adjourn.policy.calls import arguments_digest
from adjourn.tasks import decision
from adjourn.tasks.approvals import answer, settle_doubt
from adjourn.tasks.decision import Ask, Forward
from adjourn.tasks.lease import expire_dead_sessions
from adjourn.tasks.session import Admitted, Session
from support.policies import policy_of
from support.task_sessions import SharedTask, admit_one, block_reason

AGENT, ANN = CRAuthor(id="agent-1", type="agent"), CRAuthor(id="ann", type="human")
PERSON = Actor("ann", "human")
PLAIN = policy_of("allow payments.*", "allow notes.*")
ONCE_TEXT = "policy p v1\nallow payments.*\nonce payments.* by invoice\n"
GIVEN = {"invoice": "A-7", "amount": 1}
PAY = EffectCall("payments", "charge", GIVEN, key="invoice:A-7")


class Doors(SharedTask):
    """A task with a record, and both doors to it."""

    def __init__(self) -> None:
        super().__init__()
        self.records = RecordTrees(self.store, clock=self.clock)
        self.records.create({"task": {"id": "t1", "goal": "g"}}, author=AGENT, cr_id="line")

    def claim(self, call: EffectCall = PAY, **more: Any) -> EffectClaim:
        return self.records.effects.claim("line", call, AGENT, **more)

    def effects(self) -> list[Tree]:
        return list(current(self.store, self.records.resolve("line"))["toolEffects"])


@pytest.fixture
def doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doors:
    monkeypatch.setenv("ADJOURN_CONFIG", str(tmp_path / "config"))
    return Doors()


def call(given: Any = GIVEN, tool: str = "payments.charge", **more: Any) -> decision.ToolRequest:
    return decision.ToolRequest(
        tool=tool, digest=arguments_digest(given), given=given, arguments='{"invoice":"A-7"}', **more
    )


def settle(session: Session, admitted: Admitted, outcome: Any = "ok", result: bytes = b"") -> None:
    settled = kinds.ToolSettled(
        call=admitted.call, outcome=outcome, milliseconds=3, answer=digest(result) if result else ""
    )
    session.settle([settled], answers={admitted.call: result} if result else {})


# --- what a session did, as a library sees it


def test_what_a_session_did_is_not_done_again(doors: Doors) -> None:
    """A call that a session made is done for the library too, whatever key the library has for it."""
    session = doors.opened(policy=PLAIN)
    settle(session, admit_one(session, call()))
    again = doors.claim()
    assert (again.run, again.effect["status"], again.effect["toolName"]) == (False, "completed", "payments.charge")
    assert not doors.claim(EffectCall("payments.charge", "tools/call", dict(reversed(GIVEN.items())))).run
    assert doors.claim(EffectCall("payments", "charge", GIVEN | {"amount": 2})).run


@pytest.mark.parametrize("outcome", ["error", "tool-error"])
def test_what_failed_in_a_session_may_be_claimed(doors: Doors, outcome: str) -> None:
    """The server has said that nothing happened."""
    session = doors.opened(policy=PLAIN)
    settle(session, admit_one(session, call()), outcome)
    assert doors.claim().run


def test_what_is_under_way_in_a_session_waits(doors: Doors) -> None:
    """An effect in flight in a session is neither run again nor asked about."""
    session = doors.opened(policy=PLAIN)
    admitted = admit_one(session, call())
    with pytest.raises(RefusedError, match="is under way"):
        doors.claim()
    settle(session, admitted)
    assert not doors.claim().run


@pytest.mark.parametrize(("happened", "run"), [(True, False), (False, True)])
@pytest.mark.parametrize("by", ["probe", "question", "settle"])
def test_what_a_session_left_in_doubt_is_in_doubt(doors: Doors, by: str, happened: bool, run: bool) -> None:
    """A probe, an answer in the record or `adjourn settle` decides it, and the task's history has that."""
    session = doors.opened(policy=PLAIN)
    admitted = admit_one(session, call())
    session.close("gone")
    if by == "probe":
        seen: list[Tree] = []

        def probe(effect: Tree) -> bool:
            seen.append(effect)
            return happened

        claim = doors.claim(probe=probe)
        assert [(effect["id"], effect["inputs"]) for effect in seen] == [(admitted.call, GIVEN)]
    else:
        with pytest.raises(RefusedError, match="must not run twice"):
            doors.claim()
        (question,) = doors.records.resolve("line")["questionsForUser"]
        if by == "question":
            said = DONE if happened else NOT_DONE
            doors.records.answer_question("line", question["id"], said, ANN)
        else:
            settle_doubt(doors.task(), admitted.call, happened=happened, by=PERSON)
        claim = doors.claim()
        (question,) = doors.records.effects.bring_up("line")["questionsForUser"]
        assert (question["answer"], question["answeredBy"]["id"]) == (DONE if happened else NOT_DONE, "ann")
    assert claim.run is run
    assert admitted.call not in doors.task().ledger.doubts
    assert doors.last(kinds.EffectSettled).call == admitted.call


def test_what_a_rule_lets_happen_once_is_one_effect_for_the_library(doors: Doors) -> None:
    """Other arguments, the same invoice: known by the rule of the task's policy, with the recorded answer."""
    once = policy_of("allow payments.*", "once payments.* by invoice", version="v1")
    session = doors.session(policy=once)
    session._texts = (ONCE_TEXT.encode(), b"")
    session.open()
    settle(session, admit_one(session, call()), result=b'{"content":[]}')
    again = doors.claim(EffectCall("payments", "charge", GIVEN | {"amount": 2}, key="mine"))
    assert (again.run, again.effect["outputs"]) == (False, {"content": []})
    other = doors.claim(EffectCall("payments", "charge", {"invoice": "A-8"}, key="other"))
    assert other.run
    assert reason_or_ask(admit_one(session, call({"invoice": "A-8", "amount": 9}))) == "ask"
    doors.records.effects.complete(other, None, AGENT)
    assert reason_or_ask(admit_one(session, call({"invoice": "A-8", "amount": 9}))) == "once_done"


def reason_or_ask(admitted: Admitted) -> str:
    return "ask" if isinstance(admitted.decision, Ask) else block_reason(admitted)


# --- what a library did, as a session sees it


def test_what_a_library_did_is_not_done_again(doors: Doors) -> None:
    """The call is refused with the reason that it happened already; other arguments are another effect."""
    doors.records.effects.complete(doors.claim(), {"paid": 1}, AGENT)
    session = doors.opened(policy=PLAIN)
    assert block_reason(admit_one(session, call())) == "once_done"
    assert isinstance(admit_one(session, call({"invoice": "A-8"})).decision, Forward)
    assert doors.task().ledger.calls_used == 1


def test_what_a_library_left_in_doubt_is_asked_about(doors: Doors) -> None:
    """A person lets it be made again, and from then on it is the session's effect."""
    claim = doors.claim()
    session = doors.opened(policy=PLAIN)
    admitted = admit_one(session, call())
    assert isinstance(admitted.decision, Ask)
    assert admitted.decision.doubt == claim.effect["id"]
    assert admitted.approval is not None
    answer(session.task, admitted.approval.id, yes=True, via="cli", by=PERSON)
    again = admit_one(session, call())
    assert isinstance(again.decision, Forward)
    with pytest.raises(RefusedError, match="under way"):
        doors.claim()
    with pytest.raises(RefusedError):
        doors.records.effects.complete(claim, None, AGENT)
    settle(session, again)
    assert not doors.claim().run
    assert [effect["status"] for effect in doors.effects()] == ["failed", "completed"]


@pytest.mark.parametrize("happened", [True, False])
def test_a_person_settles_what_a_library_left(doors: Doors, happened: bool) -> None:
    """`adjourn settle` lists it like a call of a session; both doors go by it."""
    claim = doors.claim()
    expire_dead_sessions(doors.task())
    settle_doubt(doors.task(), claim.effect["id"], happened=happened, by=PERSON)
    session = doors.opened(policy=PLAIN)
    if happened:
        assert block_reason(admit_one(session, call())) == "once_done"
        assert not doors.claim().run
    else:
        assert isinstance(admit_one(session, call()).decision, Forward)


def test_what_failed_and_may_not_be_repeated_is_in_doubt_to_a_session(doors: Doors) -> None:
    """The table's `failed`: a person is asked, through whichever door."""
    doors.records.effects.fail(doors.claim(), "declined", AGENT)
    assert isinstance(admit_one(doors.opened(policy=PLAIN), call()).decision, Ask)


def test_what_may_be_repeated_is_in_nobodys_way(doors: Doors) -> None:
    """A replayable effect that a library claimed, or did, is made again by a session without a question."""
    read = PAY._replace(replayable=True)
    claim = doors.claim(read)
    session = doors.opened(policy=PLAIN)
    assert isinstance(admit_one(session, call()).decision, Forward)
    doors.records.effects.complete(claim, {"ok": 1}, AGENT)
    assert isinstance(admit_one(session, call()).decision, Forward)


def test_a_session_repeats_its_own_calls_as_ever(doors: Doors) -> None:
    """Only what a library has claimed is looked for; without such a claim nothing is read for it."""
    session = doors.opened(policy=PLAIN)
    for _ in range(2):
        settle(session, admit_one(session, call()))
    asked: list[str] = []
    ref = doors.store.ref

    def counted(name: str) -> str | None:
        asked.append(name)
        return ref(name)

    doors.store.ref = counted  # type: ignore[method-assign]
    settle(session, admit_one(session, call()))
    assert asked == []


# --- what a record shows


def test_a_record_shows_the_calls_of_its_task(doors: Doors) -> None:
    """Each with its status; those without effect are none. What is brought up is the next version, once."""
    session = doors.opened(policy=PLAIN)
    settle(session, admit_one(session, call()))
    settle(session, admit_one(session, call(tool="notes.read", effectful=False)))
    settle(session, admit_one(session, call(tool="notes.add")), "tool-error")
    open_ = admit_one(session, call({"n": 1}, tool="notes.add"))
    shown = [(effect["toolName"], effect["status"]) for effect in doors.effects()]
    assert shown == [("payments.charge", "completed"), ("notes.add", "failed"), ("notes.add", "claimed")]
    assert doors.effects()[0] == {
        "id": f"{session.id}.1", "toolName": "payments.charge", "operation": "tools/call", "session": session.id,
        "inputs": {"redacted": '{"invoice":"A-7"}'}, "digest": arguments_digest(GIVEN), "isReplayable": False,
        "sideEffects": [], "reversible": False, "executedAt": doors.effects()[0]["executedAt"], "durationMs": 3,
        "status": "completed",
    }  # fmt: skip
    assert doors.records.resolve("line")["toolEffects"] == []
    after = doors.records.effects.bring_up("line")
    assert after["sequence"] == 1
    assert doors.records.effects.bring_up("line") == after
    session.close("gone")
    assert [effect["id"] for effect in doors.records.effects.unsettled("line")] == [open_.call]
    assert doors.effects()[2]["status"] == "unknown"
    assert doors.records.verify_chain("line").valid


def test_a_record_is_bounded(doors: Doors) -> None:
    """The newest calls are shown, with how many there are; what is not settled, and what a library did, stays."""
    doors.records.effects.complete(doors.claim(), {"ok": 1}, AGENT)
    session = doors.opened(policy=PLAIN)
    doubt = admit_one(session, call({"n": -1}, tool="notes.add"))
    for number in range(MAX_SETTLED + 5):
        settle(session, admit_one(session, call({"n": number}, tool="notes.add")))
        if number % 20 == 0:
            doors.records.effects.bring_up("line")
    record = doors.records.effects.bring_up("line")
    names = [effect["id"] for effect in record["toolEffects"]]
    assert len(names) == MAX_SETTLED + 2
    assert (record["toolEffects"][0]["outputs"], doubt.call in names) == ({"ok": 1}, True)
    assert omitted_count(record) == 5
    assert doors.effects() == record["toolEffects"]


def test_two_records_of_a_task_that_read_different_parts_of_its_history_are_merged(doors: Doors) -> None:
    """What one of them did not read is found again, and no conflict is made of how far they have read."""
    session = doors.opened(policy=PLAIN)
    settle(session, admit_one(session, call({"n": 1}, tool="notes.add")))
    first = doors.records.effects.bring_up("line")
    fork = doors.records.fork(first["contentHash"], {}, AGENT, cr_id="fork")
    settle(session, admit_one(session, call({"n": 2}, tool="notes.add")))
    doors.records.effects.bring_up("line")
    settle(session, admit_one(session, call({"n": 3}, tool="notes.add")))
    ahead = doors.records.effects.bring_up(fork["id"])
    result = doors.records.merge("line", "fork", "manual", author=AGENT)
    assert (result.success, result.conflicts, result.warnings) == (True, (), ())
    assert doors.records.effects.bring_up("line")["toolEffects"] == ahead["toolEffects"]
