"""Readings that are written together are one event, and mean what single events mean."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from adjourn.log import kinds
from adjourn.log.event import Actor, decode
from adjourn.store.memory import MemoryStore
from adjourn.tasks.ledger import Ledger
from adjourn.tasks.task import NewEvent, Task
from support.clock import NOON

SECRET = b"s" * 32
ROBOT = Actor("robot", "agent")
READ = kinds.ToolAllowed(call="c1", digest="1" * 64, effectful=False, tool="read_file")
READINGS = st.lists(
    st.one_of(
        st.builds(
            lambda call, effectful, tool, text, session: NewEvent(
                msgspec.structs.replace(READ, arguments=text, call=call, effectful=effectful, tool=tool), ROBOT, session
            ),
            st.sampled_from(["c1", "c2", "c3", "c4"]),
            st.sampled_from([False, False, True]),
            st.sampled_from(["read", "list"]),
            st.sampled_from(["", "x" * 3_000, "\x01" * 3_900]),
            st.sampled_from(["s1", "s1", "s2", ""]),
        ),
        st.builds(
            lambda call, outcome, session: NewEvent(kinds.ToolSettled(call=call, outcome=outcome), session=session),
            st.sampled_from(["c1", "c2", "c3", "c4"]),
            st.sampled_from(["ok", "ok", "error"]),
            st.sampled_from(["s1", "s1", "s2"]),
        ),
    ),
    min_size=1,
    max_size=8,
)


@given(st.lists(READINGS, min_size=1, max_size=4))
def test_readings_in_one_event_are_the_facts_that_were_committed(commits: list[list[NewEvent]]) -> None:
    """However readings are stored together, what is read are the facts, in their order, and the ledger is the same."""
    store, apart = MemoryStore(), Ledger(task="t1")
    task = Task(store, "t1", clock=lambda: NOON, secret=SECRET)
    for facts in commits:
        task.commit(facts)
    events = [decode(entry.data) for entry in store.read("t1")]
    read = [fact for event in events for fact in kinds.facts_of(event)]
    given_facts = [fact for facts in commits for fact in facts]
    assert [(kinds.data_of(fact), fact.by, fact.session) for fact in read] == [
        (fact.data, fact.by, fact.session) for fact in given_facts
    ]
    assert all(event.v == (2 if event.event == "tool.readings" else 1) for event in events)
    for fact in read:
        apart.seq, apart.hash = fact.seq - 1, fact.after
        apart.apply(fact, fact.after, kinds.data_of(fact))
    of_the_chain = {"seq", "hash", "tree"}
    together, single = msgspec.to_builtins(task.ledger), msgspec.to_builtins(apart)
    assert {name for name in together if together[name] != single[name]} <= of_the_chain


def test_many_readings_are_few_events_below_the_limit() -> None:
    """Sixty-four calls in flight are one event; long arguments make it more events, none of which is too long to store."""
    task = Task(store := MemoryStore(), "t1", clock=lambda: NOON, secret=SECRET)
    many = [NewEvent(msgspec.structs.replace(READ, call=f"c{number}"), ROBOT, "s1") for number in range(300)]
    task.commit(many[:64])
    assert [decode(entry.data).event for entry in store.read("t1")] == ["tool.readings"]
    long = [
        NewEvent(msgspec.structs.replace(fact.data, arguments="\x01" * 1_900, tool="t" * 100), ROBOT, "s1")
        for fact in many
    ]
    task.commit(long)
    assert store.head("t1").seq == 150
