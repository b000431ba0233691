"""Budgets that are counted over tasks, on every backend: exact with several openings of one store that count at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from adjourn.aex import from_text, narrowed
from adjourn.host import process
from adjourn.host.clock import now
from adjourn.policy.principal import Principal
from adjourn.store import Store, open_store
from adjourn.tasks.budgets import workspace_spent
from adjourn.tasks.decision import Forward
from adjourn.tasks.lease import SessionIdentity
from adjourn.tasks.session import Session
from adjourn.tasks.task import Task
from support.task_sessions import READ, SECRET

POLICY = """\
policy p v1
allow *
budget calls=30 per day each principal
for group:ops
  budget calls=45 per day
"""
ANN = Principal(id="a", name="ann", type="human", groups=("ops",))
BOB = Principal(id="b", name="bob", type="human", groups=("ops",))
PEOPLE = {who.id: who for who in (ANN, BOB)}
SECONDS = 120
TESTS = Path(__file__).parents[1]


def made(store: Store, task: str, who: Principal, calls: int) -> int:
    """How many of so many calls pass in a session of somebody."""
    policy = narrowed(from_text(POLICY, "p.aex")[0], who)
    session = Session(Task(store, task, clock=now, secret=SECRET), policy, SessionIdentity(process.current(), task))
    session.open()
    return sum(isinstance(one.decision, Forward) for _ in range(calls) for one in session.admit([READ]))


def spent(store: Store, who: Principal) -> list[int]:
    budgets = narrowed(from_text(POLICY, "p.aex")[0], who).workspace_budgets
    return [workspace_spent(store, [rule], now())[rule.counter] for rule in budgets]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new store of each backend that processes share."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'shared.db'}"
    new: Callable[[], str] = request.getfixturevalue("new_postgres_url")
    return new()


def test_processes_that_count_at_once_make_exactly_what_is_left(url: str) -> None:
    """Four processes call for two people at the same time: each person and their group have what the policy gives, no call more."""
    open_store(url).close()
    words = [(task, who) for task, who in zip("wxyz", "abab", strict=True)]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with ExitStack() as ending:
        running = []
        for pair in words:
            command = [sys.executable, __file__, url, *pair]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
            ending.enter_context(running[-1])
        passed = [int(one.communicate(timeout=SECONDS)[0]) for one in running]
    store = open_store(url)
    try:
        assert sum(passed) == 45
        counts = {who: passed[0 if who == "a" else 1] + passed[2 if who == "a" else 3] for who in "ab"}
        assert max(counts.values()) <= 30
        assert spent(store, ANN) == [counts["a"], 45]
        assert spent(store, BOB) == [counts["b"], 45]
    finally:
        store.close()


if __name__ == "__main__":
    opened = open_store(sys.argv[1])
    print(made(opened, sys.argv[2], PEOPLE[sys.argv[3]], 20))
    opened.close()
