"""Sessions of a task: one client at a time opens it, shares it among its processes, and loses it to a take-over."""

from __future__ import annotations

import os
import subprocess

import pytest

from adjourn.errors import HeldError
from adjourn.host import process
from adjourn.host.process import Process
from adjourn.log import kinds
from adjourn.log.canonical_json import digest
from adjourn.log.event import Actor, timestamp
from adjourn.tasks.decision import Ask, Forward
from adjourn.tasks.lease import LEASE_MILLISECONDS, TaskSwitchedError
from support.policies import policy_of
from support.task_sessions import ONE, READ, REMOTE_PROCESS, WRITE, SharedTask, admit_one


@pytest.fixture(scope="module")
def dead() -> Process:
    """A process that has ended, and been waited for."""
    child = subprocess.Popen(["true"])
    was = Process(process.host(), child.pid, process.started(child.pid) or 1)
    child.wait()
    return was


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
    """What is recorded with the opening is in the same commit, by the client."""
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
    """After one client has left another one opens a session on the same task, with what was spent."""
    first = shared_task.opened("g1")
    first.admit([READ])
    first.close("eof")
    second = shared_task.opened("g2", client="codex")
    assert second.task.ledger.calls_used == 1
    assert shared_task.kinds().count("task.opened") == 1


def test_a_held_task_is_refused_by_name(shared_task: SharedTask) -> None:
    """While a client lives another one is refused, and learns who holds the task, where and since when."""
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
    assert shared_task.last(kinds.SessionLost) == kinds.SessionLost(calls=[effect.call], lost=first.id, reason="dead")
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
    """A fenced session may still say the outcome of its calls."""
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
    """When the taker has left, the first client continues if it is asked to open again."""
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
    """Another process of the client that overlooked a sleeping session does not stop it: it opens a session again with the next call."""
    first = shared_task.opened("g1", at=REMOTE_PROCESS)
    shared_task.clock.move(seconds=2 * LEASE_MILLISECONDS / 1000)
    shared_task.opened("g1")
    assert shared_task.last(kinds.SessionLost).lost == first.id
    admitted = admit_one(first, READ)
    assert admitted.decision == Forward()
    assert first.id in shared_task.task().ledger.sessions
    assert shared_task.kinds()[-2:] == ["session.opened", "tool.allowed"]


def test_a_client_that_moved_is_followed(shared_task: SharedTask) -> None:
    """When one process of a client continues with another task, its other processes are informed."""
    first, second = shared_task.opened("g1"), shared_task.opened("g1")
    first.close("resumed", to="t2")
    with pytest.raises(TaskSwitchedError, match="switched to task t2"):
        second.admit([READ])
    assert "tool.allowed" not in shared_task.kinds()


def test_a_doubt_outlives_the_session(shared_task: SharedTask, dead: Process) -> None:
    """A crash between intent and answer becomes a question in the next session, in whatever client."""
    first = shared_task.opened("g1", at=dead)
    call = admit_one(first, WRITE).call
    admitted = admit_one(shared_task.opened("g2", auto_confirm=True), WRITE)
    assert isinstance(admitted.decision, Ask)
    assert admitted.decision.doubt == call
