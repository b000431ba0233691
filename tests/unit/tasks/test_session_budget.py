"""A budget of each session beside that of the task: `budget calls=N per session`."""

from __future__ import annotations

from adjourn.aex import Policy, from_text
from adjourn.checkpoints.triggers import due_shares
from adjourn.log import kinds
from adjourn.tasks.budgets import notice_text, spent_shares
from adjourn.tasks.decision import Block, Forward
from adjourn.tasks.session import Session
from adjourn.tasks.task import NewEvent
from support.policies import policy_of
from support.task_sessions import ONE, READ, WRITE, SharedTask, admit_one

POLICY = policy_of("use read_file, write_file, aex.checkpoint", "budget calls=7, calls=3 per session", version="v1")


def refusal(session: Session) -> Block:
    decision = admit_one(session, READ).decision
    assert isinstance(decision, Block)
    return decision


def spend(session: Session, calls: int, *, effects: int = 0) -> None:
    """Make calls that pass; the first of them have an effect that succeeds."""
    for count in range(calls):
        admitted = admit_one(session, WRITE if count < effects else READ)
        assert isinstance(admitted.decision, Forward), admitted.decision
        session.settle([kinds.ToolSettled(call=admitted.call, outcome="ok", seen=True)])


def test_the_next_session_continues_where_only_the_sessions_calls_are_spent(shared_task: SharedTask) -> None:
    """A spent session is refused, the next client has the same number again, and the task's budget ends all of them."""
    first = shared_task.opened(policy=POLICY)
    spend(first, 3, effects=1)
    blocked = refusal(first)
    assert (blocked.budget, blocked.used, blocked.limit) == ("calls per session", 3, 3)
    assert "the next one continues with calls of its own" in blocked.remedy
    first.close("client-eof")
    second = shared_task.opened("g2", policy=POLICY)
    spend(second, 3, effects=1)
    second.close("client-eof")
    third = shared_task.opened("g3", policy=POLICY)
    spend(third, 1)
    assert (refusal(third).budget, third.task.ledger.calls_used) == ("", 7)


def test_a_client_gains_nothing_by_another_session_of_its_own(shared_task: SharedTask) -> None:
    """Sessions of one client process count together, one after the other and side by side."""
    first, sister = shared_task.opened(policy=POLICY), shared_task.opened(policy=POLICY)
    spend(first, 1, effects=1)
    spend(sister, 1)
    first.close("client-eof")
    again = shared_task.opened(policy=POLICY)
    spend(again, 1)
    assert refusal(again).budget == refusal(sister).budget == "calls per session"


def test_calls_without_progress_count_for_the_next_session(shared_task: SharedTask) -> None:
    """A session that completed no effect leaves its calls to the next one, until the agent says by a checkpoint what it achieved."""
    first = shared_task.opened(policy=POLICY)
    spend(first, 3)
    assert "the next session starts with none" in refusal(first).remedy
    first.close("client-eof")
    second = shared_task.opened("g2", policy=POLICY)
    blocked = refusal(second)
    assert "3 of them in sessions before" in blocked.message
    checkpoint = kinds.CheckpointCreated(document=ONE, key="k", root=ONE, signature="s", name="read", trigger="agent")
    second.task.commit([NewEvent(checkpoint, second.actor, second.id)])
    spend(second, 3)
    assert refusal(second).budget == "calls per session"


def test_checkpoints_and_notices_are_due_in_each_session(shared_task: SharedTask) -> None:
    """75 and 90 % of a session's calls are due again in every session, beside those of the task."""
    policy = policy_of("use read_file, write_file", "budget calls=100, calls=4 per session", version="v1")
    first = shared_task.opened(policy=policy)
    spend(first, 3, effects=1)
    trigger = "at 75% of calls per session=4"
    assert due_shares(first.task.ledger, policy) == [(75, "calls per session", trigger)]
    shares = spent_shares(policy, first.task.ledger, ())
    assert "3 of 4 calls (75 %) of this session's budget" in notice_text(shares, "aex.checkpoint")
    made = kinds.CheckpointCreated(document=ONE, key="k", root=ONE, signature="s", name="c", trigger=trigger)
    first.task.commit([NewEvent(made)])
    assert due_shares(first.task.ledger, policy) == []
    first.close("client-eof")
    second = shared_task.opened("g2", policy=policy)
    spend(second, 3)
    assert due_shares(second.task.ledger, policy) == [(75, "calls per session", trigger)]


def test_work_that_is_started_over_gets_no_new_calls(shared_task: SharedTask) -> None:
    """A new task with the goal of an unfinished one whose calls are spent has them spent; once that is finished, it has its own."""
    policy = from_text('policy p v1\n\ngoal "Deploy"\n\nallow *\nbudget calls=3\n', "p.aex")[0]
    first = shared_task.opened(policy=policy)
    spend(first, 3)
    first.close("client-eof")

    def started(name: str, rules: Policy = policy) -> Session:
        session = Session(shared_task.task(name), rules, first.identity)
        session.open()
        return session

    again = started("t2")
    assert "task t2, which starts the unfinished task t1 over," in refusal(again).message
    assert "adjourn tasks finish t1" in refusal(again).remedy
    spend(started("t3", from_text('policy p v1\n\ngoal "Test"\n\nallow *\nbudget calls=3\n', "p.aex")[0]), 3)
    first.task.commit([NewEvent(kinds.TaskFinished())])
    spend(started("t4"), 3)


def test_a_policy_reads_and_formats_the_budget_of_a_session() -> None:
    """`per session` stands beside the task's budget, keeps the smaller of two, and only calls can be counted so."""
    policy = from_text(
        'policy p v1\n\ngoal "g"\n\nallow *\nbudget calls=50 per session, calls=500, calls=9 per day\n', "p"
    )[0]
    assert (policy.budget, policy.budgets["calls per session"].amount) == (500, 50)
    assert [rule.text for rule in policy.workspace_budgets] == ["calls=9 per day"]
    assert policy.budgets["calls per session"].text == "calls=50 per session"
