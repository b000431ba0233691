"""An effect that may happen only once in a task, in whatever state its earlier call is."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from adjourn.errors import StoreError
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import Actor
from adjourn.policy.calls import arguments_digest
from adjourn.store.memory import MemoryStore
from adjourn.tasks import idempotency
from adjourn.tasks.approvals import answer, settle_doubt
from adjourn.tasks.decision import Ask, Forward, RecordedAnswer, ToolRequest
from adjourn.tasks.session import Admitted, Session
from adjourn.tasks.task import NewEvent
from support.payments import ANSWER, PAYMENTS_POLICY, finish, pay, settled
from support.policies import policy_of
from support.task_sessions import REMOTE_PROCESS, TWO, WRITE, SharedTask, admit_one, block_reason

ANN = Actor("ann", "human")


@pytest.fixture
def session(shared_task: SharedTask) -> Session:
    return shared_task.opened(policy=PAYMENTS_POLICY)


def test_the_second_call_is_answered_with_what_the_first_answered(session: Session) -> None:
    """The recorded answer is named, the replay is written down, and nothing more is spent."""
    first = admit_one(session, pay())
    finish(session, first)
    second = admit_one(session, pay(amount=2))
    assert isinstance(second.decision, RecordedAnswer)
    assert (second.decision.call, second.decision.answer) == (first.call, digest(ANSWER))
    assert session.task.store.get_blob(second.decision.answer) == ANSWER
    assert (session.task.ledger.calls_used, session.task.ledger.calls_refused) == (1, 0)


@given(st.binary(max_size=20_000).map(lambda data: b'"' + data.hex().encode() + b'"'))
def test_an_answer_is_kept_as_it_came(text: bytes) -> None:
    """Compressed where that is shorter, and the same when it is read; what is damaged is no answer, and one that unpacks too long is none."""
    store = MemoryStore()
    kept = idempotency.packed(text)
    assert len(kept) <= len(text)
    assert idempotency.kept_answer(store, store.put_blob(kept)) == text
    assert idempotency.kept_answer(store, store.put_blob(b"x" + text)) is None
    bomb = zlib.compress(b" " * (idempotency.MAX_ANSWER + 1))
    assert idempotency.kept_answer(store, store.put_blob(bomb)) is None
    assert idempotency.kept_answer(store, "0" * 64) is None


def test_another_session_is_answered_so_too(shared_task: SharedTask, session: Session) -> None:
    """What happened in one session has happened in the next, under whatever client."""
    finish(session, admit_one(session, pay()))
    session.close("eof")
    assert isinstance(admit_one(shared_task.opened("g2", policy=PAYMENTS_POLICY), pay()).decision, RecordedAnswer)


def test_another_effect_is_another(session: Session) -> None:
    """Only the argument that the rule names tells effects apart; the tools of one rule share their effects."""
    finish(session, admit_one(session, pay("A-7")))
    assert isinstance(admit_one(session, pay("A-8")).decision, Forward)
    assert isinstance(admit_one(session, pay("A-7", tool="payments.refund")).decision, RecordedAnswer)
    assert isinstance(admit_one(session, ToolRequest(tool="echo", digest="1" * 64)).decision, Forward)


@pytest.mark.parametrize("invoice", [None, "", [], 2**53, -(2**70), ["a", 2**53], {"n": 2**53 + 1}])
def test_an_effect_without_a_name_is_refused(session: Session, invoice: Any) -> None:
    """An argument that is missing, null or empty names no effect, nor does a number that some readers round to another."""
    admitted = admit_one(session, pay(invoice))
    assert block_reason(admitted) == "once_unnamed"
    assert "`invoice.number`" in admitted.decision.message  # type: ignore[union-attr]


@pytest.mark.parametrize("invoice", [7, 7.5, 0, False, 2**53 - 1, str(2**70), ["a", "b"], "é"])
def test_any_other_value_names_one(session: Session, invoice: Any) -> None:
    """Numbers, lists and truth values are names, too."""
    given = {"invoice": {"number": invoice}}
    call = ToolRequest(tool="payments.charge", digest="1" * 64, given=given)
    finish(session, admit_one(session, call))
    assert isinstance(admit_one(session, call).decision, RecordedAnswer)


def test_an_effect_under_way_is_not_begun_again(session: Session) -> None:
    """Neither in the same transaction nor in the next."""
    first, second = session.admit([pay(), pay(amount=2)])
    assert isinstance(first.decision, Forward)
    assert block_reason(second) == "busy"
    assert block_reason(admit_one(session, pay())) == "busy"


@pytest.mark.parametrize("outcome", ["error", "tool-error"])
def test_a_call_that_failed_can_be_made_again(session: Session, outcome: str) -> None:
    """An error says that the effect did not happen."""
    finish(session, admit_one(session, pay()), outcome)
    assert isinstance(admit_one(session, pay()).decision, Forward)


def test_an_effect_in_doubt_is_asked_about_whatever_else_the_arguments_say(session: Session) -> None:
    """Its repetition waits for a person, who may let it pass."""
    first = admit_one(session, pay())
    finish(session, first, "no-answer")
    second = admit_one(session, pay(amount=2))
    assert isinstance(second.decision, Ask)
    assert second.decision.doubt == first.call
    assert second.approval is not None
    answer(session.task, second.approval.id, yes=True, via="terminal", by=ANN)
    assert isinstance(admit_one(session, pay(amount=2)).decision, Forward)
    assert block_reason(admit_one(session, pay())) == "busy"


def test_a_late_answer_settles_the_doubt(session: Session) -> None:
    """An answer that comes after all is the recorded one."""
    first = admit_one(session, pay())
    finish(session, first, "no-answer")
    finish(session, first)
    assert isinstance(admit_one(session, pay()).decision, RecordedAnswer)


@pytest.mark.parametrize("happened", [True, False])
def test_a_persons_word_settles_it(session: Session, happened: bool) -> None:
    """Done: it is refused, since no answer is known. Not done: it may be made."""
    first = admit_one(session, pay())
    finish(session, first, "no-answer")
    settle_doubt(session.task, first.call, happened=happened, by=ANN)
    if happened:
        assert block_reason(admit_one(session, pay())) == "once_done"
    else:
        assert isinstance(admit_one(session, pay()).decision, Forward)


def test_a_call_that_waits_for_input_is_under_way(session: Session) -> None:
    """It continues as itself, and nothing else begins its effect."""
    first = admit_one(session, pay())
    state = digest(b"state")
    session.settle([kinds.ToolSettled(call=first.call, outcome="input-required", state=state)])
    assert block_reason(admit_one(session, pay(amount=2))) == "busy"
    assert admit_one(session, pay(state=state)).call == first.call
    finish(session, first)
    assert isinstance(admit_one(session, pay()).decision, RecordedAnswer)


def test_an_answer_too_long_to_keep_is_still_the_end_of_it(session: Session) -> None:
    """The effect is not repeated because its answer could not be recorded."""
    finish(session, admit_one(session, pay()), kept=False)
    assert block_reason(admit_one(session, pay())) == "once_done"


def test_an_answer_that_was_forgotten_is_still_the_end_of_it(session: Session) -> None:
    """Erasing the recorded answer gives the effect no second chance."""
    finish(session, admit_one(session, pay()))
    session.task.store.forget(digest(ANSWER))
    assert block_reason(admit_one(session, pay())) == "once_done"


def test_an_end_that_could_not_be_written_is_asked_about(
    shared_task: SharedTask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the store failed as the answer came, and the settlement was written later, nobody guesses that it is free."""
    first = admit_one(session, pay())

    def broken(*_: object, **__: object) -> None:
        raise StoreError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(shared_task.store, "append", broken)
        with pytest.raises(StoreError):
            finish(session, first)
    session.task.deferred.append(NewEvent(settled(first), session=session.id))
    session.task.flush()
    second = admit_one(session, pay())
    assert isinstance(second.decision, Ask)
    assert second.decision.doubt == first.call


def test_a_person_can_say_yes_to_what_the_ledger_does_not_hold_in_doubt(session: Session) -> None:
    """Also where only the claim is left, an approval of repeating it serves once."""
    first = admit_one(session, pay())
    session.task.deferred.append(NewEvent(settled(first), session=session.id))
    session.task.flush()
    asked = admit_one(session, pay()).approval
    assert asked is not None
    answer(session.task, asked.id, yes=True, via="terminal", by=ANN)
    again = admit_one(session, pay())
    assert isinstance(again.decision, Forward)
    finish(session, again)
    assert isinstance(admit_one(session, pay()).decision, RecordedAnswer)


def test_a_session_that_died_leaves_its_effect_in_doubt(shared_task: SharedTask) -> None:
    """The next session asks."""
    lost = shared_task.opened("far", at=REMOTE_PROCESS, policy=PAYMENTS_POLICY)
    first = admit_one(lost, pay())
    shared_task.clock.move(seconds=3600)
    admitted = admit_one(shared_task.opened(policy=PAYMENTS_POLICY), pay())
    assert isinstance(admitted.decision, Ask)
    assert admitted.decision.doubt == first.call


def test_every_rule_that_names_the_tool_counts(shared_task: SharedTask) -> None:
    """Where two arguments name effects, neither may come twice."""
    rules = ("allow *", "once pay by invoice", "once pay by order")
    session = shared_task.opened(policy=policy_of(*rules, version="v1"))

    def call(invoice: str, order: str) -> ToolRequest:
        given = {"invoice": invoice, "order": order}
        return ToolRequest(tool="pay", digest=arguments_digest(given), given=given)

    finish(session, admit_one(session, call("1", "1")))
    assert isinstance(admit_one(session, call("1", "2")).decision, RecordedAnswer)
    assert isinstance(admit_one(session, call("2", "1")).decision, RecordedAnswer)
    assert isinstance(admit_one(session, call("2", "2")).decision, Forward)


@pytest.mark.parametrize("observe", [False, True])
def test_a_call_with_a_key_is_made_once(shared_task: SharedTask, observe: bool) -> None:
    """Repeated with its key, it is under way, then its recorded answer, under whatever policy; a call without key is another."""
    session = shared_task.opened(policy=replace(policy_of("use write_file"), observe=observe))
    keyed = replace(WRITE, key="k" * 64)
    first = admit_one(session, keyed)
    assert isinstance(first.decision, Forward)
    assert block_reason(admit_one(session, keyed)) == "busy"
    finish(session, first)
    for holder in (session, shared_task.opened(policy=session.policy)):
        repeated = admit_one(holder, keyed).decision
        assert isinstance(repeated, RecordedAnswer)
        assert (repeated.call, repeated.answer) == (first.call, digest(ANSWER))
    assert isinstance(admit_one(session, replace(keyed, key="l" * 64)).decision, Forward)
    assert isinstance(admit_one(session, WRITE).decision, Forward)
    assert session.task.ledger.calls_used == 3


@pytest.mark.parametrize("other", [{"digest": TWO}, {"tool": "deploy"}, {"server": "up"}])
def test_a_key_is_of_one_call(shared_task: SharedTask, other: dict[str, Any]) -> None:
    """The same key for another tool, server or other arguments is refused, in the same transaction and later."""
    session = shared_task.opened(policy=policy_of("use write_file, deploy, up.write_file"))
    keyed = replace(WRITE, key="k" * 64)
    first, second = session.admit([keyed, replace(keyed, **other)])
    assert block_reason(second) == "key_reused"
    finish(session, first)
    assert block_reason(admit_one(session, replace(keyed, **other))) == "key_reused"


def test_a_call_with_a_key_is_in_doubt_after_a_crash(shared_task: SharedTask) -> None:
    """A client that repeats a call whose session died is asked, as there is no answer to give; a failed call can be repeated."""
    policy = policy_of("use write_file")
    session = shared_task.opened(at=REMOTE_PROCESS, policy=policy)
    keyed = replace(WRITE, key="k" * 64)
    first = admit_one(session, keyed)
    shared_task.clock.move(seconds=120)
    later = shared_task.opened(policy=policy)
    asked = admit_one(later, keyed)
    assert isinstance(asked.decision, Ask)
    assert asked.decision.doubt == first.call
    later.settle([kinds.ToolSettled(call=first.call, outcome="error")])
    assert isinstance(admit_one(later, keyed).decision, Forward)


def test_what_only_observes_lets_it_happen_again_and_knows_the_last(shared_task: SharedTask) -> None:
    """The replay is written down as what would have been, and the claim stays correct."""
    observing = policy_of("mode observe", "allow pay", "once pay by invoice", version="v1")
    session = shared_task.opened(policy=observing)
    call = ToolRequest(tool="pay", digest="1" * 64, given={"invoice": "1"})
    finish(session, admit_one(session, call))
    again = admit_one(session, call)
    assert isinstance(again.decision, Forward)
    assert isinstance(again.decision.observed, RecordedAnswer)
    assert shared_task.last(kinds.PolicyObserved).decision == "replay"
    finish(session, again, "error")
    assert isinstance(admit_one(session, call).decision, Forward)


# --- the refs are an index of the chain

steps = st.lists(
    st.tuples(
        st.sampled_from(["call", "settle", "settle", "by hand", "approve"]),
        st.integers(0, 5),
        st.sampled_from(["ok", "ok", "error", "tool-error", "no-answer", "input-required"]),
        st.booleans(),
    ),
    max_size=25,
)


@given(steps, st.booleans())
def test_the_refs_are_what_the_chain_amounts_to(does: list[Any], observe: bool) -> None:
    """Whatever calls, answers and words of people come: an import of the history would make the refs that were written."""
    shared_task = SharedTask()
    rules = [*(["mode observe"] if observe else []), "allow pay", "once pay by invoice", "once pay by order"]
    session = shared_task.opened(policy=policy_of(*rules, version="v1"))
    made: list[Admitted] = []
    for what, number, outcome, kept in does:
        if what == "call":
            given = {"invoice": f"i{number % 3}", "order": f"o{number % 2}"}
            admitted = admit_one(session, ToolRequest(tool="pay", digest=arguments_digest(given), given=given))
            made += [admitted] if admitted.call else []
            if admitted.approval is not None and kept:
                answer(session.task, admitted.approval.id, yes=True, via="terminal", by=ANN)
        elif made and what == "settle":
            finish(session, made[number % len(made)], outcome, kept=kept)
        elif session.task.ledger.doubts and what == "by hand":
            settle_doubt(session.task, next(iter(session.task.ledger.doubts)), happened=kept, by=ANN)
    kept_answer = {True: digest(ANSWER), False: idempotency.DONE}
    store = shared_task.store
    live = {name: value.split(" ") for name, value in (store.refs("effect/") | store.refs("open/")).items()}
    indexed = {
        name: value for name, value in idempotency.index("t1", shared_task.events()).items() if value is not None
    }
    assert set(live) == set(indexed)
    for name, value in indexed.items():
        *claimed, recorded = value.split(" ")
        assert live[name][:-1] == claimed
        assert live[name][-1] in {recorded, idempotency.DONE if recorded == kept_answer[True] else recorded}
