"""What exchanges commit in one turn: each gets its own outcome, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from adjourn.checkpoints.triggers import GuardedSession
from adjourn.gateway.group_commit import Decided, GroupCommit
from adjourn.relay.ports import Outcome
from adjourn.tasks.session import Admitted
from support.task_sessions import READ, new_pending_calls
from support.workspace import Workspace


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Until the test is over, only what nothing refers to is freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def forward(_session: GuardedSession, _admitted: Sequence[Admitted]) -> None:
    """What an exchange does with calls that pass is not what is tested."""


def failed(error: Exception) -> None:
    raise error


@pytest.mark.usefixtures("no_collection")
def test_a_turn_that_is_over_keeps_no_call(memory_workspace: Workspace) -> None:
    """Calls of two exchanges in one turn get an outcome each, and are freed at once: arguments may be large."""
    before = new_pending_calls()
    context = memory_workspace.context()
    context.sessions.admit([READ])
    found: list[tuple[str, Outcome[Decided]]] = []

    def take(name: str, outcome: Outcome[Decided]) -> None:
        found.append((name, outcome))

    async def run() -> None:
        turn = GroupCommit(failed)
        for name in ("one", "two"):
            turn.admit(context.sessions, [READ], "", forward, partial(take, name))
        await asyncio.sleep(0)

    asyncio.run(run())
    decided = [outcome.get() for _, outcome in found]
    assert [name for name, _ in found] == ["one", "two"]
    assert [len(one[1]) for one in decided if one is not None] == [1, 1]
    assert not new_pending_calls(before)
