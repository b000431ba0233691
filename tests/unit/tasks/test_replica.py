"""The lease of a replica: who lives, who is gone, and who is asked for a task."""

from __future__ import annotations

import pytest

from adjourn.errors import ConflictError, HeldError
from adjourn.host import process
from adjourn.host.process import Process
from adjourn.log import kinds
from adjourn.store.memory import MemoryStore
from adjourn.tasks.lease import (
    LEASE_MILLISECONDS,
    RENEW_SECONDS,
    SILENCE_SECONDS,
    ReplicaLease,
    SessionIdentity,
    is_alive,
    time_of,
)
from adjourn.tasks.session import Session
from support.clock import Clock
from support.task_sessions import POLICY, READ, WRITE, SharedTask, admit_one

FIRST, SECOND, THIRD = (Process(f"host{number}:boot:ns", 100 + number, 1) for number in range(3))


class StoreWithClock(MemoryStore):
    """Its clock is the one of a test."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.now = clock


class Replicas:
    """Replicas on machines that cannot examine each other, each with a clock of its own, before a store with another one."""

    def __init__(self) -> None:
        self.shared = SharedTask()
        self.shared.store = StoreWithClock(Clock(step=1))
        self.seconds = 0.0
        self.leases = {
            one: ReplicaLease(self.shared.store, one, Clock(one.pid * 1_000_000_000, step=1), lambda: self.seconds)
            for one in (FIRST, SECOND, THIRD)
        }

    @property
    def store_clock(self) -> Clock:
        assert isinstance(self.shared.store, StoreWithClock)
        return self.shared.store.now

    def live(self, seconds: float, *living: Process) -> list[str]:
        """Let time pass in which only some replicas live; returns which leases they saw end."""
        ended: list[str] = []
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds += RENEW_SECONDS
            for one in living:
                self.leases[one].renew()
                ended += self.leases[one].ended()
        return ended

    def session(self, of: Process, group: str) -> Session:
        identity = SessionIdentity(of, group, replica=ReplicaLease.ref_of(of))
        session = Session(self.shared.task(), POLICY, identity, policy_text=b"policy")
        session.open()
        return session


def test_only_a_silent_replica_is_taken_for_gone() -> None:
    """Whatever the clocks of the machines say: who renews lives, who is silent for a few seconds is gone for all the others."""
    replicas = Replicas()
    assert replicas.live(20, FIRST, SECOND, THIRD) == []
    before = replicas.seconds
    ended: list[str] = []
    while not ended:
        ended = replicas.live(RENEW_SECONDS, FIRST, SECOND)
    assert replicas.seconds - before <= SILENCE_SECONDS + 2 * RENEW_SECONDS
    ended += replicas.live(RENEW_SECONDS, FIRST, SECOND)
    assert ended == [ReplicaLease.ref_of(THIRD)] * 2
    assert list(replicas.leases[FIRST].gone) == [ReplicaLease.ref_of(THIRD)]
    assert replicas.live(20, FIRST, SECOND, THIRD) == []
    assert not replicas.leases[FIRST].gone


def test_an_outage_of_the_store_ends_no_lease() -> None:
    """After a time in which nobody could renew, silence is counted from zero: replicas that come back one after the other all live."""
    replicas = Replicas()
    replicas.live(5, FIRST, SECOND, THIRD)
    replicas.seconds += 60
    assert replicas.live(SILENCE_SECONDS - 1, FIRST) == []
    assert replicas.live(10, FIRST, SECOND, THIRD) == []


def test_a_replica_that_ends_in_order_is_gone_at_once() -> None:
    """Who gives its lease up is seen to have ended at the next look."""
    replicas = Replicas()
    replicas.live(2, FIRST, SECOND)
    replicas.leases[SECOND].release()
    assert replicas.live(RENEW_SECONDS, FIRST) == [ReplicaLease.ref_of(SECOND)]


def test_another_client_gets_the_task_when_the_replica_is_gone() -> None:
    """Another client is refused as long as the replica of the first lives, without a heartbeat of the session, and gets the task then."""
    replicas = Replicas()
    replicas.live(1, FIRST, SECOND)
    first = replicas.session(FIRST, "g1")
    for _ in range(3):
        replicas.store_clock.move(seconds=LEASE_MILLISECONDS / 1000)
        replicas.live(20, FIRST, SECOND)
        with pytest.raises(HeldError):
            replicas.session(SECOND, "g2")
    replicas.live(SILENCE_SECONDS + 2 * RENEW_SECONDS, SECOND)
    second = replicas.session(SECOND, "g2")
    assert list(second.task.ledger.sessions) == [second.id]
    with pytest.raises(HeldError):
        first.admit([])


def test_a_fenced_session_appends_nothing_more() -> None:
    """A replica that slept, and decided on the head before the take-over, loses its append in the store itself, whatever it believes."""
    replicas = Replicas()
    replicas.live(1, FIRST, SECOND)
    first = replicas.session(FIRST, "g1")
    admit_one(first, WRITE)
    asleep = first.task.head
    replicas.live(SILENCE_SECONDS + 2 * RENEW_SECONDS, SECOND)
    second = replicas.session(SECOND, "g2")
    entries = list(replicas.shared.store.read("t1"))
    with pytest.raises(ConflictError):
        replicas.shared.store.append("t1", [entries[-1]], expect=asleep)
    replicas.live(2 * RENEW_SECONDS, FIRST, SECOND)
    for call in (WRITE, READ):
        with pytest.raises(HeldError):
            first.admit([call])
    assert list(replicas.shared.store.read("t1")) == entries
    assert second.task.ledger.calls_used == 1
    assert [call.tool for call in second.task.ledger.doubts.values()] == [WRITE.tool]
    first.settle([kinds.ToolSettled(call=f"{first.id}.1", outcome="ok")])
    assert not second.task.refresh().doubts


def test_a_client_continues_through_another_replica_at_once() -> None:
    """The same client has a session at each of two living replicas, and they see each other's calls."""
    replicas = Replicas()
    replicas.live(1, FIRST, SECOND)
    first, second = replicas.session(FIRST, "g"), replicas.session(SECOND, "g")
    admit_one(first, WRITE)
    admit_one(second, READ)
    admit_one(first, READ)
    assert first.task.ledger.calls_used == 3
    assert set(second.task.refresh().sessions) == {first.id, second.id}


def test_a_task_is_asked_for_and_given_back() -> None:
    """A replica sees which of its tasks others ask for, and they see its answer."""
    replicas = Replicas()
    replicas.live(1, FIRST, SECOND)
    replicas.session(FIRST, "g1")
    first, second = replicas.leases[FIRST], replicas.leases[SECOND]
    assert second.holders("t1") == [first.ref]
    assert first.holders("t1") == []
    asked = second.ask(first.ref, "t1")
    assert second.ask(first.ref, "t1") == asked
    assert (first.wanted(), second.wanted()) == (["t1"], [])
    assert not second.is_answered(first.ref, asked)
    first.answer("t1")
    assert second.is_answered(first.ref, asked)
    asked = second.ask(first.ref, "t1")
    first.release()
    assert second.is_answered(first.ref, asked)
    second.forget(asked)
    assert first.wanted() == []


def test_the_stores_clock_counts_where_it_has_one() -> None:
    """A lease of a store with a clock is compared with that clock, not with that of the machine that looks."""

    shared = SharedTask()
    shared.store = StoreWithClock(Clock(5_000))
    assert time_of(shared.store, 7) == 5_000
    assert time_of(MemoryStore(), 7) == 7
    elsewhere = Process("elsewhere:1b4e28ba:4026531836", 4711, 90210)
    session = shared.opened("g1", at=elsewhere)
    holder = session.task.ledger.sessions[session.id]
    assert shared.store.ref(f"lease/t1/{session.id}") == str(5_000 + LEASE_MILLISECONDS)
    for machine in (0, 2**60):
        assert is_alive(shared.store, "t1", holder, machine) is True
    assert process.lives(elsewhere) is None
