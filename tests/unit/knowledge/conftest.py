"""Fixtures that the tests of Continuation Records share."""

from __future__ import annotations

import pytest

from adjourn.knowledge.records import CRStore
from adjourn.store.memory import MemoryStore
from support.clock import Clock
from support.records import NOW


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW, step=1)


@pytest.fixture
def store(clock: Clock) -> CRStore:
    return CRStore(MemoryStore(), clock=clock)
