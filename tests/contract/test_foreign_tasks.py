"""What opening a session reads does not depend on how much work others have in the store."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from adjourn.clients.client import ClientContext
from adjourn.clients.client_process import ClientOptions
from adjourn.handover.importing import list_tasks
from adjourn.handover.inbox import KnownStream, find_waiting
from adjourn.handover.session_brief import find_pending_work, instructions
from adjourn.host import keys
from adjourn.log import kinds
from adjourn.log.event import timestamp
from adjourn.policy.contract import read_contract
from adjourn.policy.principal import Principal, Space, space_of
from adjourn.store import Store
from adjourn.store.base import Entry
from adjourn.store.memory import MemoryStore
from adjourn.store.postgres import PostgresStore
from adjourn.store.sqlite import SqliteStore
from adjourn.tasks.task import NewEvent, Task, existing, tasks_of
from adjourn.tasks.work_index import ALL, INDEXED
from support.foreign_tasks import fill
from support.workspace import Workspace

MANY = 100_000 if os.environ.get("ADJOURN_CAMPAIGN") == "1" else 10_000

Cost = tuple[Counter[str], int]
"""The calls of a store, and the rows that they returned."""


class Counted:
    """A store that counts the calls of its methods, and the rows that they return."""

    def __init__(self, below: Store) -> None:
        self._below = below
        self.calls: Counter[str] = Counter()
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._below, name)
        if not callable(member):
            return member

        def call(*given: Any, **named: Any) -> Any:
            self.calls[name] += 1
            answer = member(*given, **named)
            if name == "read":
                return self._counted(answer)
            self.rows += len(answer) if isinstance(answer, dict) else 1
            return answer

        return call

    def _counted(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        for entry in entries:
            self.rows += 1
            yield entry


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    return Workspace(tmp_path, monkeypatch)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def new_store(
    request: pytest.FixtureRequest, tmp_path: Path, new_postgres_url: Callable[[], str]
) -> Callable[[str], Store]:
    def new(name: str) -> Store:
        if request.param == "memory":
            return MemoryStore()
        return SqliteStore(tmp_path / name) if request.param == "sqlite" else PostgresStore(new_postgres_url())

    return new


class Member:
    """A member of a team: her work is in a space of her own."""

    def __init__(self, workspace: Workspace, store: Store) -> None:
        self.workspace = workspace
        self.store = Counted(store)
        self.principal = Principal(id="user:ann", name="ann", type="human")
        self.space: Space = space_of(self.principal)

    def context(self, group: str) -> ClientContext:
        root = str(self.workspace.root)
        options = ClientOptions(
            root=root,
            contract=read_contract(root),
            principal=self.principal,
            space=self.space,
            home=str(self.workspace.root / "home"),
        )
        context = ClientContext(options, self.workspace.clock, store=cast("Store", self.store))
        context.client, context.group, context.replica = "tester", group, "replica/1"
        return context

    def work(self, name: str) -> None:
        context = self.context(name)
        self.workspace.store = context.store
        self.workspace.work(context, "file.write")
        self.workspace.save(context, name)
        self.workspace.leave(context)

    def cost(self) -> Cost:
        """The calls and rows of the start of a session, and of a list."""
        self.store.calls.clear()
        self.store.rows = 0
        context = self.context("new")
        work = find_pending_work(context)
        assert work is not None
        assert instructions(context, work, "aex.resume")
        listed = list_tasks(context.store, str(self.workspace.root), limit=100_000, home=str(self.workspace.root))
        assert [entry["name"] for entry in listed["tasks"]] == ["one", "two"]
        assert context.task.current()
        context.served.register(["file.write"])
        context.served.become_lister(["aex.resume"])
        return Counter(self.store.calls), self.store.rows

    def cost_of_working(self) -> Cost:
        """The calls and rows of a session on a new task: its start, a call, a checkpoint and its end."""
        self.store.calls.clear()
        self.store.rows = 0
        self.work("again")
        return Counter(self.store.calls), self.store.rows

    def cost_of_looking(self, task: str) -> Cost:
        """The calls and rows of the inbox of the whole store and of her own, of a second look, and of the look-up of a task by a prefix."""
        self.store.calls.clear()
        self.store.rows = 0
        whole = cast("Store", self.store)
        for store in (whole, self.context("new").store):
            known: dict[str, KnownStream] = {}
            for _ in range(2):
                found = find_waiting(store, clock=self.workspace.clock, secret=keys.secret(), known=known)
                assert [item.task for item in found.items] == [task]
            assert existing(store, task[:-1], clock=self.workspace.clock, secret=keys.secret()).id == task
        return Counter(self.store.calls), self.store.rows


def test_the_work_of_others_costs_nothing(workspace: Workspace, new_store: Callable[[str], Store]) -> None:
    """A session's start and a list take as many statements and rows with 10,000 tasks of others as with 10; in a campaign with 100,000."""
    workspace.root.joinpath("home").mkdir(exist_ok=True)
    with closing(new_store("store.db")) as store:
        member = Member(workspace, store)
        store.swap(INDEXED, ALL, expect=None)
        for name in ("one", "two"):
            workspace.clock.move(seconds=60)
            member.work(name)
        member.cost()  # the first start writes what she was shown
        costs = _costs_beside_others(store, member.cost)
    _check_equal(costs)
    assert costs[2][0]["streams"] == 0


def _costs_beside_others(store: Store, cost: Callable[[], Cost]) -> list[Cost]:
    """What something costs beside a few tasks of others, some and many."""
    costs, filled = [], 0
    for count in (10, 1000, MANY):
        fill(store, filled, count)
        filled = count
        costs.append(cost())
    return costs


def _check_equal(costs: list[Cost]) -> None:
    few, some, many = costs
    assert few[0] == some[0] == many[0]
    assert few[1] < 100
    assert max(some[1], many[1]) <= 1.5 * few[1]


def test_an_inbox_and_a_prefix_read_nothing_of_the_tasks_of_others(
    workspace: Workspace, new_store: Callable[[str], Store]
) -> None:
    """What waits, and a task by the start of its id, take as many statements and rows with 10,000 tasks of others as with 10."""
    workspace.root.joinpath("home").mkdir(exist_ok=True)
    with closing(new_store("store.db")) as store:
        member = Member(workspace, store)
        store.swap(INDEXED, ALL, expect=None)
        workspace.clock.move(seconds=60)
        member.work("one")
        task = next(iter(tasks_of(store)))
        asks = kinds.ConfirmRequired(
            approval="k1",
            tool="deploy",
            digest="1" * 64,
            cause="confirm",
            expires=timestamp(workspace.clock() + 900_000),
        )
        Task(store, task, clock=workspace.clock, secret=keys.secret()).commit([NewEvent(asks)])
        member.cost_of_looking(task)  # the first look keeps a fold
        costs = _costs_beside_others(store, lambda: member.cost_of_looking(task))
    _check_equal(costs)


def test_a_session_reads_nothing_of_the_tasks_of_others(
    workspace: Workspace, new_store: Callable[[str], Store]
) -> None:
    """From its start over its first call and a checkpoint to its end it takes as many statements with 10,000 tasks of others as with 10."""
    workspace.root.joinpath("home").mkdir(exist_ok=True)
    with closing(new_store("store.db")) as store:
        member = Member(workspace, store)
        store.swap(INDEXED, ALL, expect=None)
        for _ in range(2):
            member.cost_of_working()
        costs = _costs_beside_others(store, member.cost_of_working)
    assert len({cost["streams"] for cost, _ in costs}) == 1
    few, some, many = (rows for _, rows in costs)
    assert max(some, many) <= 1.5 * few
