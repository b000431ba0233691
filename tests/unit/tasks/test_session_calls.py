"""Calls of a session: each is decided and written before it is forwarded, within the budget."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from adjourn.errors import StoreError
from adjourn.log import kinds
from adjourn.log.chain import verify_chain
from adjourn.log.event import Actor
from adjourn.store.base import NO_REFS, NO_SWAPS, Entry, Head, Swap
from adjourn.tasks.decision import Continue, Forward, ToolRequest
from adjourn.tasks.session import Admitted, Session
from adjourn.tasks.task import NewEvent
from support.policies import policy_of
from support.task_sessions import DEPLOY, ONE, READ, TWO, WRITE, SharedTask, admit_one, block_reason

STATE = "5" * 64


# --- calls


def test_an_intent_is_written_before_the_call_goes(shared_task: SharedTask) -> None:
    """What is admitted is in the chain: which tool, which arguments' digest, by which actor, in which session."""
    session = shared_task.opened()
    admitted = admit_one(session, WRITE)
    event = shared_task.events()[-1]
    assert (event.event, event.by, event.session) == ("tool.allowed", Actor("claude-code", "agent"), session.id)
    assert kinds.data_of(event) == kinds.ToolAllowed(
        arguments='{"path":"a"}', call=admitted.call, digest=ONE, effectful=True, tool="write_file"
    )
    assert set(shared_task.task().ledger.open_calls) == {admitted.call}


def test_a_call_that_only_reads_keeps_what_it_read(shared_task: SharedTask) -> None:
    """The text of arguments that its edge gives is kept, so that the next session learns the path."""
    session = shared_task.opened()
    admit_one(session, ToolRequest(tool="read_file", digest=ONE, effectful=False, arguments='{"path":"a"}'))
    assert shared_task.last(kinds.ToolAllowed).arguments == '{"path":"a"}'


def test_refusals_are_written_down(shared_task: SharedTask) -> None:
    """A denied call and one that nothing allows leave their reason and rule, and spend nothing."""
    session = shared_task.opened()
    denied, closed = session.admit([ToolRequest(tool="rm", digest=ONE), ToolRequest(tool="unheard_of", digest=ONE)])
    assert (block_reason(denied), block_reason(closed)) == ("deny_list", "not_allowed")
    data = [kinds.data_of(event) for event in shared_task.events()[-2:]]
    assert data == [
        kinds.ToolDenied(digest=ONE, reason="deny_list", rule="deny rm (p.aex:7)", tool="rm"),
        kinds.ToolDenied(digest=ONE, reason="not_allowed", tool="unheard_of"),
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
        swaps: Mapping[str, Swap] = NO_SWAPS,
        seen: list[bool] = durable,
    ) -> Head:
        seen.append(durable)
        return append(stream, entries, expect=expect, refs=refs, blobs=blobs, durable=durable, swaps=swaps)

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
    session.task.deferred.append(NewEvent(kinds.ToolSettled(call=admitted.call, outcome="ok"), session=session.id))
    assert "tool.settled" not in shared_task.kinds()
    session.admit([READ])
    assert shared_task.kinds()[-2:] == ["tool.allowed", "tool.readings"]


def test_settlements_that_wait_are_written_on_closing(shared_task: SharedTask) -> None:
    """Closing leaves nothing unwritten."""
    session = shared_task.opened()
    admitted = admit_one(session, READ)
    session.task.deferred.append(NewEvent(kinds.ToolSettled(call=admitted.call, outcome="ok"), session=session.id))
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
    """A conflict on the way repeats the decision, and the ids that are returned are those that were written."""
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
    assert [type(item.decision).__name__ for item in admitted] == ["Forward", "Block", "Forward", "Block", "Block"]
    assert [block_reason(admitted[at]) for at in (1, 3, 4)] == ["deny_list", "budget_exhausted", "budget_exhausted"]
    assert session.task.ledger.calls_used == 2
    assert shared_task.last(kinds.BudgetExhausted) == kinds.BudgetExhausted(digest=ONE, limit=2, tool="a", used=2)


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
    """Of two calls that bring one state, the second is asked to wait."""
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


# --- meta-tools


def test_what_no_rule_names_leaves_no_trace(shared_task: SharedTask) -> None:
    """An ungated request is forwarded, and is not written down."""
    session = shared_task.opened()
    before = shared_task.kinds()
    assert admit_one(session, ToolRequest(tool="aex.list_tasks", digest=ONE, named_only=True)).decision == Forward()
    assert shared_task.kinds() == before
