"""Fixtures that the tests of Continuation Records share."""

from __future__ import annotations

import pytest

from adjourn.knowledge.model.documents import Tree
from adjourn.knowledge.records.store import RecordTrees
from adjourn.store.memory import MemoryStore
from support.clock import Clock
from support.documents import sample
from support.records import NOW


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW, step=1)


@pytest.fixture
def store(clock: Clock) -> RecordTrees:
    return RecordTrees(MemoryStore(), clock=clock)


@pytest.fixture
def record() -> Tree:
    """A record with an item in each collection."""
    return sample()


@pytest.fixture
def free() -> Tree:
    """The sample with nothing in the way of its resume point."""
    return {**sample(), "questionsForUser": [], "blockers": []}
