"""Questions of a session and a person's answers, to calls that a rule confirms and to effects in doubt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from adjourn.errors import NotFoundError
from adjourn.log import kinds
from adjourn.log.event import Actor, timestamp
from adjourn.tasks.approvals import answer, settle_doubt
from adjourn.tasks.decision import APPROVAL_MILLISECONDS, Ask, Decision, Forward, ToolRequest
from adjourn.tasks.session import Admitted, Session
from support.policies import policy_of
from support.task_sessions import DEPLOY, ONE, TWO, WRITE, SharedTask, admit_one, block_reason

ANN = Actor("ann", "human")


def decisions(admitted: Sequence[Admitted]) -> list[Decision]:
    return [item.decision for item in admitted]


# --- questions and answers


def question(session: Session, call: ToolRequest = DEPLOY) -> str:
    admitted = admit_one(session, call)
    assert isinstance(admitted.decision, Ask)
    assert admitted.approval is not None
    return admitted.approval.id


def say(session: Session, approval: str, *, yes: bool) -> None:
    answer(session.task, approval, yes=yes, via="elicitation", by=ANN)


def test_a_yes_lets_the_next_identical_call_through_once(shared_task: SharedTask) -> None:
    """Asked, answered, forwarded; and the call after that asks again."""
    session = shared_task.opened()
    asked = question(session)
    assert shared_task.last(kinds.ConfirmRequired) == kinds.ConfirmRequired(
        approval=asked,
        arguments='{"to":"prod"}',
        cause="confirm deploy (p.aex:8)",
        digest=ONE,
        expires=timestamp(shared_task.clock() + APPROVAL_MILLISECONDS),
        tool="deploy",
    )
    say(session, asked, yes=True)
    assert shared_task.events()[-1].by == ANN
    assert admit_one(session, DEPLOY).decision == Forward(approval=asked)
    assert shared_task.last(kinds.ToolAllowed).approval == asked
    assert question(session) != asked
    assert session.task.ledger.calls_used == 1


def test_asking_again_is_the_same_question(shared_task: SharedTask) -> None:
    """A repeated call, from any session of the client, finds the question that is already open."""
    first, second = shared_task.opened(), shared_task.opened()
    asked = question(first)
    assert question(first) == question(second) == asked
    assert shared_task.kinds().count("confirm.required") == 1


def test_a_yes_is_for_these_arguments(shared_task: SharedTask) -> None:
    """Other arguments, or another tool, ask for themselves."""
    session = shared_task.opened()
    say(session, question(session), yes=True)
    assert isinstance(admit_one(session, ToolRequest(tool="deploy", digest=TWO)).decision, Ask)
    assert admit_one(session, WRITE).decision == Forward()
    assert isinstance(admit_one(session, DEPLOY).decision, Forward)


def test_a_yes_is_used_by_one_of_a_batch(shared_task: SharedTask) -> None:
    """Of two identical calls in one batch, one goes forward with the approval."""
    session = shared_task.opened()
    say(session, question(session), yes=True)
    decided = decisions(session.admit([DEPLOY, DEPLOY]))
    assert [type(item).__name__ for item in decided] == ["Forward", "Block"]


def test_a_yes_is_used_by_one_of_two_processes(shared_task: SharedTask) -> None:
    """Sisters that both saw the approval use it once: the slower one asks again."""
    first, second = shared_task.opened(), shared_task.opened()
    say(first, question(first), yes=True)
    first.task.refresh()
    second.task.refresh()
    assert isinstance(admit_one(first, DEPLOY).decision, Forward)
    assert isinstance(admit_one(second, DEPLOY).decision, Ask)
    assert shared_task.task().ledger.calls_used == 1


def test_a_no_is_not_asked_again_as_if_nothing_were(shared_task: SharedTask) -> None:
    """After a no the call asks a new question, and the no is counted as a refusal."""
    session = shared_task.opened()
    asked = question(session)
    say(session, asked, yes=False)
    assert question(session) != asked
    assert session.task.ledger.calls_refused == 1


def test_a_yes_to_a_repeated_question_refuses_nothing(shared_task: SharedTask) -> None:
    """The older question about the call closes with it: that is no refusal, and that nobody answered is no more to note."""
    session = shared_task.opened()
    first = question(session)
    answer(session.task, first, yes=False, via="timeout", by=ANN)
    question(session)
    say(session, first, yes=True)
    assert (session.task.ledger.calls_refused, session.task.ledger.notable) == (1, {})
    assert shared_task.last(kinds.ConfirmDenied).via == "repeated"


def test_a_yes_expires(shared_task: SharedTask) -> None:
    """An approval that was not used in time is worth nothing."""
    session = shared_task.opened()
    asked = question(session)
    say(session, asked, yes=True)
    shared_task.clock.move(seconds=APPROVAL_MILLISECONDS / 1000)
    assert question(session) != asked


def test_a_question_expires(shared_task: SharedTask) -> None:
    """A question that nobody answered in time cannot be answered, and is asked again."""
    session = shared_task.opened()
    asked = question(session)
    shared_task.clock.move(seconds=APPROVAL_MILLISECONDS / 1000)
    with pytest.raises(NotFoundError, match=rf"question {asked} of task t1 is not open"):
        say(session, asked, yes=True)
    assert question(session) != asked


def test_an_unknown_question_has_no_answer(shared_task: SharedTask) -> None:
    """An answer to a question that was never asked, or was used, raises NotFoundError and writes nothing."""
    session = shared_task.opened()
    asked = question(session)
    say(session, asked, yes=True)
    session.admit([DEPLOY])
    before = shared_task.kinds()
    for approval in (asked, "nosuch", ""):
        with pytest.raises(NotFoundError, match="to ask again"):
            say(session, approval, yes=True)
    assert shared_task.kinds() == before


def test_an_answer_outlives_the_session_that_asked(shared_task: SharedTask) -> None:
    """The next client of the task may use the yes that the last one asked for."""
    first = shared_task.opened("g1")
    asked = question(first)
    first.close("eof")
    say(first, asked, yes=True)
    assert admit_one(shared_task.opened("g2"), DEPLOY).decision == Forward(approval=asked)


def test_auto_confirm_is_written_down(shared_task: SharedTask) -> None:
    """Where nobody is asked because of --auto-confirm, the chain says so."""
    session = shared_task.opened(auto_confirm=True)
    assert admit_one(session, DEPLOY).decision == Forward(auto=True)
    assert shared_task.kinds()[-2:] == ["confirm.auto_approved", "tool.allowed"]


# --- doubts


def doubtful(session: Session, call: ToolRequest = WRITE) -> str:
    admitted = admit_one(session, call)
    session.settle([kinds.ToolSettled(call=admitted.call, outcome="no-answer")])
    return admitted.call


@pytest.mark.parametrize("auto_confirm", [False, True])
def test_repeating_a_call_in_doubt_asks_a_person(shared_task: SharedTask, auto_confirm: bool) -> None:
    """An effect that may have happened is not repeated unasked, with --auto-confirm neither."""
    session = shared_task.opened(auto_confirm=auto_confirm)
    call = doubtful(session)
    admitted = admit_one(session, WRITE)
    assert isinstance(admitted.decision, Ask)
    assert admitted.decision.doubt == call
    assert shared_task.last(kinds.ConfirmRequired).doubt == call
    assert admit_one(session, ToolRequest(tool="write_file", digest=TWO)).decision == Forward()


def test_a_yes_to_repeating_settles_the_doubt(shared_task: SharedTask) -> None:
    """The person who lets it run again has decided: the old call is not asked about any more."""
    session = shared_task.opened()
    doubtful(session)
    asked = question(session, WRITE)
    say(session, asked, yes=True)
    again = admit_one(session, WRITE)
    assert again.decision == Forward(approval=asked)
    session.settle([kinds.ToolSettled(call=again.call, outcome="ok")])
    assert session.task.ledger.doubts == {}
    assert admit_one(session, WRITE).decision == Forward()


@pytest.mark.parametrize("happened", [True, False])
def test_a_persons_word_settles_a_doubt(shared_task: SharedTask, happened: bool) -> None:
    """When somebody has looked, nobody is asked again; a client that repeats what happened learns so first."""
    session = shared_task.opened()
    call = doubtful(session)
    settle_doubt(shared_task.task(), call, happened=happened, by=ANN, note="n" * 5000)
    settled = shared_task.last(kinds.EffectSettled)
    assert (settled.outcome, len(settled.note)) == ("done" if happened else "not-done", 2000)
    if happened:
        assert block_reason(admit_one(session, WRITE)) == "already_done"
    assert admit_one(session, WRITE).decision == Forward()


def test_only_a_doubt_can_be_settled(shared_task: SharedTask) -> None:
    """Settling a call that is not in doubt raises NotFoundError, which lists those that are."""
    session = shared_task.opened()
    call = doubtful(session)
    with pytest.raises(NotFoundError, match=rf"call nosuch of task t1 is not in doubt \(in doubt: {call}\)"):
        settle_doubt(shared_task.task(), "nosuch", happened=True, by=ANN)


# --- meta-tools


def test_what_a_rule_asks_about_is_written_but_not_counted(shared_task: SharedTask) -> None:
    """A confirmed meta-tool is in the chain, as uncounted and without effect."""
    session = shared_task.opened(policy=policy_of("use a", "confirm before aex.resume", "budget calls=0"))
    resume = ToolRequest(tool="aex.resume", digest=ONE, named_only=True)
    say(session, question(session, resume), yes=True)
    assert isinstance(admit_one(session, resume).decision, Forward)
    allowed = shared_task.last(kinds.ToolAllowed)
    assert (allowed.uncounted, allowed.effectful) == (True, False)
    assert session.task.ledger.calls_used == 0
