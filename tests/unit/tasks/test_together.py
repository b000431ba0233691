"""Commits of several tasks in one transaction: each has its own outcome, and is what it would be alone."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from adjourn.errors import HeldError, StoreError
from adjourn.log import kinds
from adjourn.log.event import SYSTEM
from adjourn.policy.principal import Principal, SpaceStore, space_of
from adjourn.store import Append, Appended, SqliteStore
from adjourn.tasks.decision import Forward, ToolRequest
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.session import Admitted, PendingCalls, Session, is_effectful
from adjourn.tasks.task import NewEvent, Task
from adjourn.tasks.together import PendingCommit, commit_together
from adjourn.verification.verify import verify_task
from support.policies import policy_of
from support.task_sessions import READ, SECRET, WRITE, SharedTask, new_pending_calls


class CountedStore(SqliteStore):
    """Counts its transactions of several appends. `before` is called before each."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sizes: list[int] = []
        self.before: Callable[[], None] = lambda: None

    def append_many(self, appends: Sequence[Append], *, durable: bool = True) -> list[Appended]:
        self.sizes.append(len(appends))
        self.before()
        return super().append_many(appends, durable=durable)


class OddCommit(PendingCommit):
    """Raises what nobody expects."""

    def build(self, ledger: Ledger) -> list[NewEvent]:
        del ledger
        raise RuntimeError("odd")


@pytest.fixture
def shared(tmp_path: Path) -> SharedTask:
    found: Any = SharedTask()
    found.store = CountedStore(tmp_path / "s.db")
    return found  # type: ignore[no-any-return]


def opened(shared: SharedTask, name: str, **options: Any) -> Session:
    session = shared.session(**options)
    session.task = shared.task(name)
    session.open()
    return session


def pending_calls(
    session: Session, calls: Sequence[ToolRequest], forward: Callable[[list[Admitted]], None] | None = None
) -> PendingCalls:
    """What `Session.admit` commits."""
    durable = any(map(is_effectful, calls))
    return PendingCalls(session.task, session=session, calls=calls, durable=durable, forward=forward)


def store_of(shared: SharedTask) -> CountedStore:
    store: Any = shared.store
    assert isinstance(store, CountedStore)
    return store


def check(shared: SharedTask, *names: str) -> None:
    """All that is in the store verifies, and is what a new process loads."""
    for name in names:
        assert verify_task(shared.store, name).findings == []


def test_calls_of_several_tasks_are_one_transaction(shared: SharedTask) -> None:
    """Intents of several tasks are written together, and each ledger is what the store has."""
    sessions = [opened(shared, f"t{number}") for number in range(5)]
    pending = [pending_calls(session, [READ, WRITE]) for session in sessions]
    commit_together(pending)
    assert store_of(shared).sizes == [5]
    for session, one in zip(sessions, pending, strict=True):
        assert one.error is None
        assert [type(admitted.decision) for admitted in one.decided] == [Forward, Forward]
        assert session.task.ledger.calls_used == 2
        assert session.task.head == shared.store.head(session.task.id)
        assert shared.task(session.task.id).ledger.open_calls == session.task.ledger.open_calls
    check(shared, *(session.task.id for session in sessions))


def test_calls_of_several_principals_are_one_transaction(shared: SharedTask) -> None:
    """Each principal has a view of the store, and a task of the same name; what they commit together is in the one store below."""
    sessions = []
    for name in ("ann", "bob"):
        space = space_of(Principal(id=name, name=name, type="human"))
        session = shared.session()
        view = SpaceStore(shared.store, space)
        session.task = Task(view, space.named("t"), clock=shared.clock, secret=SECRET)
        session.open()
        sessions.append(session)
    pending = [pending_calls(session, [WRITE]) for session in sessions]
    commit_together(pending)
    assert store_of(shared).sizes == [2]
    assert [one.error for one in pending] == [None, None]
    for session in sessions:
        assert session.task.head == shared.store.head(session.task.id)
        assert session.task.ledger.calls_used == 1
    check(shared, *(session.task.id for session in sessions))


def test_commits_of_one_task_follow_each_other(shared: SharedTask) -> None:
    """A settlement and calls of one task are two transactions, in their order; what waits goes with the first."""
    session, other = opened(shared, "t1"), opened(shared, "t2")
    (first,) = session.admit([WRITE])
    note = kinds.MessageRefused(reason="odd", sample="", size=1)
    session.task.deferred.append(NewEvent(note, SYSTEM, session.id))
    settling = session.settling([kinds.ToolSettled(call=first.call, outcome="ok")])
    commit_together([settling, pending_calls(session, [READ]), pending_calls(other, [READ])])
    assert store_of(shared).sizes == [2]
    assert shared.kinds()[-3:] == ["message.refused", "tool.settled", "tool.allowed"]
    assert session.task.deferred == []
    check(shared, "t1", "t2")


def test_a_commit_that_is_over_keeps_no_call(shared: SharedTask) -> None:
    """Calls that were committed, alone or together, are freed without a collection: arguments may be large."""
    session, other = opened(shared, "t1"), opened(shared, "t2")
    gc.collect()
    before = new_pending_calls()
    gc.disable()
    try:
        session.admit([WRITE])
        commit_together([pending_calls(session, [WRITE]), pending_calls(other, [WRITE])])
        assert not new_pending_calls(before)
    finally:
        gc.enable()


def test_another_process_appends_first(shared: SharedTask) -> None:
    """The task that lost decides again on what it finds; the others are written."""
    lost, other = opened(shared, "t1"), opened(shared, "t2")
    rival = shared.task("t1")

    def append() -> None:
        store_of(shared).before = lambda: None
        rival.commit(lambda _: [NewEvent(kinds.MessageRefused(reason="odd", sample="", size=1))])

    store_of(shared).before = append
    pending = [pending_calls(lost, [WRITE]), pending_calls(other, [WRITE])]
    commit_together(pending)
    assert [one.error for one in pending] == [None, None]
    assert shared.kinds()[-2:] == ["message.refused", "tool.allowed"]
    assert [admitted.call for admitted in pending[0].decided] == [f"{lost.id}.1"]
    assert lost.task.head == shared.store.head("t1")
    check(shared, "t1", "t2")


def test_a_task_that_was_taken_over_is_refused_alone(shared: SharedTask) -> None:
    """Who lost the task gets the error; who was written with it is not affected."""
    fenced, other = opened(shared, "t1"), opened(shared, "t2")
    rival = shared.session("g2")
    rival.open(take_over=True)
    fenced.task.refresh()
    pending = [pending_calls(fenced, [WRITE]), pending_calls(other, [WRITE])]
    commit_together(pending)
    assert isinstance(pending[0].error, HeldError)
    assert pending[1].error is None
    assert other.task.ledger.calls_used == 1
    check(shared, "t1", "t2")


@pytest.mark.parametrize("kind", [StoreError, MemoryError])
def test_a_store_that_fails_leaves_every_ledger_as_it_was(shared: SharedTask, kind: type[Exception]) -> None:
    """When nothing can be written, whatever failed, no ledger has what was decided, and the same calls pass once the store is back."""
    sessions = [opened(shared, "t1"), opened(shared, "t2")]
    failure = kind("the disk is full")

    def fail() -> None:
        raise failure

    store_of(shared).before = fail
    pending = [pending_calls(session, [WRITE]) for session in sessions]
    commit_together(pending)
    assert [one.error for one in pending] == [failure, failure]
    assert [session.task.ledger.calls_used for session in sessions] == [0, 0]
    store_of(shared).before = lambda: None
    again = [pending_calls(session, [WRITE]) for session in sessions]
    commit_together(again)
    assert [session.task.ledger.calls_used for session in sessions] == [1, 1]
    check(shared, "t1", "t2")


def test_a_failure_of_ours_stays_with_its_commit(shared: SharedTask) -> None:
    """What a builder raises is the outcome of its commit alone."""
    session = opened(shared, "t2")
    odd = OddCommit(shared.task("t1"))
    fine = pending_calls(session, [READ])
    commit_together([odd, fine])
    assert isinstance(odd.error, RuntimeError)
    assert fine.error is None


class WatchedLock:
    """A task's lock. `taken` is called once it is held."""

    def __init__(self, taken: Callable[[], object]) -> None:
        self._lock = threading.RLock()
        self._taken = taken

    def __enter__(self) -> None:
        self._lock.acquire()
        self._taken()

    def __exit__(self, *_exception: object) -> None:
        self._lock.release()


def test_threads_that_commit_for_the_same_tasks_do_not_wait_for_each_other(shared: SharedTask) -> None:
    """One thread has a call of the first task and an outcome of the second, another one has outcomes of both: both commit."""
    sessions = [opened(shared, "t1"), opened(shared, "t2")]
    second_is_held, first_is_held = threading.Event(), threading.Event()

    def one_has_second() -> None:
        second_is_held.set()
        if threading.current_thread() is one:
            first_is_held.wait(1)  # in vain, where the first is already ours

    def other_has_first() -> None:
        if threading.current_thread() is other:
            first_is_held.set()

    def late(number: int) -> PendingCommit:
        goal = NewEvent(kinds.TaskOpened(goal="Release"), SYSTEM)
        return PendingCommit(sessions[number].task, [goal])

    for session, taken in zip(sessions, (other_has_first, one_has_second), strict=True):
        lock: Any = WatchedLock(taken)
        session.task.lock = lock
    mixed, outcomes = [pending_calls(sessions[0], [WRITE]), late(1)], [late(0), late(1)]

    def follow() -> None:
        second_is_held.wait(60)
        commit_together(outcomes)

    one = threading.Thread(target=commit_together, args=(mixed,), daemon=True)
    other = threading.Thread(target=follow, daemon=True)
    for thread in (one, other):
        thread.start()
    for thread in (one, other):
        thread.join(60)
        assert not thread.is_alive()
    assert [pending.error for pending in (*mixed, *outcomes)] == [None] * 4
    check(shared, "t1", "t2")


def test_reading_calls_go_before_they_are_written(shared: SharedTask) -> None:
    """Calls without effect are forwarded before the transaction, those with effects after it."""
    order: list[str] = []
    reading, writing = opened(shared, "t1"), opened(shared, "t2")
    store_of(shared).before = lambda: order.append("written")

    def forward(_admitted: list[Admitted]) -> None:
        order.append("forwarded")

    pending = [pending_calls(reading, [READ], forward), pending_calls(writing, [WRITE], forward)]
    commit_together(pending)
    assert order == ["forwarded", "written"]


def test_a_budget_of_the_workspace_is_not_exceeded(shared: SharedTask) -> None:
    """Tasks that share a budget and commit together spend no more than it has."""
    policy = policy_of("use write_file", "budget calls=3 per hour", version="v1")
    sessions = [opened(shared, f"t{number}", policy=policy) for number in range(6)]
    pending = [pending_calls(session, [WRITE]) for session in sessions]
    commit_together(pending)
    assert all(one.error is None for one in pending)
    passed = [one.decided[0].decision for one in pending]
    assert sum(isinstance(decision, Forward) for decision in passed) == 3
    check(shared, *(session.task.id for session in sessions))


def test_a_task_without_facts_is_looked_at(shared: SharedTask) -> None:
    """A commit of nothing among others takes in what other processes have written, as one alone does."""
    task, other = Task(shared.store, "t1", clock=shared.clock, secret=b"s" * 32), opened(shared, "t2")
    opened(shared, "t1")
    assert not task.ledger.exists
    commit_together([PendingCommit(task), pending_calls(other, [READ])])
    assert task.ledger.exists
