"""A sitting on a task: one client at a time, each call decided and written down before it goes, nothing done twice."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence

import pytest

from adjourn.errors import HeldError, NotFoundError, StoreError
from adjourn.host import process
from adjourn.host.process import Process
from adjourn.log import digest, kinds
from adjourn.log.chain import verify_chain
from adjourn.log.event import Actor, timestamp
from adjourn.store.base import NO_REFS, Entry, Head
from adjourn.tasks.approvals import answer, settle_doubt
from adjourn.tasks.decision import APPROVAL_MILLISECONDS, Ask, Continue, Decision, Forward, ToolRequest
from adjourn.tasks.lease import LEASE_MILLISECONDS, TaskSwitchedError
from adjourn.tasks.session import Admitted, Session
from adjourn.tasks.task import NewEvent
from support.policies import policy_of
from support.task_sessions import REMOTE_PROCESS, SharedTask, admit_one, block_reason

ONE, TWO, STATE = "1" * 64, "2" * 64, "5" * 64
ANN = Actor("ann", "human")
READ = ToolRequest(tool="read_file", digest=ONE, effectful=False)
WRITE = ToolRequest(tool="write_file", digest=ONE, arguments='{"path":"a"}')
DEPLOY = ToolRequest(tool="deploy", digest=ONE, arguments='{"to":"prod"}')


@pytest.fixture(scope="module")
def dead() -> Process:
    """A process that has ended, and been waited for."""
    child = subprocess.Popen(["true"])
    was = Process(process.host(), child.pid, process.started(child.pid) or 1)
    child.wait()
    return was


def decisions(admitted: Sequence[Admitted]) -> list[Decision]:
    return [item.decision for item in admitted]


# --- sitting down and getting up


def test_the_first_session_opens_the_task(shared_task: SharedTask) -> None:
    """Event 0 is the task with its goal, event 1 the sitting with who, where, under which rules."""
    session = shared_task.opened(policy=policy_of("use read_file", "budget calls=7"))
    assert shared_task.kinds() == ["task.opened", "session.opened"]
    assert shared_task.last(kinds.TaskOpened).goal == "do it"
    here = process.current()
    assert shared_task.last(kinds.SessionOpened) == kinds.SessionOpened(
        budget=7,
        client="claude-code",
        group="g1",
        host=here.host,
        pid=here.pid,
        policy=digest(b"policy"),
        started=here.started,
    )
    assert shared_task.store.get_blob(digest(b"policy")) == b"policy"
    assert session.is_open


def test_more_facts_are_written_with_the_opening(shared_task: SharedTask) -> None:
    """What is to be told with the opening is in the same step, by the client."""
    session = shared_task.session()
    session.open(also=[kinds.CheckpointResumed(checkpoint=ONE, name="half-way", source="store")])
    assert shared_task.kinds()[-1] == "checkpoint.resumed"
    assert shared_task.events()[-1].by == Actor("claude-code", "agent")
    assert shared_task.events()[-1].session == session.id


def test_closing_is_written_once(shared_task: SharedTask) -> None:
    """A closed session is in no ledger and has no lease, and closing it again does nothing."""
    session = shared_task.opened()
    assert shared_task.store.refs("lease/")
    session.close("eof")
    session.close("eof")
    assert shared_task.kinds().count("session.closed") == 1
    assert shared_task.task().ledger.sessions == {}
    assert shared_task.store.refs("lease/") == {}


def test_the_next_session_goes_on(shared_task: SharedTask) -> None:
    """After one client has left another one sits down at the same task, with what was spent."""
    first = shared_task.opened("g1")
    first.admit([READ])
    first.close("eof")
    second = shared_task.opened("g2", client="codex")
    assert second.task.ledger.calls_used == 1
    assert shared_task.kinds().count("task.opened") == 1


def test_a_held_task_is_refused_by_name(shared_task: SharedTask) -> None:
    """While a client lives another one is refused, and told who holds the task, where and since when."""
    session = shared_task.opened("g1")
    since = timestamp(shared_task.clock())
    shared_task.clock.move(seconds=5)
    with pytest.raises(HeldError) as refusal:
        shared_task.session("g2", client="codex").open()
    text = str(refusal.value)
    for part in ("t1", "claude-code", str(os.getpid()), session.id, since, "--take-over"):
        assert part in text
    assert shared_task.kinds() == ["task.opened", "session.opened"]
    assert admit_one(session, READ).decision == Forward()


def test_sessions_of_one_client_share_the_task(shared_task: SharedTask) -> None:
    """Processes that one client started work side by side, on one ledger."""
    first, second = shared_task.opened("g1"), shared_task.opened("g1")
    first.admit([READ])
    second.admit([READ])
    first.admit([READ])
    assert shared_task.task().ledger.calls_used == 3
    assert len(shared_task.task().ledger.sessions) == 2
    first.close("eof")
    assert admit_one(second, READ).decision == Forward()


def test_a_dead_session_is_lost(shared_task: SharedTask, dead: Process) -> None:
    """The next client finds a dead one out: its open effects are in doubt, its open reads are dropped."""
    first = shared_task.opened("g1", at=dead)
    effect, _, settled = first.admit([WRITE, READ, WRITE])
    first.settle([kinds.ToolSettled(call=settled.call, outcome="ok")])
    second = shared_task.opened("g2")
    assert shared_task.last(kinds.SessionLost) == kinds.SessionLost(
        calls=[effect.call], lost=first.id, reason="dead"
    )
    assert set(second.task.ledger.doubts) == {effect.call}
    assert second.task.ledger.open_calls == {}
    assert set(second.task.ledger.sessions) == {second.id}


def test_a_dead_sister_is_lost_too(shared_task: SharedTask, dead: Process) -> None:
    """A dead process of the same client does not stay seated."""
    first = shared_task.opened("g1", at=dead)
    shared_task.opened("g1")
    assert shared_task.last(kinds.SessionLost).lost == first.id


def test_a_take_over_fences_the_first(shared_task: SharedTask) -> None:
    """After a take-over the first client's calls are refused, and stay refused when the taker has left."""
    first = shared_task.opened("g1")
    effect = admit_one(first, WRITE)
    second = shared_task.opened("g2", client="codex", take_over=True)
    assert shared_task.last(kinds.SessionLost) == kinds.SessionLost(
        calls=[effect.call], lost=first.id, reason="taken-over"
    )
    with pytest.raises(HeldError, match="taken over by codex since"):
        first.admit([READ])
    second.close("eof")
    with pytest.raises(HeldError, match="taken over by codex since"):
        first.admit([READ])
    assert shared_task.kinds().count("tool.allowed") == 1
    assert admit_one(shared_task.opened("g3"), READ).decision == Forward()


def test_a_fenced_session_closes_quietly(shared_task: SharedTask) -> None:
    """Closing after having been taken over writes nothing into the taker's history."""
    first = shared_task.opened("g1")
    shared_task.opened("g2", take_over=True)
    before = shared_task.kinds()
    first.close("eof")
    assert shared_task.kinds() == before


def test_a_late_answer_settles_what_the_take_over_put_in_doubt(shared_task: SharedTask) -> None:
    """A fenced session may still say what came of its calls."""
    first = shared_task.opened("g1")
    effect = admit_one(first, WRITE)
    second = shared_task.opened("g2", take_over=True)
    first.settle([kinds.ToolSettled(call=effect.call, outcome="ok")])
    assert second.task.refresh().doubts == {}


def test_a_fenced_session_has_no_lease_any_more(shared_task: SharedTask) -> None:
    """A heartbeat that comes after the take-over renews nothing: nobody is to take the fenced session for a living one."""
    first = shared_task.opened("g1")
    shared_task.opened("g2", take_over=True)
    first.heartbeat()
    assert [name for name in shared_task.store.refs("lease/") if first.id in name] == []


def test_a_fenced_session_may_sit_down_again(shared_task: SharedTask) -> None:
    """When the taker has left, the first client goes on if it is told to open again."""
    first = shared_task.opened("g1")
    shared_task.opened("g2", take_over=True).close("eof")
    first.open()
    assert admit_one(first, READ).decision == Forward()


def test_a_session_out_of_sight_lives_as_long_as_its_lease(shared_task: SharedTask) -> None:
    """On another machine a lease tells: held until it runs out, renewed by heartbeats, then lost as expired."""
    first = shared_task.opened("g1", at=REMOTE_PROCESS)
    shared_task.clock.move(seconds=LEASE_MILLISECONDS / 1000 - 1)
    with pytest.raises(HeldError, match="on elsewhere, session"):
        shared_task.opened("g2")
    first.heartbeat()
    shared_task.clock.move(seconds=2)
    with pytest.raises(HeldError):
        shared_task.opened("g2")
    shared_task.clock.move(seconds=LEASE_MILLISECONDS / 1000)
    shared_task.opened("g2")
    assert shared_task.last(kinds.SessionLost) == kinds.SessionLost(calls=[], lost=first.id, reason="expired")
    with pytest.raises(HeldError, match="taken over"):
        first.admit([READ])


def test_a_closed_session_has_no_heart(shared_task: SharedTask) -> None:
    """A heartbeat after closing makes no new lease."""
    session = shared_task.opened()
    session.close("eof")
    session.heartbeat()
    assert shared_task.store.refs("lease/") == {}


def test_a_session_that_was_given_up_goes_on_when_nobody_else_came(shared_task: SharedTask) -> None:
    """A sister that overlooked a sleeping session does not stop it: it sits down again with the next call."""
    first = shared_task.opened("g1", at=REMOTE_PROCESS)
    shared_task.clock.move(seconds=2 * LEASE_MILLISECONDS / 1000)
    shared_task.opened("g1")
    assert shared_task.last(kinds.SessionLost).lost == first.id
    admitted = admit_one(first, READ)
    assert admitted.decision == Forward()
    assert first.id in shared_task.task().ledger.sessions
    assert shared_task.kinds()[-2:] == ["session.opened", "tool.allowed"]


def test_a_client_that_moved_is_followed(shared_task: SharedTask) -> None:
    """When one process of a client goes on with another task, its sisters are told so."""
    first, second = shared_task.opened("g1"), shared_task.opened("g1")
    first.close("resumed", to="t2")
    with pytest.raises(TaskSwitchedError, match="went on with task t2"):
        second.admit([READ])
    assert "tool.allowed" not in shared_task.kinds()


# --- calls


def test_an_intent_is_written_before_the_call_goes(shared_task: SharedTask) -> None:
    """What is admitted is in the chain: which tool, which arguments' digest, by whom, in which sitting."""
    session = shared_task.opened()
    admitted = admit_one(session, WRITE)
    event = shared_task.events()[-1]
    assert (event.event, event.by, event.session) == (
        "tool.allowed",
        Actor("claude-code", "agent"),
        session.id,
    )
    assert kinds.data_of(event) == kinds.ToolAllowed(
        arguments='{"path":"a"}', call=admitted.call, digest=ONE, effectful=True, tool="write_file"
    )
    assert set(shared_task.task().ledger.open_calls) == {admitted.call}


def test_a_call_that_only_reads_keeps_no_arguments(shared_task: SharedTask) -> None:
    """The text of arguments is kept for effects only."""
    session = shared_task.opened()
    admit_one(session, ToolRequest(tool="read_file", digest=ONE, effectful=False, arguments='{"path":"a"}'))
    assert shared_task.last(kinds.ToolAllowed).arguments == ""


def test_refusals_are_written_down(shared_task: SharedTask) -> None:
    """A denied call and one that nothing allows leave their reason and rule, and spend nothing."""
    session = shared_task.opened()
    denied, closed = session.admit(
        [ToolRequest(tool="rm", digest=ONE), ToolRequest(tool="unheard_of", digest=ONE)]
    )
    assert (block_reason(denied), block_reason(closed)) == ("deny_list", "not_allowed")
    data = [kinds.data_of(event) for event in shared_task.events()[-2:]]
    assert data == [
        kinds.ToolDenied(reason="deny_list", rule="deny rm (p.aex:7)", tool="rm"),
        kinds.ToolDenied(reason="not_allowed", tool="unheard_of"),
    ]
    assert (session.task.ledger.calls_used, session.task.ledger.calls_refused) == (0, 2)


def test_nothing_is_admitted_that_cannot_be_written(shared_task: SharedTask) -> None:
    """When the store fails, admitting raises, and the ledger is as it was."""
    session = shared_task.opened()
    shared_task.store.close()
    with pytest.raises(StoreError):
        session.admit([READ])
    assert session.task.ledger.calls_used == 0


def test_effects_are_written_durably(shared_task: SharedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch with an effect is durable; reads, settlements and notes need not be."""
    session = shared_task.opened()
    durable: list[bool] = []
    append = shared_task.store.append

    def spy(
        stream: str,
        entries: Sequence[Entry],
        *,
        expect: Head,
        refs: Mapping[str, str | None] = NO_REFS,
        blobs: Sequence[bytes] = (),
        durable: bool = True,
        seen: list[bool] = durable,
    ) -> Head:
        seen.append(durable)
        return append(stream, entries, expect=expect, refs=refs, blobs=blobs, durable=durable)

    monkeypatch.setattr(shared_task.store, "append", spy)
    session.admit([READ])
    session.admit([READ, WRITE])
    session.settle([kinds.ToolSettled(call="x", outcome="ok")])
    session.note(kinds.UpstreamCrashed(code=1))
    assert durable == [False, True, False, False]


def test_settlements_may_wait_for_the_next_commit(shared_task: SharedTask) -> None:
    """A later settlement is written ahead of the next admission, in one step with it."""
    session = shared_task.opened()
    admitted = admit_one(session, READ)
    session.task.deferred.append(
        NewEvent(kinds.ToolSettled(call=admitted.call, outcome="ok"), session=session.id)
    )
    assert "tool.settled" not in shared_task.kinds()
    session.admit([READ])
    assert shared_task.kinds()[-3:] == ["tool.allowed", "tool.settled", "tool.allowed"]


def test_settlements_that_wait_are_written_on_closing(shared_task: SharedTask) -> None:
    """Closing leaves nothing unwritten."""
    session = shared_task.opened()
    admitted = admit_one(session, READ)
    session.task.deferred.append(
        NewEvent(kinds.ToolSettled(call=admitted.call, outcome="ok"), session=session.id)
    )
    session.close("eof")
    assert shared_task.kinds()[-2:] == ["tool.settled", "session.closed"]


def test_what_is_open_at_the_end_is_in_doubt(shared_task: SharedTask) -> None:
    """A session that closes with an unanswered effect leaves it in doubt."""
    session = shared_task.opened()
    admitted = admit_one(session, WRITE)
    session.close("eof")
    assert set(shared_task.task().ledger.doubts) == {admitted.call}


def test_calls_have_ids_of_their_own(shared_task: SharedTask) -> None:
    """No two forwarded calls share an id, over sessions and batches."""
    first, second = shared_task.opened(), shared_task.opened()
    ids = [item.call for session in (first, second, first) for item in session.admit([READ, READ])]
    assert len(set(ids)) == 6
    assert set(shared_task.task().ledger.open_calls) == set(ids)


def test_ids_stay_unique_when_a_commit_is_repeated(shared_task: SharedTask) -> None:
    """A conflict on the way repeats the decision, and the ids that are handed out are those that were written."""
    first, second = shared_task.opened(), shared_task.opened()
    second.task.refresh()
    first.admit([READ])
    admitted = second.admit([READ, READ])
    assert {item.call for item in admitted} < set(shared_task.task().ledger.open_calls)


# --- the budget


def test_a_batch_respects_the_budget(shared_task: SharedTask) -> None:
    """Calls that are decided together see each other's cost."""
    session = shared_task.opened(policy=policy_of("use a", "deny b", "budget calls=2"))
    batch = [ToolRequest(tool=tool, digest=ONE, effectful=False) for tool in "abaaa"]
    admitted = session.admit(batch)
    assert [type(item.decision).__name__ for item in admitted] == [
        "Forward",
        "Block",
        "Forward",
        "Block",
        "Block",
    ]
    assert [block_reason(admitted[at]) for at in (1, 3, 4)] == [
        "deny_list",
        "budget_exhausted",
        "budget_exhausted",
    ]
    assert session.task.ledger.calls_used == 2
    assert shared_task.last(kinds.BudgetExhausted) == kinds.BudgetExhausted(limit=2, tool="a", used=2)


def test_only_forwarded_calls_are_counted(shared_task: SharedTask) -> None:
    """Refusals, questions, meta-tools and failures of the upstream's are no more than they are."""
    session = shared_task.opened(
        policy=policy_of("use a", "use deploy", "deny rm", "confirm before deploy", "budget calls=2")
    )
    session.admit([ToolRequest(tool="rm", digest=ONE), ToolRequest(tool="nope", digest=ONE), DEPLOY])
    session.admit([ToolRequest(tool="aex.list_tasks", digest=ONE, named_only=True)])
    assert session.task.ledger.calls_used == 0
    admitted = admit_one(session, ToolRequest(tool="a", digest=ONE, effectful=False))
    session.settle([kinds.ToolSettled(call=admitted.call, outcome="error")])
    assert session.task.ledger.calls_used == 1


def test_a_budget_of_one_is_spent_once_however_many_race(shared_task: SharedTask) -> None:
    """Two processes that race for the last call on one store: exactly one goes forward, the other is refused."""
    policy = policy_of("use a", "budget calls=1")
    for _ in range(10):
        shared_task = SharedTask()
        sessions = [shared_task.opened(policy=policy) for _ in range(2)]
        barrier = threading.Barrier(2)
        results: list[Admitted] = []

        def race(session: Session, barrier: threading.Barrier, results: list[Admitted]) -> None:
            barrier.wait()
            results.append(admit_one(session, ToolRequest(tool="a", digest=ONE)))

        threads = [threading.Thread(target=race, args=(session, barrier, results)) for session in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(type(item.decision).__name__ for item in results) == ["Block", "Forward"]
        assert shared_task.task().ledger.calls_used == 1
        assert verify_chain(shared_task.store.read("t1")).valid


def test_the_slower_one_decides_anew(shared_task: SharedTask) -> None:
    """A decision on an outdated ledger is never written: it is made again on the current one."""
    policy = policy_of("use a", "budget calls=1")
    first, second = shared_task.opened(policy=policy), shared_task.opened(policy=policy)
    second.task.refresh()
    assert admit_one(first, ToolRequest(tool="a", digest=ONE)).decision == Forward()
    assert second.task.ledger.calls_used == 0
    assert block_reason(admit_one(second, ToolRequest(tool="a", digest=ONE))) == "budget_exhausted"


def test_resuming_refunds_nothing(shared_task: SharedTask) -> None:
    """A new session of the task has what is left, not the whole budget."""
    policy = policy_of("use a", "budget calls=2")
    first = shared_task.opened(policy=policy)
    first.admit([ToolRequest(tool="a", digest=ONE, effectful=False)] * 2)
    first.close("eof")
    assert (
        block_reason(admit_one(shared_task.opened("g2", policy=policy), ToolRequest(tool="a", digest=ONE)))
        == "budget_exhausted"
    )


# --- paused calls


def paused(session: Session, call: ToolRequest = READ) -> str:
    admitted = admit_one(session, call)
    session.settle([kinds.ToolSettled(call=admitted.call, outcome="input-required", state=STATE)])
    return admitted.call


def back(call: ToolRequest = READ) -> ToolRequest:
    return ToolRequest(tool=call.tool, digest=call.digest, effectful=call.effectful, state=STATE)


def test_a_paused_call_goes_on_uncounted(shared_task: SharedTask) -> None:
    """The next leg of a call that asked for input passes a spent budget, and is not counted again."""
    session = shared_task.opened(policy=policy_of("use read_file", "budget calls=1"))
    call = paused(session)
    admitted = admit_one(session, back())
    assert (admitted.decision, admitted.call) == (Continue(call, 1), call)
    assert shared_task.last(kinds.ToolContinued) == kinds.ToolContinued(call=call, leg=1)
    assert session.task.ledger.calls_used == 1
    assert set(session.task.ledger.open_calls) == {call}
    assert block_reason(admit_one(session, back())) == "budget_exhausted"


def test_a_request_state_serves_one_call_of_a_batch(shared_task: SharedTask) -> None:
    """Of two calls that bring one state, the second is told to wait."""
    session = shared_task.opened()
    paused(session)
    first, second = session.admit([back(), back()])
    assert isinstance(first.decision, Continue)
    assert block_reason(second) == "busy"


def test_a_request_state_serves_only_its_own_call(shared_task: SharedTask) -> None:
    """With another tool or other arguments the state is worth nothing: a new call, counted."""
    session = shared_task.opened()
    paused(session)
    admitted = admit_one(session, ToolRequest(tool="read_file", digest=TWO, effectful=False, state=STATE))
    assert admitted.decision == Forward()
    assert session.task.ledger.calls_used == 2


# --- questions and answers


def question(session: Session, call: ToolRequest = DEPLOY) -> str:
    admitted = admit_one(session, call)
    assert isinstance(admitted.decision, Ask)
    assert admitted.approval is not None
    return admitted.approval.id


def say(session: Session, approval: str, *, yes: bool) -> None:
    answer(session.task, approval, yes=yes, via="elicitation", by=ANN)


def test_a_yes_lets_the_next_identical_call_through_once(shared_task: SharedTask) -> None:
    """Asked, answered, forwarded; and the call after that asks anew."""
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
    """Sisters that both saw the yes use it once: the slower one asks anew."""
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


def test_a_yes_expires(shared_task: SharedTask) -> None:
    """An approval that was not used in time is worth nothing."""
    session = shared_task.opened()
    asked = question(session)
    say(session, asked, yes=True)
    shared_task.clock.move(seconds=APPROVAL_MILLISECONDS / 1000)
    assert question(session) != asked


def test_a_question_expires(shared_task: SharedTask) -> None:
    """A question that nobody answered in time cannot be answered, and is asked anew."""
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
    """When somebody has looked, the call may be made again without being asked about."""
    session = shared_task.opened()
    call = doubtful(session)
    settle_doubt(shared_task.task(), call, happened=happened, by=ANN, note="n" * 5000)
    settled = shared_task.last(kinds.EffectSettled)
    assert (settled.outcome, len(settled.note)) == ("done" if happened else "not-done", 2000)
    assert admit_one(session, WRITE).decision == Forward()


def test_only_a_doubt_can_be_settled(shared_task: SharedTask) -> None:
    """Settling a call that is not in doubt raises NotFoundError, which lists those that are."""
    session = shared_task.opened()
    call = doubtful(session)
    with pytest.raises(NotFoundError, match=rf"call nosuch of task t1 is not in doubt \(in doubt: {call}\)"):
        settle_doubt(shared_task.task(), "nosuch", happened=True, by=ANN)


def test_a_doubt_outlives_the_session(shared_task: SharedTask, dead: Process) -> None:
    """A crash between intent and answer becomes a question in the next session, in whatever client."""
    first = shared_task.opened("g1", at=dead)
    call = admit_one(first, WRITE).call
    admitted = admit_one(shared_task.opened("g2", auto_confirm=True), WRITE)
    assert isinstance(admitted.decision, Ask)
    assert admitted.decision.doubt == call


# --- meta-tools


def test_what_no_rule_names_leaves_no_trace(shared_task: SharedTask) -> None:
    """An ungated request is forwarded, and is not written down."""
    session = shared_task.opened()
    before = shared_task.kinds()
    assert (
        admit_one(session, ToolRequest(tool="aex.list_tasks", digest=ONE, named_only=True)).decision
        == Forward()
    )
    assert shared_task.kinds() == before


def test_what_a_rule_asks_about_is_written_but_not_counted(shared_task: SharedTask) -> None:
    """A confirmed meta-tool is in the chain, as uncounted and without effect."""
    session = shared_task.opened(policy=policy_of("use a", "confirm before aex.resume", "budget calls=0"))
    resume = ToolRequest(tool="aex.resume", digest=ONE, named_only=True)
    say(session, question(session, resume), yes=True)
    assert isinstance(admit_one(session, resume).decision, Forward)
    allowed = shared_task.last(kinds.ToolAllowed)
    assert (allowed.uncounted, allowed.effectful) == (True, False)
    assert session.task.ledger.calls_used == 0
