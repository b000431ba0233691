"""Whose a task is, and what each person has spent: from the principals that sessions name."""

from __future__ import annotations

from adjourn.aex import from_text, narrowed
from adjourn.host import process
from adjourn.log import kinds
from adjourn.log.event import Actor
from adjourn.policy.principal import Principal, space_of
from adjourn.store.memory import MemoryStore
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.owners import Period, owner_of, spent_by_person, tasks_of_person
from adjourn.tasks.session import Session
from adjourn.tasks.task import NewEvent, Task, tasks_of
from support.task_sessions import READ, SECRET

DAY = 86_400_000
START = 1_777_700_000_000
ANN = Principal(id="user:1", name="ann", type="human", groups=("ops",))
BOB = Principal(id="user:2", name="bob", type="human", groups=("ops",), label="ann")
EVER = Period()
TIMES = iter(range(1, 100))


def work(store: MemoryStore, task: str, who: Principal | None, calls: int, *, at: int = START) -> None:
    """So many calls in one session of somebody."""
    policy = narrowed(from_text("policy p v1\nallow *\nbudget calls=100\n", "p.aex")[0], who)
    group = f"g{next(TIMES)}"
    session = Session(
        Task(store, task, clock=lambda: at, secret=SECRET),
        policy,
        SessionIdentity(process.current(), group, principal=who),
    )
    session.open()
    for _ in range(calls):
        session.admit([READ])
    session.close("end")


def spent(store: MemoryStore, period: Period = EVER) -> list[tuple[str, str, int, int]]:
    said = spent_by_person(store, tasks_of(store), period, lambda done, total: None)
    return [(one.principal, one.principal_name, one.calls, one.tasks) for one in said]


def test_a_task_is_its_first_sessions_and_found_by_id_or_name() -> None:
    """A label is nobody's name; tasks of a group's space are each its starter's; `group:NAME` finds all of them."""
    store = MemoryStore()
    own, theirs = space_of(ANN).named("a"), space_of(BOB).named("b")
    shared = space_of(ANN, ["ops"])
    work(store, own, ANN, 1)
    work(store, theirs, BOB, 1)
    work(store, shared.named("s1"), ANN, 1)
    work(store, shared.named("s2"), BOB, 1)
    work(store, shared.named("s1"), BOB, 1)
    work(store, "local", None, 1)
    assert owner_of(store, theirs) == ("user:2", "ann (bob)")
    assert owner_of(store, "local") == owner_of(store, "nothing") == ("", "")
    for name in ("ann", "user:1"):
        assert set(tasks_of_person(store, name)) == {own, shared.named("s1")}
    assert set(tasks_of_person(store, "bob")) == {theirs, shared.named("s2")}
    assert set(tasks_of_person(store, "group:ops")) == {shared.named("s1"), shared.named("s2")}
    assert tasks_of_person(store, "group:others") == tasks_of_person(store, "carl") == []


def test_what_is_spent_is_counted_for_whose_session_it_was() -> None:
    """Calls of two people in one task are each one's own, the most first; those before and after a period are not in it."""
    store = MemoryStore()
    shared = space_of(ANN, ["ops"]).named("s")
    work(store, shared, ANN, 3)
    work(store, shared, BOB, 5, at=START + 3 * DAY)
    work(store, space_of(ANN).named("own"), ANN, 1, at=START + 5 * DAY)
    work(store, "local", None, 2)
    assert spent(store) == [("user:2", "ann (bob)", 5, 1), ("user:1", "ann", 4, 2), ("", "", 2, 1)]
    assert spent(store, Period(START + DAY, START + 4 * DAY)) == [("user:2", "ann (bob)", 5, 1)]
    assert spent(store, Period(START + 5 * DAY)) == [("user:1", "ann", 1, 1)]
    assert sum(calls for _, _, calls, _ in spent(store)) == sum(
        Task(store, task, clock=lambda: START, secret=SECRET).ledger.calls_used for task in tasks_of(store)
    )


def test_effects_refusals_and_usage_are_counted_apart() -> None:
    """A call that counts for no budget is not spent; a refused one is not made."""
    store = MemoryStore()
    call = kinds.ToolAllowed(call="s.1", digest="0" * 64, effectful=True, tool="pay")
    opened = kinds.SessionOpened(
        group="g", host="h", pid=1, policy="", principal="user:1", principal_name="ann", started=1
    )
    facts = [
        opened,
        call,
        kinds.ToolAllowed(call="s.2", digest="0" * 64, effectful=True, tool="pay", uncounted=True),
        kinds.ToolDenied(reason="deny_list", tool="rm"),
        kinds.UsageReported(micro_usd=2_500_000, tokens=900),
    ]
    task = Task(store, "t", clock=lambda: START, secret=SECRET)
    task.commit(
        [NewEvent(kinds.TaskOpened(goal="g")), *(NewEvent(fact, Actor("codex", "agent"), "s") for fact in facts)]
    )
    (one,) = spent_by_person(store, tasks_of(store), Period(), lambda done, total: None)
    assert (one.calls, one.effects, one.refused, one.tokens, one.micro_usd) == (1, 1, 1, 900, 2_500_000)
